package native

import (
	"fmt"
	"log/slog"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/internal/fault"
)

// Runner computes with one model directly, without the queue of an [Engine]: for measuring and evaluating. One goroutine uses it.
type Runner struct {
	gen  *generator
	pool *pool
}

// RunnerConfig says what to open.
type RunnerConfig struct {
	Path    string
	Plan    string // precision plan; "" is the file's own
	Threads int    // 0 means all processors
	Context int    // bound on the tokens of a sequence; 0 means the model's own
	Log     *slog.Logger
}

// OpenRunner loads a model that generates text.
func OpenRunner(cfg RunnerConfig) (*Runner, error) {
	c := Config{Threads: cfg.Threads, ContextTokens: cfg.Context, Models: []ModelConfig{
		{ID: "model", Kind: KindLlama, Path: cfg.Path, Precision: cfg.Plan},
	}}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{pool: newPool(c.Threads)}
	var err error
	if r.gen, err = loadGenerator(c.Models[0], c.ContextTokens, kernel.Detect(log), r.pool); err != nil {
		return nil, fmt.Errorf("load %s: %w", cfg.Path, err)
	}
	return r, nil
}

// Info describes the model.
func (r *Runner) Info() engine.Model { return r.gen.info }

// ISA is the tier of the kernels.
func (r *Runner) ISA() string { return r.gen.pass.k.ISA() }

// Vocab is the number of tokens.
func (r *Runner) Vocab() int { return r.gen.tokens.Size() }

// Begin is the token that the model wants in front of every text; false if it does without.
func (r *Runner) Begin() (int32, bool) { return r.gen.tokens.BOS() }

// Encode returns the tokens of a text, with a begin token where the model wants one.
func (r *Runner) Encode(text string) ([]int32, error) {
	return r.gen.encode(&engine.Request{Prompt: text})
}

// EncodeChat returns the tokens of a conversation in the model's template.
func (r *Runner) EncodeChat(messages []engine.Message) ([]int32, error) {
	return r.gen.encode(&engine.Request{Messages: messages})
}

// Decode returns the text of tokens.
func (r *Runner) Decode(tokens []int32) string { return r.gen.tokens.Decode(tokens) }

// Sequence is the keys and values of some tokens.
type Sequence struct{ cache *cache }

// NewSequence returns an empty sequence.
func (r *Runner) NewSequence() *Sequence {
	return &Sequence{cache: &cache{pool: r.gen.pass.pages}}
}

// Len is the number of tokens in the sequence.
func (s *Sequence) Len() int { return s.cache.length }

// Release gives the memory back.
func (s *Sequence) Release() { s.cache.release() }

// Feed computes tokens behind what s holds, at most chunk at a time (0 means the engine's own size). Where logits is not nil it is
// called for each token from wantFrom on, in order; the slice is valid during the call.
func (r *Runner) Feed(s *Sequence, tokens []int32, chunk, wantFrom int, logits func(i int, logits []float32)) error {
	p := r.gen.pass
	if have := s.cache.length + len(tokens); have > r.gen.info.ContextTokens {
		return fault.New(fault.CodeContextLength, r.gen.info.ContextTokens, have)
	}
	if chunk <= 0 {
		chunk = chunkAlone
	}
	for at := 0; at < len(tokens); at += chunk {
		end := min(at+chunk, len(tokens))
		s.cache.reserve(s.cache.length + end - at)
		p.rows = p.rows[:0]
		for i := at; i < end; i++ {
			if t := tokens[i]; t < 0 || int(t) >= r.Vocab() {
				return fmt.Errorf("token %d is not among the model's %d", t, r.Vocab())
			}
			p.rows = append(p.rows, row{token: tokens[i], cache: s.cache, pos: s.cache.length, logits: logits != nil && i >= wantFrom})
			s.cache.length++
		}
		p.run()
		for i, from := range p.wanted {
			logits(at+from, p.result(i))
		}
	}
	return nil
}

// Close ends the threads.
func (r *Runner) Close() error {
	r.pool.close()
	return nil
}
