package chattemplate

import (
	"strings"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// text is a text in which marks may stand before characters. What looks for something in it looks at bare; what cuts a piece out of it
// gives places in bare and gets the piece with its marks.
type text struct {
	marked, bare string
	at           []int // where byte i of bare stands in marked, its mark included; nil if there are no marks
}

func (b *budget) text(s string) text {
	if b.mark == "" || !strings.Contains(s, b.mark) {
		return text{marked: s, bare: s}
	}
	t := text{marked: s, at: make([]int, 0, len(s)+1)}
	var bare strings.Builder
	for i := 0; i < len(s); {
		start := i
		if strings.HasPrefix(s[i:], b.mark) {
			i += len(b.mark)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		for range n {
			t.at = append(t.at, start)
		}
		bare.WriteString(s[i : i+n])
		i += n
	}
	t.at = append(t.at, len(s))
	t.bare = bare.String()
	return t
}

// cut is bare[i:j] with its marks; both are borders of characters.
func (t text) cut(i, j int) string {
	if t.at == nil {
		return t.marked[i:j]
	}
	return t.marked[t.at[i]:t.at[j]]
}

// bare takes the marks out of s.
func (b *budget) bare(s string) string {
	if b.mark == "" {
		return s
	}
	return strings.ReplaceAll(s, b.mark, "")
}

// cover marks every character of s.
func (b *budget) cover(s string) string {
	if b.mark == "" {
		return s
	}
	return mark(b.bare(s), b.mark)
}

// mark puts a mark before every character of s.
func mark(s, with string) string {
	var out strings.Builder
	out.Grow(len(s) * (1 + len(with)))
	for s != "" {
		_, n := utf8.DecodeRuneInString(s)
		out.WriteString(with + s[:n])
		s = s[n:]
	}
	return out.String()
}

// mapped is f of the text without marks, with the marks where they were, or everywhere if f changes the number of characters.
func (b *budget) mapped(s string, f func(string) string) string {
	t := b.text(s)
	out := f(t.bare)
	if t.at == nil {
		return out
	}
	if utf8.RuneCountInString(out) != utf8.RuneCountInString(t.bare) {
		return mark(out, b.mark)
	}
	var marked strings.Builder
	i := 0
	for _, r := range out {
		if strings.HasPrefix(s[t.at[i]:], b.mark) {
			marked.WriteString(b.mark)
		}
		marked.WriteRune(r)
		_, n := utf8.DecodeRuneInString(t.bare[i:])
		i += n
	}
	return marked.String()
}

// bareValue is v with the marks taken out of every text in it, for comparisons.
func (b *budget) bareValue(v *exec.Value) *exec.Value {
	if b.mark == "" || v.IsNil() {
		return v
	}
	if v.IsString() {
		return exec.AsValue(b.bare(v.String()))
	}
	switch x := v.Interface().(type) {
	case exec.ValuesList, []any:
		out := exec.ValuesList{}
		for _, item := range children(v) {
			out = append(out, b.bareValue(item))
		}
		return exec.AsValue(out)
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, item := range x {
			out[b.bare(k)] = b.bareValue(value(item))
		}
		return exec.AsValue(out)
	case *exec.Dict:
		out := dict()
		for _, p := range x.Pairs {
			out.Pairs = append(out.Pairs, &exec.Pair{Key: b.bareValue(p.Key), Value: b.bareValue(p.Value)})
		}
		return exec.AsValue(out)
	}
	return v
}
