package mask

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
)

// Span is a range of a text, in bytes, that holds a value: how it is called, how sure that is, and how it is treated. It holds no value.
type Span struct {
	Class      classify.Class
	Start, End int
	Score      float64
	Action     Action
	Why        classify.Why
	Also       []classify.Class // that the value is of, too, or a part of it
	Code       string           // of the pseudonym that stands for it; "" without one
}

// Mask replaces the values in text as rules say, and everything that could be read as a pseudonym by one of its own. Values to be
// blocked get a pseudonym too; whether the text may go on is the caller's decision. spans are the values found, in bytes of the original
// text; one that is only counted may overlap another. Restoring the result gives text back, byte for byte, but for what was redacted, hashed
// or shown in part.
func (v *Pseudonyms) Mask(rules *Rules, text string) (masked string, spans []Span) {
	var found []finding
	rules.hiding.Each(text, func(s classify.Segment) {
		if s.Class != "" {
			class, action := rules.of(s)
			found = append(found, finding{class, action, s.Value, s.Start, s.Start + len(s.Text)})
			spans = append(spans, Span{Class: class, Start: s.Start, End: s.Start + len(s.Text), Score: s.Score, Action: action, Why: s.Why, Also: s.Also})
		}
	})
	rules.observing.Each(text, func(s classify.Segment) {
		if s.Class != "" {
			spans = append(spans, Span{Class: s.Class, Start: s.Start, End: s.Start + len(s.Text), Score: s.Score, Action: ActionObserve, Why: s.Why, Also: s.Also})
		}
	})
	slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	found = unite(text, found, lookalikes(text, rules.tags, found))
	if len(found) == 0 {
		return text, spans
	}
	var b strings.Builder
	from, next := 0, 0
	for _, f := range found {
		b.WriteString(text[from:f.start])
		instead := v.replacement(f, tagOf(rules.hiding, f.class), text[f.start:f.end], false)
		b.WriteString(instead)
		from = f.end
		for ; next < len(spans) && spans[next].Start < f.end; next++ {
			s := &spans[next]
			if s.Action.Leaves() {
				continue
			}
			if s.Action = f.action; f.action == ActionToken {
				s.Code = codeOf(instead)
			}
		}
	}
	b.WriteString(text[from:])
	return b.String(), spans
}

// replacement returns what stands for a value spelled as text.
func (v *Pseudonyms) replacement(f finding, tag, text string, brought bool) string {
	switch f.action {
	case ActionRedact:
		return Redacted(tag)
	case ActionHash:
		return v.hashed(f.class, tag, f.value)
	case ActionPartial:
		return Partial(f.class, tag, text)
	default: // what is not known gets a pseudonym
		return v.pseudonym(f.class, tag, f.value, text, brought)
	}
}

type finding struct {
	class      classify.Class
	action     Action
	value      string
	start, end int
}

// unite merges values and lookalikes, both ordered. Where they overlap the range is their union, which is treated as the value is, the
// strictest if there are several.
func unite(text string, values, lookalikes []finding) []finding {
	var out []finding
	for len(values)+len(lookalikes) > 0 {
		var next finding
		if len(lookalikes) == 0 || len(values) > 0 && values[0].start <= lookalikes[0].start {
			next, values = values[0], values[1:]
		} else {
			next, lookalikes = lookalikes[0], lookalikes[1:]
		}
		last := len(out) - 1
		if last < 0 || next.start >= out[last].end {
			out = append(out, next)
			continue
		}
		if out[last].class == marker || next.class != marker && next.action.stricter(out[last].action) {
			out[last].class, out[last].action = next.class, next.action
		}
		out[last].end = max(out[last].end, next.end)
		out[last].value = text[out[last].start:out[last].end]
	}
	return out
}

// lookalikes returns the ranges of text that a Restorer could take for a pseudonym, whatever pseudonyms there are: the marks, and tag
// and code in any accepted spelling. A code ends where a word does, or where one of values, in order, or what may look alike cuts it.
func lookalikes(text string, tags []string, values []finding) []finding {
	heads := headsOf(tags)
	var out []finding
	r := reader{text: text, final: true, cut: func(i int) bool {
		_, found := slices.BinarySearchFunc(values, i, func(f finding, i int) int { return cmp.Compare(f.start, i) })
		return found || slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(text[i:], tag) })
	}}
	for i, c := range text {
		if !heads.may(c) {
			continue
		}
		if strings.ContainsRune(marks, c) {
			end := i + len(string(c))
			out = append(out, finding{marker, ActionToken, text[i:end], i, end})
			continue
		}
		for _, tag := range tags {
			if !strings.HasPrefix(text[i:], tag) {
				continue
			}
			if end, _, v := r.tagged(i, tag); v == yes {
				out = append(out, finding{marker, ActionToken, text[i:end], i, end})
			}
		}
	}
	sortFindings(out)
	return unite(text, nil, out)
}

const marks = "⟦⟧〚〛"

// heads has a bit for the lower ten bits of each character that a mark or a tag begins with: most characters of a text are none of them.
type heads [16]uint64

func headsOf(tags []string) (h heads) {
	for _, c := range marks {
		h.add(c)
	}
	for _, tag := range tags {
		c, _ := utf8.DecodeRuneInString(tag)
		h.add(c)
	}
	return h
}

func (h *heads) add(c rune) { h[c>>6&15] |= 1 << (c & 63) }

// may reports whether a mark or a tag may begin with the character.
func (h *heads) may(c rune) bool { return h[c>>6&15]>>(c&63)&1 == 1 }
