package sample

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
)

// ErrNothingAllowed says that the grammar and the forbidden tokens leave no token at all.
var ErrNothingAllowed = errors.New("no token may come next: the grammar and the least number of tokens forbid all of them")

// Grammar is the state of a constraint on one sequence.
type Grammar interface {
	// Allows reports whether the token may come next. It is cheaper than Mask.
	Allows(token int32) bool
	// Mask sets the bits of the tokens that may come next. dst is all zero and holds the whole vocabulary.
	Mask(dst []uint64) error
}

// Position is where in a choice a token is to be picked.
type Position struct {
	Choice, Step       int     // with the seed they decide the random number
	Prompt, Completion []int32 // for the hook and the marker
	History            *History
	Forbidden          []int32 // before the least number of tokens: those that would end the text
	Grammar            Grammar // nil: free text
	Mark               *Mark   // nil: none
}

// Sampler picks tokens. It owns scratch memory for one vocabulary; one goroutine uses it.
type Sampler struct {
	k       kernel.Kernels
	scratch []float32
	mask    []uint64
	keys    []uint64 // candidates
	spare   []uint64
	buckets []float64
	ids     []int32
	weighed []float32 // of ids
	draw    engine.Draw
	top     []Logprob
}

// New returns a Sampler for rows of vocab logits.
func New(k kernel.Kernels, vocab int) *Sampler {
	return &Sampler{k: k, scratch: make([]float32, vocab), mask: make([]uint64, (vocab+63)/64)}
}

// Pick returns the next token. At temperature 0 it is the likeliest, of equals the one with the lowest id; otherwise a random one.
// The logits are not changed. Logits that are not numbers, a hook or marker that fails or leaves no possible draw, a grammar that fails, and
// ErrNothingAllowed end the sequence: there is never a token that the rules do not give.
func (s *Sampler) Pick(logits []float32, r *Rules, at *Position) (int32, error) {
	if err := s.check(logits, r, at); err != nil {
		return 0, err
	}
	x := logits
	if len(r.bias) > 0 || r.Counts() || len(at.Forbidden) > 0 {
		x = s.adjusted(logits, r, at)
	}
	greedy := r.temperature == 0 && r.hook == nil && at.Mark.at(0) == nil
	if greedy || at.Grammar == nil {
		best, err := s.argmax(x)
		switch {
		case err != nil:
			return 0, err
		case greedy && (at.Grammar == nil || at.Grammar.Allows(best)):
			return best, nil
		case at.Grammar == nil:
			return s.random(x, best, r, at)
		}
	}
	// Top-k, top-p, the hook and a draw that a single random number decides have to see the renormalised distribution.
	x, err := s.masked(x, at.Grammar)
	if err != nil {
		return 0, err
	}
	best, err := s.argmax(x)
	if err != nil || greedy {
		return best, err
	}
	return s.random(x, best, r, at)
}

func (s *Sampler) check(logits []float32, r *Rules, at *Position) error {
	if len(logits) != len(s.scratch) {
		return fmt.Errorf("a row of %d logits for a vocabulary of %d tokens", len(logits), len(s.scratch))
	}
	if r.Counts() && at.History == nil {
		return errors.New("penalties need the history of the sequence")
	}
	return s.numbers(logits)
}

// numbers fails for logits of which some are not numbers: those come from damaged weights or from a faulty kernel.
func (s *Sampler) numbers(logits []float32) error {
	if sum := s.k.Sum(logits); sum == sum {
		return nil
	}
	for i, v := range logits { // the sum of an infinity and its opposite is no number either
		if v != v {
			return fmt.Errorf("the logit of token %d is not a number: the model's weights or a kernel are at fault", i)
		}
	}
	return nil
}

// adjusted returns the logits after bias and penalties, in the scratch memory.
func (s *Sampler) adjusted(logits []float32, r *Rules, at *Position) []float32 {
	x := s.scratch
	copy(x, logits)
	for _, b := range r.bias {
		x[b.token] = float32(float64(x[b.token]) + b.add)
	}
	if r.Counts() {
		penalise(x, r, at.History)
	}
	for _, token := range at.Forbidden {
		x[token] = forbidden
	}
	return x
}

func penalise(x []float32, r *Rules, h *History) {
	for _, t := range h.counts {
		if int(t.token) >= len(x) || t.token < 0 {
			continue // a prompt may hold tokens for which the model has no logit
		}
		v := float64(x[t.token])
		if v > 0 {
			v /= r.repetition
		} else {
			v *= r.repetition
		}
		if t.count > 0 {
			v -= float64(r.frequency*float64(t.count)) + r.presence
		}
		x[t.token] = float32(v)
	}
}

//nolint:gochecknoglobals // constant
var forbidden = float32(math.Inf(-1))

// masked returns x without the tokens that the grammar forbids, in the scratch memory.
func (s *Sampler) masked(x []float32, g Grammar) ([]float32, error) {
	clear(s.mask)
	if err := g.Mask(s.mask); err != nil {
		return nil, fmt.Errorf("grammar: %w", err)
	}
	copy(s.scratch, x)
	for w, allowed := range s.mask {
		part := s.scratch[w*64 : min(w*64+64, len(s.scratch))]
		for rest := ^allowed; rest != 0; rest &= rest - 1 {
			if i := bits.TrailingZeros64(rest); i < len(part) {
				part[i] = forbidden
			}
		}
	}
	return s.scratch, nil
}

// argmax returns the first of the largest logits.
func (s *Sampler) argmax(x []float32) (int32, error) {
	switch top := s.k.Max(x); {
	case top == forbidden:
		return 0, ErrNothingAllowed
	case math.IsInf(float64(top), 1):
		return 0, fmt.Errorf("the logit of token %d is infinite: the model's weights or a kernel are at fault", slices.Index(x, top))
	default:
		return int32(slices.Index(x, top)), nil
	}
}
