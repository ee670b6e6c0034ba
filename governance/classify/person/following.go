package person

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// followingContext is what stands behind a candidate.
type followingContext struct {
	why     finding.Evidence
	quality int
	bounded bool
	strong  bool // a cue of two characters and more, or a title
	place   bool // what goes on makes it a place or a company
	title   int  // length of the title
}

// following looks at what stands behind the cell before e.
func (n *namer) following(e int) (s followingContext) {
	r := n.cell(e)
	switch {
	case r == text.Edge, r == text.Unknown:
		s.bounded, s.quality = true, 3
	case text.IsHan(r):
		n.followingHan(&s, e)
	case r == ' ':
		s.bounded, s.quality = true, 3
		if next := n.cell(e + 1); text.IsHan(next) && n.w.At(e-1) != ' ' {
			pair := [2]rune{n.w.At(e - 1), next}
			if lexicon.Ordinary(pair[:]) == 2 { // a scanner's blank inside a word
				s.bounded, s.quality = false, 0
			}
		}
		k := e + 1
		for k < e+3 && n.cell(k) == ' ' {
			k++
		}
		n.beyondSeparator(&s, k)
	case text.IsDigit(r):
		s.quality = 2
		n.beyondSeparator(&s, e)
	case text.IsLetter(r):
		s.quality = 1
	case r == '·':
	case r == ':' || r == '(' || r == ',' || r == '|' || r == '\t' || r == ';':
		s.bounded, s.quality = true, 3
		n.beyondSeparator(&s, e+1)
	default:
		s.bounded, s.quality = true, 3
	}
	return s
}

// beyondSeparator looks behind a separator for what stands next to names: numbers, titles, sex.
func (n *namer) beyondSeparator(s *followingContext, k int) {
	r := n.cell(k)
	switch {
	case text.IsDigit(r) || r == '+':
		for size := 1; size < 5; size++ {
			if next := n.cell(k + size); next == '岁' && size <= 3 {
				break
			} else if !text.IsDigit(next) {
				return
			}
		}
		s.why |= finding.Nearby
	case text.IsHan(r):
		if _, c := n.t.behind(n, k); c&isNear != 0 {
			s.why |= finding.Nearby
		}
	}
}

func (n *namer) followingHan(s *followingContext, e int) {
	size, c := n.t.behind(n, e)
	if n.open {
		return
	}
	word := n.wordAt(e)
	r := n.w.At(e)
	switch {
	case word > size && word >= 2:
		s.quality = 2
	case size < 2 && n.nameAt(e) && n.t.surname(r) >= tierUsual && c&isTitle == 0:
		s.why |= finding.CueBehind
		s.quality = 2
	case c&isPlace != 0:
		s.place = true
	case c&isTitle != 0 && size == 1 && n.t.given(n.w.At(e)) > 0 && (n.preceding().why.Any(finding.LabelBefore) || !n.preceding().bounded && !n.preceding().cued()):
	case c&isTitle != 0:
		s.why |= finding.Honorific
		s.quality, s.strong, s.title = 4, true, size
	case c&(isNext|isRelation) != 0 && size >= 2:
		s.why |= finding.CueBehind
		s.quality, s.strong = 3, true
	case c&isNext != 0:
		s.why |= finding.Bounded
		s.quality = 2
	case word >= 2:
		s.quality = 2
	case n.nameAt(e):
		s.why |= finding.CueBehind
		s.quality = 2
	}
}

// nameAt reports whether another name seems to begin at k: fused names.
func (n *namer) nameAt(k int) bool {
	if n.t.compound(n.w.At(k), n.cell(k+1)) >= tierUsual {
		return true
	}
	if n.t.surname(n.w.At(k)) < tierUsual || !text.IsHan(n.cell(k+1)) {
		return false
	}
	need := 3
	if first := n.t.first(n.w.At(k)); first&isDistinct != 0 {
		need = 2
	} else if first&isWordy != 0 && n.t.given(n.cell(k+2)) < 2 && text.IsHan(n.w.At(k+2)) {
		return false
	}
	return n.t.given(n.w.At(k+1)) >= need && n.wordAt(k) < 2 && n.wordAt(k+1) < 2
}
