package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// chunk is how many tokens both models compute by turns: the scores of so many are in memory.
const chunk = 64

// Config says what to measure.
type Config struct {
	Measured Model
	Baseline Model // nil: perplexity only
	Data     Data
	Context  int // tokens of a window, begin token included; 0 means 512, or the model's own context if that is less
	Stride   int // tokens from one window to the next; 0 means half of Context
	Limit    int // tokens to score; 0 means all
	Seed     uint64
	Progress func(done, total int) // nil, or called after every few tokens
}

// Names of the figures.
const (
	Perplexity         = "perplexity"
	BaselinePerplexity = "baseline_perplexity"
	PerplexityChange   = "perplexity_change"
	MeanKLD            = "kld_mean"
	KLD99              = "kld_p99"
	MaxKLD             = "kld_max"
	Agreement          = "top1_agreement"
	RMSDeltaP          = "rms_delta_p"
	MeanDeltaLogprob   = "mean_abs_delta_logprob"
	MaxDeltaLogprob    = "max_abs_delta_logprob"
	MeanCosine         = "cosine_mean"
	MinCosine          = "cosine_min"
)

// Figure is one result.
type Figure struct {
	Name     string      `json:"name"`
	Value    float64     `json:"value"`
	Interval *[2]float64 `json:"interval"` // 95 %; null for a quantile or a maximum, and when the data is too short for one
	Method   string      `json:"method,omitempty"`
}

// Result is what [Run] and [Vectors] measured.
type Result struct {
	Items   int // tokens scored, or texts compared
	Skipped int // texts too long for an encoder
	Context int // tokens of a window
	Stride  int
	Figures []Figure
}

// Get returns the figure of a name.
func (r Result) Get(name string) (Figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return r.Figures[i], true
}

// Run measures a model that generates text.
func Run(ctx context.Context, cfg Config) (Result, error) {
	c, err := cfg.cut()
	if err != nil {
		return Result{}, err
	}
	documents, err := split(ctx, cfg.Data, cfg.Measured, cfg.Baseline)
	if err != nil {
		return Result{}, err
	}
	todo, total := c.windows(documents)
	if total == 0 {
		return Result{}, errors.New("the text has no token to predict; it must have at least two")
	}
	m := &meter{cfg: cfg, tally: newTally(total), total: total}
	for _, w := range todo {
		if err := m.window(ctx, w); err != nil {
			return Result{}, err
		}
	}
	r := Result{Items: total, Context: c.context, Stride: c.stride, Figures: m.tally.figures(cfg.Seed)}
	for _, f := range r.Figures {
		if math.IsInf(f.Value, 0) || math.IsNaN(f.Value) {
			return Result{}, fmt.Errorf("%s is beyond the range of numbers: the model does not predict this text at all", f.Name)
		}
	}
	return r, nil
}

// cut checks the numbers and fills in what is left out.
func (cfg Config) cut() (cut, error) {
	c := cut{context: cfg.Context, stride: cfg.Stride, limit: cfg.Limit}
	most := cfg.Measured.Context()
	if cfg.Baseline != nil {
		most = min(most, cfg.Baseline.Context())
	}
	if c.context == 0 {
		c.context = min(512, most)
	}
	if c.stride == 0 {
		c.stride = (c.context + 1) / 2
	}
	c.begin, c.hasBegin = cfg.Measured.Begin()
	switch {
	case c.context < 2:
		return cut{}, fmt.Errorf("a window of %d tokens predicts nothing; use at least 2", c.context)
	case c.context > most:
		return cut{}, fmt.Errorf("the model reads at most %d tokens, a window would have %d; use a smaller --context", most, c.context)
	case c.stride < 1 || c.stride > c.context:
		return cut{}, fmt.Errorf("the stride is %d tokens; use 1 to %d, the window", c.stride, c.context)
	case c.limit < 0:
		return cut{}, fmt.Errorf("the limit is %d tokens; use a positive number, or 0 for all", c.limit)
	}
	return c, nil
}

// meter measures window by window.
type meter struct {
	cfg    Config
	tally  *tally
	total  int
	scores []float32 // the baseline's, of a chunk
}

func (m *meter) window(ctx context.Context, w window) error {
	measured := m.cfg.Measured.Start()
	defer measured.Release()
	var baseline Sequence
	if m.cfg.Baseline != nil {
		baseline = m.cfg.Baseline.Start()
		defer baseline.Release()
	}
	inputs := w.tokens[:len(w.tokens)-1] // nothing is predicted from the last
	for at := 0; at < len(inputs); at += chunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := inputs[at:min(at+chunk, len(inputs))]
		from := min(max(w.score-1-at, 0), len(part)) // the token at place i is predicted from i−1
		if baseline != nil {
			m.scores = m.scores[:0]
			if err := baseline.Feed(part, from, func(_ int, logits []float32) { m.scores = append(m.scores, logits...) }); err != nil {
				return fmt.Errorf("baseline: %w", err)
			}
		}
		var failed error
		err := measured.Feed(part, from, func(i int, logits []float32) {
			s, err := m.score(i-from, logits, w.tokens[at+i+1])
			if err != nil && failed == nil {
				failed = fmt.Errorf("the model computes no probabilities: %w", err)
			}
			m.tally.add(w.document, s)
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if m.cfg.Progress != nil {
			m.cfg.Progress(int(m.tally.total.n), m.total)
		}
	}
	return nil
}

func (m *meter) score(i int, logits []float32, token int32) (scored, error) {
	if m.cfg.Baseline != nil {
		vocab := len(logits)
		return compare(m.scores[i*vocab:(i+1)*vocab], logits, token)
	}
	nll, err := surprise(logits, token)
	return scored{nll: nll}, err
}
