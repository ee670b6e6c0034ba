package sample

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// Rules says how the tokens of one request are picked. It is immutable and serves all choices of the request.
type Rules struct {
	temperature, topP, minP         float64
	topK                            int
	repetition, frequency, presence float64
	bias                            []bias
	hook                            engine.Hook
	seed                            uint64
}

type bias struct {
	token int32
	add   float64
}

// maxBias bounds biases and penalties, so that no sum of them leaves the range of float32. It is far above every logit.
const maxBias = 1e6

// NewRules checks the sampling fields of req, for a vocabulary of the given size. The seed is the request's, or the random one drawn
// for it.
func NewRules(req *engine.Request, seed uint64, vocab int) (*Rules, error) {
	if err := check(req, vocab); err != nil {
		return nil, err
	}
	r := &Rules{
		temperature: req.Temperature, topP: req.TopP, minP: req.MinP, topK: req.TopK,
		repetition: req.RepetitionPenalty, frequency: req.FrequencyPenalty, presence: req.PresencePenalty,
		hook: req.Hook, seed: seed,
	}
	if r.repetition == 0 {
		r.repetition = 1
	}
	if r.topP == 0 {
		r.topP = 1
	}
	if r.topK >= vocab {
		r.topK = 0
	}
	for token, add := range req.LogitBias {
		r.bias = append(r.bias, bias{token, add})
	}
	slices.SortFunc(r.bias, func(a, b bias) int { return cmp.Compare(a.token, b.token) })
	return r, nil
}

// Counts reports whether the rules depend on which tokens came before, so that Pick needs a History.
func (r *Rules) Counts() bool { return r.repetition != 1 || r.frequency != 0 || r.presence != 0 }

// Seed returns the seed of the draws.
func (r *Rules) Seed() uint64 { return r.seed }

func check(req *engine.Request, vocab int) error {
	invalid := func(field string, cause fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, field, cause).WithParam(field)
	}
	within := fault.Say("sample.between", -int(maxBias), int(maxBias))
	switch {
	case !(req.Temperature >= 0) || math.IsInf(req.Temperature, 0):
		return invalid("temperature", fault.Say("sample.not_negative"))
	case !(req.TopP >= 0 && req.TopP <= 1):
		return invalid("top_p", fault.Say("sample.probability"))
	case req.TopK < 0:
		return invalid("top_k", fault.Say("sample.negative"))
	case !(req.MinP >= 0 && req.MinP <= 1):
		return invalid("min_p", fault.Say("sample.probability"))
	case req.RepetitionPenalty != 0 && !(req.RepetitionPenalty >= 1/maxBias && req.RepetitionPenalty <= maxBias):
		return invalid("repetition_penalty", fault.Say("sample.positive_at_most", int(maxBias)))
	case !bounded(req.FrequencyPenalty):
		return invalid("frequency_penalty", within)
	case !bounded(req.PresencePenalty):
		return invalid("presence_penalty", within)
	}
	for token, add := range req.LogitBias {
		if token < 0 || int(token) >= vocab {
			return invalid("logit_bias", fault.Say("sample.token_range", vocab-1))
		}
		if !bounded(add) {
			return invalid("logit_bias", within)
		}
	}
	return nil
}

// bounded is false for what is not a number.
func bounded(x float64) bool { return math.Abs(x) <= maxBias }
