package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// labelledKinds have no form of their own: what they are, only a label says.
const labelledKinds = finding.Kinds(1<<finding.BankCard | 1<<finding.BankAccount | 1<<finding.SocialSecurity | 1<<finding.MedicalRecord | 1<<finding.UtilityAccount | 1<<finding.OfficerID |
	1<<finding.Passport | 1<<finding.TravelPermit | 1<<finding.MacauID | 1<<finding.Ticket | 1<<finding.Order | 1<<finding.Parcel | 1<<finding.ICCID | 1<<finding.IMEI | 1<<finding.IMSI | 1<<finding.USCC)

// labelledForm is what numbers of a kind look like: how many characters, of which how many letters. In lists ordered by what people mean
// where a label leaves it open.
type labelledForm struct {
	kind         finding.Kind
	least, most  int
	letters      int     // at most
	form         float64 // 0.25: any label near by is enough; 0.15: only one right before it
	leastNear    int     // characters needed if the label is not right before it
	firstLetters bool    // letters stand at the beginning only
}

var labelledForms = []labelledForm{
	{kind: finding.BankCard, least: 15, most: 19, form: 0.15, leastNear: 15},
	{kind: finding.BankAccount, least: 8, most: 30, letters: 3, form: 0.25, leastNear: 10, firstLetters: true},
	{kind: finding.SocialSecurity, least: 8, most: 28, letters: 3, form: 0.25, leastNear: 8},
	{kind: finding.MedicalRecord, least: 3, most: 20, letters: 6, form: 0.25, leastNear: 6},
	{kind: finding.UtilityAccount, least: 5, most: 22, letters: 4, form: 0.25, leastNear: 7},
	{kind: finding.OfficerID, least: 5, most: 8, letters: 2, form: 0.25, leastNear: 6, firstLetters: true},
	{kind: finding.Passport, least: 7, most: 10, letters: 3, form: 0.25, leastNear: 7},
	{kind: finding.MacauID, least: 8, most: 8, form: 0.25, leastNear: 8},
	{kind: finding.TravelPermit, least: 8, most: 11, letters: 2, form: 0.25, leastNear: 8},
	{kind: finding.ICCID, least: 19, most: 20, letters: 3, form: 0.2, leastNear: 19},
	{kind: finding.IMEI, least: 14, most: 17, letters: 1, form: 0.15, leastNear: 15},
	{kind: finding.IMSI, least: 14, most: 15, form: 0.15, leastNear: 15},
	{kind: finding.USCC, least: 15, most: 20, letters: 12, form: 0.2, leastNear: 18},
	{kind: finding.Ticket, least: 5, most: 28, letters: 6, form: 0.25, leastNear: 8},
	{kind: finding.Order, least: 5, most: 32, letters: 8, form: 0.25, leastNear: 8},
	{kind: finding.Parcel, least: 8, most: 28, letters: 6, form: 0.25, leastNear: 10},
}

// labelled finds the numbers that only a label tells: one right before, near by before, or behind.
func (n *number) labelled(d *finding.Decision) {
	w := n.w
	if text.IsLetter(w.At(n.at[0]-1)) && !n.wide {
		if _, size := w.LabelEnding(n.at[0], max(0, n.at[0]-finding.LabelReach)); size == 0 {
			return // the letters belong to it
		}
	}
	of, why := n.h.Of, finding.LabelBefore
	switch {
	case n.h.Found && n.h.Tight:
	case n.h.Found && n.h.Of&labelledKinds != 0:
		why = finding.CueBefore
	case n.count(len(n.digit)) < 6:
		return
	default:
		k := n.extent(32)
		if n.amount(k) == text.Yes {
			return
		}
		behind, v := w.Behind(n.end(k))
		if v == text.Open {
			d.Open = true
			return
		}
		of, why = behind, finding.CueBehind
	}
	of &= d.On & labelledKinds
	if of == 0 {
		return
	}
	for _, f := range labelledForms {
		if of.Has(f.kind) {
			d.Ask(n.as(f, why))
		}
	}
}

// as reads the number as one of a kind.
func (n *number) as(f labelledForm, why finding.Evidence) (finding.Candidate, text.Verdict) {
	k := n.extent(f.most)
	least := f.least
	if why != finding.LabelBefore {
		least = f.leastNear
	}
	digits := n.count(k)
	if k == 13 && f.kind == finding.MedicalRecord && n.digit[0] == '6' && n.digit[1] == '9' {
		return finding.Candidate{}, text.No // the bar code of goods
	}
	if k < least || k > f.most || k-digits > f.letters || digits*2 < k && digits < 6 || digits < 2 && k > 3 {
		return finding.Candidate{}, text.No
	}
	if n.wide && f.firstLetters && !n.lettersFirst(k) {
		return finding.Candidate{}, text.No
	}
	switch v := n.amount(k); {
	case v == text.Open:
		return finding.Candidate{}, text.Open
	case v == text.Yes && (why != finding.LabelBefore || digits < 8), n.date(k) && (why != finding.LabelBefore || f.kind == finding.BankAccount && n.gap(4)):
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: f.kind, Start: n.at[0], End: n.end(k), Form: f.form, Evidence: why}
	if f.kind == finding.BankAccount && why == finding.LabelBefore && k > 14 {
		m.Form = 0.5 // no telephone number that is a part of it names it
	}
	return m, text.Yes
}

func (n *number) lettersFirst(k int) bool {
	digits := false
	for _, c := range n.digit[:k] {
		if c <= '9' {
			digits = true
		} else if digits {
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
		sign := n.w.At(from)
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
	if n.wide && n.count(next)-n.count(k) == 0 && (next-k > 1 || text.IsBlank(n.w.At(n.end(k)))) {
		return true
	}
	after := n.w.At(n.end(next))
	if !text.IsBlank(n.w.At(n.end(k))) {
		return false
	}
	if next-k == 4 && (n.digit[k] == '2' && n.digit[k+1] == '0' || n.digit[k] == '1' && n.digit[k+1] == '9') && strings.ContainsRune("-/.年", after) {
		return true
	}
	if next-k == 8 && k > 3 && validDate8(n.digit[k:next]) {
		return true
	}
	return strings.ContainsRune(":：%"+text.Units, after)
}

// amount reports whether a unit stands behind the first k characters.
func (n *number) amount(k int) text.Verdict {
	i := n.end(k)
	r := n.w.At(i)
	if r == ' ' {
		r = n.w.At(i + 1)
	}
	if r == text.Unknown {
		return text.Open
	}
	if strings.ContainsRune("元块万亿千百年月岁个次℃%度米吨斤克升瓦", r) || !n.wide && r == ':' && k <= 4 {
		return text.Yes
	}
	return text.No
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
func hospitalCode(c *number) (finding.Candidate, text.Verdict) {
	size := c.firstForm("ZY999999999999", "ZY99999999999", "ZY9999999999", "ZY999999999", "ZY99999999", "MZ9999999999", "MZ999999999999", "BA2099999999", "BA202999999")
	if size == 0 {
		return finding.Candidate{}, text.No
	}
	return c.w.Anchor(finding.Candidate{Kind: finding.MedicalRecord, Start: c.at[0], End: c.end(size), Form: 0.35, Evidence: finding.Typical}, c.h)
}

// spelled finds a number in Chinese numerals that is too short for the normaliser, right behind a label.
func (w *Detector) spelled(d *finding.Decision, i int) {
	if text.Numeral(w.At(i-1)) >= 0 || text.IsDigit(w.At(i-1)) {
		return
	}
	next := w.At(i + 1)
	if next == text.Unknown {
		d.Open = true
		return
	}
	if text.Numeral(next) < 0 {
		return
	}
	end, v := w.While(i, 24, func(r rune) bool { return text.Numeral(r) >= 0 || text.IsDigit(r) })
	if v == text.Open {
		d.Open = true
		return
	}
	if end-i < 4 {
		return
	}
	n := number{w: w, digit: w.digit[:0], at: w.digitAt[:0]}
	for k := i; k < end; k++ {
		value := w.At(k)
		if !text.IsDigit(value) {
			value = '0' + text.Numeral(value)
		}
		n.digit, n.at = append(n.digit, byte(value)), append(n.at, k)
	}
	if n.h = w.Hints(i); n.h.Tight {
		n.labelled(d)
	}
}
