package number

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// identities finds the numbers of persons that are made of digits.
func (n *number) identities(d *finding.Decision) {
	if len(n.digit) < 15 {
		return
	}
	if d.On.Has(finding.ResidentID) {
		d.Ask(residentID(n))
	}
	if d.On.Has(finding.ForeignPermit) {
		d.Ask(foreignPermit(n))
	}
	if d.On.Has(finding.BusinessLicence) {
		d.Ask(businessLicence(n))
	}
}

// residentID finds 18-character resident identity numbers by region, date and check character. A wrong check character (a typing
// error) and the old 15-digit form need a word that points at them.
func residentID(n *number) (finding.Candidate, text.Verdict) {
	s := n.text()
	if len(s) < 15 || !isProvinceCode(s) || s[0] == '8' && !isRegion(s) {
		return finding.Candidate{}, text.No
	}
	end, body, v := n.residentBody()
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	m := finding.Candidate{Kind: finding.ResidentID, Start: n.at[0], End: end, Form: 0.3}
	if isRegion(s) {
		m.Evidence |= finding.RegionRight
	}
	switch {
	case end > 0 && validDate(body[6:14]):
		m.Evidence |= finding.DateRight
		if residentCheck(body[:17]) == body[17] {
			m.Evidence |= finding.CheckRight
			return m, text.Yes
		}
		m.Evidence |= finding.CheckWrong
	case n.whole(15) && validDate("19"+s[6:12]):
		m.End, m.Form = n.end(15), 0.2
		m.Evidence |= finding.DateRight
	default:
		return finding.Candidate{}, text.No
	}
	return n.w.Anchor(m, n.h)
}

// residentBody returns the 18 characters if the number has that length, alone or as 17 digits and an X.
func (n *number) residentBody() (end int, body string, v text.Verdict) {
	s := n.text()
	if n.whole(18) {
		return n.end(18), s[:18], text.Yes
	}
	if !n.whole(17) {
		return 0, "", text.Yes
	}
	x := n.end(17)
	for range 3 {
		if isSeparator(n.w.At(x)) || n.w.At(x) == '\n' {
			x++
		}
	}
	r, next := n.w.At(x), n.w.At(x+1)
	sign := text.Lower(r) == 'x' || r == '×'
	if r == text.Unknown || sign && next == text.Unknown {
		return 0, "", text.Open
	}
	if !sign || text.IsAlnum(next) {
		return 0, "", text.Yes
	}
	return x + 1, s[:17] + "X", text.Yes
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
func foreignPermit(n *number) (finding.Candidate, text.Verdict) {
	s := n.text()
	if len(s) < 17 || s[0] != '9' {
		return finding.Candidate{}, text.No
	}
	end, body, v := n.residentBody()
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if end == 0 || !validDate(body[6:14]) {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.ForeignPermit, Start: n.at[0], End: end, Form: 0.3, Evidence: finding.DateRight}
	if residentCheck(body[:17]) == body[17] && isProvinceCode(body[1:]) {
		m.Evidence |= finding.CheckRight
		return m, text.Yes
	}
	m.Evidence |= finding.CheckWrong
	return n.w.Anchor(m, n.h)
}

// oldForeignPermit finds the old numbers: three letters of the country and twelve digits, of which six are a date.
func oldForeignPermit(c *number) (finding.Candidate, text.Verdict) {
	if !c.whole(15) || c.count(15) < 11 || !c.isDigitAt(3) {
		return finding.Candidate{}, text.No
	}
	letters := 0
	for k := range 3 { // O and I may have been read as digits
		if c.isLetterAt(k) {
			letters++
		} else if c.digit[k] > '1' {
			return finding.Candidate{}, text.No
		}
	}
	if letters < 2 {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.ForeignPermit, Start: c.at[0], End: c.end(15), Form: 0.25}
	if s := string(c.digit[3:15]); c.count(15) == 12 && (validDate("19"+s[4:10]) || validDate("20"+s[4:10])) {
		m.Evidence |= finding.DateRight
	}
	return c.w.Anchor(m, c.h)
}

// businessLicence finds the old registration numbers of businesses: region, eight digits, check digit. Where the region or the check does not
// fit, a word has to point at them.
func businessLicence(n *number) (finding.Candidate, text.Verdict) {
	if !n.whole(15) {
		return finding.Candidate{}, text.No
	}
	s := n.text()[:15]
	m := finding.Candidate{Kind: finding.BusinessLicence, Start: n.at[0], End: n.end(15), Form: 0.3, Evidence: finding.CheckWrong}
	if isRegion(s) || s[2:6] == "0000" && (isProvinceCode(s) || s[:2] == "10") { // offices of the provinces and of the state registered, too
		m.Evidence |= finding.RegionRight
	}
	if mod1110(s) {
		m.Evidence ^= finding.CheckRight | finding.CheckWrong
		m.Form = -0.25 // the check alone says too little
		if m.Evidence&finding.RegionRight != 0 {
			m.Form = -0.1
		}
		if n.h.Near.Has(finding.BusinessLicence) { // whatever stands nearer: 执照的档案号
			m.Evidence |= finding.CueBefore
			return m, text.Yes
		}
	}
	return n.w.Anchor(m, n.h)
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
