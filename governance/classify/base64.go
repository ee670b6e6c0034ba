package classify

import (
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

const (
	leastBase64 = 16   // characters of a run that is looked into
	pieceBase64 = 1024 // characters that are decoded at once
	stepBase64  = 768  // from one piece to the next: values lie whole in one of two
)

// runBase64 returns where the run of base64 begins that is to be looked into at cell i. Small letters at the beginning of a run are not
// kept back, or every word of prose would wait for its end; so a run is looked into at its first other character, wherever that is.
func runBase64(w *text.Window, i int) (start int, ok bool) {
	if r := w.At(i); !text.IsBase64(r) || r >= 'a' && r <= 'z' {
		return 0, false
	}
	for start = i; start > 0 && i-start < leastBase64; start-- {
		left := w.At(start - 1)
		if !text.IsBase64(left) {
			break
		}
		if left < 'a' || left > 'z' {
			return 0, false
		}
	}
	return start, true
}

// encoded looks into a run of base64 that begins at cell start: where the decoded text has something, the run is masked from cell i to the
// end of the piece. It is looked into one level deep. next is where the run is to be looked into again, 0 if it ends.
func encoded(w *text.Window, start, i int, s *Set) (m finding.Candidate, next int, v text.Verdict) {
	end, last := i, start+pieceBase64
	for end < last && text.IsBase64(w.At(end)) {
		end++
	}
	if end < last && w.At(end) == text.Unknown {
		return m, 0, text.Open
	}
	if end-start == pieceBase64 {
		next = start + stepBase64
	}
	if end-start < leastBase64 {
		return m, 0, text.No
	}
	inner := *s
	inner.inner = true
	str := decodeBase64(w.Cells(start, end))
	if str == "" {
		return m, next, text.No
	}
	for _, f := range inner.Find(str) {
		if k, _ := s.kindOf(f.Class); m.End == 0 || f.Score > m.Score() {
			m = finding.Candidate{Kind: k, Start: i, End: end, Form: f.Why.Form(), Evidence: f.Why.Evidence() | finding.InBase64}
		}
	}
	if m.End == 0 {
		return m, next, text.No
	}
	m.End, v = w.While(end, 2, func(r rune) bool { return r == '=' })
	return m, next, v
}

// decodeBase64 returns the text that cells encode, "" if it is none. The end of it may be missing, and of the text the first and the last
// rune.
func decodeBase64(cells []text.Cell) string {
	var room [pieceBase64 / 4 * 3]byte
	b := room[:0]
	bits, count := uint32(0), 0
	for _, c := range cells {
		bits, count = bits<<6|uint32(base64Value(c.R)), count+6
		if count >= 8 {
			count -= 8
			b = append(b, byte(bits>>count))
		}
	}
	for n := 0; n < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); n++ {
		b = b[1:]
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		switch {
		case r == utf8.RuneError && size == 1 && len(b)-i <= utf8.UTFMax:
			b = b[:i]
		case r == utf8.RuneError, unicode.IsControl(r) && !unicode.IsSpace(r):
			return ""
		}
		i += size
	}
	return string(b)
}

// base64Value is what a character of either alphabet stands for.
func base64Value(r rune) byte {
	switch {
	case r >= 'a':
		return byte(r-'a') + 26
	case r == '_' || r == '/':
		return 63
	case r >= 'A':
		return byte(r - 'A')
	case r >= '0':
		return byte(r-'0') + 52
	}
	return 62
}
