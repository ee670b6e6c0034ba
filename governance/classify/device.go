package classify

import "strings"

// devices finds the numbers of telephones and their cards.
func (d *decision) devices(n *number) {
	if len(n.digit) < 15 || !d.on.any(set(kIMEI, kICCID, kIMSI)) {
		return
	}
	if inside, v := n.w.digest(n.at[0], n.end(len(n.digit))); v == open || inside {
		d.open = d.open || v == open
		return
	}
	if d.on.has(kIMEI) {
		d.ask(imei(n))
	}
	if d.on.has(kICCID) {
		d.ask(iccid(n))
	}
	if d.on.has(kIMSI) {
		d.ask(imsi(n))
	}
}

// imei finds 15 digits with a right Luhn digit that begin as a body which gives them out begins, or behind a label.
func imei(n *number) (match, verdict) {
	if !n.whole(15) || !luhn(n.text()[:15]) || len(n.shape(0, 15)) > 5 {
		return match{}, no
	}
	m := match{kind: kIMEI, start: n.at[0], end: n.end(15), form: -0.25, why: checkRight}
	switch s := n.text()[:2]; s {
	case "35", "86", "01", "99", "91", "98":
		m.form = 0.05
		m.why |= issuerRight
	}
	return n.w.anchor(m, n.h)
}

// iccid finds the numbers of SIM cards: 89, country, operator, and a Luhn digit that some cards do not print.
func iccid(n *number) (match, verdict) {
	s := n.text()
	if len(s) < 19 || !strings.HasPrefix(s, "89") {
		return match{}, no
	}
	for _, size := range []int{20, 19} {
		if !n.whole(size) {
			continue
		}
		m := match{kind: kICCID, start: n.at[0], end: n.end(size), form: 0.1}
		if strings.HasPrefix(s, "8986") {
			m.why |= issuerRight
		}
		if luhn(s[:size]) {
			m.why |= checkRight
		}
		return n.w.anchor(m, n.h)
	}
	return match{}, no
}

// imsi finds 460, an operator, and ten digits.
func imsi(n *number) (match, verdict) {
	s := n.text()
	if !n.whole(15) || !strings.HasPrefix(s, "460") || len(n.shape(0, 15)) > 4 {
		return match{}, no
	}
	m := match{kind: kIMSI, start: n.at[0], end: n.end(15), form: 0.3}
	switch s[3:5] {
	case "00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "11", "13", "15", "20":
		m.why |= issuerRight
	}
	return n.w.anchor(m, n.h)
}

// hexGroups reads hexadecimal digits in groups of a size with one sign between them. A stray blank does not matter.
func (w *window) hexGroups(i, size, groups int, sign rune) (end, letters int, v verdict) {
	blanks := 0
	hop := func() bool {
		if isBlank(w.at(i)) && blanks == 0 {
			blanks++
			i++
		}
		return w.at(i) != unknown
	}
	for g := range groups {
		if g > 0 {
			if !hop() {
				return i, 0, open
			}
			if r := w.at(i); r != sign && (sign != '.' || r != '。') {
				return i, g, no
			}
			i++
		}
		for k := range size {
			if g+k > 0 && !hop() {
				return i, 0, open
			}
			r := w.at(i)
			if r == unknown {
				return i, 0, open
			}
			if !isHex(r) && misread(r) == 0 {
				return i, 0, no
			}
			if !isDigit(r) && isHex(r) {
				letters++
			}
			i++
		}
	}
	return i, letters, yes
}

// mac finds the addresses of network cards: six or eight pairs of hexadecimal digits, or three or four groups of four. Twelve digits
// without signs need a label.
func mac(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	if isLetter(left) && lower(left) == 'c' { // MAC with its value right behind
		if _, size := w.labelEnding(i, max(0, i-4)); size > 0 {
			left = ' '
		}
	}
	if isAlnum(left) || (left == ':' || left == '-' || left == '.') && w.hexGroupEnds(i-1) {
		return match{}, no
	}
	for _, f := range []struct {
		size, groups int
		signs        string
	}{{2, 8, ":-"}, {2, 6, ":-"}, {4, 3, ".-"}} {
		for _, sign := range f.signs {
			end, digits, v := w.hexGroups(i, f.size, f.groups, sign)
			if v == open {
				return match{}, open
			}
			if v == no {
				continue
			}
			next, after := w.at(end), w.at(end+1)
			if next == unknown || next == sign && after == unknown {
				return match{}, open
			}
			if isAlnum(next) || next == sign && isHex(after) {
				continue
			}
			m := match{kind: kMAC, start: i, end: end, form: 0.9}
			if digits == 0 {
				m.form = 0.3
			}
			if sign == ':' || f.size == 4 && digits == 1 || f.size == 2 && w.any(i, end, func(r rune) bool { return r >= '4' }) {
				m.form = max(m.form, 0.5)
			}
			return w.anchor(m, w.hints(i))
		}
	}
	return match{}, no
}

// hexGroupEnds reports whether a group of hexadecimal digits, and no word, ends before cell i.
func (w *window) hexGroupEnds(i int) bool {
	k := i
	for k > max(0, i-5) && isHex(w.cells[k-1].r) {
		k--
	}
	return k < i && !isAlnum(w.at(k-1))
}

// bareMAC finds twelve hexadecimal digits behind a label.
func bareMAC(c *number) (match, verdict) {
	if !c.whole(12) || c.gap(1) || len(c.shape(0, 12)) > 2 || c.w.any(c.at[0], c.end(12), func(r rune) bool { return isAlnum(r) && !isHex(r) }) {
		return match{}, no
	}
	return c.w.anchor(match{kind: kMAC, start: c.at[0], end: c.end(12), form: 0.15}, c.h)
}
