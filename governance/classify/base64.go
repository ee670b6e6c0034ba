package classify

import (
	"unicode"
	"unicode/utf8"
)

const (
	leastBase64 = 16   // characters of a run that is looked into
	pieceBase64 = 1024 // characters that are decoded at once
	stepBase64  = 768  // from one piece to the next: values lie whole in one of two
)

func isBase64(r rune) bool { return uint32(r) < 0x80 && base64Table[r] }

var base64Table = func() (t [0x80]bool) { //nolint:gochecknoglobals // a constant table
	for r := range t {
		t[r] = isAlnum(rune(r)) || r == '+' || r == '/' || r == '-' || r == '_'
	}
	return t
}()

// runBase64 returns where the run of base64 begins that is to be looked into at cell i. Small letters at the beginning of a run are not
// kept back, or every word of prose would wait for its end; so a run is looked into at its first other character, wherever that is.
func (w *window) runBase64(i int) (start int, ok bool) {
	if r := w.at(i); !isBase64(r) || r >= 'a' && r <= 'z' {
		return 0, false
	}
	for start = i; start > 0 && i-start < leastBase64; start-- {
		left := w.at(start - 1)
		if !isBase64(left) {
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
func encoded(w *window, start, i int, s *Set) (m match, next int, v verdict) {
	end, last := i, start+pieceBase64
	for end < last && isBase64(w.at(end)) {
		end++
	}
	if end < last && w.at(end) == unknown {
		return m, 0, open
	}
	if end-start == pieceBase64 {
		next = start + stepBase64
	}
	if end-start < leastBase64 {
		return m, 0, no
	}
	inner := *s
	inner.inner = true
	text := decodeBase64(w.cells[start:end])
	if text == "" {
		return m, next, no
	}
	for _, f := range inner.Find(text) {
		if k, _ := s.kindOf(f.Class); m.end == 0 || f.Score > m.score() {
			m = match{kind: k, start: i, end: end, form: f.Why.form, why: f.Why.why | inBase64}
		}
	}
	if m.end == 0 {
		return m, next, no
	}
	m.end, v = w.while(end, 2, func(r rune) bool { return r == '=' })
	return m, next, v
}

// decodeBase64 returns the text that cells encode, "" if it is none. The end of it may be missing, and of the text the first and the last
// rune.
func decodeBase64(cells []cell) string {
	var room [pieceBase64 / 4 * 3]byte
	b := room[:0]
	bits, count := uint32(0), 0
	for _, c := range cells {
		bits, count = bits<<6|uint32(base64Value(c.r)), count+6
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
