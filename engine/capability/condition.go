package capability

// Condition says when something holds. It is a small language over the facts of a [State]:
//
//	batch <= 8 and (dtype in ["bf16", "fp16"] or mode == "eager")
//	device.vendor == "huawei" and version.cann >= "8.0.rc2" and not (role == "prefill")
//
// Operators are ==, !=, <, <=, >, >=, in, and, or, not; "and" binds tighter than "or". A name is one of [ConditionNames] or version.<component>.
// Names have a kind: numbers compare with numbers, texts with texts by == and != and in, versions by number and by word, release candidates below
// their release. A wrong kind is an error of parsing, so that evaluation has no errors.
//
// What the router knows is less: batch as one replica has it (the requests that it has the instance run, with the new one), and no lengths. The pool's
// Offer says so.
//
// Evaluation has three values: a comparison over a fact that is not known is [Unknown], and "and", "or" and "not" are Kleene's. The zero
// Condition always holds. It marshals to its text.
type Condition struct {
	text string
	root *node
}

// Truth is the value of a condition.
type Truth uint8

// The values.
const (
	No Truth = iota
	Unknown
	Yes
)

// State are the facts that conditions speak of, by name. A number is written in decimal. A fact that is not there, or is no number where one has to
// be, is not known.
type State map[string]string

// SyntaxError is what is wrong with the text of a condition.
type SyntaxError struct {
	Offset int    // in bytes
	Reason string // in English
}

// The bounds of a condition's text.
const (
	MaxConditionBytes = 4096
	maxConditionDepth = 64
)
