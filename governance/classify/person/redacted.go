package person

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// formal finds what is a name without a given name: 王某, 李某某, 张某甲, 王××, 赵*.
func (n *namer) formal(size int) (finding.Candidate, bool) {
	k := n.start + size
	m := finding.Candidate{Kind: finding.Person, Start: n.start, End: k, Form: 0.2}
	tier := n.t.surname(n.w.At(n.start))
	if size == 2 {
		tier = tierCommon
	}
	r := n.cell(k)
	switch {
	case r == text.Unknown, r == text.Edge:
		return finding.Candidate{}, false
	case r == '某' && tier != tierNone:
		return n.some(m, k+1, tier)
	case isHidden(r):
		return n.hidden(m, k, tier)
	case r == ' ', r == '\n':
		if r = n.cell(k + 1); r == '某' && tier != tierNone {
			return n.some(m, k+2, tier)
		}
	}
	return finding.Candidate{}, false
}

// surnameOnly finds a surname that stands for itself: 我姓谭, 经办：郭.
func (n *namer) surnameOnly(size int) (finding.Candidate, bool) {
	end := n.start + size
	next := n.cell(end)
	left := n.preceding()
	if n.open {
		return finding.Candidate{}, false
	}
	m := finding.Candidate{Kind: finding.Person, Start: n.start, End: end, Form: 0.2, Evidence: left.why | finding.Bounded}
	if n.w.At(n.start-1) == '姓' && n.start >= 2 && !text.IsHan(next) {
		if b := n.w.At(n.start - 2); b != '百' && b != '老' && b != '同' && b != '贵' {
			m.Form = 0.6
			return m, true
		}
	}
	for k := end; next == ' ' && k < end+3; k++ {
		next = n.cell(k + 1)
	}
	plain := next == text.Edge || next == '/' || next == ';' || next == '(' || next == ',' || next == '\n' || text.IsHan(next) && n.cell(end) == ' '
	return m, left.delimited && left.why.Any(finding.LabelBefore) && plain && n.t.surname(n.w.At(n.start)) >= tierUsual && !n.open
}

// some takes 某 and what belongs to it.
func (n *namer) some(m finding.Candidate, k, tier int) (finding.Candidate, bool) {
	m.Form = 0.6
	r := n.cell(k)
	if r == ' ' && (n.cell(k+1) == '某' || n.t.stem(n.w.At(k+1)) || text.IsDigit(n.w.At(k+1))) { // a scanner's blank
		k++
		r = n.cell(k)
	}
	if (tier < tierUsual || n.wordy()) && (n.crossed() || tier == tierWord && r != '某' && !n.t.stem(r) && !text.IsDigit(r) && !n.preceding().why.Any(finding.LabelBefore|finding.Titled)) {
		return finding.Candidate{}, false
	}
	if size, c := n.t.behind(n, k); c&isThingOf != 0 && size > 0 && !n.preceding().cued() { // 某种, 某个
		return finding.Candidate{}, false
	}
	switch {
	case r == '某':
		k++
	case n.t.stem(r), text.IsDigit(r) && !text.IsDigit(n.cell(k+1)), text.IsLetter(r) && !text.IsLetter(n.cell(k+1)):
		k++
	case text.IsHan(r) && n.t.given(r) >= 2 && n.w.At(k) != text.Unknown:
		// 王某明, unless a word begins there
		if n.wordAt(k) < 2 {
			if _, c := n.t.behind(n, k); c == 0 {
				k++
			}
		}
	}
	m.End = k
	return m, true
}

func isHidden(r rune) bool {
	switch r {
	case '*', '×', 'X', 'x', '○', '〇', '□', '■', '?', '_', '✕', '╳', '●', 'Ｘ':
		return true
	}
	return false
}

// hidden takes the marks that stand for the given name.
func (n *namer) hidden(m finding.Candidate, k, tier int) (finding.Candidate, bool) {
	mark := n.w.At(k)
	end := k + 1
	for end < k+3 && n.cell(end) == mark {
		end++
	}
	if end == k+1 && text.IsHan(n.cell(end)) && mark != 'x' && mark != 'X' && mark != '?' && mark != '_' && n.t.given(n.w.At(end)) >= 2 {
		if _, c := n.t.behind(n, end); c == 0 && n.wordAt(end) < 2 { // 王*明
			end++
		}
	}
	next := n.cell(end)
	left := n.preceding()
	if n.open || text.IsAlnum(next) || next == mark || tier < tierRare || tier == tierWord && !left.delimited {
		return finding.Candidate{}, false
	}
	if !left.bounded && !left.cued() || n.crossed() && !left.why.Any(finding.LabelBefore) {
		return finding.Candidate{}, false
	}
	if (mark == '_' || mark == '?') && !left.delimited {
		return finding.Candidate{}, false
	}
	m.End, m.Form = end, 0.5
	m.Evidence |= left.why
	return m, true
}
