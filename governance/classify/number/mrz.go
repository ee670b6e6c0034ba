package number

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// mrzNames finds the first line of the machine-readable zone of a passport, which has the name.
func mrzNames(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if r := w.At(i + 1); r != '<' && (r < 'A' || r > 'Z') {
		return finding.Candidate{}, text.When(r == text.Unknown, text.Open, text.No)
	}
	end, v := w.While(i, 45, isMRZ)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	size := end - i
	if text.IsBlank(w.At(end)) && w.At(i+1) == '<' && size < 44 { // paper broke it
		rest, v := w.While(end+1, 45-size, isMRZ)
		if v == text.Open {
			return finding.Candidate{}, text.Open
		}
		if !w.Any(end, rest, text.IsDigit) {
			size, end = size+rest-end-1, rest
		}
	}
	marks := 0
	for k := i; k+1 < end; k++ {
		if r := w.At(k); r == '<' && (w.At(k+1) == '<' || text.IsBlank(w.At(k+1))) {
			marks++
		}
	}
	if size < 15 || size > 44 || marks < 2 || w.Any(i, end, text.IsDigit) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Passport, Start: i, End: end, Form: 0.8}, text.Yes
}

func isMRZ(r rune) bool { return r >= 'A' && r <= 'Z' || text.IsDigit(r) || r == '<' }

// mrzNumbers finds the second line, by its four check digits.
func mrzNumbers(w *Detector, i int) (finding.Candidate, text.Verdict) {
	var line [44]int
	at, blanks := i, 0
	for k := range line {
		if k > 3 && blanks == 0 && text.IsBlank(w.At(at)) {
			blanks++
			at++
		}
		r := w.At(at)
		if r == text.Unknown {
			return finding.Candidate{}, text.Open
		}
		at++
		if !isMRZ(r) || (k == 9 || k == 19 || k == 27) && !text.IsDigit(r) {
			return finding.Candidate{}, text.No
		}
		switch { // a < counts as zero
		case text.IsDigit(r):
			line[k] = int(r - '0')
		case r != '<':
			line[k] = int(r-'A') + 10
		}
	}
	if next := w.At(at); next == text.Unknown || isMRZ(next) {
		return finding.Candidate{}, text.When(next == text.Unknown, text.Open, text.No)
	}
	check := func(from, to int) bool {
		sum := 0
		for k := from; k < to; k++ {
			sum += line[k] * [3]int{7, 3, 1}[(k-from)%3]
		}
		return sum%10 == line[to]
	}
	if !check(0, 9) || !check(13, 19) || !check(21, 27) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Passport, Start: i, End: at, Form: 0.4, Evidence: finding.CheckRight}, text.Yes
}
