package classify

// mrzNames finds the first line of the machine-readable zone of a passport, which has the name.
func mrzNames(w *window, i int) (match, verdict) {
	if r := w.at(i + 1); r != '<' && (r < 'A' || r > 'Z') {
		return match{}, when(r == unknown, open, no)
	}
	end, v := w.while(i, 45, isMRZ)
	if v == open {
		return match{}, open
	}
	size := end - i
	if isBlank(w.at(end)) && w.at(i+1) == '<' && size < 44 { // paper broke it
		rest, v := w.while(end+1, 45-size, isMRZ)
		if v == open {
			return match{}, open
		}
		if !w.any(end, rest, isDigit) {
			size, end = size+rest-end-1, rest
		}
	}
	marks := 0
	for k := i; k+1 < end; k++ {
		if r := w.cells[k].r; r == '<' && (w.cells[k+1].r == '<' || isBlank(w.cells[k+1].r)) {
			marks++
		}
	}
	if size < 15 || size > 44 || marks < 2 || w.any(i, end, isDigit) {
		return match{}, no
	}
	return match{kind: kPassport, start: i, end: end, form: 0.8}, yes
}

func isMRZ(r rune) bool { return r >= 'A' && r <= 'Z' || isDigit(r) || r == '<' }

// mrzNumbers finds the second line, by its four check digits.
func mrzNumbers(w *window, i int) (match, verdict) {
	var line [44]int
	at, blanks := i, 0
	for k := range line {
		if k > 3 && blanks == 0 && isBlank(w.at(at)) {
			blanks++
			at++
		}
		r := w.at(at)
		if r == unknown {
			return match{}, open
		}
		at++
		if !isMRZ(r) || (k == 9 || k == 19 || k == 27) && !isDigit(r) {
			return match{}, no
		}
		switch { // a < counts as zero
		case isDigit(r):
			line[k] = int(r - '0')
		case r != '<':
			line[k] = int(r-'A') + 10
		}
	}
	if next := w.at(at); next == unknown || isMRZ(next) {
		return match{}, when(next == unknown, open, no)
	}
	check := func(from, to int) bool {
		sum := 0
		for k := from; k < to; k++ {
			sum += line[k] * [3]int{7, 3, 1}[(k-from)%3]
		}
		return sum%10 == line[to]
	}
	if !check(0, 9) || !check(13, 19) || !check(21, 27) {
		return match{}, no
	}
	return match{kind: kPassport, start: i, end: at, form: 0.4, why: checkRight}, yes
}
