package number

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// codeKinds are found in rows of letters and digits.
const codeKinds = finding.Kinds(1<<finding.ForeignPermit|1<<finding.Passport|1<<finding.TravelPermit|1<<finding.HongKongID|1<<finding.TaiwanID|1<<finding.OfficerID|1<<finding.MAC|1<<finding.USCC|1<<finding.VIN|
	1<<finding.Parcel|1<<finding.Plate) | labelledKinds

// codes runs the detectors of what is made of letters and digits at cell i, where such a row begins.
func (w *Detector) codes(d *finding.Decision, i int) {
	if !d.On.Any(codeKinds) {
		return
	}
	r0 := w.At(i)
	// Most words are over here: a longer row of letters begins no code, except the label that a value is glued to.
	if end, v := w.Letters(i, 5); end-i == 5 || end-i == 4 && v == text.Yes && !text.IsAlnum(w.At(end)) {
		if end, v = w.Letters(i, maxDigits); v == text.Open {
			d.Open = true
			return
		}
		more, v := end, text.Yes
		if text.IsBlank(w.At(end)) && r0 <= 'Z' {
			more, v = w.While(end+1, 13, text.IsAlnum)
		}
		if next := w.At(end + 1); text.IsBlank(w.At(end)) && next == text.Unknown || v == text.Open {
			d.Open = true
			return
		} else if !text.IsDigit(w.At(end)) && !(text.IsBlank(w.At(end)) && (text.IsDigit(next) || r0 <= 'Z' && w.Any(end, more, text.IsDigit))) {
			if d.On.Has(finding.Passport) && w.At(i) == 'P' {
				d.Ask(mrzNames(w, i))
			}
			return
		}
	} else if v == text.Open {
		d.Open = true
		return
	}
	// Codes of businesses and vehicles go on over blanks and dashes alone.
	if end := w.RowEnd(i); end-i > 16 || text.IsBlank(w.At(end)) || w.At(end) == '-' || w.At(end) == text.Unknown {
		if d.On.Has(finding.USCC) {
			d.Ask(uscc(w, i))
		}
		if d.On.Has(finding.VIN) {
			d.Ask(vin(w, i))
		}
	}
	if d.On.Has(finding.Passport) && w.At(i) == 'P' {
		d.Ask(mrzNames(w, i))
	}
	for _, head := range gluedLabels { // a label with its value right behind
		if rune(head[0]) != text.Lower(r0) {
			continue
		}
		if k, v := w.Literal(i, head); v == text.Open {
			d.Open = true
			return
		} else if v == text.Yes && text.IsAlnum(w.At(k)) {
			w.codes(d, k)
			if d.Open {
				return
			}
		}
	}
	c := &w.row
	var v text.Verdict
	if *c, v = gatherCode(w, i); v == text.Open {
		d.Open = true
		return
	}
	digits := c.count(len(c.digit))
	if digits == 0 {
		return
	}
	if c.beginsWithLabel() {
		return
	}
	if d.On.Has(finding.MedicalRecord) && len(c.digit) <= 5 {
		d.Ask(bed(c))
	}
	if len(c.digit) < 3 {
		return
	}
	c.h = w.Hints(i)
	if digits < len(c.digit) {
		c.papers(d)
	}
	if d.On.Has(finding.MacauID) {
		d.Ask(macauID(c))
	}
	if d.On.Has(finding.TravelPermit) && digits >= 8 {
		d.Ask(taiwanPermit(c))
	}
}

var gluedLabels = []string{"vin", "passport", "hkid"}

// beginsWithLabel reports whether the first group is a word such as ID, and the value stands behind it.
func (n *number) beginsWithLabel() bool {
	k := 0
	for k < len(n.digit) && n.isLetterAt(k) && (k == 0 || !n.gap(k)) {
		k++
	}
	if k < 2 || k >= len(n.digit) || !n.gap(k) {
		return false
	}
	l, size := n.w.LabelEnding(n.end(k), n.at[0])
	return size == k && !l.Of.Any(finding.KindsOf(finding.QQ, finding.WeChat)) // WX also begins numbers of Hong Kong
}

// papers finds the numbers of documents that have letters.
func (n *number) papers(d *finding.Decision) {
	for _, f := range []struct {
		kind finding.Kind
		find func(*number) (finding.Candidate, text.Verdict)
	}{
		{finding.ForeignPermit, oldForeignPermit},
		{finding.Passport, passport},
		{finding.TravelPermit, travelPermit},
		{finding.HongKongID, hongKongID},
		{finding.TaiwanID, taiwanID},
		{finding.MAC, bareMAC},
		{finding.Parcel, parcel},
		{finding.Ticket, ticket},
		{finding.Plate, armyPlate},
		{finding.MedicalRecord, hospitalCode},
	} {
		if d.On.Has(f.kind) {
			d.Ask(f.find(n))
		}
	}
	if n.extentHasLetters() {
		n.labelled(d)
	}
}

// extentHasLetters: rows of digits alone are looked at as numbers.
func (n *number) extentHasLetters() bool {
	k := n.extent(maxDigits)
	return n.count(k) < k
}

// isLetterAt and isDigitAt allow what a scanner of paper confuses.
func (n *number) isDigitAt(k int) bool {
	c := n.digit[k]
	return c >= '0' && c <= '9' || c == 'O' || c == 'I' || c == 'L' && n.w.At(n.at[k]) == 'l'
}

func (n *number) isLetterAt(k int) bool { return n.digit[k] >= 'A' && n.digit[k] <= 'Z' }

// form reports whether the first characters of n are like a pattern: A a letter, 9 a digit, another character itself; and a group ends
// there.
func (n *number) form(pattern string) bool {
	if p := pattern[0]; p != '9' && p != 'A' && p != n.digit[0] || !n.whole(len(pattern)) || n.gaps(len(pattern)) > 3 {
		return false
	}
	digits := 0
	for k := range len(pattern) {
		if k > 0 && pattern[0] > '9' && n.w.At(n.at[k]-1) == '/' {
			return false
		}
		switch p := pattern[k]; {
		case p == '9':
			if !n.isDigitAt(k) {
				return false
			}
			digits++
		case p == 'A':
			if !n.isLetterAt(k) {
				return false
			}
		case p != n.digit[k]:
			return false
		}
	}
	return digits == 0 || n.count(len(pattern)) >= digits-1
}

// firstForm returns the length of the first pattern that fits.
func (n *number) firstForm(patterns ...string) int {
	for _, p := range patterns {
		if n.form(p) {
			return len(p)
		}
	}
	return 0
}

// passport finds the numbers of Chinese passports near a word that points at them.
func passport(c *number) (finding.Candidate, text.Verdict) {
	size := c.firstForm("E99999999", "EA9999999", "G99999999", "K99999999", "KA9999999", "MA9999999", "DE9999999", "SE9999999", "PE9999999",
		"D99999999", "S99999999", "P99999999", "D9999999", "S9999999", "P9999999")
	if size == 0 {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.Passport, Start: c.at[0], End: c.end(size), Form: 0.3}
	if left := c.at[0] - 1; c.w.At(left) == '<' || text.IsBlank(c.w.At(left)) && c.w.At(left-1) == '<' {
		m.Evidence = finding.CueBefore // behind the machine-readable name
		return m, text.Yes
	}
	return c.w.Anchor(m, c.h)
}

// travelPermit finds permits to Hong Kong, Macau and Taiwan, and those of their people to the mainland.
func travelPermit(c *number) (finding.Candidate, text.Verdict) {
	size := c.firstForm("H9999999999", "M9999999999", "C99999999", "CA9999999", "W99999999", "L99999999", "T99999999", "H99999999", "M99999999")
	if size == 0 {
		return finding.Candidate{}, text.No
	}
	return c.w.Anchor(finding.Candidate{Kind: finding.TravelPermit, Start: c.at[0], End: c.end(size), Form: 0.3}, c.h)
}

// taiwanPermit finds the old permits of Taiwan people, ten digits and a letter in brackets.
func taiwanPermit(c *number) (finding.Candidate, text.Verdict) {
	if !c.form("9999999999") {
		return finding.Candidate{}, text.No
	}
	end, sign, v := c.w.bracketed(c.end(10))
	if v != text.Yes || !text.IsLetter(sign) {
		return finding.Candidate{}, v & text.Open
	}
	return c.w.Anchor(finding.Candidate{Kind: finding.TravelPermit, Start: c.at[0], End: end, Form: 0.3}, c.h)
}

// bracketed reads one letter or digit in brackets at cell i.
func (w *Detector) bracketed(i int) (end int, sign rune, v text.Verdict) {
	step := func() rune {
		for n := 0; n < 2 && text.IsBlank(w.At(i)); n++ {
			i++
		}
		r := w.At(i)
		i++
		return r
	}
	if r := step(); r != '(' && r != '[' {
		return i, 0, text.When(r == text.Unknown, text.Open, text.No)
	}
	sign = step()
	if sign == text.Unknown {
		return i, 0, text.Open
	}
	if !text.IsAlnum(sign) {
		return i, 0, text.No
	}
	r := step()
	return i, sign, text.When(r == text.Unknown, text.Open, text.When(r == ')' || r == ']', text.Yes, text.No))
}

// hongKongID finds one or two letters, six digits and a check character, in brackets or behind a word that points at it.
func hongKongID(c *number) (finding.Candidate, text.Verdict) {
	head := c.firstForm("A999999", "AA999999")
	end, sign, v := 0, rune(0), text.No
	if head > 0 {
		if end, sign, v = c.w.bracketed(c.end(head)); v == text.Open {
			return finding.Candidate{}, text.Open
		}
	}
	m := finding.Candidate{Kind: finding.HongKongID, Start: c.at[0], End: end, Form: 0.3}
	if v == text.No {
		size := c.firstForm("A9999999", "AA9999999", "A999999A", "AA999999A")
		if size == 0 {
			return finding.Candidate{}, text.No
		}
		head, sign = size-1, c.w.At(c.at[size-1])
		m.End, m.Form = c.end(size), -0.25
	}
	if m.Evidence = finding.CheckWrong; hongKongCheck(c, head) == byte(text.Upper(sign)) || text.Misread(sign) == hongKongCheck(c, head) {
		m.Evidence = finding.CheckRight
	} else if v == text.No {
		m.Form = 0.1
	} else {
		m.Form = 0.45
	}
	return c.w.Anchor(m, c.h)
}

func (n *number) value(k int) int {
	if d := text.Misread(n.w.At(n.at[k])); d > 0 {
		return int(d - '0')
	}
	return int(n.digit[k] - '0')
}

func hongKongCheck(c *number, head int) byte {
	sum := 36 * 9
	if head == 8 {
		sum = int(c.digit[0]-'A'+10) * 9
	}
	sum += int(c.digit[head-7]-'A'+10) * 8
	for k := range 6 {
		sum += c.value(head-6+k) * (7 - k)
	}
	return "0A987654321"[sum%11]
}

// macauID finds 1, 5 or 7, six digits and one more, usually in brackets or behind a slash, near a word that points at it.
func macauID(c *number) (finding.Candidate, text.Verdict) {
	if !c.isDigitAt(0) || c.digit[0] != '1' && c.digit[0] != '5' && c.digit[0] != '7' && c.digit[0] != 'I' && c.digit[0] != 'L' {
		return finding.Candidate{}, text.No
	}
	if c.form("9999999") {
		end, sign, v := c.w.bracketed(c.end(7))
		if v == text.Open {
			return finding.Candidate{}, text.Open
		}
		if v == text.Yes && (text.IsDigit(sign) || text.Misread(sign) > 0) {
			return c.w.Anchor(finding.Candidate{Kind: finding.MacauID, Start: c.at[0], End: end, Form: 0.35}, c.h)
		}
	}
	if !c.form("99999999") {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.MacauID, Start: c.at[0], End: c.end(8), Form: 0.25}
	if c.gap(1) && c.gap(7) {
		m.Form = 0.4
	}
	return c.w.Anchor(m, c.h)
}

// taiwanID finds a letter, 1, 2, 8 or 9, seven digits and a check digit.
func taiwanID(c *number) (finding.Candidate, text.Verdict) {
	if !c.form("A999999999") || strings.IndexByte("1289", byte('0'+c.value(1))) < 0 {
		return finding.Candidate{}, text.No
	}
	const order = "ABCDEFGHJKLMNPQRSTUVXYWZIO" // their numbers begin at 10
	number := strings.IndexByte(order, c.digit[0]) + 10
	sum := number/10 + number%10*9
	for k := 1; k < 9; k++ {
		sum += c.value(k) * (9 - k)
	}
	if c.gaps(10) > 1 && !slices.Equal(c.shape(0, 10), []int{1, 3, 3, 3}) {
		return finding.Candidate{}, text.No // rather a dump
	}
	m := finding.Candidate{Kind: finding.TaiwanID, Start: c.at[0], End: c.end(10), Form: 0.25, Evidence: finding.CheckWrong}
	if (sum+c.value(9))%10 == 0 {
		m.Form, m.Evidence = 0.1, finding.CheckRight
	}
	return c.w.Anchor(m, c.h)
}
