package classify

import (
	"slices"
	"strings"
)

// codeKinds are found in rows of letters and digits.
const codeKinds = bits(1<<kForeignPermit|1<<kPassport|1<<kTravelPermit|1<<kHongKongID|1<<kTaiwanID|1<<kOfficerID|1<<kMAC|1<<kUSCC|1<<kVIN|
	1<<kParcel|1<<kPlate) | labelledKinds

// codes runs the detectors of what is made of letters and digits at cell i, where such a row begins.
func (d *decision) codes(w *window, i int) {
	if !d.on.any(codeKinds) {
		return
	}
	r0 := w.at(i)
	// Most words are over here: a longer row of letters begins no code, except the label that a value is glued to.
	if end, v := w.letters(i, 5); end-i == 5 || end-i == 4 && v == yes && !isAlnum(w.at(end)) {
		if end, v = w.letters(i, maxDigits); v == open {
			d.open = true
			return
		}
		more, v := end, yes
		if isBlank(w.at(end)) && r0 <= 'Z' {
			more, v = w.while(end+1, 13, isAlnum)
		}
		if next := w.at(end + 1); isBlank(w.at(end)) && next == unknown || v == open {
			d.open = true
			return
		} else if !isDigit(w.at(end)) && !(isBlank(w.at(end)) && (isDigit(next) || r0 <= 'Z' && w.any(end, more, isDigit))) {
			if d.on.has(kPassport) && w.at(i) == 'P' {
				d.ask(mrzNames(w, i))
			}
			return
		}
	} else if v == open {
		d.open = true
		return
	}
	// Codes of businesses and vehicles go on over blanks and dashes alone.
	if end := w.rowEnd(i); end-i > 16 || isBlank(w.at(end)) || w.at(end) == '-' || w.at(end) == unknown {
		if d.on.has(kUSCC) {
			d.ask(uscc(w, i))
		}
		if d.on.has(kVIN) {
			d.ask(vin(w, i))
		}
	}
	if d.on.has(kPassport) && w.at(i) == 'P' {
		d.ask(mrzNames(w, i))
	}
	for _, head := range gluedLabels { // a label with its value right behind
		if rune(head[0]) != lower(r0) {
			continue
		}
		if k, v := w.literal(i, head); v == open {
			d.open = true
			return
		} else if v == yes && isAlnum(w.at(k)) {
			d.codes(w, k)
			if d.open {
				return
			}
		}
	}
	c := &w.row
	var v verdict
	if *c, v = gatherCode(w, i); v == open {
		d.open = true
		return
	}
	digits := c.count(len(c.digit))
	if digits == 0 {
		return
	}
	if c.beginsWithLabel() {
		return
	}
	if d.on.has(kMedicalRecord) && len(c.digit) <= 5 {
		d.ask(bed(c))
	}
	if len(c.digit) < 3 {
		return
	}
	c.h = w.hints(i)
	if digits < len(c.digit) {
		d.papers(c)
	}
	if d.on.has(kMacauID) {
		d.ask(macauID(c))
	}
	if d.on.has(kTravelPermit) && digits >= 8 {
		d.ask(taiwanPermit(c))
	}
}

var gluedLabels = []string{"vin", "passport", "hkid"} //nolint:gochecknoglobals // a constant table

// beginsWithLabel reports whether the first group is a word such as ID, and the value stands behind it.
func (n *number) beginsWithLabel() bool {
	k := 0
	for k < len(n.digit) && n.isLetterAt(k) && (k == 0 || !n.gap(k)) {
		k++
	}
	if k < 2 || k >= len(n.digit) || !n.gap(k) {
		return false
	}
	l, size := n.w.labelEnding(n.end(k), n.at[0])
	return size == k && !l.of.any(set(kQQ, kWeChat)) // WX also begins numbers of Hong Kong
}

// papers finds the numbers of documents that have letters.
func (d *decision) papers(c *number) {
	for _, f := range []struct {
		kind kind
		find func(*number) (match, verdict)
	}{
		{kForeignPermit, oldForeignPermit},
		{kPassport, passport},
		{kTravelPermit, travelPermit},
		{kHongKongID, hongKongID},
		{kTaiwanID, taiwanID},
		{kMAC, bareMAC},
		{kParcel, parcel},
		{kTicket, ticket},
		{kPlate, armyPlate},
		{kMedicalRecord, hospitalCode},
	} {
		if d.on.has(f.kind) {
			d.ask(f.find(c))
		}
	}
	if c.extentHasLetters() {
		d.labelled(c)
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
	return c >= '0' && c <= '9' || c == 'O' || c == 'I' || c == 'L' && n.w.at(n.at[k]) == 'l'
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
		if k > 0 && pattern[0] > '9' && n.w.at(n.at[k]-1) == '/' {
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
func passport(c *number) (match, verdict) {
	size := c.firstForm("E99999999", "EA9999999", "G99999999", "K99999999", "KA9999999", "MA9999999", "DE9999999", "SE9999999", "PE9999999",
		"D99999999", "S99999999", "P99999999", "D9999999", "S9999999", "P9999999")
	if size == 0 {
		return match{}, no
	}
	m := match{kind: kPassport, start: c.at[0], end: c.end(size), form: 0.3}
	if left := c.at[0] - 1; c.w.at(left) == '<' || isBlank(c.w.at(left)) && c.w.at(left-1) == '<' {
		m.why = cueBefore // behind the machine-readable name
		return m, yes
	}
	return c.w.anchor(m, c.h)
}

// travelPermit finds permits to Hong Kong, Macau and Taiwan, and those of their people to the mainland.
func travelPermit(c *number) (match, verdict) {
	size := c.firstForm("H9999999999", "M9999999999", "C99999999", "CA9999999", "W99999999", "L99999999", "T99999999", "H99999999", "M99999999")
	if size == 0 {
		return match{}, no
	}
	return c.w.anchor(match{kind: kTravelPermit, start: c.at[0], end: c.end(size), form: 0.3}, c.h)
}

// taiwanPermit finds the old permits of Taiwan people, ten digits and a letter in brackets.
func taiwanPermit(c *number) (match, verdict) {
	if !c.form("9999999999") {
		return match{}, no
	}
	end, sign, v := c.w.bracketed(c.end(10))
	if v != yes || !isLetter(sign) {
		return match{}, v & open
	}
	return c.w.anchor(match{kind: kTravelPermit, start: c.at[0], end: end, form: 0.3}, c.h)
}

// bracketed reads one letter or digit in brackets at cell i.
func (w *window) bracketed(i int) (end int, sign rune, v verdict) {
	step := func() rune {
		for n := 0; n < 2 && isBlank(w.at(i)); n++ {
			i++
		}
		r := w.at(i)
		i++
		return r
	}
	if r := step(); r != '(' && r != '[' {
		return i, 0, when(r == unknown, open, no)
	}
	sign = step()
	if sign == unknown {
		return i, 0, open
	}
	if !isAlnum(sign) {
		return i, 0, no
	}
	r := step()
	return i, sign, when(r == unknown, open, when(r == ')' || r == ']', yes, no))
}

func when(holds bool, then, otherwise verdict) verdict {
	if holds {
		return then
	}
	return otherwise
}

// hongKongID finds one or two letters, six digits and a check character, in brackets or behind a word that points at it.
func hongKongID(c *number) (match, verdict) {
	head := c.firstForm("A999999", "AA999999")
	end, sign, v := 0, rune(0), no
	if head > 0 {
		if end, sign, v = c.w.bracketed(c.end(head)); v == open {
			return match{}, open
		}
	}
	m := match{kind: kHongKongID, start: c.at[0], end: end, form: 0.3}
	if v == no {
		size := c.firstForm("A9999999", "AA9999999", "A999999A", "AA999999A")
		if size == 0 {
			return match{}, no
		}
		head, sign = size-1, c.w.at(c.at[size-1])
		m.end, m.form = c.end(size), -0.25
	}
	if m.why = checkWrong; hongKongCheck(c, head) == byte(upper(sign)) || misread(sign) == hongKongCheck(c, head) {
		m.why = checkRight
	} else if v == no {
		m.form = 0.1
	} else {
		m.form = 0.45
	}
	return c.w.anchor(m, c.h)
}

func (n *number) value(k int) int {
	if d := misread(n.w.at(n.at[k])); d > 0 {
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
func macauID(c *number) (match, verdict) {
	if !c.isDigitAt(0) || c.digit[0] != '1' && c.digit[0] != '5' && c.digit[0] != '7' && c.digit[0] != 'I' && c.digit[0] != 'L' {
		return match{}, no
	}
	if c.form("9999999") {
		end, sign, v := c.w.bracketed(c.end(7))
		if v == open {
			return match{}, open
		}
		if v == yes && (isDigit(sign) || misread(sign) > 0) {
			return c.w.anchor(match{kind: kMacauID, start: c.at[0], end: end, form: 0.35}, c.h)
		}
	}
	if !c.form("99999999") {
		return match{}, no
	}
	m := match{kind: kMacauID, start: c.at[0], end: c.end(8), form: 0.25}
	if c.gap(1) && c.gap(7) {
		m.form = 0.4
	}
	return c.w.anchor(m, c.h)
}

// taiwanID finds a letter, 1, 2, 8 or 9, seven digits and a check digit.
func taiwanID(c *number) (match, verdict) {
	if !c.form("A999999999") || strings.IndexByte("1289", byte('0'+c.value(1))) < 0 {
		return match{}, no
	}
	const order = "ABCDEFGHJKLMNPQRSTUVXYWZIO" // their numbers begin at 10
	number := strings.IndexByte(order, c.digit[0]) + 10
	sum := number/10 + number%10*9
	for k := 1; k < 9; k++ {
		sum += c.value(k) * (9 - k)
	}
	if c.gaps(10) > 1 && !slices.Equal(c.shape(0, 10), []int{1, 3, 3, 3}) {
		return match{}, no // rather a dump
	}
	m := match{kind: kTaiwanID, start: c.at[0], end: c.end(10), form: 0.25, why: checkWrong}
	if (sum+c.value(9))%10 == 0 {
		m.form, m.why = 0.1, checkRight
	}
	return c.w.anchor(m, c.h)
}
