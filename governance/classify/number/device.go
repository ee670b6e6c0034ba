package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// devices finds the numbers of telephones and their cards.
func (n *number) devices(d *finding.Decision) {
	if len(n.digit) < 15 || !d.On.Any(finding.KindsOf(finding.IMEI, finding.ICCID, finding.IMSI)) {
		return
	}
	if inside, v := n.w.digest(n.at[0], n.end(len(n.digit))); v == text.Open || inside {
		d.Open = d.Open || v == text.Open
		return
	}
	if d.On.Has(finding.IMEI) {
		d.Ask(imei(n))
	}
	if d.On.Has(finding.ICCID) {
		d.Ask(iccid(n))
	}
	if d.On.Has(finding.IMSI) {
		d.Ask(imsi(n))
	}
}

// imei finds 15 digits with a right Luhn digit that begin as a body which gives them out begins, or behind a label.
func imei(n *number) (finding.Candidate, text.Verdict) {
	if !n.whole(15) || !Luhn(n.text()[:15]) || len(n.shape(0, 15)) > 5 {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.IMEI, Start: n.at[0], End: n.end(15), Form: -0.25, Evidence: finding.CheckRight}
	switch s := n.text()[:2]; s {
	case "35", "86", "01", "99", "91", "98":
		m.Form = 0.05
		m.Evidence |= finding.IssuerRight
	}
	return n.w.Anchor(m, n.h)
}

// iccid finds the numbers of SIM cards: 89, country, operator, and a Luhn digit that some cards do not print.
func iccid(n *number) (finding.Candidate, text.Verdict) {
	s := n.text()
	if len(s) < 19 || !strings.HasPrefix(s, "89") {
		return finding.Candidate{}, text.No
	}
	for _, size := range []int{20, 19} {
		if !n.whole(size) {
			continue
		}
		m := finding.Candidate{Kind: finding.ICCID, Start: n.at[0], End: n.end(size), Form: 0.1}
		if strings.HasPrefix(s, "8986") {
			m.Evidence |= finding.IssuerRight
		}
		if Luhn(s[:size]) {
			m.Evidence |= finding.CheckRight
		}
		return n.w.Anchor(m, n.h)
	}
	return finding.Candidate{}, text.No
}

// imsi finds 460, an operator, and ten digits.
func imsi(n *number) (finding.Candidate, text.Verdict) {
	s := n.text()
	if !n.whole(15) || !strings.HasPrefix(s, "460") || len(n.shape(0, 15)) > 4 {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.IMSI, Start: n.at[0], End: n.end(15), Form: 0.3}
	switch s[3:5] {
	case "00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "11", "13", "15", "20":
		m.Evidence |= finding.IssuerRight
	}
	return n.w.Anchor(m, n.h)
}

// hexGroups reads hexadecimal digits in groups of a size with one sign between them. A stray blank does not matter.
func (w *Detector) hexGroups(i, size, groups int, sign rune) (end, letters int, v text.Verdict) {
	blanks := 0
	hop := func() bool {
		if text.IsBlank(w.At(i)) && blanks == 0 {
			blanks++
			i++
		}
		return w.At(i) != text.Unknown
	}
	for g := range groups {
		if g > 0 {
			if !hop() {
				return i, 0, text.Open
			}
			if r := w.At(i); r != sign && (sign != '.' || r != '。') {
				return i, g, text.No
			}
			i++
		}
		for k := range size {
			if g+k > 0 && !hop() {
				return i, 0, text.Open
			}
			r := w.At(i)
			if r == text.Unknown {
				return i, 0, text.Open
			}
			if !text.IsHex(r) && text.Misread(r) == 0 {
				return i, 0, text.No
			}
			if !text.IsDigit(r) && text.IsHex(r) {
				letters++
			}
			i++
		}
	}
	return i, letters, text.Yes
}

// mac finds the addresses of network cards: six or eight pairs of hexadecimal digits, or three or four groups of four. Twelve digits
// without signs need a label.
func mac(w *Detector, i int) (finding.Candidate, text.Verdict) {
	left := w.At(i - 1)
	if text.IsLetter(left) && text.Lower(left) == 'c' { // MAC with its value right behind
		if _, size := w.LabelEnding(i, max(0, i-4)); size > 0 {
			left = ' '
		}
	}
	if text.IsAlnum(left) || (left == ':' || left == '-' || left == '.') && w.hexGroupEnds(i-1) {
		return finding.Candidate{}, text.No
	}
	for _, f := range []struct {
		size, groups int
		signs        string
	}{{2, 8, ":-"}, {2, 6, ":-"}, {4, 3, ".-"}} {
		for _, sign := range f.signs {
			end, digits, v := w.hexGroups(i, f.size, f.groups, sign)
			if v == text.Open {
				return finding.Candidate{}, text.Open
			}
			if v == text.No {
				continue
			}
			next, after := w.At(end), w.At(end+1)
			if next == text.Unknown || next == sign && after == text.Unknown {
				return finding.Candidate{}, text.Open
			}
			if text.IsAlnum(next) || next == sign && text.IsHex(after) {
				continue
			}
			m := finding.Candidate{Kind: finding.MAC, Start: i, End: end, Form: 0.9}
			if digits == 0 {
				m.Form = 0.3
			}
			if sign == ':' || f.size == 4 && digits == 1 || f.size == 2 && w.Any(i, end, func(r rune) bool { return r >= '4' }) {
				m.Form = max(m.Form, 0.5)
			}
			return w.Anchor(m, w.Hints(i))
		}
	}
	return finding.Candidate{}, text.No
}

// hexGroupEnds reports whether a group of hexadecimal digits, and no word, ends before cell i.
func (w *Detector) hexGroupEnds(i int) bool {
	k := i
	for k > max(0, i-5) && text.IsHex(w.At(k-1)) {
		k--
	}
	return k < i && !text.IsAlnum(w.At(k-1))
}

// bareMAC finds twelve hexadecimal digits behind a label.
func bareMAC(c *number) (finding.Candidate, text.Verdict) {
	if !c.whole(12) || c.gap(1) || len(c.shape(0, 12)) > 2 || c.w.Any(c.at[0], c.end(12), func(r rune) bool { return text.IsAlnum(r) && !text.IsHex(r) }) {
		return finding.Candidate{}, text.No
	}
	return c.w.Anchor(finding.Candidate{Kind: finding.MAC, Start: c.at[0], End: c.end(12), Form: 0.15}, c.h)
}

// pairAhead reports whether the first group of the address of a network card may stand at cell i: two or four hexadecimal digits and a sign.
func (w *Detector) pairAhead(i int) bool {
	for k := i; k < i+5; k++ {
		r := w.At(k)
		switch {
		case text.IsHex(r) || text.Misread(r) != 0:
			continue
		case r == text.Unknown || text.IsBlank(r):
			return true
		case k == i+2:
			return r == ':' || r == '-'
		case k == i+4:
			return r == '.' || r == '-' || r == '。'
		}
		return false
	}
	return false
}
