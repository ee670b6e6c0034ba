package fault

import (
	"fmt"
	"reflect"
	"time"

	"github.com/sluice-project/sluice/internal/message"
)

// Portable is an error on its way to another process of this product, as JSON: what its reader may be told, in any language, and nothing of its
// cause.
type Portable struct {
	Code       Code          `json:"code"`
	Args       []Argument    `json:"args,omitempty"`
	Param      string        `json:"param,omitempty"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
}

// Argument is one argument of a sentence. One field is set; an argument of another type crosses as the text that it prints as.
type Argument struct {
	Text   *string         `json:"text,omitempty"`
	Int    *int64          `json:"int,omitempty"`
	Float  *float64        `json:"float,omitempty"`
	Phrase *PortablePhrase `json:"phrase,omitempty"`
}

// PortablePhrase is a [Phrase]: an id with arguments, or a text in each language.
type PortablePhrase struct {
	ID     string     `json:"id,omitempty"`
	Args   []Argument `json:"args,omitempty"`
	Quoted []string   `json:"quoted,omitempty"`
}

// Portable returns e without its cause.
func (e *Error) Portable() Portable {
	return Portable{Code: e.code, Args: arguments(e.args), Param: e.param, RetryAfter: e.retryAfter}
}

func arguments(args []any) []Argument {
	var out []Argument
	for _, a := range args {
		out = append(out, argument(a))
	}
	return out
}

func argument(a any) Argument {
	if p, ok := a.(Phrase); ok {
		id, args, quoted := p.Parts()
		return Argument{Phrase: &PortablePhrase{ID: string(id), Args: arguments(args), Quoted: quoted}}
	}
	if _, prints := a.(fmt.Stringer); !prints {
		switch v := reflect.ValueOf(a); {
		case v.CanInt():
			n := v.Int()
			return Argument{Int: &n}
		case v.CanUint() && v.Uint() < 1<<63:
			n := int64(v.Uint())
			return Argument{Int: &n}
		case v.CanFloat():
			f := v.Float()
			return Argument{Float: &f}
		}
	}
	s := fmt.Sprint(a)
	return Argument{Text: &s}
}

// Error returns the error that crossed, with a cause of this side, which may be nil. A code that this release does not know becomes CodeInternal,
// which says nothing.
func (p Portable) Error(cause error) *Error {
	if _, known := kinds[p.Code]; !known {
		return Wrap(cause, CodeInternal)
	}
	e := Wrap(cause, p.Code, values(p.Args)...)
	e.param, e.retryAfter = p.Param, max(0, p.RetryAfter)
	return e
}

func values(args []Argument) []any {
	var out []any
	for _, a := range args {
		out = append(out, a.value())
	}
	return out
}

func (a Argument) value() any {
	switch {
	case a.Int != nil:
		return *a.Int
	case a.Float != nil:
		return *a.Float
	case a.Text != nil:
		return *a.Text
	case a.Phrase == nil:
		return ""
	case len(a.Phrase.Quoted) == 2:
		return Quote(a.Phrase.Quoted[0], a.Phrase.Quoted[1])
	default:
		return Say(message.ID(a.Phrase.ID), values(a.Phrase.Args)...)
	}
}
