package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// value is a JSON value that keeps the order of its members and the spelling of its numbers.
type value struct {
	kind   kind
	yes    bool     // of a bool
	text   string   // of a string, decoded; of a number, as spelled
	num    *big.Rat // of a number
	items  []*value // of an array; of an object, the members' values
	names  []string // of an object
	parent *value   // nil at the root
	step   string   // the name or index that leads here from the parent

	canonical string // see key
}

// at is the JSON pointer of v, as a URI fragment without percent-encoding.
func (v *value) at() string {
	if v.parent == nil {
		return "#"
	}
	return v.parent.at() + "/" + escapeStep(v.step)
}

func escapeStep(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// member returns an object's member, or nil.
func (v *value) member(name string) *value {
	for i, n := range v.names {
		if n == name {
			return v.items[i]
		}
	}
	return nil
}

// same reports whether two values are equal as JSON Schema means it: numbers by value, objects without regard to order.
func (v *value) same(w *value) bool { return v.key() == w.key() }

// key is the same text for equal values, and different ones for others.
func (v *value) key() string {
	if v.canonical != "" {
		return v.canonical
	}
	var b strings.Builder
	switch v.kind {
	case kindNull:
		b.WriteString("null")
	case kindBool:
		b.WriteString(strconv.FormatBool(v.yes))
	case kindNumber:
		b.WriteString(v.num.RatString())
	case kindString:
		b.WriteString(strconv.Quote(v.text))
	default:
		parts := make([]string, len(v.items))
		for i, c := range v.items {
			parts[i] = c.key()
			if v.kind == kindObject {
				parts[i] = strconv.Quote(v.names[i]) + ":" + parts[i]
			}
		}
		if v.kind == kindObject {
			slices.Sort(parts)
		}
		fmt.Fprintf(&b, "%d[%s]", v.kind, strings.Join(parts, ","))
	}
	v.canonical = b.String()
	return v.canonical
}

// decode reads text as one JSON value within the limits on bytes and depth.
func decode(text json.RawMessage, lim Limits) (*value, error) {
	if len(text) > lim.Bytes {
		return nil, refuse("#", fault.Say("jsonschema.too_long", len(text), lim.Bytes))
	}
	if !utf8.Valid(text) {
		return nil, refuse("#", fault.Say("jsonschema.not_utf8"))
	}
	d := &decoder{json: json.NewDecoder(bytes.NewReader(text)), depth: lim.Depth}
	d.json.UseNumber()
	v, err := d.value(nil, "", 1)
	if err != nil {
		return nil, err
	}
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse("#", fault.Say("jsonschema.trailing_text"))
	}
	return v, nil
}

type decoder struct {
	json  *json.Decoder
	depth int
}

func (d *decoder) value(parent *value, step string, depth int) (*value, error) {
	t, err := d.json.Token()
	if err != nil {
		return nil, d.syntax()
	}
	v := &value{parent: parent, step: step}
	if depth > d.depth {
		return nil, refuse("#", fault.Say("jsonschema.too_deep", d.depth))
	}
	switch t := t.(type) {
	case nil:
	case bool:
		v.kind, v.yes = kindBool, t
	case string:
		v.kind, v.text = kindString, t
	case json.Number:
		v.kind, v.text = kindNumber, t.String()
		if v.num = parseNumber(v.text); v.num == nil {
			return nil, refuse(v.at(), fault.Say("jsonschema.number_too_long", maxDigits))
		}
	case json.Delim:
		return v, d.children(v, t, depth)
	}
	return v, nil
}

// children reads what follows an opening bracket, up to the closing one.
func (d *decoder) children(v *value, open json.Delim, depth int) error {
	v.kind = kindArray
	if open == '{' {
		v.kind = kindObject
	}
	seen := map[string]bool{}
	for d.json.More() {
		step := strconv.Itoa(len(v.items))
		if v.kind == kindObject {
			t, err := d.json.Token()
			if err != nil {
				return d.syntax()
			}
			step, _ = t.(string)
			if seen[step] {
				return refuse(v.at()+"/"+escapeStep(step), fault.Say("jsonschema.name_twice"))
			}
			seen[step] = true
			v.names = append(v.names, step)
		}
		c, err := d.value(v, step, depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, c)
	}
	if _, err := d.json.Token(); err != nil {
		return d.syntax()
	}
	return nil
}

func (d *decoder) syntax() error {
	return refuse("#", fault.Say("jsonschema.not_json", d.json.InputOffset()))
}

// maxDigits bounds the digits and the exponent of a schema's numbers; without it, 1e999999999 would fill the memory.
const maxDigits = 60

// parseNumber returns the exact value of a JSON number, or nil if it is out of bounds.
func parseNumber(s string) *big.Rat {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	if len(mantissa) > maxDigits {
		return nil
	}
	if exponent != "" {
		if e, err := strconv.Atoi(exponent); err != nil || e > maxDigits || e < -maxDigits {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}
