package classify

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// country returns the digits of the international prefix for China or of the trunk that n may begin with.
func (n *number) countries(plus bool) []string {
	if plus {
		return trunks[1:2]
	}
	return trunks[:3]
}

var trunks = []string{"0086", "86", "0", ""} //nolint:gochecknoglobals // a constant table

var mobileShapes = [][]int{ //nolint:gochecknoglobals // a constant table
	{11},
	{3, 4, 4},
	{3, 8},
	{7, 4},
	{4, 4, 3},
	{4, 3, 4},
	{3, 3, 5},
	{5, 6},
	{6, 5},
	{3, 4, 2, 2},
	{2, 3, 3, 3},
	{3, 2, 3, 3},
	{3, 3, 3, 2},
	{3, 2, 2, 2, 2},
	{1, 10},
	{1, 3, 3, 4},
	{1, 2, 4, 4},
	{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
	{13},
	{3, 4, 6},
	{5, 4, 4},
	{5, 8},
	{4, 4, 5},
	{3, 5, 5},
	{3, 4, 3, 3},
	{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
}

// mobile finds 1[3-9] and nine digits in a usual grouping, with or without the country code, and the 13 digits of machines. A digit on
// either side of the number makes it another number; any other neighbour does not matter.
func mobile(n *number, first int, plus bool) (match, verdict) {
	if len(n.digit) < 11 {
		return match{}, no
	}
	for k, p := range trunks {
		if plus && k != 1 && p != "" {
			continue
		}
		if !strings.HasPrefix(n.text(), p) || first < n.at[0] && p == "" || p == "0" && (n.w.at(first) == '(' || n.gap(1)) {
			continue
		}
		for _, size := range []int{11, 13} {
			m, ok := n.mobileAt(first, len(p), size)
			if !ok {
				continue
			}
			if p == "86" || p == "0086" || plus {
				m.why |= marked
			}
			if n.h.other(kMobile) && n.h.of&^set(kTicket, kOrder, kParcel) == 0 {
				m.why |= ordinary
			}
			inside, v := n.w.digest(m.start, m.end)
			if v == open || inside {
				return match{}, v & open
			}
			return m, yes
		}
	}
	return match{}, no
}

func (n *number) mobileAt(first, from, size int) (m match, ok bool) {
	to := from + size
	if len(n.digit) < to || n.digit[from] != '1' || n.digit[from+1] < '3' || !n.ends(to) || first < n.at[0] && !n.bracketed(from) {
		return m, false
	}
	m = match{kind: kMobile, start: first, end: n.end(to), form: 0.65}
	if n.w.at(first) == '(' && !n.closedWithin(from) { // around the whole number: no part of it
		m.start++
	}
	known := mobileSegment(n.text()[from:], size)
	switch {
	case size == 13 && !known:
		return m, false
	case size == 13:
		m.form = 0.3
	}
	if known {
		m.why |= issuerRight
	}
	shape := n.shape(from, to)
	if dotted := n.w.any(n.at[from], m.end, func(r rune) bool { return r == '.' }); dotted && !slices.Equal(shape, []int{3, 4, 4}) {
		return m, false // a decimal number, or an address of the Internet
	}
	if goesOn := n.w.at(m.end) == '-' && isDigit(n.w.at(m.end+1)); goesOn && (from == 1 || len(shape) == 2) { // groups of an identifier
		return m, false
	}
	if !usualShape(shape) {
		m.why |= unusual
		if size == 13 && n.h.of.any(set(kMobile, kICCID)) {
			m.form = 0.55
			return m, looseShape(shape)
		}
		return m, known && looseShape(shape) && size == 11
	}
	return m, true
}

// bracketed: a plus or bracket before the digits needs the country code behind it.
func (n *number) bracketed(from int) bool { return from > 0 }

// closedWithin reports whether a closing bracket stands between digits k-1 and k.
func (n *number) closedWithin(k int) bool {
	return k > 0 && k < len(n.at) && n.w.any(n.at[k-1], n.at[k], func(r rune) bool { return r == ')' })
}

func usualShape(shape []int) bool {
	return slices.ContainsFunc(mobileShapes, func(s []int) bool { return slices.Equal(s, shape) })
}

// looseShape allows one break more than usual, which a line end or a stray blank makes.
func looseShape(shape []int) bool {
	if len(shape) == 2 {
		return true
	}
	for k := 1; k < len(shape); k++ {
		joined := append(slices.Clone(shape[:k-1]), shape[k-1]+shape[k])
		if joined = append(joined, shape[k+1:]...); len(joined) <= 3 && usualShape(joined) {
			return true
		}
	}
	return false
}

// national returns the digits of a telephone number as they are dialled inside the country.
func national(k kind, digits string) string {
	s := digits
	if len(s) > 13 || len(s) == 13 && !mobileSegment(s, 13) || k == kLandline {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "00"), "86")
	}
	switch {
	case k == kLandline && len(s) < len(digits) && s != "" && s[0] != '0':
		s = "0" + s
	case k == kMobile && len(s) == 12:
		s = strings.TrimPrefix(s, "0")
	}
	return s
}

// mobileSegment knows which beginnings are in use.
func mobileSegment(s string, size int) bool {
	if size == 13 {
		return s[0] == '1' && s[1] == '4' && strings.IndexByte("01468", s[2]) >= 0
	}
	switch s[1] {
	case '3', '8':
		return true
	case '4':
		return s[2] >= '5'
	case '5':
		return s[2] != '4'
	case '6':
		return strings.IndexByte("2567", s[2]) >= 0
	case '7':
		return s[2] <= '8'
	case '9':
		return s[2] != '4'
	}
	return false
}

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
			if len(shape) > 2 || !n.gap(from+area) && len(shape) > 1 && !landlineShape(shape) && n.digit[0] != '0' {
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
		return end, verdictOr(v, yes)
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

func verdictOr(v, final verdict) verdict {
	if v == open {
		return open
	}
	return final
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
	k, v = w.while(k, 4, func(r rune) bool { return isBlank(r) || strings.ContainsRune(".:：分机号", r) })
	return k, false, v
}
