package number

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// country returns the digits of the international prefix for China or of the trunk that n may begin with.
func (n *number) countries(plus bool) []string {
	if plus {
		return trunks[1:2]
	}
	return trunks[:3]
}

var trunks = []string{"0086", "86", "0", ""}

var mobileShapes = [][]int{
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
func mobile(n *number, first int, plus bool) (finding.Candidate, text.Verdict) {
	if len(n.digit) < 11 {
		return finding.Candidate{}, text.No
	}
	for k, p := range trunks {
		if plus && k != 1 && p != "" {
			continue
		}
		if !strings.HasPrefix(n.text(), p) || first < n.at[0] && p == "" || p == "0" && (n.w.At(first) == '(' || n.gap(1)) {
			continue
		}
		for _, size := range n.mobileSizes(len(p)) {
			m, ok := n.mobileAt(first, len(p), size)
			if !ok {
				continue
			}
			if p == "86" || p == "0086" || plus {
				m.Evidence |= finding.Marked
			}
			if n.h.Other(finding.Mobile) && n.h.Of&^finding.KindsOf(finding.Ticket, finding.Order, finding.Parcel) == 0 {
				m.Evidence |= finding.Ordinary
			}
			counts, v := n.counts(m.End)
			if v == text.Open {
				return finding.Candidate{}, text.Open
			}
			if counts {
				m.Evidence |= finding.Ordinary
			}
			inside, v := n.w.digest(m.Start, m.End)
			if v == text.Open || inside {
				return finding.Candidate{}, v & text.Open
			}
			return m, text.Yes
		}
	}
	return finding.Candidate{}, text.No
}

// counts reports whether a number without a label that ends before cell i says how many of something there were: 次 or 条 at the end of a clause.
func (n *number) counts(i int) (bool, text.Verdict) {
	r, next := n.w.At(i), n.w.At(i+1)
	if r == text.Unknown || (r == '次' || r == '条') && next == text.Unknown {
		return false, text.Open
	}
	return (r == '次' || r == '条') && !(n.h.Found && n.h.Tight) && (next == text.Edge || text.IsBlank(next) || next > 0 && strings.ContainsRune(",、。;?!)", next)), text.Yes
}

// abroad finds the mobile numbers of Hong Kong, Macau and Taiwan with their countries' codes.
func abroad(n *number, first int, plus bool) (finding.Candidate, text.Verdict) {
	if len(n.digit) < 11 {
		return finding.Candidate{}, text.No
	}
	s := n.text()
	if !plus {
		if !strings.HasPrefix(s, "00") {
			return finding.Candidate{}, text.No
		}
		s = s[2:]
	}
	size := 11
	switch {
	case len(s) < 11:
		return finding.Candidate{}, text.No
	case s[:3] == "852" && s[3] >= '4', s[:4] == "8536":
	case s[:4] == "8869" && len(s) > 11:
		size = 12
	default:
		return finding.Candidate{}, text.No
	}
	if size += len(n.digit) - len(s); !n.whole(size) || len(n.shape(0, size)) > 5 {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Mobile, Start: first, End: n.end(size), Form: 0.65}, text.Yes
}

// mobileSizes are 11 digits and the 13 of machines, these first where only they begin so.
func (n *number) mobileSizes(from int) [2]int {
	if s := n.text()[from:]; len(s) >= 13 && mobileSegment(s, 13) && !mobileSegment(s, 11) {
		return [2]int{13, 11}
	}
	return [2]int{11, 13}
}

func (n *number) mobileAt(first, from, size int) (m finding.Candidate, ok bool) {
	to := from + size
	if len(n.digit) < to || n.digit[from] != '1' || n.digit[from+1] < '3' || !n.ends(to) || first < n.at[0] && !n.bracketed(from) {
		return m, false
	}
	m = finding.Candidate{Kind: finding.Mobile, Start: first, End: n.end(to), Form: 0.65}
	if n.w.At(first) == '(' && !n.closedWithin(from) { // around the whole number: no part of it
		m.Start++
	}
	known := mobileSegment(n.text()[from:], size)
	switch {
	case size == 13 && !known:
		return m, false
	case size == 13:
		m.Form = 0.3
	}
	if known {
		m.Evidence |= finding.IssuerRight
	}
	shape := n.shape(from, to)
	if dotted := n.w.Any(n.at[from], m.End, func(r rune) bool { return r == '.' }); dotted && !slices.Equal(shape, []int{3, 4, 4}) {
		if !onceBroken(shape, func(s []int) bool { return slices.Equal(s, []int{3, 4, 4}) }) {
			return m, false // a decimal number, or an address of the Internet
		}
	}
	if goesOn := n.w.At(m.End) == '-' && text.IsDigit(n.w.At(m.End+1)); goesOn && (from == 1 || len(shape) == 2 && n.w.Any(n.at[from], m.End, func(r rune) bool { return r == '-' })) { // groups of an identifier
		return m, false
	}
	if !usualShape(shape) {
		m.Evidence |= finding.Unusual
		if size == 13 && n.h.Of.Any(finding.KindsOf(finding.Mobile, finding.ICCID)) {
			m.Form = 0.55
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
	return k > 0 && k < len(n.at) && n.w.Any(n.at[k-1], n.at[k], func(r rune) bool { return r == ')' })
}

func usualShape(shape []int) bool {
	return slices.ContainsFunc(mobileShapes, func(s []int) bool { return slices.Equal(s, shape) })
}

// looseShape allows one break more than usual, which a line end or a stray blank makes.
func looseShape(shape []int) bool {
	return len(shape) == 2 || onceBroken(shape, func(s []int) bool { return len(s) <= 3 && usualShape(s) })
}

// onceBroken reports whether groups fit where two neighbours are taken for one.
func onceBroken(groups []int, fits func([]int) bool) bool {
	for k := 1; k < len(groups); k++ {
		joined := append(slices.Clone(groups[:k-1]), groups[k-1]+groups[k])
		if fits(append(joined, groups[k+1:]...)) {
			return true
		}
	}
	return false
}

// National returns the digits of a telephone number as they are dialled inside the country.
func National(k finding.Kind, digits string) string {
	s := digits
	if len(s) > 13 || len(s) == 13 && !mobileSegment(s, 13) || k == finding.Landline {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "00"), "86")
	}
	switch {
	case k == finding.Landline && len(s) < len(digits) && s != "" && s[0] != '0':
		s = "0" + s
	case k == finding.Mobile && len(s) == 12:
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
