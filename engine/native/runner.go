package native

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/internal/fault"
)

// Runner computes with one model directly, without the queue of an [Engine]: for measuring and evaluating. One goroutine uses it.
type Runner struct {
	gen  *generator
	pool *exec.Pool
}

// RunnerConfig says what to open.
type RunnerConfig struct {
	Path    string
	Plan    string // precision plan; "" is the file's own
	Threads int    // 0 means all processors
	Context int    // bound on the tokens of a sequence; 0 means the model's own
	Log     *slog.Logger

	CacheDir string // where packed weights are kept; "" packs them in memory

	Calibration string // file of text for which weights of eight bits are rounded; "": none
}

// OpenRunner loads a model that generates text.
func OpenRunner(cfg RunnerConfig) (*Runner, error) {
	c := Config{Threads: cfg.Threads, ContextTokens: cfg.Context, CacheDir: cfg.CacheDir, Models: []ModelConfig{
		{ID: "model", Path: cfg.Path, Precision: cfg.Plan, Calibration: cfg.Calibration},
	}}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o := &opener{cfg: c, kernels: kernel.Detect(log), log: log, metrics: newMetrics(nil)}
	m, err := o.open(c.Models[0])
	if err != nil {
		return nil, err
	}
	r := &Runner{pool: exec.NewPool(c.Threads)}
	if m.files.Config.Encoder() {
		err = fmt.Errorf("%s computes embeddings and generates no text", cfg.Path)
	} else {
		r.gen, err = o.generator(m, r.pool)
	}
	if err = errors.Join(err, m.files.Close()); err != nil {
		return nil, errors.Join(err, m.prog.Close())
	}
	return r, nil
}

// Info describes the model.
func (r *Runner) Info() engine.Model { return r.gen.info }

// ISA is the tier of the kernels.
func (r *Runner) ISA() string { return r.gen.pass.Kernels().ISA() }

// Products is what [exec.Program.Products] says of the model: multiplications per token and bytes of weights they read.
func (r *Runner) Products() (macs, bytes, wantedMACs, wantedBytes int) { return r.gen.prog.Products() }

// Vocab is the number of tokens.
func (r *Runner) Vocab() int { return r.gen.tokens.Size() }

// Begin is the token that the model wants in front of every text; false if it does without.
func (r *Runner) Begin() (int32, bool) { return r.gen.tokens.BOS() }

// Encode returns the tokens of a text, with a begin token where the model wants one.
func (r *Runner) Encode(text string) ([]int32, error) {
	return r.gen.encode(&engine.Request{Prompt: text})
}

// Decode returns the text of tokens.
func (r *Runner) Decode(tokens []int32) string { return r.gen.tokens.Decode(tokens) }

// Sequence is the keys and values of some tokens.
type Sequence struct{ cache *exec.Cache }

// NewSequence returns an empty sequence.
func (r *Runner) NewSequence() *Sequence {
	return &Sequence{cache: r.gen.pass.Pages().NewCache()}
}

// Len is the number of tokens in the sequence.
func (s *Sequence) Len() int { return s.cache.Len() }

// Release gives the memory back.
func (s *Sequence) Release() { s.cache.Release() }

// Feed computes tokens behind what s holds, at most chunk at a time (0 means the engine's own size). Where logits is not nil it is
// called for each token from wantFrom on, in order; the slice is valid during the call.
func (r *Runner) Feed(s *Sequence, tokens []int32, chunk, wantFrom int, logits func(i int, logits []float32)) error {
	p := r.gen.pass
	if have := s.cache.Len() + len(tokens); have > r.gen.info.ContextTokens {
		return fault.New(fault.CodeContextLength, r.gen.info.ContextTokens, have)
	}
	if chunk <= 0 {
		chunk = r.gen.promptRows
	}
	for at := 0; at < len(tokens); at += chunk {
		end := min(at+chunk, len(tokens))
		if !s.cache.Reserve(end - at) {
			return fmt.Errorf("no page is free for %d tokens behind %d; release a sequence first", end-at, s.cache.Len())
		}
		p.Rows = p.Rows[:0]
		for i := at; i < end; i++ {
			if t := tokens[i]; t < 0 || int(t) >= r.Vocab() {
				return fmt.Errorf("token %d is not among the model's %d", t, r.Vocab())
			}
			p.Rows = append(p.Rows, exec.Row{Token: tokens[i], Cache: s.cache, Pos: s.cache.Len(), Wanted: logits != nil && i >= wantFrom})
			s.cache.Advance(1)
		}
		p.Run()
		for i, from := range p.Wanted() {
			logits(at+from, r.gen.logits(i))
		}
	}
	return nil
}

// Observe makes Feed call see with the name of every matrix and each of its inputs, in the order of the tokens, until it is set to nil.
// There are inputs to see under the plans that keep activations in float32, f16 and f32.
func (r *Runner) Observe(see func(matrix string, input []float32)) { r.gen.pass.Observe = see }

// Close ends the threads.
func (r *Runner) Close() error {
	r.pool.Close()
	return r.gen.prog.Close()
}
