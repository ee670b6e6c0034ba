package parse

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// builtin are the number formats that a workbook need not write out, with those of a Chinese Excel.
func builtin(id int) string {
	if f, is := map[int]string{
		1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??",
		14: "yyyy/m/d", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy/m/d h:mm",
		27: `yyyy"年"m"月"`, 28: `m"月"d"日"`, 29: `m"月"d"日"`, 30: "m-d-yy", 31: `yyyy"年"m"月"d"日"`, 32: `h"时"mm"分"`, 33: `h"时"mm"分"ss"秒"`,
		34: `AM/PMh"时"mm"分"`, 35: `AM/PMh"时"mm"分"ss"秒"`, 36: `yyyy"年"m"月"`,
		37: "#,##0;-#,##0", 38: "#,##0;-#,##0", 39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00", 41: "#,##0", 42: "#,##0", 43: "#,##0.00", 44: "#,##0.00",
		45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
		50: `yyyy"年"m"月"`, 51: `m"月"d"日"`, 52: `yyyy"年"m"月"`, 53: `m"月"d"日"`, 54: `m"月"d"日"`, 55: `AM/PMh"时"mm"分"`, 56: `AM/PMh"时"mm"分"ss"秒"`,
		57: `yyyy"年"m"月"`, 58: `m"月"d"日"`,
	}[id]; is {
		return f
	}
	return "General"
}

// numberFormat is a format code, split and read once for all cells that have it.
type numberFormat struct {
	sections []formatSection
}

type formatSection struct {
	tokens    []formatToken
	date      bool
	elapsed   bool
	percent   int
	scale     int // powers of a thousand that the number is divided by
	grouped   bool
	whole     int // digits that are there at least
	places    int // digits behind the point at most
	least     int // and at least
	exponent  int // digits of it; 0: none
	sign      bool
	fraction  bool
	general   bool
	condition string
	limit     float64
}

// formatToken is a literal (kind 'l'), a digit ('0', '#' or '?'), the point, the exponent ('E'), or a part of a date (its letter).
type formatToken struct {
	kind byte
	text string
}

// readFormat reads a code, whatever it is: what it does not understand is a literal.
func readFormat(code string) *numberFormat {
	f := &numberFormat{}
	if len(code) > 255 { // Excel's bound
		code = "General"
	}
	for _, s := range splitSections(code) {
		f.sections = append(f.sections, readSection(s))
	}
	return f
}

func splitSections(code string) []string {
	var out []string
	start, quoted, bracket := 0, false, false
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\\' || c == '_' || c == '*':
			i++
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case c == ';' && !bracket:
			out = append(out, code[start:i])
			start = i + 1
		}
	}
	return append(out, code[start:])
}

func readSection(s string) formatSection {
	var out formatSection
	literal := func(text string) { out.tokens = append(out.tokens, formatToken{'l', text}) }
	rs := []rune(s)
	next := func(i int) string {
		if i+1 < len(rs) {
			return string(rs[i+1])
		}
		return ""
	}
	for i := 0; i < len(rs); i++ {
		rest := string(rs[i:])
		upper := strings.ToUpper(rest)
		switch c := rs[i]; {
		case c == '"':
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				end = len(rest) - 1
			}
			literal(rest[1 : 1+end])
			i += len([]rune(rest[:1+end]))
		case c == '\\':
			literal(next(i))
			i++
		case c == '_':
			literal(" ")
			i++
		case c == '*':
			i++
		case c == '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return out
			}
			out.bracket(rest[1:end])
			i += len([]rune(rest[:end]))
		case strings.HasPrefix(upper, "GENERAL"):
			out.general = true
			out.tokens = append(out.tokens, formatToken{'G', ""})
			i += 6
		case strings.HasPrefix(upper, "AM/PM"):
			out.tokens, out.date = append(out.tokens, formatToken{'a', "AM/PM"}), true
			i += 4
		case strings.HasPrefix(upper, "A/P"):
			out.tokens, out.date = append(out.tokens, formatToken{'a', "A/P"}), true
			i += 2
		case strings.HasPrefix(rest, "上午/下午"):
			out.tokens, out.date = append(out.tokens, formatToken{'a', "上午/下午"}), true
			i += 4
		case (c == 'E' || c == 'e') && (next(i) == "+" || next(i) == "-"):
			out.tokens = append(out.tokens, formatToken{'E', next(i)})
			out.sign = next(i) == "+"
			for i++; i+1 < len(rs) && (rs[i+1] == '0' || rs[i+1] == '#' || rs[i+1] == '?'); i++ {
				out.exponent++
			}
		case strings.ContainsRune("yYmMdDhHsSeEbBaA", c):
			j := i
			for j+1 < len(rs) && (rs[j+1] == c || rs[j+1] == c^0x20) {
				j++
			}
			run := strings.ToLower(string(rs[i : j+1]))
			if run[0] == 'a' && len(run) < 3 {
				literal(string(rs[i : j+1]))
			} else {
				out.tokens, out.date = append(out.tokens, formatToken{run[0], run}), true
			}
			i = j
		case c == '0' || c == '#' || c == '?':
			out.tokens = append(out.tokens, formatToken{byte(c), ""})
		case c == '.':
			out.tokens = append(out.tokens, formatToken{'.', "."})
		case c == ',':
			out.tokens = append(out.tokens, formatToken{',', ","})
		case c == '/':
			out.tokens = append(out.tokens, formatToken{'/', "/"})
		case c == '%':
			out.percent++
			literal("%")
		case c == '@':
			out.tokens = append(out.tokens, formatToken{'@', ""})
		default:
			literal(string(c))
		}
	}
	if out.date {
		out.minutes()
	} else {
		out.measure()
	}
	return out
}

// bracket reads what stands in brackets: a colour, a currency or language, a condition, or time that goes on behind 24 hours.
func (s *formatSection) bracket(in string) {
	lower := strings.ToLower(in)
	switch {
	case strings.HasPrefix(in, "$"):
		sign, _, _ := strings.Cut(in[1:], "-")
		s.tokens = append(s.tokens, formatToken{'l', sign})
	case strings.HasPrefix(in, "<") || strings.HasPrefix(in, ">") || strings.HasPrefix(in, "="):
		s.condition = strings.TrimRight(in[:min(2, len(in))], "-.0123456789")
		s.limit, _ = strconv.ParseFloat(in[len(s.condition):], 64)
	case lower != "" && strings.Trim(lower, lower[:1]) == "" && strings.Contains("hms", lower[:1]):
		s.tokens, s.date, s.elapsed = append(s.tokens, formatToken{lower[0] - 0x20, lower}), true, true
	}
}

// minutes tells which m are minutes: behind hours, or before seconds.
func (s *formatSection) minutes() {
	last := byte(0)
	for i := range s.tokens {
		t := &s.tokens[i]
		if t.kind == 'm' && len(t.text) <= 2 && (last == 'h' || last == 'H' || s.nextPart(i) == 's' || s.nextPart(i) == 'S') {
			t.kind = 'i'
		}
		if strings.IndexByte("ymdhsHMSi", t.kind) >= 0 {
			last = t.kind
		}
	}
}

func (s *formatSection) nextPart(i int) byte {
	for _, t := range s.tokens[i+1:] {
		if strings.IndexByte("ymdhsHMS", t.kind) >= 0 {
			return t.kind
		}
	}
	return 0
}

// measure counts the digits of a number's format.
func (s *formatSection) measure() {
	point, lastDigit := false, -1
	for i, t := range s.tokens {
		switch t.kind {
		case '0', '#', '?':
			lastDigit = i
			switch {
			case !point && t.kind != '#':
				s.whole++
			case point:
				s.places++
				if t.kind == '0' {
					s.least = s.places
				}
			}
		case '.':
			point = true
		case '/':
			s.fraction = true
		}
	}
	kept := s.tokens[:0:0]
	for i, t := range s.tokens {
		if t.kind == ',' {
			switch {
			case i < lastDigit && i > 0:
				s.grouped = true
			case lastDigit >= 0:
				s.scale++
			}
			continue
		}
		kept = append(kept, t)
	}
	s.tokens = kept
}

// format writes a number as Excel shows it, but that "General" keeps all digits of whole numbers: nobody searches for an account as 6.2E+18.
func (f *numberFormat) format(v float64, from1904 bool) string {
	s, negative := f.section(v)
	if s == nil {
		return general(v)
	}
	out := ""
	switch {
	case s.date:
		return s.dateText(v, from1904)
	case s.general || s.only('@'):
		for _, t := range s.tokens {
			switch t.kind {
			case 'l':
				out += t.text
			case 'G', '@':
				out += general(math.Abs(v))
			}
		}
	case s.fraction:
		out = general(math.Abs(v))
	default:
		out = s.numberText(math.Abs(v))
	}
	if negative && v < 0 {
		out = "-" + out
	}
	return strings.TrimSpace(out)
}

func (s *formatSection) only(kind byte) bool {
	found := false
	for _, t := range s.tokens {
		if t.kind != 'l' && t.kind != kind {
			return false
		}
		found = found || t.kind == kind
	}
	return found
}

// section returns the one for a number, and whether a minus sign is written before it.
func (f *numberFormat) section(v float64) (*formatSection, bool) {
	n := len(f.sections)
	for i := range f.sections {
		s := &f.sections[i]
		if s.condition == "" {
			continue
		}
		switch s.condition {
		case "<":
			if v < s.limit {
				return s, s.limit > 0
			}
		case "<=":
			if v <= s.limit {
				return s, true
			}
		case ">":
			if v > s.limit {
				return s, true
			}
		case ">=":
			if v >= s.limit {
				return s, true
			}
		case "=":
			if v == s.limit {
				return s, true
			}
		case "<>":
			if v != s.limit {
				return s, true
			}
		}
	}
	switch {
	case n == 0:
		return nil, true
	case f.sections[0].condition != "":
		return &f.sections[min(n, 3)-1], true
	case n == 1:
		return &f.sections[0], true
	case v < 0:
		return &f.sections[1], false
	case v == 0 && n > 2:
		return &f.sections[2], false
	}
	return &f.sections[0], true
}

func (s *formatSection) numberText(v float64) string {
	for range s.percent {
		v *= 100
	}
	for range s.scale {
		v /= 1000
	}
	power := 0
	if s.exponent > 0 && v != 0 {
		step := max(1, s.slots())
		power = int(math.Floor(math.Log10(v)))
		if step > 1 {
			power = int(math.Floor(float64(power)/float64(step))) * step
		}
		if v /= math.Pow10(power); step == 1 && round(v, s.places) == "10"+strings.Repeat("0", s.places) {
			v, power = v/10, power+1
		}
	}
	all := round(v, s.places)
	whole, decimals := all[:len(all)-s.places], all[len(all)-s.places:]
	for len(decimals) > s.least && strings.HasSuffix(decimals, "0") {
		decimals = decimals[:len(decimals)-1]
	}
	whole = strings.TrimLeft(whole, "0")
	if n := s.whole - len(whole); n > 0 {
		whole = strings.Repeat("0", n) + whole
	}
	return s.fill(whole, decimals, power)
}

// fill puts digits into their places: the last ones into the last places, what is more into the first.
func (s *formatSection) fill(whole, decimals string, power int) string {
	slots := s.slots()
	if slots == 0 && len(whole) > 0 && !s.point() {
		whole = ""
	}
	var out strings.Builder
	written := 0
	digit := func() {
		out.WriteByte(whole[written])
		written++
		if left := len(whole) - written; s.grouped && left > 0 && left%3 == 0 {
			out.WriteByte(',')
		}
	}
	seen, point := 0, false
	for _, t := range s.tokens {
		switch t.kind {
		case 'l':
			out.WriteString(t.text)
		case '0', '#', '?':
			if point {
				if len(decimals) > 0 {
					out.WriteByte(decimals[0])
					decimals = decimals[1:]
				}
				continue
			}
			for seen++; written < len(whole) && len(whole)-written > slots-seen; {
				digit()
			}
		case '.':
			for written < len(whole) {
				digit()
			}
			point = true
			out.WriteByte('.')
		case 'E':
			out.WriteByte('E')
			if power < 0 {
				out.WriteByte('-')
			} else if s.sign {
				out.WriteByte('+')
			}
			p := strconv.Itoa(max(power, -power))
			out.WriteString(strings.Repeat("0", max(0, s.exponent-len(p))) + p)
		}
	}
	return out.String()
}

// slots counts the places for digits before the point.
func (s *formatSection) slots() int {
	n := 0
	for _, t := range s.tokens {
		if t.kind == '.' || t.kind == 'E' {
			break
		}
		if t.kind == '0' || t.kind == '#' || t.kind == '?' {
			n++
		}
	}
	return n
}

func (s *formatSection) point() bool {
	for _, t := range s.tokens {
		if t.kind == '.' {
			return true
		}
	}
	return false
}

// round writes a number that is not negative without a point, rounded to a number of places, halves up, of the 15 digits that Excel has.
func round(v float64, places int) string {
	places = min(places, 30)
	if v == math.Trunc(v) && v < 1e15 {
		return strconv.FormatInt(int64(v), 10) + strings.Repeat("0", places)
	}
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(v, 'e', 14, 64))
	if !ok {
		return strings.Repeat("0", places+1)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	r.Mul(r, new(big.Rat).SetInt(scale)).Add(r, big.NewRat(1, 2))
	n := new(big.Int).Quo(r.Num(), r.Denom()).String()
	if len(n) <= places {
		n = strings.Repeat("0", places+1-len(n)) + n
	}
	return n
}

// general writes a number without a format: at most eleven signs, but whole numbers in full.
func general(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return ""
	case v == math.Trunc(v) && a < 1e15:
		return strconv.FormatInt(int64(v), 10)
	case a >= 1e-4 && a < 1e10:
		whole := len(strconv.FormatInt(int64(a), 10))
		s := strconv.FormatFloat(v, 'f', max(0, 10-whole), 64)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	mantissa, power, _ := strings.Cut(strconv.FormatFloat(v, 'E', 5, 64), "E")
	return strings.TrimRight(strings.TrimRight(mantissa, "0"), ".") + "E" + power
}

// dateText writes a serial number as the date or time that it stands for.
func (s *formatSection) dateText(v float64, from1904 bool) string {
	if v < 0 || v >= 2958466 || math.IsNaN(v) { // up to the year 9999; Excel shows ####
		return general(v)
	}
	places := 0
	for i, t := range s.tokens {
		if t.kind == '.' && i > 0 && s.tokens[i-1].kind|0x20 == 's' {
			for _, d := range s.tokens[i+1:] {
				if d.kind != '0' {
					break
				}
				places++
			}
		}
	}
	places = min(places, 3)
	ticks := int64(math.Round(v * 86400e3)) // thousandths of a second
	if places == 0 {
		ticks = int64(math.Round(v*86400)) * 1000
	}
	base := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	days := ticks / 86400e3
	switch {
	case from1904:
		base = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	case days == 60:
	case days < 60: // Excel has a 29 February 1900, and a day before the first
		base = base.AddDate(0, 0, 1)
	}
	if days == 0 && !from1904 {
		base = base.AddDate(0, 0, 1) // in January
	}
	t := base.AddDate(0, 0, int(days)).Add(time.Duration(ticks%86400e3) * time.Millisecond)
	day := t.Day()
	if !from1904 && (days == 0 || days == 60) {
		day = map[int64]int{60: 29}[days]
	}
	half := false
	for _, k := range s.tokens {
		half = half || k.kind == 'a' && strings.Contains(k.text, "/")
	}
	var out strings.Builder
	fraction := false
	for i, k := range s.tokens {
		if k.kind != '0' {
			fraction = false
		}
		switch k.kind {
		case 'l', '/', ',':
			out.WriteString(k.text)
		case '.':
			out.WriteByte('.')
			if i > 0 && s.tokens[i-1].kind|0x20 == 's' && places > 0 {
				fraction = true
				ms := strconv.FormatInt(1000+ticks%1000, 10)[1:]
				out.WriteString(ms[:places])
			}
		case '0':
			if !fraction {
				out.WriteByte('0')
			}
		default:
			out.WriteString(datePart(k, t, day, ticks, half))
		}
	}
	return strings.TrimSpace(out.String())
}

func datePart(k formatToken, t time.Time, day int, ticks int64, half bool) string {
	pad := func(n int) string {
		if len(k.text) > 1 && n < 10 {
			return "0" + strconv.Itoa(n)
		}
		return strconv.Itoa(n)
	}
	switch k.kind {
	case 'y', 'e':
		if k.kind == 'y' && len(k.text) <= 2 {
			return t.Format("06")
		}
		return t.Format("2006")
	case 'b':
		return t.Format("2006")
	case 'm':
		switch len(k.text) {
		case 1, 2:
			return pad(int(t.Month()))
		case 3:
			return t.Format("Jan")
		case 5:
			return t.Format("Jan")[:1]
		}
		return t.Format("January")
	case 'd':
		switch len(k.text) {
		case 1, 2:
			return pad(day)
		case 3:
			return t.Format("Mon")
		}
		return t.Format("Monday")
	case 'a':
		switch k.text {
		case "aaa":
			return string([]rune("日一二三四五六")[t.Weekday()])
		case "AM/PM":
			return t.Format("PM")
		case "A/P":
			return t.Format("PM")[:1]
		case "上午/下午":
			return map[string]string{"AM": "上午", "PM": "下午"}[t.Format("PM")]
		}
		return "星期" + string([]rune("日一二三四五六")[t.Weekday()])
	case 'h':
		h := t.Hour()
		if half {
			h = (h+11)%12 + 1
		}
		return pad(h)
	case 'i':
		return pad(t.Minute())
	case 's':
		return pad(t.Second())
	case 'H':
		return pad(int(ticks / 3600e3))
	case 'M':
		return pad(int(ticks / 60e3))
	case 'S':
		return pad(int(ticks / 1e3))
	}
	return ""
}
