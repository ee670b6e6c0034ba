package finding

import (
	"math"
	mathbits "math/bits"
	"slices"
)

// Evidence is why something was found, or nearly: reasons, as bits. The score of a finding is what its kind has by its form alone and
// the weights of its reasons; it counts from [threshold] on.
type Evidence uint32

// Threshold is the score from which a candidate is a finding.
const Threshold = 0.5

// The reasons.
const (
	CheckRight  Evidence = 1 << iota // check characters fit
	CheckWrong                       // they do not: a typing error, or another number
	DateRight                        // contains a date of birth that there was
	RegionRight                      // begins with a region code that is or was in use
	IssuerRight                      // begins with a prefix that an issuer or operator has
	LabelBefore                      // a label such as 身份证号： stands before
	CueBefore                        // a word that points at it stands near by before
	CueBehind                        // a word that points at it stands behind
	Grouped                          // written in the groups that such numbers are written in
	Marked                           // has a mark of its own, such as +86
	Honorific                        // 先生, 女士, 医生 behind
	Titled                           // a title or relation before
	Bounded                          // nothing that belongs to a longer word on either side
	Ordinary                         // is, or overlaps, an ordinary word
	Typical                          // made of the characters that such values are made of
	Unusual                          // made of characters that such values are rarely made of
	Listed                           // given by the caller, or on a list of the tenant
	Precise                          // goes down to a door, a room, a floor
	Nearby                           // other values about a person stand next to it
	InBase64                         // stood in base64; the other reasons are those of what was in there
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
	why  Evidence
}

// Form is what the form alone scores; it may be below zero. The score of a finding is the sum of this and its reasons, at most 1.
func (w Why) Form() float64 { return w.form }

// Evidence is the evidence for and against a finding.
func (w Why) Evidence() Evidence { return w.why }

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

var weights = [reasons]Reason{
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

// Weigh is what a form alone scores, with reasons for and against, in [0, 1].
func Weigh(form float64, why Evidence) float64 {
	for ; why != 0; why &= why - 1 {
		form += weights[mathbits.TrailingZeros32(uint32(why))].Weight
	}
	return min(max(math.Round(form*1e6)/1e6, 0), 1) // sums of tenths that are exact on paper
}

// Rank is by what the best of overlapping findings is told, which names their union: a right check digit says more than any label.
func (m Candidate) Rank() float64 {
	rank := m.Score()
	if m.Evidence&CheckRight != 0 && rank >= 0.6 {
		rank += 0.2
	}
	return rank
}

// Any reports whether one of some reasons is there.
func (b Evidence) Any(of Evidence) bool { return b&of != 0 }
