package online

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// spelling is what stands from a cell on, in characters of ASCII, with at most one blank or line break left out.
type spelling struct {
	text []byte
	at   []int // cell of each character
	gap  int   // how many characters stand before the blank; all without one
}

// maxSpelled is the longest limit of spelled.
const maxSpelled = 96

// spelled reads at most limit characters that as turns into one of ASCII; as returns 0 for others. What it returns is valid until the next
// call.
func (w *speller) spelled(i, limit int, as func(rune) byte) (s spelling, v text.Verdict) {
	s.text, s.at, s.gap = w.spelt[:0], w.speltAt[:0], -1
	for ; len(s.text) < limit; i++ {
		r := w.At(i)
		if r == text.Unknown {
			return s, text.Open
		}
		if c := as(r); c != 0 {
			s.text, s.at = append(s.text, c), append(s.at, i)
			continue
		}
		if !text.IsBlank(r) || s.gap >= 0 || isWord(s.text) {
			break
		}
		next := w.At(i + 1)
		if next == text.Unknown {
			return s, text.Open
		}
		if as(next) == 0 {
			break
		}
		s.gap = len(s.text)
	}
	if s.gap < 0 {
		s.gap = len(s.text)
	}
	return s, text.Yes
}

// spelledOver reads as spelled does, where the first blank is known to stand at a cell; 0: it is not.
func (w *speller) spelledOver(i, blank, limit int, as func(rune) byte) (spelling, text.Verdict) {
	if blank == 0 {
		return w.spelled(i, limit, as)
	}
	s := spelling{w.spelt[:0], w.speltAt[:0], blank - i}
	for k := i; len(s.text) < limit; k++ {
		r := w.At(k)
		if r == text.Unknown {
			return s, text.Open
		}
		c := as(r)
		if c == 0 && k != blank {
			break
		}
		if c != 0 {
			s.text, s.at = append(s.text, c), append(s.at, k)
		}
	}
	return s, text.Yes
}

// isWord reports whether s is a word as it stands in prose, or nothing: that does not wait for what follows.
func isWord(s []byte) bool {
	for n, c := range s {
		if !text.IsLetter(rune(c)) || n > 0 && c <= 'Z' {
			return false
		}
	}
	return true
}

// spell is ascii for at most maxSpelled cells; the text lasts until the next one is spelled.
func (w *speller) spell(i, end int) []byte { return w.AppendASCII(w.spelt[:0], i, end) }

// speller reads texts of ASCII out of a window.
type speller struct {
	finding.Window
	spelt   [maxSpelled]byte // the characters
	speltAt [maxSpelled]int
}
