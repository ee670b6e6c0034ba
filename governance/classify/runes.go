package classify

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// runeSet is a set of characters that is asked for often: those of ASCII and common Chinese ones are bits, the others are looked for behind a
// filter.
type runeSet struct {
	ascii  [2]uint64
	han    *[(hanLast - hanFirst) / 64]uint64 // nil: none
	filter [4]uint64
	others string
}

func runesOf(runes string) *runeSet {
	s := new(runeSet)
	for _, r := range runes {
		s.add(r)
	}
	return s
}

func (s *runeSet) add(r rune) {
	switch {
	case r < 0x80:
		s.ascii[r/64] |= 1 << (r % 64)
		return
	case isCommonHan(r):
		if s.han == nil {
			s.han = new([len(s.han)]uint64)
		}
		s.han[(r-hanFirst)/64] |= 1 << ((r - hanFirst) % 64)
	default:
		s.filter[r/64%4] |= 1 << (r % 64)
	}
	s.others += string(r)
}

// has reports whether r is in the set, which no end of a text is.
func (s *runeSet) has(r rune) bool {
	if uint32(r) < 0x80 {
		return s.ascii[r>>6]>>(r&63)&1 != 0
	}
	return s.other(r)
}

func (s *runeSet) other(r rune) bool {
	if isCommonHan(r) {
		return s.han != nil && s.han[uint32(r-hanFirst)>>6]>>(uint32(r-hanFirst)&63)&1 != 0
	}
	return r > 0 && s.filter[r>>6&3]>>(r&63)&1 != 0 && strings.ContainsRune(s.others, r)
}

// and returns a set with the characters that some words end with, too.
func (s *runeSet) and(words ...*endings) *runeSet {
	out := runesOf(s.others)
	out.ascii = s.ascii
	for _, e := range words {
		for r := range e.ascii {
			if len(e.ascii[r]) > 0 {
				out.add(rune(r))
			}
		}
		for r := range e.others {
			out.add(r)
		}
	}
	return out
}

// byRune holds lists by characters of ASCII and common Chinese ones.
type byRune[T any] struct {
	ascii [0x80]uint16
	han   [lexicon.Places]uint16 // the place of the list plus one
	lists [][]T
}

func (b *byRune[T]) add(r rune, value T) {
	at := &b.ascii[r&0x7f]
	if place, ok := lexicon.Place(r); ok {
		at = &b.han[place]
	}
	if *at == 0 {
		b.lists = append(b.lists, nil)
		*at = uint16(len(b.lists))
	}
	b.lists[*at-1] = append(b.lists[*at-1], value)
}

// of returns the list of a character.
func (b *byRune[T]) of(r rune) []T {
	at := uint16(0)
	if uint32(r) < 0x80 {
		at = b.ascii[r]
	} else if place, ok := lexicon.Place(r); ok {
		at = b.han[place]
	}
	if at == 0 {
		return nil
	}
	return b.lists[at-1]
}
