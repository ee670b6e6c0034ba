package person

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// judge asks the model about a candidate. The words around are read when a glance does not say enough.
func (n *namer) judge(h *hanRun, c *shape) (candidate, bool) {
	v, m := n.observe(h, c), nameWeights()
	odds := m.odds(&v.o, 0, firstNeighbour)
	if n.open || odds < unlikely && v.dismissed(odds) || n.isTerm(c) {
		return candidate{}, false
	}
	left := n.preceding()
	v.contextBefore = left
	v.observeNeighbours()
	odds += m.odds(&v.o, firstNeighbour, firstContext)
	if n.open || odds < hopelessCued && !left.delimited && (odds < hopeless || left.cued() && !v.titled()) {
		return candidate{}, false
	}
	if n.w.around.n == 0 {
		n.w.around.fill(n)
	}
	if !n.open {
		v.observeContext()
	}
	if n.open {
		return candidate{}, false
	}
	odds += m.odds(&v.o, firstContext, features) - enough
	if left.strong && left.delimited && v.contextAfter.bounded && c.form <= twoGiven && !n.label && c.kind == 0 {
		odds = max(odds, 0) + 1000 // 姓名：关东, all of it
	}
	if left.delimited && c.form == addressed && c.kind&isPolite != 0 {
		odds = max(odds, 0) // 当事人：邹女士
	}
	found := finding.Candidate{Kind: finding.Person, Start: n.start, End: v.end, Title: max(v.contextAfter.title, c.title), Evidence: left.why | v.contextAfter.why}
	found.Form = sure(odds) - finding.Weigh(0, found.Evidence)
	return candidate{m: found, odds: odds}, true
}

// dismissed reports whether odds by the characters alone, below unlikely, are too bad for what stands around: in the middle of other text, with no
// title behind, and without a cue before unless they are worse still.
func (v *observer) dismissed(odds int) bool {
	if v.c.form == addressed || !text.IsHan(v.before) && !text.IsHan(v.behind) {
		return false
	}
	left := v.namer.preceding()
	return (!left.cued() || odds < unheard && !left.delimited) && !v.titled()
}

// titled reports whether a title stands right behind the candidate.
func (v *observer) titled() bool {
	_, cue := v.t.behind(v.namer, v.end)
	return cue&isTitle != 0
}

// sure makes a score of odds: the threshold where they are enough, the closer to 1 the better they are.
func sure(odds int) float64 {
	if odds < 0 {
		return max(finding.Threshold+float64(odds)/1000, 0)
	}
	return 1 - finding.Threshold/(1+float64(odds)/200)
}

// distinct reports whether the surname hardly begins an ordinary word.
func (n *namer) distinct() bool { return n.t.first(n.w.At(n.start))&isDistinct != 0 }

// wordy reports whether the character at the start begins many ordinary words.
func (n *namer) wordy() bool { return n.t.first(n.w.At(n.start))&isWordy != 0 }

func (n *namer) tierOf(h *hanRun, size int) int {
	if size == 2 {
		if t := n.t.compound(h.r[0], h.r[1]); t != 0 {
			return t
		}
	}
	return n.t.surname(h.r[0])
}

// givenTier returns how usual the rarest character of the given name is; double: both are the same.
func (n *namer) givenTier(h *hanRun, size, total int) (low int, double bool) {
	if total-size == 1 {
		low = n.t.given(h.r[size])
		if n.t.first(h.r[size])&isThing != 0 && !n.distinct() {
			low = min(low, 2)
		}
		return low, false
	}
	a, b := n.t.given(h.r[size]), n.t.given(h.r[size+1])
	double = h.r[size] == h.r[size+1]
	switch {
	case a+b >= 5, double && a > 0, n.t.isGiven(h, size, total):
		return 3, double
	case a+b == 4:
		return 2, double
	}
	return min(a, b), double
}
