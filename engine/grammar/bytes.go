package grammar

import (
	"slices"
	"unicode/utf8"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

//nolint:gochecknoglobals // constant
var fullSet = byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

func (s byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *byteSet) add(b byte) { s[b>>6] |= 1 << (b & 63) }

func (s byteSet) or(o byteSet) byteSet {
	return byteSet{s[0] | o[0], s[1] | o[1], s[2] | o[2], s[3] | o[3]}
}

func (s byteSet) and(o byteSet) byteSet {
	return byteSet{s[0] & o[0], s[1] & o[1], s[2] & o[2], s[3] & o[3]}
}

func (s byteSet) empty() bool { return s == byteSet{} }

func byteRange(lo, hi byte) byteSet {
	var s byteSet
	for b := int(lo); b <= int(hi); b++ {
		s.add(byte(b))
	}
	return s
}

// classes are the bytes that no expression of a grammar tells apart: automata have a column for each class instead of each byte.
type classes struct {
	of     [256]uint8
	member [256]byte // of each class, one byte
	sizes  [256]int
	count  int
}

func newClasses(sets []byteSet) classes {
	var c classes
	c.count = 1
	for _, s := range sets {
		var moved [256]int16 // class → class of its members in s, -1: none yet
		for i := range moved {
			moved[i] = -1
		}
		var inside [256]int
		for b := range 256 {
			if s.has(byte(b)) {
				inside[c.of[b]]++
			}
		}
		total := c.tally()
		for b := range 256 {
			k := c.of[b]
			if !s.has(byte(b)) || inside[k] == total[k] {
				continue
			}
			if moved[k] < 0 {
				moved[k] = int16(c.count)
				c.count++
			}
			c.of[b] = uint8(moved[k])
		}
	}
	c.sizes = c.tally()
	for b := 255; b >= 0; b-- {
		c.member[c.of[b]] = byte(b)
	}
	return c
}

func (c *classes) tally() (n [256]int) {
	for b := range 256 {
		n[c.of[b]]++
	}
	return n
}

// byteSeq is the UTF-8 encodings of a range of characters, as a byte set for each position.
type byteSeq []byteSet

// byteSeqs splits ranges of characters into ranges of encodings. Surrogates have none.
func byteSeqs(ranges []Range) []byteSeq {
	var out []byteSeq
	for _, r := range ranges {
		for _, part := range []Range{{0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, utf8.MaxRune}} {
			if lo, hi := max(r.Lo, part.Lo), min(r.Hi, part.Hi); lo <= hi {
				out = append(out, sameLength(lo, hi)...)
			}
		}
	}
	return out
}

// sameLength splits a range whose encodings are equally long, so that each part is a product of byte ranges.
func sameLength(lo, hi rune) []byteSeq {
	for shift := 6; shift < utf8.RuneLen(lo)*6; shift += 6 {
		low := rune(1)<<shift - 1
		if lo&^low == hi&^low {
			continue
		}
		if lo&low != 0 {
			return slices.Concat(sameLength(lo, lo|low), sameLength((lo|low)+1, hi))
		}
		if hi&low != low {
			return slices.Concat(sameLength(lo, hi&^low-1), sameLength(hi&^low, hi))
		}
	}
	a, b := utf8.AppendRune(nil, lo), utf8.AppendRune(nil, hi)
	seq := make(byteSeq, len(a))
	for i := range a {
		seq[i] = byteRange(a[i], b[i])
	}
	return []byteSeq{seq}
}
