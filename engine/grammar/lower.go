package grammar

import (
	"slices"
	"sort"
	"unicode/utf8"
)

// units are the characters that a vocabulary can spell.
type units struct {
	bytes byteSet // bytes that are tokens by themselves
	whole []rune  // characters that are a token each, although their bytes are not
	all   bool    // every character can be spelt
}

// lowering turns expressions over characters into expressions over bytes.
type lowering struct {
	*table
	units units
	done  map[*tree]*re
	utf8  *re // any text
}

func newLowering(t *table, u units) *lowering {
	l := &lowering{table: t, units: u, done: map[*tree]*re{}}
	l.utf8 = t.repeat(l.chars(AnyChar().t.ranges), 0, unlimited)
	return l
}

func (l *lowering) lower(t *tree) *re {
	if n := l.done[t]; n != nil {
		return n
	}
	n := l.lowerNew(t)
	l.done[t] = n
	return n
}

func (l *lowering) lowerNew(t *tree) *re {
	l.spend(1 + len(t.sub))
	switch t.op {
	case opText:
		return l.text(t.text, l.empty)
	case opChars:
		return l.chars(t.ranges)
	case opAlt:
		return l.alt(t.sub)
	case opConcat:
		n := l.empty
		for _, s := range slices.Backward(t.sub) {
			n = l.concat(l.lower(s), n)
		}
		return n
	case opRepeat:
		return l.repeat(l.lower(t.sub[0]), int32(t.min), int32(t.max))
	case opAnd:
		sub := make([]*re, len(t.sub))
		for i, s := range t.sub {
			sub[i] = l.lower(s)
		}
		return l.and(sub)
	default: // opNot
		return l.and([]*re{l.utf8, l.not(l.lower(t.sub[0]))})
	}
}

// text is exactly s and then tail.
func (l *lowering) text(s string, tail *re) *re {
	l.spend(len(s))
	n := tail
	for len(s) > 0 {
		r, size := utf8.DecodeLastRuneInString(s)
		n = l.char(s[len(s)-size:], r, n)
		s = s[:len(s)-size]
	}
	return n
}

// char is one character, whose encoding is s, and then tail.
func (l *lowering) char(s string, r rune, tail *re) *re {
	if !l.spells(s) {
		if _, ok := slices.BinarySearch(l.units.whole, r); !ok {
			return l.none
		}
	}
	for _, b := range slices.Backward([]byte(s)) {
		tail = l.concat(l.bytes(byteRange(b, b)), tail)
	}
	return tail
}

func (l *lowering) spells(s string) bool {
	for i := range len(s) {
		if !l.units.bytes.has(s[i]) {
			return false
		}
	}
	return true
}

func (l *lowering) chars(ranges []Range) *re {
	var alts []*re
	for _, seq := range byteSeqs(ranges) {
		n := l.empty
		for _, set := range slices.Backward(seq) {
			n = l.concat(l.bytes(set.and(l.units.bytes)), n)
		}
		alts = append(alts, n)
	}
	for _, r := range l.units.whole {
		if inRanges(ranges, r) {
			alts = append(alts, l.text(string(r), l.empty))
		}
	}
	return l.or(alts...)
}

func inRanges(ranges []Range, r rune) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Hi >= r })
	return i < len(ranges) && ranges[i].Lo <= r
}

// alt joins literal texts by their common beginnings before anything is made of them, because lists of choices may be long.
func (l *lowering) alt(sub []*tree) *re {
	var texts []string
	var alts []*re
	for _, s := range sub {
		if s.op == opText {
			texts = append(texts, s.text)
		} else {
			alts = append(alts, l.lower(s))
		}
	}
	slices.Sort(texts)
	return l.or(append(alts, l.texts(slices.Compact(texts), 0))...)
}

// texts is any of the sorted texts, which are alike before position at.
func (l *lowering) texts(list []string, at int) *re {
	l.spend(len(list))
	if len(list) == 0 {
		return l.none
	}
	// What is alike in all of them need not be looked at again.
	alike := at
	for first, last := list[0], list[len(list)-1]; alike < len(first) && alike < len(last) && first[alike] == last[alike]; {
		alike++
	}
	for alike > at && alike < len(list[0]) && !utf8.RuneStart(list[0][alike]) {
		alike-- // whole characters only: whether one can be spelt is asked of it as a whole
	}
	if len(list) == 1 {
		return l.text(list[0][at:], l.empty)
	}
	var alts []*re
	rest := list
	if len(rest[0]) == alike {
		alts, rest = append(alts, l.empty), rest[1:]
	}
	for len(rest) > 0 {
		_, size := utf8.DecodeRuneInString(rest[0][alike:])
		head := rest[0][alike : alike+size]
		n := 1
		for n < len(rest) && len(rest[n]) >= alike+size && rest[n][alike:alike+size] == head {
			n++
		}
		alts = append(alts, l.text(head, l.texts(rest[:n], alike+size)))
		rest = rest[n:]
	}
	return l.text(list[0][at:alike], l.or(alts...))
}
