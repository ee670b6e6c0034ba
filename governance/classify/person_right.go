package classify

import "github.com/sluice-project/sluice/governance/classify/lexicon"

// rightSide is what stands behind a candidate.
type rightSide struct {
	why     evidence
	quality int
	bounded bool
	strong  bool // a cue of two characters and more, or a title
	place   bool // what goes on makes it a place or a company
	title   int  // length of the title
}

// right looks at what stands behind the cell before e.
func (n *namer) right(e int) (s rightSide) {
	r := n.cell(e)
	switch {
	case r == edge, r == unknown:
		s.bounded, s.quality = true, 3
	case isHan(r):
		n.rightHan(&s, e)
	case r == ' ':
		s.bounded, s.quality = true, 3
		if next := n.cell(e + 1); isHan(next) && n.w.cells[e-1].r != ' ' {
			pair := [2]rune{n.w.cells[e-1].r, next}
			if lexicon.Ordinary(pair[:]) == 2 { // a scanner's blank inside a word
				s.bounded, s.quality = false, 0
			}
		}
		k := e + 1
		for k < e+3 && n.cell(k) == ' ' {
			k++
		}
		n.beyond(&s, k)
	case isDigit(r):
		s.quality = 2
		n.beyond(&s, e)
	case isLetter(r):
		s.quality = 1
	case r == '·':
	case r == ':' || r == '(' || r == ',' || r == '|' || r == '\t' || r == ';':
		s.bounded, s.quality = true, 3
		n.beyond(&s, e+1)
	default:
		s.bounded, s.quality = true, 3
	}
	return s
}

// beyond looks behind a separator for what stands next to names: numbers, titles, sex.
func (n *namer) beyond(s *rightSide, k int) {
	r := n.cell(k)
	switch {
	case isDigit(r) || r == '+':
		for size := 1; size < 5; size++ {
			if next := n.cell(k + size); next == '岁' && size <= 3 {
				break
			} else if !isDigit(next) {
				return
			}
		}
		s.why |= nearby
	case isHan(r):
		if _, c := n.t.behind(n, k); c&isNear != 0 {
			s.why |= nearby
		}
	}
}

func (n *namer) rightHan(s *rightSide, e int) {
	size, c := n.t.behind(n, e)
	if n.open {
		return
	}
	word := n.wordAt(e)
	r := n.w.at(e)
	switch {
	case word > size && word >= 2:
		s.quality = 2
	case size < 2 && n.nameAt(e) && n.t.surname(r) >= tierUsual && c&isTitle == 0:
		s.why |= cueBehind
		s.quality = 2
	case c&isPlace != 0:
		s.place = true
	case c&isTitle != 0 && size == 1 && n.t.given(n.w.at(e)) > 0 && (n.left().why.any(labelBefore) || !n.left().bounded && !n.left().cued()):
	case c&isTitle != 0:
		s.why |= honorific
		s.quality, s.strong, s.title = 4, true, size
	case c&(isNext|isRelation) != 0 && size >= 2:
		s.why |= cueBehind
		s.quality, s.strong = 3, true
	case c&isNext != 0:
		s.why |= bounded
		s.quality = 2
	case word >= 2:
		s.quality = 2
	case n.nameAt(e):
		s.why |= cueBehind
		s.quality = 2
	}
}

// nameAt reports whether another name seems to begin at k: fused names.
func (n *namer) nameAt(k int) bool {
	if n.t.compound(n.w.at(k), n.cell(k+1)) >= tierUsual {
		return true
	}
	if n.t.surname(n.w.at(k)) < tierUsual || !isHan(n.cell(k+1)) {
		return false
	}
	need := 3
	if first := n.t.first(n.w.at(k)); first&isDistinct != 0 {
		need = 2
	} else if first&isWordy != 0 && n.t.given(n.cell(k+2)) < 2 && isHan(n.w.at(k+2)) {
		return false
	}
	return n.t.given(n.w.at(k+1)) >= need && n.wordAt(k) < 2 && n.wordAt(k+1) < 2
}
