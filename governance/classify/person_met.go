package classify

import "slices"

// people remembers the names found last, by their hashes: whoever was named once in a text is easily known again.
type people struct {
	seen [16]uint64
	next int
}

// meet remembers a name of two characters and more.
func (p *people) meet(cells []cell) {
	h, n := uint64(0), 0
	for _, c := range cells {
		switch {
		case isHan(c.r):
			h = hash(h, c.r)
			n++
		case c.r != ' ' && c.r != '\n':
			return
		}
	}
	if n < 2 || p.has(h) {
		return
	}
	p.seen[p.next%len(p.seen)] = h
	p.next++
}

func (p *people) has(h uint64) bool { return slices.Contains(p.seen[:], h) }

// met reports whether a name has been met.
func (p *people) met(name []rune) bool {
	if p.next == 0 || len(name) < 2 {
		return false
	}
	h := uint64(0)
	for _, r := range name {
		h = hash(h, r)
	}
	return p.has(h)
}
