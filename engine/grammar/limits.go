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

// The defaults keep Build under about a second, one call of a Matcher under some tens of milliseconds, and what a grammar keeps under
// about 100 MB, on one core of a server. Ordinary grammars need a hundredth of that.
var defaults = Limits{
	SourceBytes: 1 << 20,
	Rules:       20_000,
	Nodes:       200_000,
	Depth:       500,
	Items:       4_000,
	BuildSteps:  4_000_000,
	MaskSteps:   1_000_000,
	CacheBytes:  32 << 20,
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.SourceBytes, defaults.SourceBytes)
	set(&l.Rules, defaults.Rules)
	set(&l.Nodes, defaults.Nodes)
	set(&l.Depth, defaults.Depth)
	set(&l.Items, defaults.Items)
	set(&l.BuildSteps, defaults.BuildSteps)
	set(&l.MaskSteps, defaults.MaskSteps)
	set(&l.CacheBytes, defaults.CacheBytes)
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

func wrong(english, chinese string, args ...any) *Error {
	return &Error{Reason: fault.Say(english, chinese, args...)}
}

func exceeded(limit, english, chinese string, args ...any) *Error {
	return &Error{Limit: limit, Reason: fault.Say(english, chinese, args...)}
}

func tooLong(n, limit int) *Error {
	return exceeded("SourceBytes", "it has %d bytes and at most %d are read; shorten it", "长度为 %d 字节，最多读取 %d 字节；请缩短", n, limit)
}

func tooDeep(limit int) *Error {
	return exceeded("Depth", "it nests more than %d levels deep; name its inner parts as rules of their own, or flatten it",
		"嵌套超过 %d 层；请将内层拆分为单独的规则，或减少嵌套", limit)
}

func tooManyNodes(limit int) *Error {
	return exceeded("Nodes", "it has more than %d parts once its repetitions are written out; use smaller counts, or no upper bound",
		"展开重复次数后超过 %d 个部分；请减小重复次数，或不设上限", limit)
}

func tooManyRules(limit int) *Error {
	return exceeded("Rules", "it has more than %d rules; use fewer", "规则超过 %d 条；请减少规则", limit)
}

func tooManyItems(limit int) *Error {
	return exceeded("Items", "it can be read in more than %d ways at one position of the text; make it less ambiguous",
		"在文本的同一位置有超过 %d 种读法；请减少歧义", limit)
}

func buildTooLong() *Error {
	return exceeded("BuildSteps", "it takes too long to prepare; make it smaller, or use fewer intersections and exclusions",
		"准备耗时过长；请缩小，或减少交集与排除")
}

func maskTooLong() *Error {
	return exceeded("MaskSteps", "the next token takes too long to find; make it less ambiguous, or use smaller repetition counts",
		"确定下一个词元耗时过长；请减少歧义，或减小重复次数")
}
