package toolcall

// maxNesting of the JSON of a call.
const maxNesting = 256

// scanner checks JSON byte by byte. The zero value expects a value.
type scanner struct {
	state uint8
	stack []byte // '{' or '[' of what is open
	rest  string // of a literal such as true
	hex   int    // digits of an escape still to come
	isKey bool   // the string is a key
}

// The states.
const (
	wantValue uint8 = iota
	wantValueOrEnd
	wantKey
	wantKeyOrEnd
	wantColon
	wantCommaOrEnd
	inString
	inEscape
	inHex
	inLiteral
	afterMinus
	afterZero
	inInteger
	afterPoint
	inFraction
	afterExponent
	afterSign
	inExponent
	finished // the value is complete
)

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// step takes one more byte and says whether what came so far begins some JSON text. An object or array is finished with its last
// byte; a number is never finished at the outermost level, where calls have none.
func (s *scanner) step(c byte) bool {
	switch s.state {
	case inString, inEscape, inHex:
		return s.stringByte(c)
	case inLiteral:
		if c != s.rest[0] {
			return false
		}
		if s.rest = s.rest[1:]; s.rest == "" {
			s.end()
		}
		return true
	case afterMinus, afterZero, inInteger, afterPoint, inFraction, afterExponent, afterSign, inExponent:
		return s.numberByte(c)
	case finished:
		return isSpace(c)
	}
	if isSpace(c) {
		return true
	}
	return s.structure(c)
}

func (s *scanner) structure(c byte) bool {
	switch s.state {
	case wantColon:
		s.state = wantValue
		return c == ':'
	case wantKey, wantKeyOrEnd:
		if c == '"' {
			s.state, s.isKey = inString, true
			return true
		}
		return s.state == wantKeyOrEnd && c == '}' && s.pop()
	case wantCommaOrEnd:
		open := s.stack[len(s.stack)-1]
		if c == ',' {
			s.state = wantValue
			if open == '{' {
				s.state = wantKey
			}
			return true
		}
		return c == open+2 && s.pop() // '}' and ']' come two after '{' and '['
	case wantValueOrEnd:
		if c == ']' {
			return s.pop()
		}
	}
	return s.value(c)
}

func (s *scanner) value(c byte) bool {
	switch c {
	case '{', '[':
		s.stack = append(s.stack, c)
		s.state = wantKeyOrEnd
		if c == '[' {
			s.state = wantValueOrEnd
		}
		return len(s.stack) <= maxNesting
	case '"':
		s.state, s.isKey = inString, false
	case 't':
		s.state, s.rest = inLiteral, "true"[1:]
	case 'f':
		s.state, s.rest = inLiteral, "false"[1:]
	case 'n':
		s.state, s.rest = inLiteral, "null"[1:]
	case '-':
		s.state = afterMinus
	case '0':
		s.state = afterZero
	default:
		s.state = inInteger
		return isDigit(c)
	}
	return true
}

func (s *scanner) pop() bool {
	s.stack = s.stack[:len(s.stack)-1]
	s.end()
	return true
}

// end ends a value.
func (s *scanner) end() {
	s.state = wantCommaOrEnd
	if len(s.stack) == 0 {
		s.state = finished
	}
}

func (s *scanner) stringByte(c byte) bool {
	switch s.state {
	case inEscape:
		s.state = inString
		if c == 'u' {
			s.state, s.hex = inHex, 4
			return true
		}
		return c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't'
	case inHex:
		if s.hex--; s.hex == 0 {
			s.state = inString
		}
		return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
	}
	switch {
	case c == '\\':
		s.state = inEscape
	case c == '"' && s.isKey:
		s.state = wantColon
	case c == '"':
		s.end()
	}
	return c >= ' '
}

// numberByte ends the number at the first byte that is none of its own.
func (s *scanner) numberByte(c byte) bool {
	digit, exponent := isDigit(c), c == 'e' || c == 'E'
	var next uint8
	switch s.state {
	case afterMinus:
		next = pick(c == '0', afterZero, pick(digit, inInteger, finished))
	case afterZero:
		next = pick(c == '.', afterPoint, pick(exponent, afterExponent, finished))
	case inInteger:
		next = pick(digit, inInteger, pick(c == '.', afterPoint, pick(exponent, afterExponent, finished)))
	case afterPoint:
		next = pick(digit, inFraction, finished)
	case inFraction:
		next = pick(digit, inFraction, pick(exponent, afterExponent, finished))
	case afterExponent:
		next = pick(digit, inExponent, pick(c == '+' || c == '-', afterSign, finished))
	default:
		next = pick(digit, inExponent, finished)
	}
	if next != finished {
		s.state = next
		return true
	}
	whole := s.state == afterZero || s.state == inInteger || s.state == inFraction || s.state == inExponent
	if !whole || len(s.stack) == 0 {
		return false
	}
	s.end()
	return s.step(c)
}

func pick(condition bool, yes, no uint8) uint8 {
	if condition {
		return yes
	}
	return no
}
