// Package refusal is a leaf: the reasons for which a caller gets a sentence of ours in the place of a model's answer, although nothing has failed.
//
// A reason is a word of a closed list: replies, audit records and metrics call it by the same name, and programs may go by it. Its sentence is for
// people, in their language, and tells nothing of documents, policies or thresholds. What has failed, or what may not be asked at all, is no refusal but an
// error (internal/fault).
package refusal

import "github.com/sluice-project/sluice/internal/fault"

// Reason is why there is no answer of a model. The zero value is none: the model answers.
type Reason string

// The reasons. Names are stable.
const (
	// NoPassages: the search has found nothing that the caller may see.
	NoPassages Reason = "no_passages"
	// WeakEvidence: what was found is not likely to answer the question.
	WeakEvidence Reason = "weak_evidence"
	// UnclearQuestion asks back: what was found may answer, and the question does not say enough to tell.
	UnclearQuestion Reason = "unclear_question"
	// UnsupportedAnswer: the model has answered, and nothing of its answer stands in what was found.
	UnsupportedAnswer Reason = "unsupported_answer"
)

// Reasons returns all reasons, in a fixed order.
func Reasons() []Reason {
	return []Reason{NoPassages, WeakEvidence, UnclearQuestion, UnsupportedAnswer}
}

// AsksBack reports whether the sentence asks the caller for more in the place of refusing.
func (r Reason) AsksBack() bool { return r == UnclearQuestion }

// Sentence is what people read. Of a reason that is not in the list it is that of WeakEvidence, which claims nothing.
func (r Reason) Sentence() fault.Phrase {
	switch r {
	case NoPassages:
		return fault.Say("refusal.no_passages")
	case UnclearQuestion:
		return fault.Say("refusal.unclear_question")
	case UnsupportedAnswer:
		return fault.Say("refusal.unsupported_answer")
	default:
		return fault.Say("refusal.weak_evidence")
	}
}
