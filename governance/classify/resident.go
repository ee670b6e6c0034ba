package classify

import "github.com/sluice-project/sluice/governance/classify/lexicon"

// identities finds the numbers of persons that are made of digits.
func (d *decision) identities(n *number) {
	if len(n.digit) < 15 {
		return
	}
	if d.on.has(kResidentID) {
		d.ask(residentID(n))
	}
	if d.on.has(kForeignPermit) {
		d.ask(foreignPermit(n))
	}
	if d.on.has(kBusinessLicence) {
		d.ask(businessLicence(n))
	}
}

// residentID finds 18-character resident identity numbers by region, date and check character. A wrong check character (a typing
// error) and the old 15-digit form need a word that points at them.
func residentID(n *number) (match, verdict) {
	s := n.text()
	if len(s) < 15 || !isProvinceCode(s) || s[0] == '8' && !isRegion(s) {
		return match{}, no
	}
	end, body, v := n.residentBody()
	if v == open {
		return match{}, open
	}
	m := match{kind: kResidentID, start: n.at[0], end: end, form: 0.3}
	if isRegion(s) {
		m.why |= regionRight
	}
	switch {
	case end > 0 && validDate(body[6:14]):
		m.why |= dateRight
		if residentCheck(body[:17]) == body[17] {
			m.why |= checkRight
			return m, yes
		}
		m.why |= checkWrong
	case n.whole(15) && validDate("19"+s[6:12]):
		m.end, m.form = n.end(15), 0.2
		m.why |= dateRight
	default:
		return match{}, no
	}
	return n.w.anchor(m, n.h)
}

// residentBody returns the 18 characters if the number has that length, alone or as 17 digits and an X.
func (n *number) residentBody() (end int, body string, v verdict) {
	s := n.text()
	if n.whole(18) {
		return n.end(18), s[:18], yes
	}
	if !n.whole(17) {
		return 0, "", yes
	}
	x := n.end(17)
	for range 3 {
		if isSeparator(n.w.at(x)) || n.w.at(x) == '\n' {
			x++
		}
	}
	r, next := n.w.at(x), n.w.at(x+1)
	sign := lower(r) == 'x' || r == '×'
	if r == unknown || sign && next == unknown {
		return 0, "", open
	}
	if !sign || isAlnum(next) {
		return 0, "", yes
	}
	return x + 1, s[:17] + "X", yes
}

func residentCheck(s string) byte {
	sum, weight := 0, 1
	for i := 16; i >= 0; i-- { // the weights are powers of two modulo 11
		weight = weight * 2 % 11
		sum += int(s[i]-'0') * weight
	}
	return "10X98765432"[sum%11]
}

// foreignPermit finds the new numbers of foreigners with permanent residence: 9, province, country, date of birth, sequence, check.
func foreignPermit(n *number) (match, verdict) {
	s := n.text()
	if len(s) < 17 || s[0] != '9' {
		return match{}, no
	}
	end, body, v := n.residentBody()
	if v == open {
		return match{}, open
	}
	if end == 0 || !validDate(body[6:14]) {
		return match{}, no
	}
	m := match{kind: kForeignPermit, start: n.at[0], end: end, form: 0.3, why: dateRight}
	if residentCheck(body[:17]) == body[17] && isProvinceCode(body[1:]) {
		m.why |= checkRight
		return m, yes
	}
	m.why |= checkWrong
	return n.w.anchor(m, n.h)
}

// oldForeignPermit finds the old numbers: three letters of the country and twelve digits, of which six are a date.
func oldForeignPermit(c *number) (match, verdict) {
	if !c.whole(15) || c.count(15) < 11 || !c.isDigitAt(3) {
		return match{}, no
	}
	letters := 0
	for k := range 3 { // O and I may have been read as digits
		if c.isLetterAt(k) {
			letters++
		} else if c.digit[k] > '1' {
			return match{}, no
		}
	}
	if letters < 2 {
		return match{}, no
	}
	m := match{kind: kForeignPermit, start: c.at[0], end: c.end(15), form: 0.25}
	if s := string(c.digit[3:15]); c.count(15) == 12 && (validDate("19"+s[4:10]) || validDate("20"+s[4:10])) {
		m.why |= dateRight
	}
	return c.w.anchor(m, c.h)
}

// businessLicence finds the old registration numbers of businesses: region, eight digits, check digit. Where the region or the check does not
// fit, a word has to point at them.
func businessLicence(n *number) (match, verdict) {
	if !n.whole(15) {
		return match{}, no
	}
	s := n.text()[:15]
	m := match{kind: kBusinessLicence, start: n.at[0], end: n.end(15), form: 0.3, why: checkWrong}
	if isRegion(s) || s[2:6] == "0000" && (isProvinceCode(s) || s[:2] == "10") { // offices of the provinces and of the state registered, too
		m.why |= regionRight
	}
	if mod1110(s) {
		m.why ^= checkRight | checkWrong
		m.form = -0.25 // the check alone says too little
		if m.why&regionRight != 0 {
			m.form = -0.1
		}
		if n.h.near.has(kBusinessLicence) { // whatever stands nearer: 执照的档案号
			m.why |= cueBefore
			return m, yes
		}
	}
	return n.w.anchor(m, n.h)
}

// mod1110 is the check of ISO 7064, MOD 11,10.
func mod1110(s string) bool {
	p := 10
	for i := range len(s) - 1 {
		if p = (p + int(s[i]-'0')) % 10; p == 0 {
			p = 10
		}
		p = p * 2 % 11
	}
	return (p+int(s[len(s)-1]-'0'))%10 == 1
}

// isRegion knows the region codes in use and those withdrawn.
func isRegion(s string) bool { return len(s) >= 6 && lexicon.Region(s[:6]) }

// isProvinceCode knows the first two digits of regions, and of the residence permits of Hong Kong, Macau and Taiwan people.
func isProvinceCode(s string) bool { return len(s) >= 2 && lexicon.ProvinceCode(s[:2]) }

func decimal(s string) int {
	v := 0
	for i := range len(s) {
		v = v*10 + int(s[i]-'0')
	}
	return v
}

func validDate(s string) bool { // yyyymmdd
	y, m, d := decimal(s[:4]), decimal(s[4:6]), decimal(s[6:8])
	if y < 1900 || y > 2099 || m < 1 || m > 12 || d < 1 {
		return false
	}
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[m-1]
	if m == 2 && (y%4 == 0 && y%100 != 0 || y%400 == 0) {
		days = 29
	}
	return d <= days
}
