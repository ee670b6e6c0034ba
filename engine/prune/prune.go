package prune

import (
	"errors"
	"fmt"
	"os"

	"github.com/sluice-project/sluice/engine/gguf"
)

// Options says what to keep and by which measure.
type Options struct {
	// Heads is how many query heads each layer keeps, a multiple of the heads that share a key-value head; 0 keeps all.
	Heads int
	// FFN is how many feed-forward channels each layer keeps; 0 keeps all.
	FFN int
	// Importance was recorded on a calibration text; nil ranks by the weights.
	Importance *Importance
	// SameFormat requantises columns in the format they had, where that can be written, instead of Q8_0: smaller and less exact.
	SameFormat bool
	// Measure returns the perplexity of the model file at path on an evaluation text; nil leaves the report without it. It is called
	// for the old file and for the new.
	Measure func(path string) (float64, error)
}

// Report says what was done and what it cost.
type Report struct {
	Architecture     string        `json:"architecture"`
	Layers           int           `json:"layers"`
	Before           Size          `json:"before"`
	After            Size          `json:"after"`
	Importance       string        `json:"importance"`                  // "calibration" or "weights"
	HeadsKept        Share         `json:"heads_kept"`                  // of the importance of all heads
	FFNKept          Share         `json:"ffn_kept"`                    // of the importance of all channels
	Requantised      []Requantised `json:"requantised"`                 // empty when everything was copied
	PerplexityBefore float64       `json:"perplexity_before,omitempty"` // 0 when not measured
	PerplexityAfter  float64       `json:"perplexity_after,omitempty"`
	Digest           string        `json:"digest"` // of the new file
}

// Size is how large a model is.
type Size struct {
	Heads      int   `json:"heads"`
	KVHeads    int   `json:"kv_heads"`
	FFN        int   `json:"ffn"`
	Parameters int64 `json:"parameters"`
	Bytes      int64 `json:"bytes"` // of the tensors
}

// Share is a part of a whole, 0 to 1, over the layers.
type Share struct {
	Mean  float64 `json:"mean"`
	Worst float64 `json:"worst"`
	Layer int     `json:"worst_layer"`
}

// Requantised names a tensor whose format changed or whose values were rounded again.
type Requantised struct {
	Tensor string `json:"tensor"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// Prune reads the model file in and writes a smaller one at out, which appears whole or not at all. On an error of Measure for the
// new file, that file is there and the report says all but its perplexity.
func Prune(in, out string, opt Options) (Report, error) {
	if same(in, out) {
		return Report{}, fmt.Errorf("prune: %s would be overwritten; name another file for the result", in)
	}
	report, err := prune(in, out, opt)
	if err != nil {
		return report, fmt.Errorf("prune %s: %w", in, err)
	}
	if opt.Measure == nil {
		return report, nil
	}
	if report.PerplexityBefore, err = opt.Measure(in); err != nil {
		return report, fmt.Errorf("prune: measure %s: %w", in, err)
	}
	if report.PerplexityAfter, err = opt.Measure(out); err != nil {
		return report, fmt.Errorf("prune: measure %s: %w", out, err)
	}
	return report, nil
}

func same(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

func prune(in, out string, opt Options) (report Report, err error) {
	f, err := gguf.Open(in)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m, err := readModel(f)
	if err != nil {
		return report, err
	}
	if err := m.check(opt); err != nil {
		return report, err
	}
	report = Report{Architecture: m.arch, Layers: m.layers, Importance: "weights", Before: m.size(), Requantised: []Requantised{}}
	if opt.Importance != nil {
		report.Importance = "calibration"
	}
	keeps, err := m.choose(opt, &report)
	if err != nil {
		return report, err
	}
	if err := m.write(out, opt, keeps, &report); err != nil {
		return report, err
	}
	return report, describe(out, &report)
}

// describe reads the new file back, which proves that it opens, and reports its size.
func describe(path string, report *Report) (err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return fmt.Errorf("the new file cannot be read back: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m, err := readModel(f)
	if err != nil {
		return fmt.Errorf("the new file is not consistent: %w", err)
	}
	report.After, report.Digest = m.size(), f.Digest()
	return nil
}
