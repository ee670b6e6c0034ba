package classify

import (
	"slices"
	"strings"
)

// number is a run of digits with separators: up to three of space, dash, dot, underscore, brackets between two digits.
type number struct {
	w     *window
	digit []byte
	at    []int // cell of each digit
}

func isSeparator(r rune) bool { return strings.ContainsRune(" -._·()", r) }

// gather reads the number that begins at cell i. It is open until a character shows that it has ended, or maxDigits are read. The
// number is valid until the next call.
func gather(w *window, i int) (n number, v verdict) {
	n.w, n.digit, n.at = w, w.digit[:0], w.digitAt[:0]
	for gap := 0; len(n.digit) < maxDigits; i++ {
		r := w.at(i)
		switch {
		case isDigit(r):
			n.digit = append(n.digit, byte(r))
			n.at = append(n.at, i)
			gap = 0
		case r == unknown:
			return n, open
		case isSeparator(r) && gap < 3:
			gap++
		default:
			return n, yes
		}
	}
	return n, yes
}

// whole reports whether a group ends with digit k-1, so that the first k digits may stand for themselves. What stands behind is
// known for every k below maxDigits, since gather has read on.
func (n *number) whole(k int) bool {
	return k >= 1 && k <= len(n.digit) && k < maxDigits && !isDigit(n.w.at(n.at[k-1]+1))
}

// gap reports whether a separator stands between digits k-1 and k.
func (n *number) gap(k int) bool { return k > 0 && k < len(n.at) && n.at[k] != n.at[k-1]+1 }

// shape returns the sizes of the groups of digits from..to.
func (n *number) shape(from, to int) []int {
	var out []int
	size := 0
	for k := from; k < to; k++ {
		if k > from && n.gap(k) {
			out = append(out, size)
			size = 0
		}
		size++
	}
	return append(out, size)
}

func (n *number) text() string { return string(n.digit) }

// numbers runs the detectors of digit values at cell i, which is a digit or a plus sign.
func (d *decision) numbers(w *window, i int) {
	if !d.on.any(set(kResidentID, kMobile, kLandline, kBankCard, kBankAccount)) {
		return
	}
	first := i
	if w.at(i) == '+' {
		i++
		if w.at(i) == unknown {
			d.open = true
			return
		}
		if !isDigit(w.at(i)) {
			return
		}
	}
	n, v := gather(w, i)
	if v == open {
		d.open = true
		return
	}
	plus := first != i
	if d.on.has(kMobile) {
		d.ask(mobile(&n, first, plus))
	}
	if d.on.has(kLandline) {
		d.ask(landline(&n, first, plus))
	}
	if d.on.has(kResidentID) && !plus {
		d.ask(residentID(&n, first))
	}
	if d.on.has(kBankCard) && !plus {
		d.ask(bankCard(&n, first))
	}
	if d.on.has(kBankAccount) && !plus {
		d.ask(bankAccount(&n, first))
	}
}

// country returns the digits of an international prefix for China that n begins with: "86" after a plus sign or where a gap or
// the length shows it, "0086", or a trunk "0".
func (n *number) country(plus bool) []string {
	s := n.text()
	var out []string
	for _, p := range []string{"0086", "86", "0"} {
		if strings.HasPrefix(s, p) && (p != "0" || !plus) {
			out = append(out, p)
		}
	}
	return out
}

var mobileShapes = [][]int{ //nolint:gochecknoglobals // a constant table
	{11},
	{3, 4, 4},
	{3, 8},
	{7, 4},
	{4, 4, 3},
	{4, 3, 4},
	{3, 3, 5},
	{5, 6},
	{6, 5},
	{3, 4, 2, 2},
	{2, 3, 3, 3},
	{1, 10},
	{1, 3, 3, 4},
	{1, 2, 4, 4},
	{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
}

// mobile finds 1[3-9] and nine digits in a usual grouping, with or without the country code. A digit on either side of the
// number makes it another number; any other neighbour does not matter.
func mobile(n *number, first int, plus bool) (match, verdict) {
	for _, p := range append(n.country(plus), "") {
		from, to := len(p), len(p)+11
		if len(n.digit) < to || n.digit[from] != '1' || n.digit[from+1] < '3' {
			continue
		}
		shape := n.shape(from, to)
		if n.whole(to) && slices.ContainsFunc(mobileShapes, func(s []int) bool { return slices.Equal(s, shape) }) {
			return match{kind: kMobile, start: first, end: n.at[to-1] + 1, form: 0.8}, yes
		}
	}
	return match{}, no
}

// landline finds area code and local number: 10 and 2x with eight digits, others with seven or eight; local numbers begin with
// 2 to 8, which keeps hotlines such as 010-12345 out. An extension behind 转 or a dash belongs to it.
func landline(n *number, first int, plus bool) (match, verdict) {
	for _, p := range append(n.country(plus), "") {
		if p == "" || p == "86" && !plus && !n.gap(2) {
			continue
		}
		s := n.text()[len(p):]
		area := areaCode(s)
		for _, local := range []int{8, 7} {
			to := len(p) + area + local
			if area == 0 || local == 7 && area == 2 || to > len(n.digit) || s[area] < '2' || s[area] > '8' {
				continue
			}
			if !n.whole(to) || !landlineShape(n.shape(len(p)+area, to)) || slices.Contains(n.shape(len(p), len(p)+area), 1) {
				continue
			}
			end, v := n.extension(to)
			form := 0.75
			if !n.gap(len(p)+area) && !plus {
				form = 0.6
			}
			return match{kind: kLandline, start: first, end: end, form: form}, v
		}
	}
	return match{}, no
}

func landlineShape(groups []int) bool {
	return len(groups) == 1 || len(groups) == 2 && groups[0] >= 3 && groups[1] == 4
}

// areaCode returns the length of the area code, without the trunk 0, that s begins with; 0 if none.
func areaCode(s string) int {
	switch {
	case strings.HasPrefix(s, "10"), len(s) > 1 && s[0] == '2' && s[1] != '6':
		return 2
	case len(s) > 2 && s[0] >= '3' && s[0] <= '9' && s[0] != '6' || len(s) > 2 && s[0] == '6' && (s[1] == '6' || s[1] == '9' || s[1] == '3'):
		return 3
	}
	return 0
}

// extension returns the end of the match whose number is the first k digits.
func (n *number) extension(k int) (end int, v verdict) {
	end = n.at[k-1] + 1
	w := n.w
	next := w.at(end)
	if next == unknown {
		return end, open
	}
	if next != '转' && next != '-' {
		return end, yes
	}
	to, v := w.while(end+1, 7, isDigit)
	if v == open {
		return end, open
	}
	if size := to - end - 1; size < 1 || size > 6 || next == '-' && size > 5 {
		return end, yes
	}
	return to, yes
}

// residentID finds 18-character resident identity numbers by province, date and check character. A wrong check character
// (a typing error) and the old 15-digit form need a cue word on the left.
func residentID(n *number, first int) (match, verdict) {
	s := n.text()
	if len(s) < 15 || !isProvinceCode(s) {
		return match{}, no
	}
	end, body, v := n.residentBody()
	if v == open {
		return match{}, open
	}
	if end > 0 && validDate(body[6:14]) {
		m := match{kind: kResidentID, start: first, end: end, form: 0.3, why: dateRight | regionRight | checkRight}
		if residentCheck(body[:17]) != body[17] {
			m.why ^= checkRight | checkWrong
			if n.w.cued(first, "身份证", "证件号", "公民身份", "id") {
				m.why |= labelBefore
			}
		}
		return m, yes
	}
	if n.whole(15) && validDate("19"+s[6:12]) && n.w.cued(first, "身份证", "证件号", "公民身份") {
		return match{kind: kResidentID, start: first, end: n.at[14] + 1, form: 0.2, why: dateRight | labelBefore}, yes
	}
	return match{}, no
}

// residentBody returns the 18 characters if the number has that length, alone or as 17 digits and an X.
func (n *number) residentBody() (end int, body string, v verdict) {
	s := n.text()
	if n.whole(18) {
		return n.at[17] + 1, s[:18], yes
	}
	if !n.whole(17) {
		return 0, "", yes
	}
	x := n.at[16] + 1
	if isSeparator(n.w.at(x)) {
		x++
	}
	r, next := n.w.at(x), n.w.at(x+1)
	if r == unknown || lower(r) == 'x' && next == unknown {
		return 0, "", open
	}
	if lower(r) != 'x' || isAlnum(next) {
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

// isProvinceCode knows the provinces, and 81 to 83 of the residence permits of Hong Kong, Macau and Taiwan people.
func isProvinceCode(s string) bool {
	if len(s) < 2 {
		return false
	}
	switch p := (s[0]-'0')*10 + s[1] - '0'; p {
	case 71, 81, 82, 83:
		return true
	default:
		last := map[byte]byte{1: 5, 2: 3, 3: 7, 4: 6, 5: 4, 6: 5}[p/10]
		return p%10 >= 1 && p%10 <= last
	}
}

func validDate(s string) bool { // yyyymmdd
	num := func(t string) int {
		v := 0
		for i := range len(t) {
			v = v*10 + int(t[i]-'0')
		}
		return v
	}
	y, m, d := num(s[:4]), num(s[4:6]), num(s[6:8])
	if y < 1900 || y > 2099 || m < 1 || m > 12 || d < 1 {
		return false
	}
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[m-1]
	if m == 2 && (y%4 == 0 && y%100 != 0 || y%400 == 0) {
		days = 29
	}
	return d <= days
}

// bankCard finds 13 to 19 digits with a card prefix and a right Luhn digit; behind a cue word also without them, since passbook
// and corporate accounts have none.
func bankCard(n *number, first int) (match, verdict) {
	s := n.text()
	if len(s) < 12 {
		return match{}, no
	}
	for size := min(len(s), 19); size >= 12; size-- {
		if !n.whole(size) || !cardShape(n.shape(0, size)) {
			continue
		}
		if cardPrefix(s[:size]) && luhn(s[:size]) {
			return match{kind: kBankCard, start: first, end: n.at[size-1] + 1, form: 0.2, why: checkRight | issuerRight}, yes
		}
	}
	return match{}, no
}

// bankAccount finds the numbers of accounts behind a label: those of companies and old passbooks have no check digit.
func bankAccount(n *number, first int) (match, verdict) {
	for size := min(len(n.digit), 30); size >= 9; size-- {
		if !n.whole(size) || !cardShape(n.shape(0, size)) {
			continue
		}
		m := match{kind: kBankAccount, start: first, end: n.at[size-1] + 1, form: 0.15}
		if n.w.cued(first, "卡号", "账号", "帐号", "账户", "银行卡", "开户行", "card no", "card number") {
			m.why |= labelBefore
		}
		return m, yes
	}
	return match{}, no
}

func cardShape(groups []int) bool {
	ones := true
	for _, g := range groups {
		ones = ones && g == 1
	}
	return ones || groups[0] >= 4
}

func cardPrefix(s string) bool {
	two := s[:2]
	switch len(s) {
	case 13:
		return s[0] == '4'
	case 14:
		return two == "36" || two == "38" || two == "30"
	case 15:
		return two == "34" || two == "37"
	case 16:
		return s[0] == '4' || two >= "51" && two <= "55" || two >= "22" && two <= "27" || two == "35" || two == "60" || two == "62" ||
			two == "65" || s[0] == '9'
	case 17, 18, 19:
		return two == "62" || two == "60" || s[0] == '9' || s[0] == '4' && len(s) == 19
	}
	return false
}

func luhn(s string) bool {
	sum := 0
	for i := range len(s) {
		d := int(s[len(s)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
