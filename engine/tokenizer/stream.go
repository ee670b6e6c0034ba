package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Stream turns bytes that arrive in arbitrary pieces into valid UTF-8. What it returns in total does not depend on the pieces:
// whole characters as they are, U+FFFD for each byte that is no part of one. The zero value is ready; a Stream serves one text and
// one goroutine.
type Stream struct {
	open [utf8.UTFMax]byte // the beginning of a character
	n    int
}

// Write adds bytes and returns the text that is complete with them.
func (s *Stream) Write(b []byte) string {
	var out strings.Builder
	for s.n > 0 && len(b) > 0 {
		s.open[s.n] = b[0]
		s.n++
		b = b[1:]
		s.settle(&out)
	}
	for len(b) > 0 {
		if !utf8.FullRune(b) {
			s.n = copy(s.open[:], b)
			break
		}
		b = b[writeRune(&out, b):]
	}
	return out.String()
}

// settle moves what is decided from the open bytes to out.
func (s *Stream) settle(out *strings.Builder) {
	for s.n > 0 && utf8.FullRune(s.open[:s.n]) {
		size := writeRune(out, s.open[:s.n])
		s.n = copy(s.open[:], s.open[size:s.n])
	}
}

// Close returns the rest: U+FFFD for each byte of a character that never became whole. The Stream is then empty again.
func (s *Stream) Close() string {
	n := s.n
	s.n = 0
	return strings.Repeat(string(utf8.RuneError), n)
}

func writeRune(out *strings.Builder, b []byte) int {
	r, size := utf8.DecodeRune(b)
	out.WriteRune(r)
	return size
}
