package classify

import "strings"

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
	switch {
	case digit, r == '+':
		d.numbers(w, i)
	case r == '(':
		d.numbers(w, i)
	}
	if isAlnum(r) && !isAlnum(left) {
		d.codes(w, i)
	}
	if d.on.has(kMAC) && isHex(r) {
		d.ask(mac(w, i))
	}
	if d.on.has(kCourtCase) && (digit || bracket || r == '<' || r == '{') {
		d.ask(courtCase(w, i))
	}
	if d.on.has(kCoordinates) && (digit && left != '.' && !isLetter(left) || bracket || !isAlnum(left) && strings.ContainsRune("NEne", r)) {
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

// hanCodes runs the detectors of numbers and codes that begin with a Chinese character.
func (d *decision) hanCodes(w *window, i int) {
	r := w.cells[i].r
	if d.on.has(kPlate) && isPlateSign(r) {
		d.ask(plate(w, i))
	}
	if d.on.has(kCourtCase) && (isProvince(r) || r == '高' || r == '最') {
		d.ask(procuratorateCase(w, i))
	}
	if d.on.has(kOfficerID) && strings.ContainsRune(officerHeads, r) {
		d.ask(officerID(w, i))
	}
	if d.on.has(kCoordinates) && strings.ContainsRune("东西南北", r) {
		d.ask(coordinates(w, i))
	}
	if d.on.any(labelledKinds) && numeral(r) >= 0 {
		d.spelled(w, i)
	}
	if d.on.has(kDocument) && strings.ContainsRune(documentHeads, r) {
		d.ask(document(w, i))
	}
	if d.on.has(kCompany) {
		d.ask(company(w, i))
	}
}
