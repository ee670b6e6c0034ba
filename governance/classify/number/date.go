package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// birthDate finds a date behind a word such as 出生, or one with such a word right behind it.
func birthDate(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if r := w.At(i); text.IsDigit(r) && r != '1' && r != '2' { // no year of this century or the last
		return finding.Candidate{}, text.No
	}
	end, v := w.dateAt(i)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	m, v := w.Anchor(finding.Candidate{Kind: finding.BirthDate, Start: i, End: end, Form: 0.15}, w.Hints(i))
	if v == text.Open || m.Evidence&finding.LabelBefore != 0 {
		return m, v
	}
	m.Evidence = 0
	if sex, after := w.At(end+1), w.At(end+2); (w.At(i-1) == '|' || w.At(i-2) == '|') && w.At(end) == '|' { // HL7
		if sex == text.Unknown || after == text.Unknown {
			return m, text.Open
		}
		if (sex == 'M' || sex == 'F') && after == '|' {
			m.Evidence = finding.LabelBefore
			return m, text.Yes
		}
	}
	k, v := w.While(end, 1, func(r rune) bool { return text.IsBlank(r) || r == '(' })
	if v == text.Open || w.At(k) == text.Unknown {
		return m, text.Open
	}
	for _, word := range []string{"出生", "生日", "生人", "生于", "生"} {
		_, v := w.Literal(k, word)
		if v == text.Open {
			return m, text.Open
		}
		if v == text.Yes {
			next := w.At(k + 1)
			if next == text.Unknown {
				return m, text.Open
			}
			if word != "生" || !text.IsHan(next) {
				m.Evidence = finding.LabelBefore
				return m, text.Yes
			}
		}
	}
	return m, text.Yes
}

// dateAt reads a date with year, month and perhaps day: 1990年1月5日, 1990-01-05, 19900105.
func (w *Detector) dateAt(i int) (end int, v text.Verdict) {
	year, k, v := w.digits(i, 8)
	if v != text.Yes {
		return i, v & text.Open
	}
	if w.At(k) == text.Unknown {
		return i, text.Open
	}
	if len(year) == 8 {
		return k, text.When(validDate(year), text.Yes, text.No)
	}
	if len(year) != 4 || year[:2] != "19" && year[:2] != "20" {
		return i, text.No
	}
	for part := range 2 {
		sign := w.At(k)
		if sign == text.Unknown {
			return i, text.Open
		}
		if sign < 0 || !strings.ContainsRune("-/.年月", sign) {
			return end, text.When(end > 0, text.Yes, text.No)
		}
		from, v := w.While(k+1, 1, text.IsBlank)
		if v == text.Open {
			return i, text.Open
		}
		s, to, v := w.digits(from, 2)
		if v == text.Open || w.At(to) == text.Unknown {
			return i, text.Open
		}
		if v == text.No || len(s) < 1 || len(s) > 2 || decimal(s) < 1 || decimal(s) > 31 || part == 0 && decimal(s) > 12 {
			return end, text.When(end > 0, text.Yes, text.No)
		}
		if k, end = to, to; part == 0 && w.At(k) == '月' {
			end++
		}
	}
	switch r := w.At(k); r {
	case text.Unknown:
		return i, text.Open
	case '日', '号':
		end++
	}
	return end, text.Yes
}

// age finds a number of years of life: 35岁, 年龄：35.
func age(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if text.IsDigit(w.At(i+1)) && text.IsDigit(w.At(i+2)) && text.IsDigit(w.At(i+3)) { // nobody is so old
		return finding.Candidate{}, text.No
	}
	s, end, v := w.digits(i, 3)
	if v != text.Yes || len(s) > 3 || decimal(s) > 130 || text.IsDigit(w.At(i-1)) || w.At(i-1) == '.' || w.At(i-1) == '-' {
		return finding.Candidate{}, v & text.Open
	}
	k, v := w.While(end, 1, text.IsBlank)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	m := finding.Candidate{Kind: finding.Age, Start: i, End: end, Form: 0.2}
	if len(s) == 1 && k > end && text.IsDigit(w.At(k)) { // paper broke it
		if k, v = w.While(k+1, 1, text.IsBlank); v == text.Open {
			return finding.Candidate{}, text.Open
		}
	}
	for _, word := range []string{"周岁", "岁"} {
		to, v := w.Literal(k, word)
		if v == text.Open {
			return finding.Candidate{}, text.Open
		}
		if v == text.Yes {
			m.End, m.Form = to, 0.7
			return m, text.Yes
		}
	}
	if r := w.At(k); r == text.Unknown {
		return finding.Candidate{}, text.Open
	} else if r == '.' || r == '-' || r == '/' || r == '年' {
		return finding.Candidate{}, text.No
	}
	if h := w.Hints(i); h.Tight && h.Of.Has(finding.Age) {
		m.Evidence = finding.LabelBefore
	}
	return m, text.Yes
}

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

// validDate8 reports whether eight digits are a date of this century or the last.
func validDate8(s []byte) bool {
	for _, c := range s {
		if c > '9' {
			return false
		}
	}
	return (s[0] == '2' && s[1] == '0' || s[0] == '1' && s[1] == '9') && validDate(string(s))
}
