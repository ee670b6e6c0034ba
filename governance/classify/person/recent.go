package person

import (
	"slices"

	"github.com/sluice-project/sluice/governance/classify/text"
)

// recentNames are the names found last, by their hashes: a name that stood once in a text is easily recognised again.
type recentNames struct {
	hashes [16]uint64
	next   int
}

// add adds a name of two characters and more.
func (p *recentNames) add(cells []text.Cell) {
	h, n := uint64(0), 0
	for _, c := range cells {
		switch {
		case text.IsHan(c.R):
			h = hash(h, c.R)
			n++
		case c.R != ' ' && c.R != '\n':
			return
		}
	}
	if n < 2 || slices.Contains(p.hashes[:], h) {
		return
	}
	p.hashes[p.next%len(p.hashes)] = h
	p.next++
}

// has reports whether a name is one of them.
func (p *recentNames) has(name []rune) bool {
	if p.next == 0 || len(name) < 2 {
		return false
	}
	h := uint64(0)
	for _, r := range name {
		h = hash(h, r)
	}
	return slices.Contains(p.hashes[:], h)
}
