package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

const otherPlateSigns = "使领军海空沈兰济南广成北"

// plateBody reads up to most letters and digits of a plate, over one stray blank. What a scanner of paper takes for O and I are digits,
// since plates have no such letters; a small l may be a letter, and counts as a digit all the same.
func (w *Detector) plateBody(i, most int) (body []byte, end int, v text.Verdict) {
	var room [8]byte
	body = room[:0]
	blanks := 0
	end = i
	for len(body) < most {
		r := w.At(end)
		if r == text.Unknown {
			return nil, end, text.Open
		}
		if text.IsBlank(r) && blanks == 0 && len(body) > 0 {
			next := w.At(end + 1)
			if next == text.Unknown {
				return nil, end, text.Open
			}
			if !text.IsAlnum(next) && !strings.ContainsRune(plateTails, next) {
				break
			}
			if len(body) == 5 {
				if after := w.At(end + 2); after == text.Unknown {
					return nil, end, text.Open
				} else if text.IsAlnum(after) || !text.IsAlnum(next) || !newEnergy(append(body, byte(text.Upper(next)))) {
					break
				}
			}
			blanks++
			end++
			continue
		}
		if sign := text.Misread(r); sign > 0 {
			r = rune(sign)
		}
		if !text.IsAlnum(r) {
			break
		}
		body = append(body, byte(text.Upper(r)))
		end++
	}
	return body, end, text.Yes
}

const plateTails = "学警挂港澳试超领使临应"

// plate finds vehicle plates: province, letter, an optional dot, then five characters, or six for new-energy vehicles, or four and a
// word. The letters I and O do not occur; at least three digits do, or 新 and 云 before a word would be plates.
func plate(w *Detector, i int) (finding.Candidate, text.Verdict) {
	sign := w.At(i)
	k := i + 1
	if r := w.At(k); text.IsBlank(r) || r == '·' {
		k++
	}
	r := text.Upper(w.At(k))
	if r == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	if sign == '使' && text.IsDigit(r) {
		return embassyPlate(w, i, k)
	}
	if !text.IsLetter(r) || r == 'I' {
		return finding.Candidate{}, text.No
	}
	k++
	for range 2 {
		if r := w.At(k); r > 0 && strings.ContainsRune("·.- \n", r) {
			k++
		}
	}
	if w.At(k) == '临' {
		k++
	}
	body, end, v := w.plateBody(k, 7)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	tail := w.At(end)
	if tail == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	digits := 0
	for _, c := range body {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	m := finding.Candidate{Kind: finding.Plate, Start: i, End: end, Form: 0.8}
	switch {
	case text.IsAlnum(tail) || digits < 2:
		return finding.Candidate{}, text.No
	case len(body) == 4 && strings.ContainsRune(plateTails, tail):
		m.End++
		if tail == '应' {
			if end, v = w.Literal(end, "应急"); v != text.Yes {
				return finding.Candidate{}, v
			}
			m.End = end
		}
	case len(body) == 5, len(body) == 6 && newEnergy(body):
	default:
		return finding.Candidate{}, text.No
	}
	if isProvince(sign) && digits >= 3 {
		return m, text.Yes
	}
	if m.Form = 0.3; sign == '军' || sign == '海' || sign == '空' {
		m.Form = 0.35
	}
	if !isProvince(sign) && digits < 5 {
		return finding.Candidate{}, text.No
	}
	return w.Anchor(m, w.Hints(i))
}

// embassyPlate finds 使 and six digits near a word that points at a vehicle.
func embassyPlate(w *Detector, i, k int) (finding.Candidate, text.Verdict) {
	body, end, v := w.plateBody(k, 7)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if len(body) != 6 || text.IsAlnum(w.At(end)) || strings.ContainsFunc(string(body), func(r rune) bool { return !text.IsDigit(r) }) {
		return finding.Candidate{}, text.No
	}
	return w.Anchor(finding.Candidate{Kind: finding.Plate, Start: i, End: end, Form: 0.3}, w.Hints(i))
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
func policePlate(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k, v := w.While(i+1, 1, text.IsBlank)
	if v == text.Yes {
		k, v = w.Literal(k, "j")
	}
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	sep := func() {
		if r := w.At(k); r > 0 && strings.ContainsRune("·.- \n", r) {
			k++
		}
	}
	sep()
	province := isProvince(w.At(k))
	if w.At(k) == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	if province {
		k++
		sep()
	}
	body, end, v := w.plateBody(k, 8)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if w.At(end) == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	size := len(body)
	if text.IsAlnum(w.At(end)) || size < 4 || province && size != 5 || !province && size != 7 || strings.ContainsFunc(string(body[:4]), text.IsLetter) {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.Plate, Start: i, End: end, Form: 0.8}
	if !province {
		m.Form = 0.3
		return w.Anchor(m, w.Hints(i))
	}
	return m, text.Yes
}

// armyPlate finds two letters and five digits near a word that points at a vehicle.
func armyPlate(c *number) (finding.Candidate, text.Verdict) {
	if !c.form("AA99999") || strings.IndexByte("VKHBSLJNGCZ", c.digit[0]) < 0 {
		return finding.Candidate{}, text.No
	}
	return c.w.Anchor(finding.Candidate{Kind: finding.Plate, Start: c.at[0], End: c.end(7), Form: 0.25}, c.h)
}

// vin finds vehicle identification numbers by the check character in their ninth position, behind a label also without: those of Europe
// have none.
func vin(w *Detector, i int) (finding.Candidate, text.Verdict) {
	var code [17]byte
	k, blanks, digits, capitals, word := i, 0, 0, false, true
	for n := range code {
		r := w.At(k)
		if n > 0 && text.IsBlank(r) && blanks == 0 {
			if next := w.At(k + 1); word && !(n == 1 && (text.IsDigit(next) || next >= 'A' && next <= 'Z')) {
				return finding.Candidate{}, text.When(n == 1 && next == text.Unknown, text.Open, text.No) // a word does not wait for the next
			}
			blanks++
			k++
			r = w.At(k)
		}
		if r == text.Unknown {
			return finding.Candidate{}, text.Open
		}
		if !text.IsAlnum(r) {
			return finding.Candidate{}, text.No
		}
		c := byte(text.Upper(r))
		capitals, word = capitals || r >= 'A' && r <= 'Z', word && (n == 0 && text.IsLetter(r) || r >= 'a' && r <= 'z')
		if r == 'l' && capitals {
			c = '1'
		}
		switch c {
		case 'O':
			c = '0'
		case 'I':
			c = '1'
		case 'Q':
			return finding.Candidate{}, text.No
		}
		if c <= '9' {
			digits++
		}
		code[n] = c
		k++
	}
	next := w.At(k)
	if next == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	if text.IsAlnum(next) || digits < 4 || digits > 16 {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.VIN, Start: i, End: k, Form: 0.2}
	if !strings.ContainsFunc(string(code[13:]), text.IsLetter) {
		m.Evidence |= finding.Typical
	}
	if vinCheck(code) == code[8] {
		m.Evidence |= finding.CheckRight
		if m.Evidence&finding.Typical == 0 {
			m.Form = 0.1
		}
		if blanks > 0 {
			m.Form = -0.15
		}
	}
	if !strings.ContainsFunc(string(code[:]), func(r rune) bool { return r > 'F' && r != 'X' }) {
		m.Form -= 0.5 // rather a hexadecimal number
	}
	return w.Anchor(m, w.Hints(i))
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

func isProvince(r rune) bool { return r > 0x80 && strings.ContainsRune(lexicon.ProvinceSigns, r) }
