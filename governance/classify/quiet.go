package classify

import "strings"

// parcel finds the numbers of parcels that say whose they are.
func parcel(c *number) (match, verdict) {
	m := match{kind: kParcel, start: c.at[0], form: 0.7}
	switch {
	case c.form("SF9999999999999"), c.form("YT9999999999999"), c.form("JD9999999999999"), c.form("JT9999999999999"):
		m.end = c.end(15)
	case c.form("SF999999999999"):
		m.end = c.end(14)
	case c.form("ZTO999999999999"):
		m.end = c.end(15)
	case c.form("EA999999999CN"):
		m.end = c.end(13)
	default:
		return match{}, no
	}
	return c.w.anchor(m, c.h)
}

// longParcel finds the fifteen digits that one company gives out.
func longParcel(n *number) (match, verdict) {
	if !n.whole(15) || n.digit[0] != '7' || n.digit[1] != '7' || len(n.shape(0, 15)) > 4 {
		return match{}, no
	}
	return n.w.anchor(match{kind: kParcel, start: n.at[0], end: n.end(15), form: 0.7}, n.h)
}

// ticket finds the numbers that systems for tickets give out: a prefix, most often a day, and a sequence.
func ticket(c *number) (match, verdict) {
	if strings.IndexByte("WGHTSIRC", c.digit[0]) < 0 {
		return match{}, no
	}
	size := c.firstForm("WO999999999999", "GD20999999999999", "GD209999999999", "HT20999999999999", "TS29999999999", "SR9999999999", "INC99999999", "INC9999999",
		"REQ9999999", "CHG9999999", "RITM9999999", "TASK9999999", "CS9999999")
	if size == 0 || c.lowerCase(size) {
		return match{}, no
	}
	return c.w.anchor(match{kind: kTicket, start: c.at[0], end: c.end(size), form: 0.7}, c.h)
}

// lowerCase reports whether one of the first characters is a small letter.
func (n *number) lowerCase(k int) bool {
	return n.w.any(n.at[0], n.end(k), func(r rune) bool { return r >= 'a' && r <= 'z' })
}

// birthDate finds a date behind a word such as 出生, or one with such a word right behind it.
func birthDate(w *window, i int) (match, verdict) {
	if r := w.at(i); isDigit(r) && r != '1' && r != '2' { // no year of this century or the last
		return match{}, no
	}
	end, v := w.dateAt(i)
	if v != yes {
		return match{}, v
	}
	m, v := w.anchor(match{kind: kBirthDate, start: i, end: end, form: 0.15}, w.hints(i))
	if v == open || m.why&labelBefore != 0 {
		return m, v
	}
	m.why = 0
	if sex, after := w.at(end+1), w.at(end+2); (w.at(i-1) == '|' || w.at(i-2) == '|') && w.at(end) == '|' { // HL7
		if sex == unknown || after == unknown {
			return m, open
		}
		if (sex == 'M' || sex == 'F') && after == '|' {
			m.why = labelBefore
			return m, yes
		}
	}
	k, v := w.while(end, 1, func(r rune) bool { return isBlank(r) || r == '(' })
	if v == open || w.at(k) == unknown {
		return m, open
	}
	for _, word := range []string{"出生", "生日", "生人", "生于", "生"} {
		_, v := w.literal(k, word)
		if v == open {
			return m, open
		}
		if v == yes {
			next := w.at(k + 1)
			if next == unknown {
				return m, open
			}
			if word != "生" || !isHan(next) {
				m.why = labelBefore
				return m, yes
			}
		}
	}
	return m, yes
}

// dateAt reads a date with year, month and perhaps day: 1990年1月5日, 1990-01-05, 19900105.
func (w *window) dateAt(i int) (end int, v verdict) {
	year, k, v := w.digits(i, 8)
	if v != yes {
		return i, v & open
	}
	if w.at(k) == unknown {
		return i, open
	}
	if len(year) == 8 {
		return k, when(validDate(year), yes, no)
	}
	if len(year) != 4 || year[:2] != "19" && year[:2] != "20" {
		return i, no
	}
	for part := range 2 {
		sign := w.at(k)
		if sign == unknown {
			return i, open
		}
		if sign < 0 || !strings.ContainsRune("-/.年月", sign) {
			return end, when(end > 0, yes, no)
		}
		from, v := w.while(k+1, 1, isBlank)
		if v == open {
			return i, open
		}
		text, to, v := w.digits(from, 2)
		if v == open || w.at(to) == unknown {
			return i, open
		}
		if v == no || len(text) < 1 || len(text) > 2 || decimal(text) < 1 || decimal(text) > 31 || part == 0 && decimal(text) > 12 {
			return end, when(end > 0, yes, no)
		}
		if k, end = to, to; part == 0 && w.at(k) == '月' {
			end++
		}
	}
	switch r := w.at(k); r {
	case unknown:
		return i, open
	case '日', '号':
		end++
	}
	return end, yes
}

// age finds a number of years of life: 35岁, 年龄：35.
func age(w *window, i int) (match, verdict) {
	if isDigit(w.at(i+1)) && isDigit(w.at(i+2)) && isDigit(w.at(i+3)) { // nobody is so old
		return match{}, no
	}
	text, end, v := w.digits(i, 3)
	if v != yes || len(text) > 3 || decimal(text) > 130 || isDigit(w.at(i-1)) || w.at(i-1) == '.' || w.at(i-1) == '-' {
		return match{}, v & open
	}
	k, v := w.while(end, 1, isBlank)
	if v == open {
		return match{}, open
	}
	m := match{kind: kAge, start: i, end: end, form: 0.2}
	if len(text) == 1 && k > end && isDigit(w.at(k)) { // paper broke it
		if k, v = w.while(k+1, 1, isBlank); v == open {
			return match{}, open
		}
	}
	for _, word := range []string{"周岁", "岁"} {
		to, v := w.literal(k, word)
		if v == open {
			return match{}, open
		}
		if v == yes {
			m.end, m.form = to, 0.7
			return m, yes
		}
	}
	if r := w.at(k); r == unknown {
		return match{}, open
	} else if r == '.' || r == '-' || r == '/' || r == '年' {
		return match{}, no
	}
	if h := w.hints(i); h.tight && h.of.has(kAge) {
		m.why = labelBefore
	}
	return m, yes
}

const (
	companyLongest = 30
	notInCompanies = "于在是与由向给被对的了我你他她们这那您请到从把为及"
)

var ( //nolint:gochecknoglobals // constant tables
	endsCompany   = runesOf(notInCompanies)
	beforeCompany = runesOf(notInCompanies + "和跟")
	inCompany     = runesOf("()·&")
	// Each begins as one of the pairs that companyAhead looks for.
	companyEnds = []string{"有限公司", "有限责任公司", "股份有限公司", "股份公司", "集团公司", "集团有限公司", "集团股份有限公司"}
)

// beginsCompany reports whether the name of a company may begin at cell i: where what stands before cannot belong to it.
func (w *window) beginsCompany(i int) bool {
	if i < w.companyless || !isHan(w.cells[i].r) {
		return false
	}
	left := w.at(i - 1)
	return !isHan(left) || beforeCompany.has(left)
}

// companyAhead returns the first cell from i on where the end of the name of a company may begin, or where the text breaks off.
func (w *window) companyAhead(i int) int {
	k := max(i, w.companyEnd)
	for ; k < len(w.cells); k++ {
		if r := w.cells[k].r; r == '有' || r == '股' || r == '集' {
			if next := w.at(k + 1); next == '限' || next == '份' || next == '团' || isBlank(next) || next == unknown {
				break
			}
		}
	}
	w.companyEnd = k
	return k
}

// company finds names that end in 有限公司 and the like.
func company(w *window, i int) (match, verdict) {
	switch k := w.companyAhead(i); {
	case w.final && k == len(w.cells):
		w.companyless = k
		return match{}, no
	case k-i >= companyLongest:
		w.companyless = k - companyLongest + 1
		return match{}, no
	}
	blank := 0 // where one is
	for k := i; k < i+companyLongest; k++ {
		r := w.at(k)
		if r == unknown {
			return match{}, open
		}
		if isBlank(r) && blank == 0 && k > i {
			blank = k
			continue
		}
		if !isHan(r) && !isAlnum(r) && !inCompany.has(r) || endsCompany.has(r) {
			if w.companyless = k; isBlank(r) { // a name from behind the first blank on may hold the second
				w.companyless = blank
			}
			return match{}, no
		}
		if r != '有' && r != '股' && r != '集' || k-i < 2 {
			continue
		}
		for _, word := range companyEnds {
			end, v := w.spaced(k, word)
			if v == open {
				return match{}, open
			}
			if v == yes {
				return companyTail(w, match{kind: kCompany, start: i, end: end, form: 0.7})
			}
		}
	}
	return match{}, no
}

// spaced compares as literal does, over one stray blank.
func (w *window) spaced(i int, text string) (end int, v verdict) {
	blanks := 0
	for n, want := range text {
		if n > 0 && blanks == 0 && isBlank(w.at(i)) {
			blanks++
			i++
		}
		if got := w.at(i); got == unknown {
			return i, open
		} else if got != want {
			return i, no
		}
		i++
	}
	return i, yes
}

// companyTail adds a branch: …有限公司北京分公司.
func companyTail(w *window, m match) (match, verdict) {
	for k := m.end; k < m.end+12; k++ {
		r := w.at(k)
		if r == unknown {
			return m, open
		}
		if !isHan(r) || endsCompany.has(r) {
			return m, yes
		}
		for _, word := range []string{"分公司", "支行", "分行", "营业部"} {
			end, v := w.literal(k, word)
			if v == open {
				return m, open
			}
			if v == yes {
				m.end = end
				return m, yes
			}
		}
	}
	return m, yes
}
