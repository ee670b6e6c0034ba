package classify

import (
	"math"
	mathbits "math/bits"
	"slices"
)

// evidence is why something was found, or nearly: reasons, as bits. The score of a finding is what its kind has by its form alone and
// the weights of its reasons; it counts from [threshold] on.
type evidence uint32

const threshold = 0.5

// The reasons.
const (
	checkRight  evidence = 1 << iota // check characters fit
	checkWrong                       // they do not: a typing error, or another number
	dateRight                        // contains a date of birth that there was
	regionRight                      // begins with a region code that is or was in use
	issuerRight                      // begins with a prefix that an issuer or operator has
	labelBefore                      // a label such as 身份证号： stands before
	cueBefore                        // a word that points at it stands near by before
	cueBehind                        // a word that points at it stands behind
	grouped                          // written in the groups that such numbers are written in
	marked                           // has a mark of its own, such as +86
	honorific                        // 先生, 女士, 医生 behind
	titled                           // a title or relation before
	bounded                          // nothing that belongs to a longer word on either side
	ordinary                         // is, or overlaps, an ordinary word
	typical                          // made of the characters that such values are made of
	unusual                          // made of characters that such values are rarely made of
	listed                           // given by the caller, or on a list of the tenant
	fine                             // goes down to a door, a room, a floor
	nearby                           // other values about a person stand next to it
	inBase64                         // stood in base64; the other reasons are those of what was in there
	reasons     = iota
)

// Reason is a piece of evidence: how it is called, and what it weighs for a finding or, below zero, against it.
type Reason struct {
	Name   string
	Weight float64
}

// Why says why something was found. It is small and holds nothing of the text.
type Why struct {
	form float64
	why  evidence
}

// Form is what the form alone scores; it may be below zero. The score of a finding is the sum of this and its reasons, at most 1.
func (w Why) Form() float64 { return w.form }

// Reasons returns the reasons for and against a finding.
func (w Why) Reasons() []Reason {
	out := []Reason{}
	for n := range weights {
		if w.why&(1<<n) != 0 {
			out = append(out, weights[n])
		}
	}
	return out
}

// Reasons returns all reasons that there may be.
func Reasons() []Reason { return slices.Clone(weights[:]) }

var weights = [reasons]Reason{ //nolint:gochecknoglobals // a constant table
	{"check_right", 0.5},
	{"check_wrong", -0.2},
	{"date_right", 0.1},
	{"region_right", 0.1},
	{"issuer_right", 0.2},
	{"label_before", 0.4},
	{"cue_before", 0.25},
	{"cue_behind", 0.25},
	{"grouped", 0.1},
	{"marked", 0.2},
	{"honorific", 0.4},
	{"titled", 0.3},
	{"bounded", 0.1},
	{"ordinary", -0.4},
	{"typical", 0.15},
	{"unusual", -0.2},
	{"listed", 1},
	{"fine", 0.2},
	{"nearby", 0.15},
	{"base64", 0},
}

// score is what a form alone scores, with reasons for and against, in [0, 1].
func score(form float64, why evidence) float64 {
	for ; why != 0; why &= why - 1 {
		form += weights[mathbits.TrailingZeros32(uint32(why))].Weight
	}
	return min(max(math.Round(form*1e6)/1e6, 0), 1) // sums of tenths that are exact on paper
}

// rank is by what the best of overlapping findings is told, which names their union: a right check digit says more than any label.
func (m match) rank() float64 {
	rank := m.score()
	if m.why&checkRight != 0 && rank >= 0.6 {
		rank += 0.2
	}
	return rank
}
