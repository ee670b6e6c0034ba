package classify

import "strings"

const provinceSigns = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼黔"

func isProvince(r rune) bool { return r > 0x80 && strings.ContainsRune(provinceSigns, r) }

const otherPlateSigns = "使领军海空沈兰济南广成北"

// plateBody reads up to most letters and digits of a plate, over one stray blank. What a scanner of paper takes for O and I are digits,
// since plates have no such letters; a small l may be a letter, and counts as a digit all the same.
func (w *window) plateBody(i, most int) (body []byte, end int, v verdict) {
	var room [8]byte
	body = room[:0]
	blanks := 0
	end = i
	for len(body) < most {
		r := w.at(end)
		if r == unknown {
			return nil, end, open
		}
		if isBlank(r) && blanks == 0 && len(body) > 0 {
			next := w.at(end + 1)
			if next == unknown {
				return nil, end, open
			}
			if !isAlnum(next) && !strings.ContainsRune(plateTails, next) {
				break
			}
			if len(body) == 5 {
				if after := w.at(end + 2); after == unknown {
					return nil, end, open
				} else if isAlnum(after) || !isAlnum(next) || !newEnergy(append(body, byte(upper(next)))) {
					break
				}
			}
			blanks++
			end++
			continue
		}
		if sign := misread(r); sign > 0 {
			r = rune(sign)
		}
		if !isAlnum(r) {
			break
		}
		body = append(body, byte(upper(r)))
		end++
	}
	return body, end, yes
}

const plateTails = "学警挂港澳试超领使临应"

// plate finds vehicle plates: province, letter, an optional dot, then five characters, or six for new-energy vehicles, or four and a
// word. The letters I and O do not occur; at least three digits do, or 新 and 云 before a word would be plates.
func plate(w *window, i int) (match, verdict) {
	sign := w.cells[i].r
	k := i + 1
	if r := w.at(k); isBlank(r) || r == '·' {
		k++
	}
	r := upper(w.at(k))
	if r == unknown {
		return match{}, open
	}
	if sign == '使' && isDigit(r) {
		return embassyPlate(w, i, k)
	}
	if !isLetter(r) || r == 'I' {
		return match{}, no
	}
	k++
	for range 2 {
		if r := w.at(k); r > 0 && strings.ContainsRune("·.- \n", r) {
			k++
		}
	}
	if w.at(k) == '临' {
		k++
	}
	body, end, v := w.plateBody(k, 7)
	if v == open {
		return match{}, open
	}
	tail := w.at(end)
	if tail == unknown {
		return match{}, open
	}
	digits := 0
	for _, c := range body {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	m := match{kind: kPlate, start: i, end: end, form: 0.8}
	switch {
	case isAlnum(tail) || digits < 2:
		return match{}, no
	case len(body) == 4 && strings.ContainsRune(plateTails, tail):
		m.end++
		if tail == '应' {
			if end, v = w.literal(end, "应急"); v != yes {
				return match{}, v
			}
			m.end = end
		}
	case len(body) == 5, len(body) == 6 && newEnergy(body):
	default:
		return match{}, no
	}
	if isProvince(sign) && digits >= 3 {
		return m, yes
	}
	if m.form = 0.3; sign == '军' || sign == '海' || sign == '空' {
		m.form = 0.35
	}
	if !isProvince(sign) && digits < 5 {
		return match{}, no
	}
	return w.anchor(m, w.hints(i))
}

// embassyPlate finds 使 and six digits near a word that points at a vehicle.
func embassyPlate(w *window, i, k int) (match, verdict) {
	body, end, v := w.plateBody(k, 7)
	if v == open {
		return match{}, open
	}
	if len(body) != 6 || isAlnum(w.at(end)) || strings.ContainsFunc(string(body), func(r rune) bool { return !isDigit(r) }) {
		return match{}, no
	}
	return w.anchor(match{kind: kPlate, start: i, end: end, form: 0.3}, w.hints(i))
}

// newEnergy: small cars have the letter first and perhaps another behind it, large ones last.
func newEnergy(body []byte) bool {
	rest := body[2:]
	if body[0] <= '9' {
		rest = body[:5]
		if body[5] != 'D' && body[5] != 'F' {
			return false
		}
	} else if body[0] > 'K' {
		return false
	}
	if body[0] > '9' && (body[5] == 'D' || body[5] == 'F') {
		rest = body[1:5]
	}
	for _, c := range rest {
		if c > '9' {
			return false
		}
	}
	return true
}

// policePlate finds the plates of the armed police: WJ, a province, four digits and one more.
func policePlate(w *window, i int) (match, verdict) {
	k, v := w.while(i+1, 1, isBlank)
	if v == yes {
		k, v = w.literal(k, "j")
	}
	if v != yes {
		return match{}, v
	}
	sep := func() {
		if r := w.at(k); r > 0 && strings.ContainsRune("·.- \n", r) {
			k++
		}
	}
	sep()
	province := isProvince(w.at(k))
	if w.at(k) == unknown {
		return match{}, open
	}
	if province {
		k++
		sep()
	}
	body, end, v := w.plateBody(k, 8)
	if v == open {
		return match{}, open
	}
	if w.at(end) == unknown {
		return match{}, open
	}
	size := len(body)
	if isAlnum(w.at(end)) || size < 4 || province && size != 5 || !province && size != 7 || strings.ContainsFunc(string(body[:4]), isLetter) {
		return match{}, no
	}
	m := match{kind: kPlate, start: i, end: end, form: 0.8}
	if !province {
		m.form = 0.3
		return w.anchor(m, w.hints(i))
	}
	return m, yes
}

// armyPlate finds two letters and five digits near a word that points at a vehicle.
func armyPlate(c *number) (match, verdict) {
	if !c.form("AA99999") || strings.IndexByte("VKHBSLJNGCZ", c.digit[0]) < 0 {
		return match{}, no
	}
	return c.w.anchor(match{kind: kPlate, start: c.at[0], end: c.end(7), form: 0.25}, c.h)
}

// vin finds vehicle identification numbers by the check character in their ninth position, behind a label also without: those of Europe
// have none.
func vin(w *window, i int) (match, verdict) {
	var code [17]byte
	k, blanks, digits, capitals, word := i, 0, 0, false, true
	for n := range code {
		r := w.at(k)
		if n > 0 && isBlank(r) && blanks == 0 {
			if next := w.at(k + 1); word && !(n == 1 && (isDigit(next) || next >= 'A' && next <= 'Z')) {
				return match{}, when(n == 1 && next == unknown, open, no) // a word does not wait for the next
			}
			blanks++
			k++
			r = w.at(k)
		}
		if r == unknown {
			return match{}, open
		}
		if !isAlnum(r) {
			return match{}, no
		}
		c := byte(upper(r))
		capitals, word = capitals || r >= 'A' && r <= 'Z', word && (n == 0 && isLetter(r) || r >= 'a' && r <= 'z')
		if r == 'l' && capitals {
			c = '1'
		}
		switch c {
		case 'O':
			c = '0'
		case 'I':
			c = '1'
		case 'Q':
			return match{}, no
		}
		if c <= '9' {
			digits++
		}
		code[n] = c
		k++
	}
	next := w.at(k)
	if next == unknown {
		return match{}, open
	}
	if isAlnum(next) || digits < 4 || digits > 16 {
		return match{}, no
	}
	m := match{kind: kVIN, start: i, end: k, form: 0.2}
	if !strings.ContainsFunc(string(code[13:]), isLetter) {
		m.why |= typical
	}
	if vinCheck(code) == code[8] {
		m.why |= checkRight
		if m.why&typical == 0 {
			m.form = 0.1
		}
		if blanks > 0 {
			m.form = -0.15
		}
	}
	if !strings.ContainsFunc(string(code[:]), func(r rune) bool { return r > 'F' && r != 'X' }) {
		m.form -= 0.5 // rather a hexadecimal number
	}
	return w.anchor(m, w.hints(i))
}

func vinCheck(code [17]byte) byte {
	sum := 0
	for k, weight := range [17]int{8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2} {
		value := int(code[k] - '0')
		switch c := code[k]; {
		case c >= 'S':
			value = int(c-'S') + 2
		case c >= 'J':
			value = int(c-'J') + 1
		case c >= 'A':
			value = int(c-'A') + 1
		}
		sum += value * weight
	}
	return "0123456789X"[sum%11]
}
