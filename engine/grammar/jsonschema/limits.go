package jsonschema

import (
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// Error is a refusal of a schema: where in it, what is wrong, and how to mend it.
type Error struct {
	Pointer string       // JSON pointer of the keyword at fault, such as "#/properties/age/not"
	Problem fault.Phrase // what is wrong and the remedy
}

// Error implements error.
func (e *Error) Error() string { return e.Phrase().String() }

// Phrase returns the whole refusal in both languages, for an argument of a fault.
func (e *Error) Phrase() fault.Phrase {
	return fault.Say("jsonschema.located", e.Pointer, e.Problem)
}

// maxPointer bounds the pointer in an error: names in a schema may be long.
const maxPointer = 200

func refuse(pointer string, problem fault.Phrase) error {
	if len(pointer) > maxPointer {
		pointer = strings.ToValidUTF8(pointer[:maxPointer], "") + "…"
	}
	return &Error{Pointer: pointer, Problem: problem}
}

// Limits bound what a schema may cost. A zero field takes its default.
type Limits struct {
	Bytes        int // of the schema's text; 65,536
	Depth        int // nested values in the text; 256
	Properties   int // names under properties and required, in total; 5,000
	Values       int // values under enum and const, in total; 5,000
	Alternatives int // ways in which anyOf, oneOf, not, if and their like can combine at one place; 512
	Shapes       int // distinct places and combinations of subschemas; 8,192
	Work         int // steps of compiling in all; 2,000,000
	Count        int // largest minLength, maxLength, minItems, maxItems, minProperties, maxProperties; 65,536
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.Bytes, 64 << 10},
		{&l.Depth, 256},
		{&l.Properties, 5000},
		{&l.Values, 5000},
		{&l.Alternatives, 512},
		{&l.Shapes, 8192},
		{&l.Work, 2_000_000},
		{&l.Count, 65536},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return l
}

// Whitespace says which spaces may stand between the tokens of the JSON text.
type Whitespace uint8

// The policies. All are bounded: a model cannot fill its answer with spaces.
const (
	Spaced   Whitespace = iota // at most one space after ':' and ','; none elsewhere. What models write by themselves.
	Compact                    // none
	Indented                   // as Spaced, and a line break with at most 24 spaces after '{', '[' and ',' and before '}' and ']'
)

// Options say how a schema is read.
type Options struct {
	// Name begins the names of the schema's rules. Schemas in one grammar need different ones.
	Name       string
	Whitespace Whitespace
	// Closed gives no further members to objects whose schema names some and does not speak of additionalProperties, as
	// OpenAI's strict mode has it. Every text is still valid for the schema as it stands.
	Closed bool
	Limits Limits
}
