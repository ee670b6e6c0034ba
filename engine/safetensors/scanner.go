package safetensors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// maxDepth bounds the nesting of values that nobody reads.
const maxDepth = 32

// scanner reads JSON that has a known form. Unlike a general decoder it builds nothing that was not asked for, so a header cannot
// make it take memory. The first failure sticks; later calls do nothing. The text must be valid UTF-8.
type scanner struct {
	b   []byte
	pos int
	err error
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("the header is damaged at byte %d: "+format, append([]any{s.pos}, args...)...)
	}
}

// explain adds which entry an error is about.
func (s *scanner) explain(name string) {
	if s.err != nil {
		s.err = fmt.Errorf("entry %.60q: %w", name, s.err)
	}
}

// next skips white space and returns the next byte, 0 at the end and after a failure.
func (s *scanner) next() byte {
	if s.err != nil {
		return 0
	}
	for ; s.pos < len(s.b); s.pos++ {
		if c := s.b[s.pos]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

func (s *scanner) accept(c byte) bool {
	if s.next() != c {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) expect(c byte) {
	if s.err == nil && !s.accept(c) {
		s.fail("%q is missing", c)
	}
}

// end makes sure that nothing follows.
func (s *scanner) end() {
	if s.next() != 0 || (s.err == nil && s.pos < len(s.b)) {
		s.fail("text follows after the JSON object")
	}
}

// list reads what lies between open and shut, separated by commas.
func (s *scanner) list(open, shut byte, element func()) {
	s.expect(open)
	if s.accept(shut) {
		return
	}
	for s.err == nil {
		element()
		if s.accept(shut) {
			return
		}
		s.expect(',')
	}
}

// object reads an object; value must read the value of each key.
func (s *scanner) object(value func(key string)) {
	s.list('{', '}', func() {
		key := s.text()
		s.expect(':')
		if s.err == nil {
			value(key)
		}
	})
}

// text reads a string.
func (s *scanner) text() string {
	if s.next() != '"' {
		s.fail("a text is missing")
		return ""
	}
	start, escaped := s.pos, false
	for s.pos++; s.pos < len(s.b); s.pos++ {
		switch c := s.b[s.pos]; {
		case c == '"':
			s.pos++
			return s.unquote(s.b[start:s.pos], escaped)
		case c == '\\':
			escaped = true
			s.pos++
		case c < ' ':
			s.fail("a text has a control character")
			return ""
		}
	}
	s.pos = len(s.b)
	s.fail("a text has no end")
	return ""
}

func (s *scanner) unquote(quoted []byte, escaped bool) string {
	if !escaped {
		return string(quoted[1 : len(quoted)-1])
	}
	var out string
	if err := json.Unmarshal(quoted, &out); err != nil {
		s.fail("a text has a wrong escape")
	}
	return out
}

// integers reads an array of at most limit integers that are not negative.
func (s *scanner) integers(limit int) []int64 {
	out := make([]int64, 0, min(limit, 4))
	s.list('[', ']', func() {
		if len(out) == limit {
			s.fail("an array has more than %d numbers", limit)
			return
		}
		out = append(out, s.integer())
	})
	return out
}

func (s *scanner) integer() int64 {
	literal := s.literal()
	n, err := strconv.ParseUint(string(literal[:min(len(literal), 24)]), 10, 63)
	if err != nil || len(literal) > 24 || (literal[0] == '0' && len(literal) > 1) {
		s.fail("%.24q is not an integer between 0 and 2^63", literal)
	}
	return int64(n)
}

// literal reads a number or a word.
func (s *scanner) literal() []byte {
	s.next()
	rest := s.b[s.pos:]
	if s.err != nil {
		rest = nil
	}
	n := bytes.IndexAny(rest, ",:]}[{\" \t\r\n")
	if n < 0 {
		n = len(rest)
	}
	s.pos += n
	return rest[:n]
}

// skip reads any value and forgets it.
func (s *scanner) skip(depth int) {
	switch c := s.next(); {
	case s.err != nil:
	case depth == maxDepth:
		s.fail("values are nested deeper than %d", maxDepth)
	case c == '{':
		s.object(func(string) { s.skip(depth + 1) })
	case c == '[':
		s.list('[', ']', func() { s.skip(depth + 1) })
	case c == '"':
		s.text()
	default:
		if literal := s.literal(); !json.Valid(literal) {
			s.fail("%.24q is not a value", literal)
		}
	}
}
