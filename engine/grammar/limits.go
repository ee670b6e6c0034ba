package grammar

import (
	"errors"

	"github.com/sluice-project/sluice/internal/fault"
)

// Limits bound what a grammar may cost. A field that is zero gets its default.
type Limits struct {
	SourceBytes int // length of a grammar's, expression's or choice list's text
	Rules       int // rules of a grammar
	Nodes       int // parts of a grammar after repetitions are written out
	Depth       int // nesting of groups, of nodes and of expressions
	Items       int // parser items or simultaneous readings at one position of a text
	BuildSteps  int // work of Build, and of fitting a grammar to a vocabulary
	MaskSteps   int // work of one call of a Matcher
	CacheBytes  int // about what a grammar remembers of lexer and parser states between calls; beyond, it forgets and begins anew
}

// withDefaults fills the zero fields. The defaults keep Build under about a second, one call of a Matcher under some tens of milliseconds, and
// what a grammar keeps under about 100 MB, on one core of a server. Ordinary grammars need a hundredth of that.
func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.SourceBytes, 1<<20)
	set(&l.Rules, 20_000)
	set(&l.Nodes, 200_000)
	set(&l.Depth, 500)
	set(&l.Items, 4_000)
	set(&l.BuildSteps, 4_000_000)
	set(&l.MaskSteps, 1_000_000)
	set(&l.CacheBytes, 32<<20)
	return l
}

// Error says what is wrong with a grammar, or which bound it exceeds, and how to mend it. The caller puts Reason into a fault of its
// own, because only the caller knows the name of the field.
type Error struct {
	Reason fault.Phrase
	Limit  string // name of the exceeded field of Limits; "" when the grammar itself is wrong
}

// Error implements error in English.
func (e *Error) Error() string { return "grammar: " + e.Reason.String() }

// Reason returns what err says to a caller: the Reason of the Error in its chain.
func Reason(err error) (fault.Phrase, bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason, true
	}
	return fault.Phrase{}, false
}

func wrong(reason fault.Phrase) *Error { return &Error{Reason: reason} }

func exceeded(limit string, reason fault.Phrase) *Error { return &Error{Limit: limit, Reason: reason} }

func tooLong(n, limit int) *Error {
	return exceeded("SourceBytes", fault.Say("grammar.too_long", n, limit))
}

func tooDeep(limit int) *Error {
	return exceeded("Depth", fault.Say("grammar.too_deep", limit))
}

func tooManyNodes(limit int) *Error {
	return exceeded("Nodes", fault.Say("grammar.too_many_parts", limit))
}

func tooManyRules(limit int) *Error {
	return exceeded("Rules", fault.Say("grammar.too_many_rules", limit))
}

func tooManyItems(limit int) *Error {
	return exceeded("Items", fault.Say("grammar.ambiguous", limit))
}

func buildTooLong() *Error {
	return exceeded("BuildSteps", fault.Say("grammar.slow_preparation"))
}

func maskTooLong() *Error {
	return exceeded("MaskSteps", fault.Say("grammar.slow_token"))
}
