package classify

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	leastBase64 = 16   // characters of a run that is looked into
	pieceBase64 = 1024 // characters that are decoded at once
	stepBase64  = 768  // from one piece to the next: values lie whole in one of two
)

func isBase64(r rune) bool { return isAlnum(r) || r == '+' || r == '/' || r == '-' || r == '_' }

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
	end, v := w.while(i, pieceBase64-(i-start), isBase64)
	if v == open {
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
	for _, f := range inner.Find(decodeBase64(w.ascii(start, end))) {
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

// decodeBase64 returns the text that s encodes, "" if it is none. The end of s may be missing.
func decodeBase64(s string) string {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(s)
	b, err := base64.RawStdEncoding.DecodeString(s[:len(s)/4*4])
	if err != nil {
		return ""
	}
	if tail, err := base64.RawStdEncoding.DecodeString(s[len(s)/4*4:]); err == nil {
		b = append(b, tail...)
	}
	for n := 0; n < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); n++ { // the first and the last rune may be cut
		b = b[1:]
	}
	for n := 0; n < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); n++ {
		b = b[:len(b)-1]
	}
	text := string(b)
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return ""
	}
	return text
}
