package classify

import "testing"

// TestOneBreakOfPaper puts a blank into every value at every place, and a line break. Almost nothing gets lost; what does has a reason: a
// letter that a blank cuts off looks like a word of its own.
func TestOneBreakOfPaper(t *testing.T) {
	set := New(Classes()...)
	tried, lost := map[Class]int{}, map[Class]int{}
	for _, e := range codeExamples() {
		text, start, end := e.parse()
		if e.class == BirthDate || e.class == Document { // broken dates are too often two numbers
			continue
		}
		for at := start + 1; at < end; at++ {
			if text[at]&0xc0 == 0x80 { // inside a character
				continue
			}
			for _, sign := range []string{" ", "\n"} {
				broken := text[:at] + sign + text[at:]
				tried[e.class]++
				if !covered(set.Find(broken), start, end+1) {
					lost[e.class]++
				}
			}
		}
	}
	for class, n := range tried {
		if most := n / 8; lost[class] > most && n > 20 {
			t.Errorf("%s: %d of %d broken values get lost", class, lost[class], n)
		}
	}
}

// covered reports whether findings leave nothing of the bytes from start to end.
func covered(found []Finding, start, end int) bool {
	for _, f := range found {
		if f.Start <= start {
			start = max(start, f.End)
		}
	}
	return start >= end
}
