package address

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

var lines = text.ListOf("线")

// form is what head and tail score by themselves.
func (t *tail) form(kind placeSort) float64 {
	named := t.end > 1
	if named && t.plain(0, t.end) {
		named, kind = false, other
		if t.groups == 1 {
			return 0
		}
	}
	switch {
	case t.groups > 1 && t.doors > 0 && (t.flat || kind != other || t.tower && named), t.chain > 2 && named:
		return 0.3
	case kind == region && t.deep && t.groups > 1:
		return 0.3
	case kind == road && (t.first == gate || t.first == door):
		if t.any(t.k, lines) > 0 {
			return 0
		}
		return 0.3
	case kind == village && t.first != bareUnit, kind == estate && (t.first == door || t.first == gate && t.at(t.end) != '一'):
		return 0.3
	case kind == region && t.first == door, kind != other && t.groups > 1, t.chain > 1 && kind != other:
		return 0.3
	case t.chain > 2:
		return 0.1
	case named && t.doors > 0:
		return 0.15
	case t.doors > 0:
		return 0.05
	case kind != other:
		return 0.1
	}
	return 0
}

// worded reports whether the last name of the head is an ordinary word, such as 新建.
func (h *head) worded() bool {
	n := h.end - h.last
	return n > 1 && n < 4 && lexicon.Ordinary(h.r[h.last:h.end]) == n
}

// inside reports whether the head names a part of an institution.
func (h *head) inside() bool {
	for k := range h.end {
		if h.any(k, insideWords) > 0 {
			return true
		}
	}
	return false
}

// coarse takes an address without a number, and returns the place behind it. A label is enough for a row of names; behind a cue they
// must go down to a road, a village or an estate; without either to a village below a town.
func (h *head) coarse(m *finding.Candidate) int {
	if h.end < 2 || !text.IsHan(h.at(0)) {
		return 0
	}
	cue := h.table.before(h.w, m.Start)
	m.Evidence |= cue.why
	if m.Evidence == 0 && (h.last < 6 || !h.hamlet(h.last) && !h.alone()) {
		return 0
	}
	from, kind := 0, h.sort(h.last)
	for m.Evidence == 0 && kind == village && from < h.last-6 && !h.formal(from) { // verbs and names of people may stand before it
		from++
	}
	to, n := h.divisions(from, h.end)
	end := max(h.last, to)
	switch {
	case kind == estate && h.plain(0, h.last):
		return 0
	case m.Evidence&finding.LabelBefore != 0 && (n > 1 || kind != other && h.last > 2 && h.last > to || n > 0 && to > 3):
		m.Form = 0.15
		if !text.IsHan(h.at(h.end)) {
			end = h.end
		}
	case m.Evidence&finding.CueBefore != 0 && (kind == estate && h.last > 2 && cue.home || n > 0 && end > to && kind != other):
		m.Form = 0.3
	case n > 0 && h.town(to) && (kind == village || kind != other && kind != region && h.alone()):
		m.Form = 0.5
		m.Start = h.cell[from]
	default:
		return 0
	}
	return end
}

// formal reports whether the full name of a division stands at place k of the head.
func (h *head) formal(k int) bool {
	n, _, short := lexicon.Division(h.r[k:h.last])
	return n > 0 && !short
}

// plain reports whether the places [from, end) hold a kind of estate and nothing else.
func (h *head) plain(from, end int) bool {
	for _, word := range plainWords.Words {
		if runes(word) == end-from && h.has(from, word) {
			return true
		}
	}
	return false
}

// alone reports whether the head stands between what is no name, as in a table.
func (h *head) alone() bool {
	return h.end == h.last && !text.IsHan(h.at(h.end)) && !text.IsHan(h.w.At(h.cell[0]-1))
}

// hamlet reports whether what ends at place k could be a village.
func (h *head) hamlet(k int) bool {
	switch h.r[k-1] {
	case '村', '屯', '庄', '寨', '查':
		return true
	}
	return false
}

// town reports whether a name of a town ends behind place k of the head.
func (h *head) town(k int) bool {
	for k += 2; k < h.last; k++ {
		if r := h.at(k); r == '镇' || r == '乡' || r == '鎮' || r == '鄉' || r == '道' && h.at(k-1) == '街' {
			return true
		}
	}
	return false
}

// ordinary reports whether an ordinary word begins at place k.
func (h *head) ordinary(k, end int) bool {
	return lexicon.Ordinary(h.r[k:end]) > 0
}
