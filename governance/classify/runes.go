package classify

import "strings"

// runeSet is a set of characters that is asked for often: those of ASCII are bits, the others are looked for behind a filter.
type runeSet struct {
	ascii  [2]uint64
	filter [4]uint64
	others string
}

func runesOf(runes string) *runeSet {
	s := new(runeSet)
	for _, r := range runes {
		if r < 0x80 {
			s.ascii[r/64] |= 1 << (r % 64)
			continue
		}
		s.filter[r/64%4] |= 1 << (r % 64)
		s.others += string(r)
	}
	return s
}

// has reports whether r is in the set, which no end of a text is.
func (s *runeSet) has(r rune) bool {
	if uint32(r) < 0x80 {
		return s.ascii[r>>6]>>(r&63)&1 != 0
	}
	return s.other(r)
}

func (s *runeSet) other(r rune) bool {
	return r > 0 && s.filter[r>>6&3]>>(r&63)&1 != 0 && strings.ContainsRune(s.others, r)
}
