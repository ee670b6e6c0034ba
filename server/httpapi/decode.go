package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// fields reads the members of one JSON object. The first error sticks; readers after it return zero values. A member that is
// null counts as absent, as clients that send every field expect.
type fields struct {
	path string // "" or "messages[2]"
	m    map[string]json.RawMessage
	err  error
}

// parse checks a body (encoding, depth, syntax) and returns its members.
func parse(body []byte, maxDepth int) (*fields, error) {
	if !utf8.Valid(body) {
		return nil, fault.New(fault.CodeInvalidUTF8, invalidAt(body))
	}
	if tooDeep(body, maxDepth) {
		return nil, fault.New(fault.CodeTooDeep, maxDepth)
	}
	f := &fields{}
	err := json.Unmarshal(body, &f.m)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fault.New(fault.CodeInvalidJSON, syntax.Offset)
	case err != nil || f.m == nil:
		return nil, fault.New(fault.CodeInvalidType, "body", fault.Say("an object", "对象"))
	}
	return f, nil
}

func invalidAt(b []byte) int {
	at := 0
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
		b = b[n:]
	}
	return at
}

// tooDeep looks at brackets outside strings only; it runs before any recursive parser sees the body.
func tooDeep(b []byte, limit int) bool {
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

func (f *fields) raw(field string) (json.RawMessage, bool) {
	v, ok := f.m[field]
	return v, ok && f.err == nil && !bytes.Equal(v, []byte("null"))
}

// get decodes a member into v, which must be a pointer to a type that JSON values of one kind fill.
func (f *fields) get(field string, want fault.Phrase, v any) bool {
	raw, ok := f.raw(field)
	if !ok {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		f.wrongType(field, want)
		return false
	}
	return true
}

func (f *fields) text(field string) (s string, ok bool) {
	ok = f.get(field, fault.Say("a string", "字符串"), &s)
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
	f.get(field, fault.Say("a boolean", "布尔值"), &b)
	return b
}

// number reads a number within bounds.
func (f *fields) number(field string, low, high float64) *float64 {
	var v float64
	if !f.get(field, fault.Say("a number", "数字"), &v) {
		return nil
	}
	if v < low || v > high {
		f.invalid(field, fault.Say("must lie between %v and %v", "须在 %v 与 %v 之间", low, high))
		return nil
	}
	return &v
}

// integer reads a whole number within bounds.
func (f *fields) integer(field string, low, high int64) *int64 {
	var n json.Number
	raw, ok := f.raw(field)
	if !ok {
		return nil
	}
	if raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
		f.wrongType(field, fault.Say("an integer", "整数"))
		return nil
	}
	v, err := strconv.ParseInt(n.String(), 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		f.wrongType(field, fault.Say("an integer", "整数"))
		return nil
	}
	if err != nil || v < low || v > high {
		f.invalid(field, fault.Say("must lie between %d and %d", "须在 %d 与 %d 之间", low, high))
		return nil
	}
	return &v
}

// list reads an array.
func (f *fields) list(field string) (items []json.RawMessage, ok bool) {
	ok = f.get(field, fault.Say("an array", "数组"), &items)
	return items, ok
}

// object reads a nested object; its first error becomes f's when the caller calls join.
func (f *fields) object(field string) (*fields, bool) {
	sub := &fields{path: f.name(field)}
	ok := f.get(field, fault.Say("an object", "对象"), &sub.m)
	return sub, ok
}

// item reads the i-th item of an array as an object.
func (f *fields) item(field string, i int, raw json.RawMessage) *fields {
	sub := &fields{path: f.name(field) + "[" + strconv.Itoa(i) + "]"}
	if f.err == nil && (json.Unmarshal(raw, &sub.m) != nil || sub.m == nil) {
		f.fail(fault.CodeInvalidType, field+"["+strconv.Itoa(i)+"]", fault.Say("an object", "对象"))
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
	var out []string
	if !f.get(field, want, &out) {
		return nil
	}
	if len(out) > limit {
		f.invalid(field, fault.Say("must have at most %d items", "最多 %d 项", limit))
	}
	return out
}
