package eval

import (
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/engine/native"
)

// Model computes the scores of next tokens.
type Model interface {
	// Encode returns the tokens of a text. The first is the begin token if the model wants one before every text.
	Encode(text string) ([]int32, error)
	// Begin returns the begin token, or false if the model does without.
	Begin() (int32, bool)
	// Vocab is the number of tokens, Context how many of them a sequence may have.
	Vocab() int
	Context() int
	// Start returns an empty sequence.
	Start() Sequence
}

// Sequence takes tokens and gives the scores of what follows each.
type Sequence interface {
	// Feed computes tokens behind those fed before. It calls visit with the scores behind tokens[i] with i at least from, in
	// order; the slice is valid during the call.
	Feed(tokens []int32, from int, visit func(i int, logits []float32)) error
	// Release gives the memory back.
	Release()
}

// Native returns the model of a runner, which must not be used otherwise meanwhile.
func Native(r *native.Runner) Model { return runner{r} }

type runner struct{ *native.Runner }

func (r runner) Context() int { return r.Info().ContextTokens }

func (r runner) Start() Sequence { return sequence{r.Runner, r.NewSequence()} }

type sequence struct {
	r *native.Runner
	*native.Sequence
}

func (s sequence) Feed(tokens []int32, from int, visit func(i int, logits []float32)) error {
	return s.r.Feed(s.Sequence, tokens, 0, from, visit)
}

// tokens returns the tokens of a text without a begin token, and fails unless both models split it alike.
func tokens(text string, measured, baseline Model) ([]int32, error) {
	ids, err := measured.Encode(text)
	if err != nil {
		return nil, fmt.Errorf("split the text into tokens: %w", err)
	}
	if baseline != nil {
		other, err := baseline.Encode(text)
		if err != nil {
			return nil, fmt.Errorf("split the text into tokens for the baseline: %w", err)
		}
		if !slices.Equal(ids, other) || measured.Vocab() != baseline.Vocab() {
			return nil, fmt.Errorf("the two models split text into different tokens (vocabularies of %d and %d), so their predictions cannot be "+
				"compared token by token; compare files of one model", measured.Vocab(), baseline.Vocab())
		}
	}
	if begin, ok := measured.Begin(); ok && len(ids) > 0 && ids[0] == begin {
		ids = ids[1:]
	}
	return ids, nil
}
