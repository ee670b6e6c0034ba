package chattemplate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// jsonWriter writes JSON as Python does.
type jsonWriter struct {
	out          strings.Builder
	indent       int
	comma, colon string
	sorted       bool // keys
	ascii        bool // only
	b            *budget
}

func (w *jsonWriter) value(v *exec.Value, depth int) error {
	if err := w.b.spend(depth * w.indent); err != nil || depth > maxDepth {
		return errors.Join(err, errors.New("the value nests too deeply"))
	}
	if n, ok := v.Interface().(*big.Int); ok {
		w.out.WriteString(n.String())
		return nil
	}
	switch {
	case v.IsNil():
		w.out.WriteString("null")
	case v.IsString():
		return w.text(v.String())
	case v.IsBool():
		w.out.WriteString(strconv.FormatBool(v.Bool()))
	case v.IsInteger():
		w.out.WriteString(strconv.Itoa(v.Integer()))
	case v.IsFloat():
		w.out.WriteString(floatText(v))
	case v.IsDict():
		keys, values := pairs(v)
		return w.list("{", "}", keys, values, depth)
	case v.IsList():
		return w.list("[", "]", nil, children(v), depth)
	default:
		return errors.New("the value has no JSON form")
	}
	return nil
}

// floatText is Python's repr, in which infinity has a name of its own in JSON.
func floatText(v *exec.Value) string {
	switch f := v.Float(); {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return v.String()
}

func (w *jsonWriter) list(open, end string, keys, values []*exec.Value, depth int) error {
	w.out.WriteString(open)
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	if w.sorted && keys != nil {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a].String(), keys[b].String()) })
	}
	for n, i := range order {
		if n > 0 {
			w.out.WriteString(w.comma)
		}
		w.line(depth + 1)
		if keys != nil {
			if err := w.text(keys[i].String()); err != nil {
				return err
			}
			w.out.WriteString(w.colon)
		}
		if err := w.value(values[i], depth+1); err != nil {
			return err
		}
	}
	if len(values) > 0 {
		w.line(depth)
	}
	w.out.WriteString(end)
	return nil
}

// line begins a line if there is indentation.
func (w *jsonWriter) line(depth int) {
	if w.indent > 0 {
		w.out.WriteString("\n" + strings.Repeat(" ", depth*w.indent))
	}
}

func (w *jsonWriter) text(s string) error {
	if err := w.b.spend(len(s)); err != nil {
		return err
	}
	w.out.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			w.out.WriteByte('\\')
			w.out.WriteRune(r)
		case '\n':
			w.out.WriteString(`\n`)
		case '\r':
			w.out.WriteString(`\r`)
		case '\t':
			w.out.WriteString(`\t`)
		case '\b':
			w.out.WriteString(`\b`)
		case '\f':
			w.out.WriteString(`\f`)
		default:
			if r < ' ' {
				w.out.WriteString(`\u00` + string("0123456789abcdef"[r>>4]) + string("0123456789abcdef"[r&15]))
				continue
			}
			w.rune(r)
		}
	}
	w.out.WriteByte('"')
	return nil
}

func (w *jsonWriter) rune(r rune) {
	switch {
	case !w.ascii || r < 0x80 || string(r) == w.b.mark:
		w.out.WriteRune(r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		fmt.Fprintf(&w.out, `\u%04x\u%04x`, high, low)
	default:
		fmt.Fprintf(&w.out, `\u%04x`, r)
	}
}
