package classify

// codesAt runs the detectors of numbers and codes that begin with a character of ASCII.
func (d *decision) codesAt(w *window, i int, r, left rune) {
	digit := isDigit(r) && !isDigit(left)
	if misread(r) > 0 && !isAlnum(left) {
		next := w.at(i + 1)
		if next == unknown {
			d.open = true
			return
		}
		digit = isDigit(next)
	}
	bracket := r == '(' || r == '['
	if digit || r == '+' || r == '(' {
		d.numbers(w, i)
	}
	if d.on.has(kMedicalRecord) {
		if r == '+' {
			d.ask(extraBed(w, i))
		}
		if r == '+' || (digit || upper(r) >= 'A' && upper(r) <= 'D') && !isAlnum(left) && left != '-' && left != '.' {
			d.ask(bedOf(w, i))
		}
	}
	if isAlnum(r) && !isAlnum(left) {
		d.codes(w, i)
	}
	if d.on.has(kMAC) && (isHex(r) || misread(r) > 0 && !isAlnum(left)) && w.pairAhead(i) {
		d.ask(mac(w, i))
	}
	if d.on.has(kCourtCase) && (digit || bracket || r == '<' || r == '{') {
		d.ask(courtCase(w, i))
	}
	if d.on.has(kCoordinates) && (digit && left != '.' && !isLetter(left) || bracket || !isAlnum(left) && (r|0x20 == 'n' || r|0x20 == 'e')) && w.degreesAhead(i, r) {
		d.ask(coordinates(w, i))
	}
	if d.on.has(kPlate) && (r == 'W' || r == 'w') && !isAlnum(left) {
		d.ask(policePlate(w, i))
	}
	if digit && d.on.has(kBirthDate) && left != '-' && left != '.' {
		d.ask(birthDate(w, i))
	}
	if digit && d.on.has(kAge) && !isLetter(left) {
		d.ask(age(w, i))
	}
	if isAlnum(r) && !isAlnum(left) && d.on.has(kPassport) && r >= '0' && r <= 'Z' {
		d.ask(mrzNumbers(w, i))
	}
}

// What may begin with a Chinese character.
const (
	headPlate uint8 = 1 << iota
	headCase
	headOfficer
	headDirection
	headNumeral
	headDocument
	headBed
)

// hanHeads says what may begin with each of the common Chinese characters, which decides at most of them that nothing does.
var hanHeads = indexHeads() //nolint:gochecknoglobals // a constant table

func indexHeads() *[hanLast - hanFirst]uint8 {
	t := new([hanLast - hanFirst]uint8)
	for _, row := range []struct {
		head  uint8
		signs string
	}{
		{headPlate, provinceSigns + otherPlateSigns},
		{headCase, provinceSigns + procuratorateSigns},
		{headOfficer, officerHeads},
		{headDirection, "东西南北"},
		{headDocument, documentHeads},
		{headBed, "加十零〇一二三四五六七八九幺两洞拐勾壹贰叁肆伍陆柒捌玖"},
	} {
		for _, r := range row.signs {
			if isCommonHan(r) {
				t[r-hanFirst] |= row.head
			}
		}
	}
	for r := rune(hanFirst); r < hanLast; r++ {
		if numeral(r) >= 0 {
			t[r-hanFirst] |= headNumeral
		}
	}
	return t
}

// hanCodes runs the detectors of numbers and codes that begin with a Chinese character.
func (d *decision) hanCodes(w *window, i int) {
	r := w.cells[i].r
	var heads uint8
	switch {
	case isCommonHan(r):
		heads = hanHeads[r-hanFirst]
	case r == '〇':
		heads = headNumeral
	}
	if heads == 0 {
		return
	}
	if heads&headPlate != 0 && d.on.has(kPlate) {
		d.ask(plate(w, i))
	}
	if heads&headCase != 0 && d.on.has(kCourtCase) {
		d.ask(procuratorateCase(w, i))
	}
	if heads&headOfficer != 0 && d.on.has(kOfficerID) {
		d.ask(officerID(w, i))
	}
	if heads&headDirection != 0 && d.on.has(kCoordinates) {
		d.ask(coordinates(w, i))
	}
	if heads&headNumeral != 0 && d.on.any(labelledKinds) {
		d.spelled(w, i)
	}
	if heads&headBed != 0 && d.on.has(kMedicalRecord) {
		d.ask(extraBed(w, i))
		if r == '加' {
			d.ask(bedOf(w, i))
		}
	}
	if heads&headDocument != 0 && d.on.has(kDocument) {
		d.ask(document(w, i))
	}
}
