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
	marks := 0
	for k := i; k+1 < end; k++ {
		if w.cells[k].r == '<' && w.cells[k+1].r == '<' {
			marks++
		}
	}
	if end-i < 15 || end-i > 44 || marks < 2 || w.any(i, end, isDigit) {
		return match{}, no
	}
	return match{kind: kPassport, start: i, end: end, form: 0.8}, yes
}

func isMRZ(r rune) bool { return r >= 'A' && r <= 'Z' || isDigit(r) || r == '<' }

// mrzNumbers finds the second line, by its four check digits.
func mrzNumbers(w *window, i int) (match, verdict) {
	var line [44]int
	for k := range line {
		r := w.at(i + k)
		if r == unknown {
			return match{}, open
		}
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
	if next := w.at(i + 44); next == unknown || isMRZ(next) {
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
	return match{kind: kPassport, start: i, end: i + 44, form: 0.4, why: checkRight}, yes
}
