package httpapi

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

const (
	maxParseDepth = 10_000 // whatever the configuration allows
	shortText     = 1 << 10
)

// fields reads the members of one JSON object. The first error sticks; readers after it return zero values. A member that is
// null counts as absent, as clients that send every field expect.
type fields struct {
	path string          // "" or "messages[2]"
	m    rawjson.Members // parts of the body
	err  error

	streams bool // the answer is a stream, without saying so
}

// parse checks a body (encoding, depth, syntax) and returns its members.
func parse(body string, maxDepth int) (*fields, error) {
	if !utf8.ValidString(body) {
		return nil, fault.New(fault.CodeInvalidUTF8, invalidAt(body))
	}
	if read, err := rawjson.Check(body, min(maxDepth, maxParseDepth)); err != nil {
		if tooDeep(body, maxDepth) { // too deep goes before what else is wrong
			return nil, fault.New(fault.CodeTooDeep, maxDepth)
		}
		return nil, fault.New(fault.CodeInvalidJSON, read)
	}
	m, ok := rawjson.Object(rawjson.Trim(body))
	if !ok {
		return nil, fault.New(fault.CodeInvalidType, "body", fault.Say("type.object"))
	}
	return &fields{m: m}, nil
}

func invalidAt(b string) int {
	at := 0
	for len(b) > 0 {
		r, n := utf8.DecodeRuneInString(b)
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
		b = b[n:]
	}
	return at
}

// tooDeep looks at brackets outside strings only, in a text that need not be JSON.
func tooDeep(b string, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

func (f *fields) name(field string) string {
	if f.path == "" {
		return field
	}
	return f.path + "." + field
}

// fail keeps the first error: code, about field, for the reasons that the sentences of code take.
func (f *fields) fail(code fault.Code, field string, reasons ...fault.Phrase) {
	if f.err != nil {
		return
	}
	name := f.name(field)
	args := []any{name}
	for _, r := range reasons {
		args = append(args, r)
	}
	f.err = fault.New(code, args...).WithParam(name)
}

func (f *fields) wrongType(field string, want fault.Phrase) {
	f.fail(fault.CodeInvalidType, field, want)
}

func (f *fields) invalid(field string, why fault.Phrase) {
	f.fail(fault.CodeInvalidValue, field, why)
}

func (f *fields) unsupported(field string, instead fault.Phrase) {
	f.fail(fault.CodeUnsupported, field, instead)
}

func (f *fields) raw(field string) (string, bool) {
	v, ok := f.m.Get(field)
	return v, ok && f.err == nil && !rawjson.Null(v)
}

func (f *fields) text(field string) (s string, ok bool) {
	raw, ok := f.raw(field)
	if !ok {
		return "", false
	}
	if s, ok = textOf(raw); !ok {
		f.wrongType(field, fault.Say("type.string"))
	}
	return s, ok
}

// textOf reads a string. A long one without escapes is a part of the body; a short one is a copy, so that a name which outlives its request does not keep
// the whole body with it.
func textOf(raw string) (string, bool) {
	s, ok := rawjson.Text(raw)
	if len(s) <= shortText {
		s = strings.Clone(s)
	}
	return s, ok
}

// needText is a member that must be there and not be empty.
func (f *fields) needText(field string) string {
	s, ok := f.text(field)
	if !ok || s == "" {
		f.fail(fault.CodeMissing, field)
	}
	return s
}

func (f *fields) flag(field string) (b bool) {
	raw, ok := f.raw(field)
	if ok && raw != "true" && raw != "false" {
		f.wrongType(field, fault.Say("type.boolean"))
	}
	return ok && raw == "true"
}

// number reads a number within bounds.
func (f *fields) number(field string, low, high float64) *float64 {
	raw, ok := f.raw(field)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(raw, 64)
	if !isNumber(raw) || err != nil {
		f.wrongType(field, fault.Say("type.number"))
		return nil
	}
	if v < low || v > high {
		f.invalid(field, fault.Say("value.between", low, high))
		return nil
	}
	return &v
}

// isNumber tells the numbers among JSON values.
func isNumber(raw string) bool { return raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9' }

// integer reads a whole number within bounds.
func (f *fields) integer(field string, low, high int64) *int64 {
	raw, ok := f.raw(field)
	if !ok {
		return nil
	}
	v, err := strconv.ParseInt(raw, 10, 64)
	if !isNumber(raw) || errors.Is(err, strconv.ErrSyntax) {
		f.wrongType(field, fault.Say("type.integer"))
		return nil
	}
	if err != nil || v < low || v > high {
		f.invalid(field, fault.Say("value.whole_range", low, high))
		return nil
	}
	return &v
}

// list reads an array.
func (f *fields) list(field string) (items []string, ok bool) {
	return f.items(field, fault.Say("type.array"))
}

func (f *fields) items(field string, want fault.Phrase) (items []string, ok bool) {
	raw, ok := f.raw(field)
	if !ok {
		return nil, false
	}
	if items, ok = rawjson.Items(raw); !ok {
		f.wrongType(field, want)
	}
	return items, ok
}

// object reads a nested object; its first error becomes f's when the caller calls join.
func (f *fields) object(field string) (*fields, bool) {
	return f.members(field, fault.Say("type.object"))
}

func (f *fields) members(field string, want fault.Phrase) (*fields, bool) {
	sub := &fields{path: f.name(field)}
	raw, ok := f.raw(field)
	if !ok {
		return sub, false
	}
	if sub.m, ok = rawjson.Object(raw); !ok {
		f.wrongType(field, want)
	}
	return sub, ok
}

// item reads the i-th item of an array as an object.
func (f *fields) item(field string, i int, raw string) *fields {
	sub := &fields{path: f.name(field) + "[" + strconv.Itoa(i) + "]"}
	if f.err != nil {
		return sub
	}
	var ok bool
	if sub.m, ok = rawjson.Object(raw); !ok {
		f.fail(fault.CodeInvalidType, field+"["+strconv.Itoa(i)+"]", fault.Say("type.object"))
	}
	return sub
}

func (f *fields) join(sub *fields) {
	if f.err == nil {
		f.err = sub.err
	}
}

// strings reads a string or an array of strings, of at most limit items.
func (f *fields) strings(field string, want fault.Phrase, limit int) []string {
	raw, ok := f.raw(field)
	if !ok {
		return nil
	}
	if raw[0] == '"' {
		s, _ := f.text(field)
		return []string{s}
	}
	items, ok := f.items(field, want)
	if !ok {
		return nil
	}
	out := make([]string, len(items))
	for i, item := range items {
		if out[i], ok = textOf(item); !ok && !rawjson.Null(item) {
			f.wrongType(field, want)
			return nil
		}
	}
	if len(out) > limit {
		f.invalid(field, fault.Say("value.item_count", limit))
	}
	return out
}
