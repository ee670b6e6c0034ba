package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-project/sluice/internal/fault"
)

// Embed returns the vectors of texts.
type Embed func(ctx context.Context, texts []string) ([][]float32, error)

// VectorConfig says what to compare.
type VectorConfig struct {
	Measured, Baseline Embed
	Data               Data
	Limit              int // texts; 0 means all
	Seed               uint64
	Progress           func(done, total int)
}

// Vectors compares the vectors that two encoders give the passages of the data. Passages that are too long for them are left out and
// counted.
func Vectors(ctx context.Context, cfg VectorConfig) (Result, error) {
	texts := cfg.Data.Passages()
	if cfg.Limit > 0 {
		texts = texts[:min(cfg.Limit, len(texts))]
	}
	r := Result{}
	var cosines []float64
	for i, text := range texts {
		c, err := cfg.cosine(ctx, text)
		switch {
		case fault.Is(err, fault.CodeContextLength):
			r.Skipped++
		case err != nil:
			return Result{}, fmt.Errorf("passage %d: %w", i+1, err)
		default:
			cosines = append(cosines, c)
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(texts))
		}
	}
	if r.Items = len(cosines); r.Items == 0 {
		return Result{}, fmt.Errorf("none of the %d passages fits the model; use shorter ones (they end at empty lines)", len(texts))
	}
	mean := func(draw []int) []float64 {
		sum := 0.0
		for _, i := range draw {
			sum += cosines[i]
		}
		return []float64{sum / float64(len(draw))}
	}
	every := make([]int, len(cosines))
	for i := range every {
		every[i] = i
	}
	f := Figure{Name: MeanCosine, Value: mean(every)[0], Interval: bootstrap(len(cosines), cfg.Seed, 1, mean)[0]}
	f.Method = fmt.Sprintf("percentiles of %d bootstrap draws of %d texts", resamples, len(cosines))
	if f.Interval == nil {
		f.Method = tooShort(len(cosines), "texts")
	}
	r.Figures = []Figure{f, {Name: MinCosine, Value: slices.Min(cosines)}}
	return r, nil
}

// cosine of the two vectors of a text.
func (cfg VectorConfig) cosine(ctx context.Context, text string) (float64, error) {
	one := []string{text}
	base, err := cfg.Baseline(ctx, one)
	if err != nil {
		return 0, err
	}
	measured, err := cfg.Measured(ctx, one)
	if err != nil {
		return 0, err
	}
	return cosine(base[0], measured[0])
}

func cosine(a, b []float32) (float64, error) {
	if len(a) != len(b) {
		return 0, fmt.Errorf("the vectors have %d and %d numbers and cannot be compared", len(a), len(b))
	}
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot += x * y
		aa += x * x
		bb += y * y
	}
	c := dot / math.Sqrt(aa*bb)
	if math.IsNaN(c) || math.IsInf(c, 0) {
		return 0, errors.New("a vector has no direction: it is zero or not finite")
	}
	return max(-1, min(1, c)), nil
}
