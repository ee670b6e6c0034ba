package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// landline finds area code and local number; local numbers begin with 2 to 8, which keeps hotlines such as 010-12345 out. An extension
// belongs to it. Local numbers alone need a label.
func landline(n *number, first int, plus bool) (finding.Candidate, text.Verdict) {
	for _, p := range n.countries(plus) {
		if len(n.digit) < 10 {
			break
		}
		if !strings.HasPrefix(n.text(), p) || p == "86" && !plus && !n.gap(2) {
			continue
		}
		from := len(p)
		if p != "0" && from < len(n.digit) && n.digit[from] == '0' { // +86 (0)10
			from++
		}
		m, ok := n.landlineAt(first, from, plus)
		if !ok {
			continue
		}
		if n.h.Other(finding.Landline) && n.h.Of&^finding.KindsOf(finding.Ticket, finding.Order, finding.Parcel) == 0 {
			m.Evidence |= finding.Ordinary
		}
		inside, v := n.w.digest(m.Start, m.End)
		if v == text.Open || inside {
			return finding.Candidate{}, v & text.Open
		}
		m.End, v = n.w.extension(m.End)
		return m, v
	}
	if first < n.at[0] || !n.h.Of.Has(finding.Landline) {
		return finding.Candidate{}, text.No
	}
	return n.local()
}

func (n *number) landlineAt(first, from int, plus bool) (finding.Candidate, bool) {
	area := areaCode(n.text()[from:])
	for _, size := range []int{8, 7} {
		to := from + area + size
		if area == 0 || size == 7 && area == 2 || to > len(n.digit) || n.digit[from+area] < '2' || n.digit[from+area] > '8' || !n.ends(to) {
			continue
		}
		m := finding.Candidate{Kind: finding.Landline, Start: first, End: n.end(to), Form: 0.75}
		if n.w.At(first) == '(' && !n.closedWithin(from) && !n.closedWithin(from+area) {
			m.Start++
		}
		shape := n.shape(from+area, to)
		if !n.gap(from+area) && !plus {
			m.Form = 0.6
		}
		if !landlineShape(shape) || len(n.shape(from, from+area)) > 1 || from > 0 && n.gap(from) && n.digit[from-1] == '0' {
			marked := n.gap(from+area) && (plus || n.digit[0] == '0') // a stray blank besides is no harm
			if len(shape) > 2 && !(marked && onceBroken(shape, landlineShape)) || !n.gap(from+area) && len(shape) > 1 && !landlineShape(shape) && n.digit[0] != '0' {
				continue
			}
			m.Form = 0.5
		}
		return m, true
	}
	return finding.Candidate{}, false
}

// local finds a number without area code behind a label such as 电话：.
func (n *number) local() (finding.Candidate, text.Verdict) {
	if s := n.text(); len(s) == 10 && (s[:3] == "400" || s[:3] == "800") {
		return finding.Candidate{}, text.No // a hotline
	}
	for _, size := range []int{8, 7} {
		if !n.whole(size) || n.digit[0] < '2' || n.digit[0] > '8' || !landlineShape(n.shape(0, size)) && len(n.shape(0, size)) > 2 {
			continue
		}
		m := finding.Candidate{Kind: finding.Landline, Start: n.at[0], End: n.end(size), Form: 0.2}
		if size == 8 {
			m.Form = 0.25
		}
		if size == 8 && n.digit[0] == '2' && validDate(n.text()[:8]) {
			m.Evidence |= finding.Ordinary
		}
		m, v := n.w.Anchor(m, n.h)
		if v == text.Open || m.Score() < finding.Threshold {
			return m, v
		}
		m.End, v = n.w.extension(m.End)
		return m, v
	}
	return finding.Candidate{}, text.No
}

func landlineShape(groups []int) bool {
	return len(groups) == 1 || len(groups) == 2 && groups[0] >= 3 && groups[1] == 4
}

// areaCode returns the length of the area code, without the trunk 0, that s begins with; 0 if none.
func areaCode(s string) int {
	if n, _ := lexicon.AreaCode("0" + s[:min(3, len(s))]); n > 0 {
		return n - 1
	}
	return 0
}

// extension returns the end of a telephone number that ends before cell end, with the extension behind it: 转8012, -8012, ext. 8012.
func (w *Detector) extension(end int) (int, text.Verdict) {
	k, dash, v := w.extensionMark(end)
	if v != text.Yes {
		return end, text.When(v == text.Open, text.Open, text.Yes)
	}
	to, v := w.While(k, 7, func(r rune) bool { return text.IsDigit(r) || text.Misread(r) > 0 })
	if v == text.Open {
		return end, text.Open
	}
	if size := to - k; size < 1 || size > 6 || dash && size > 5 || !w.Any(k, to, text.IsDigit) {
		return end, text.Yes
	}
	if w.At(to) == text.Unknown || text.IsBlank(w.At(to)) && w.At(to+1) == text.Unknown {
		return end, text.Open
	}
	if text.IsBlank(w.At(to)) && text.IsDigit(w.At(to+1)) && to-k < 4 && !dash { // a stray blank inside
		more, v := w.While(to+1, 5, text.IsDigit)
		if v == text.Open {
			return end, text.Open
		}
		if more-k <= 5 {
			to = more
		}
	}
	return to, text.Yes
}

// extensionMark reads what stands between a number and its extension.
func (w *Detector) extensionMark(i int) (k int, dash bool, v text.Verdict) {
	k, v = w.While(i, 2, func(r rune) bool { return text.IsBlank(r) || r == ',' || r == '(' })
	if v == text.Open {
		return i, false, text.Open
	}
	switch r := w.At(k); {
	case r == text.Unknown:
		return i, false, text.Open
	case r == '-' && k == i:
		return k + 1, true, text.Yes
	case r == '转' || r == '轉' || r == '#' && k == i:
		k++
	case r == '分':
		k, v = w.Literal(k, "分机")
	default:
		k, v = w.Literal(k, "ext")
	}
	if v != text.Yes {
		return i, false, v
	}
	k, v = w.While(k, 4, func(r rune) bool { return text.IsBlank(r) || strings.ContainsRune(".。:：分机号", r) })
	return k, false, v
}
