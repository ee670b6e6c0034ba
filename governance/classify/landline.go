package classify

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// landline finds area code and local number; local numbers begin with 2 to 8, which keeps hotlines such as 010-12345 out. An extension
// belongs to it. Local numbers alone need a label.
func landline(n *number, first int, plus bool) (match, verdict) {
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
		if n.h.other(kLandline) && n.h.of&^set(kTicket, kOrder, kParcel) == 0 {
			m.why |= ordinary
		}
		inside, v := n.w.digest(m.start, m.end)
		if v == open || inside {
			return match{}, v & open
		}
		m.end, v = n.w.extension(m.end)
		return m, v
	}
	if first < n.at[0] || !n.h.of.has(kLandline) {
		return match{}, no
	}
	return n.local()
}

func (n *number) landlineAt(first, from int, plus bool) (match, bool) {
	area := areaCode(n.text()[from:])
	for _, size := range []int{8, 7} {
		to := from + area + size
		if area == 0 || size == 7 && area == 2 || to > len(n.digit) || n.digit[from+area] < '2' || n.digit[from+area] > '8' || !n.ends(to) {
			continue
		}
		m := match{kind: kLandline, start: first, end: n.end(to), form: 0.75}
		if n.w.at(first) == '(' && !n.closedWithin(from) && !n.closedWithin(from+area) {
			m.start++
		}
		shape := n.shape(from+area, to)
		if !n.gap(from+area) && !plus {
			m.form = 0.6
		}
		if !landlineShape(shape) || len(n.shape(from, from+area)) > 1 || from > 0 && n.gap(from) && n.digit[from-1] == '0' {
			marked := n.gap(from+area) && (plus || n.digit[0] == '0') // a stray blank besides is no harm
			if len(shape) > 2 && !(marked && onceBroken(shape, landlineShape)) || !n.gap(from+area) && len(shape) > 1 && !landlineShape(shape) && n.digit[0] != '0' {
				continue
			}
			m.form = 0.5
		}
		return m, true
	}
	return match{}, false
}

// local finds a number without area code behind a label such as 电话：.
func (n *number) local() (match, verdict) {
	if s := n.text(); len(s) == 10 && (s[:3] == "400" || s[:3] == "800") {
		return match{}, no // a hotline
	}
	for _, size := range []int{8, 7} {
		if !n.whole(size) || n.digit[0] < '2' || n.digit[0] > '8' || !landlineShape(n.shape(0, size)) && len(n.shape(0, size)) > 2 {
			continue
		}
		m := match{kind: kLandline, start: n.at[0], end: n.end(size), form: 0.2}
		if size == 8 {
			m.form = 0.25
		}
		if size == 8 && n.digit[0] == '2' && validDate(n.text()[:8]) {
			m.why |= ordinary
		}
		m, v := n.w.anchor(m, n.h)
		if v == open || m.score() < threshold {
			return m, v
		}
		m.end, v = n.w.extension(m.end)
		return m, v
	}
	return match{}, no
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
func (w *window) extension(end int) (int, verdict) {
	k, dash, v := w.extensionMark(end)
	if v != yes {
		return end, when(v == open, open, yes)
	}
	to, v := w.while(k, 7, func(r rune) bool { return isDigit(r) || misread(r) > 0 })
	if v == open {
		return end, open
	}
	if size := to - k; size < 1 || size > 6 || dash && size > 5 || !w.any(k, to, isDigit) {
		return end, yes
	}
	if w.at(to) == unknown || isBlank(w.at(to)) && w.at(to+1) == unknown {
		return end, open
	}
	if isBlank(w.at(to)) && isDigit(w.at(to+1)) && to-k < 4 && !dash { // a stray blank inside
		more, v := w.while(to+1, 5, isDigit)
		if v == open {
			return end, open
		}
		if more-k <= 5 {
			to = more
		}
	}
	return to, yes
}

// extensionMark reads what stands between a number and its extension.
func (w *window) extensionMark(i int) (k int, dash bool, v verdict) {
	k, v = w.while(i, 2, func(r rune) bool { return isBlank(r) || r == ',' || r == '(' })
	if v == open {
		return i, false, open
	}
	switch r := w.at(k); {
	case r == unknown:
		return i, false, open
	case r == '-' && k == i:
		return k + 1, true, yes
	case r == '转' || r == '轉' || r == '#' && k == i:
		k++
	case r == '分':
		k, v = w.literal(k, "分机")
	default:
		k, v = w.literal(k, "ext")
	}
	if v != yes {
		return i, false, v
	}
	k, v = w.while(k, 4, func(r rune) bool { return isBlank(r) || strings.ContainsRune(".。:：分机号", r) })
	return k, false, v
}
