package classify

import "strings"

// labelledKinds have no form of their own: what they are, only a label says.
const labelledKinds = bits(1<<kBankCard | 1<<kBankAccount | 1<<kSocialSecurity | 1<<kMedicalRecord | 1<<kUtilityAccount | 1<<kOfficerID |
	1<<kPassport | 1<<kTravelPermit | 1<<kMacauID | 1<<kTicket | 1<<kOrder | 1<<kParcel | 1<<kICCID | 1<<kIMEI | 1<<kIMSI | 1<<kUSCC)

// labelledForm is what numbers of a kind look like: how many characters, of which how many letters. In lists ordered by what people mean
// where a label leaves it open.
type labelledForm struct {
	kind         kind
	least, most  int
	letters      int     // at most
	form         float64 // 0.25: any label near by is enough; 0.15: only one right before it
	leastNear    int     // characters needed if the label is not right before it
	firstLetters bool    // letters stand at the beginning only
}

var labelledForms = []labelledForm{ //nolint:gochecknoglobals // a constant table
	{kind: kBankCard, least: 15, most: 19, form: 0.15, leastNear: 15},
	{kind: kBankAccount, least: 8, most: 30, letters: 3, form: 0.25, leastNear: 10, firstLetters: true},
	{kind: kSocialSecurity, least: 8, most: 28, letters: 3, form: 0.25, leastNear: 8},
	{kind: kMedicalRecord, least: 3, most: 20, letters: 6, form: 0.25, leastNear: 6},
	{kind: kUtilityAccount, least: 5, most: 22, letters: 4, form: 0.25, leastNear: 7},
	{kind: kOfficerID, least: 5, most: 8, letters: 2, form: 0.25, leastNear: 6, firstLetters: true},
	{kind: kPassport, least: 7, most: 10, letters: 3, form: 0.25, leastNear: 7},
	{kind: kMacauID, least: 8, most: 8, form: 0.25, leastNear: 8},
	{kind: kTravelPermit, least: 8, most: 11, letters: 2, form: 0.25, leastNear: 8},
	{kind: kICCID, least: 19, most: 20, letters: 3, form: 0.2, leastNear: 19},
	{kind: kIMEI, least: 14, most: 17, letters: 1, form: 0.15, leastNear: 15},
	{kind: kIMSI, least: 14, most: 15, form: 0.15, leastNear: 15},
	{kind: kUSCC, least: 15, most: 20, letters: 12, form: 0.2, leastNear: 18},
	{kind: kTicket, least: 5, most: 28, letters: 6, form: 0.25, leastNear: 8},
	{kind: kOrder, least: 5, most: 32, letters: 8, form: 0.25, leastNear: 8},
	{kind: kParcel, least: 8, most: 28, letters: 6, form: 0.25, leastNear: 10},
}

// labelled finds the numbers that only a label tells: one right before, near by before, or behind.
func (d *decision) labelled(n *number) {
	w := n.w
	if isLetter(w.at(n.at[0]-1)) && !n.wide {
		if _, size := w.labelEnding(n.at[0], max(0, n.at[0]-labelReach)); size == 0 {
			return // the letters belong to it
		}
	}
	of, why := n.h.of, labelBefore
	switch {
	case n.h.found && n.h.tight:
	case n.h.found && n.h.of&labelledKinds != 0:
		why = cueBefore
	case n.count(len(n.digit)) < 6:
		return
	default:
		k := n.extent(32)
		if n.amount(k) == yes {
			return
		}
		behind, v := w.behind(n.end(k))
		if v == open {
			d.open = true
			return
		}
		of, why = behind, cueBehind
	}
	of &= d.on & labelledKinds
	if of == 0 {
		return
	}
	for _, f := range labelledForms {
		if of.has(f.kind) {
			d.ask(n.as(f, why))
		}
	}
}

// as reads the number as one of a kind.
func (n *number) as(f labelledForm, why evidence) (match, verdict) {
	k := n.extent(f.most)
	least := f.least
	if why != labelBefore {
		least = f.leastNear
	}
	digits := n.count(k)
	if k == 13 && f.kind == kMedicalRecord && n.digit[0] == '6' && n.digit[1] == '9' {
		return match{}, no // the bar code of goods
	}
	if k < least || k > f.most || k-digits > f.letters || digits*2 < k && digits < 6 || digits < 2 && k > 3 {
		return match{}, no
	}
	if n.wide && f.firstLetters && !n.lettersFirst(k) {
		return match{}, no
	}
	switch v := n.amount(k); {
	case v == open:
		return match{}, open
	case v == yes && (why != labelBefore || digits < 8), n.date(k) && (why != labelBefore || f.kind == kBankAccount && n.gap(4)):
		return match{}, no
	}
	m := match{kind: f.kind, start: n.at[0], end: n.end(k), form: f.form, why: why}
	if f.kind == kBankAccount && why == labelBefore && k > 14 {
		m.form = 0.5 // no telephone number that is a part of it names it
	}
	return m, yes
}

func (n *number) lettersFirst(k int) bool {
	seen := false
	for _, c := range n.digit[:k] {
		if c <= '9' {
			seen = true
		} else if seen {
			return false
		}
	}
	return true
}

// extent returns how many characters belong together: groups that a dash joins, and short groups that a blank joins, up to most.
func (n *number) extent(most int) int {
	k := 1
	for ; k < len(n.digit); k++ {
		if !n.gap(k) {
			continue
		}
		from, to := n.end(k), n.at[k]
		sign := n.w.at(from)
		next := k + 1
		for next < len(n.digit) && !n.gap(next) {
			next++
		}
		if next > most || to-from > 2 || !strings.ContainsRune("-/· \n_", sign) || n.foreign(k, next) {
			break
		}
	}
	return k
}

// foreign reports whether the group of characters k to next is no part of what stands before it: a year, a time, an amount, a word.
func (n *number) foreign(k, next int) bool {
	if n.wide && n.count(next)-n.count(k) == 0 && (next-k > 1 || isBlank(n.w.at(n.end(k)))) {
		return true
	}
	after := n.w.at(n.end(next))
	if !isBlank(n.w.at(n.end(k))) {
		return false
	}
	if next-k == 4 && (n.digit[k] == '2' && n.digit[k+1] == '0' || n.digit[k] == '1' && n.digit[k+1] == '9') && strings.ContainsRune("-/.年", after) {
		return true
	}
	if next-k == 8 && k > 3 && validDate8(n.digit[k:next]) {
		return true
	}
	return strings.ContainsRune(":：%"+units, after)
}

// validDate8 reports whether eight digits are a date of this century or the last.
func validDate8(s []byte) bool {
	for _, c := range s {
		if c > '9' {
			return false
		}
	}
	return (s[0] == '2' && s[1] == '0' || s[0] == '1' && s[1] == '9') && validDate(string(s))
}

// units stand behind what is counted.
const units = "元块万亿千百年月日时分秒点岁个人次条件台户天周℃%度米公吨斤克升瓦伏安页张份辆套名位家间层栋楼号室床笔股倍瓶盒粒"

// amount reports whether a unit stands behind the first k characters.
func (n *number) amount(k int) verdict {
	i := n.end(k)
	r := n.w.at(i)
	if r == ' ' {
		r = n.w.at(i + 1)
	}
	if r == unknown {
		return open
	}
	if strings.ContainsRune("元块万亿千百年月岁个次℃%度米吨斤克升瓦", r) || !n.wide && r == ':' && k <= 4 {
		return yes
	}
	return no
}

// date reports whether the first k characters are a date in digits.
func (n *number) date(k int) bool {
	s := n.digit[:k]
	if k > 4 && k <= 8 && n.gap(4) && !n.gap(1) && !n.gap(2) && !n.gap(3) && n.count(4) == 4 && (s[0] == '2' && s[1] == '0' || s[0] == '1' && s[1] == '9') {
		return true
	}
	return (k == 8 || k == 12 || k == 14) && n.count(k) == k && validDate8(s[:8])
}

// hospitalCode finds numbers that say with two letters what they are: 住院 (ZY), 门诊 (MZ), 病案 (BA).
func hospitalCode(c *number) (match, verdict) {
	size := c.firstForm("ZY999999999999", "ZY99999999999", "ZY9999999999", "ZY999999999", "ZY99999999", "MZ9999999999", "MZ999999999999", "BA2099999999", "BA202999999")
	if size == 0 {
		return match{}, no
	}
	return c.w.anchor(match{kind: kMedicalRecord, start: c.at[0], end: c.end(size), form: 0.35, why: typical}, c.h)
}

// spelled finds a number in Chinese numerals that is too short for the normaliser, right behind a label.
func (d *decision) spelled(w *window, i int) {
	if numeral(w.at(i-1)) >= 0 || isDigit(w.at(i-1)) {
		return
	}
	next := w.at(i + 1)
	if next == unknown {
		d.open = true
		return
	}
	if numeral(next) < 0 {
		return
	}
	end, v := w.while(i, 24, func(r rune) bool { return numeral(r) >= 0 || isDigit(r) })
	if v == open {
		d.open = true
		return
	}
	if end-i < 4 {
		return
	}
	n := number{w: w, digit: w.digit[:0], at: w.digitAt[:0]}
	for k := i; k < end; k++ {
		value := w.at(k)
		if !isDigit(value) {
			value = '0' + numeral(value)
		}
		n.digit, n.at = append(n.digit, byte(value)), append(n.at, k)
	}
	if n.h = w.hints(i); n.h.tight {
		d.labelled(&n)
	}
}
