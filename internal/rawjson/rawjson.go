// Package rawjson reads JSON without copying it: values are parts of the text that they stand in, and are read when somebody asks for them.
//
// [Check] says whether a text is JSON, exactly as encoding/json has it. The other functions read texts that passed it; of others they return
// something or nothing, but never panic.
package rawjson

import (
	"errors"
	"iter"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// What is wrong with a text.
var (
	ErrSyntax = errors.New("not JSON")
	ErrDeep   = errors.New("nested too deep")
)

// Check reports whether s is one JSON value with at most depth arrays and objects around anything in it. Where it is not, read says how many
// bytes were read until that was known, the offending one included.
func Check(s string, depth int) (read int, err error) {
	c := checker{s: s, maxDepth: depth}
	c.space()
	c.value()
	c.space()
	if c.err == nil && c.i < len(s) {
		c.fail()
	}
	return min(c.i, len(s)), c.err
}

// checker stands at a place of a text. After an error it stays behind the byte that was wrong.
type checker struct {
	s               string
	i               int
	depth, maxDepth int
	err             error
}

// fail says that the next byte, or that there is none, is wrong.
func (c *checker) fail() {
	if c.err == nil {
		c.err = ErrSyntax
		c.i++
	}
}

// peek returns the next byte, 0 at the end: no text holds a 0 where it would be taken.
func (c *checker) peek() byte {
	if c.i < len(c.s) {
		return c.s[c.i]
	}
	return 0
}

func (c *checker) space() {
	for c.err == nil && c.i < len(c.s) && isSpace(c.s[c.i]) {
		c.i++
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\r' || b == '\t' }

// expect takes these bytes.
func (c *checker) expect(want string) {
	for k := range len(want) {
		if c.err != nil || c.peek() != want[k] {
			c.fail()
			return
		}
		c.i++
	}
}

func (c *checker) value() {
	if c.err != nil {
		return
	}
	switch c.peek() {
	case '"':
		c.text()
	case '{':
		c.list('}', true)
	case '[':
		c.list(']', false)
	case 't':
		c.expect("true")
	case 'f':
		c.expect("false")
	case 'n':
		c.expect("null")
	default:
		c.number()
	}
}

// list takes an array, or an object if its values have names.
func (c *checker) list(end byte, names bool) {
	if c.depth++; c.depth > c.maxDepth {
		c.err = ErrDeep
		c.i++
		return
	}
	c.i++
	c.space()
	if c.peek() == end {
		c.i++
		c.depth--
		return
	}
	for c.err == nil {
		if names {
			c.text()
			c.space()
			c.expect(":")
			c.space()
		}
		c.value()
		c.space()
		if c.err == nil && c.peek() == end {
			c.i++
			c.depth--
			return
		}
		c.expect(",")
		c.space()
	}
}

func (c *checker) text() {
	c.expect(`"`)
	for c.err == nil {
		for c.i < len(c.s) && plain(c.s[c.i]) {
			c.i++
		}
		switch c.peek() {
		case '"':
			c.i++
			return
		case '\\':
			c.i++
			c.escape()
		default: // the end, or a character that has to be escaped
			c.fail()
		}
	}
}

func plain(b byte) bool { return b >= ' ' && b != '"' && b != '\\' }

func (c *checker) escape() {
	switch c.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.i++
	case 'u':
		c.i++
		for range 4 {
			if c.err != nil || hexDigit(c.peek()) < 0 {
				c.fail()
				return
			}
			c.i++
		}
	default:
		c.fail()
	}
}

func (c *checker) number() {
	if c.peek() == '-' {
		c.i++
	}
	if c.peek() == '0' {
		c.i++
	} else {
		c.digits()
	}
	if c.err == nil && c.peek() == '.' {
		c.i++
		c.digits()
	}
	if c.err == nil && c.peek()|0x20 == 'e' {
		c.i++
		if b := c.peek(); b == '+' || b == '-' {
			c.i++
		}
		c.digits()
	}
}

// digits takes one or more.
func (c *checker) digits() {
	if !digit(c.peek()) {
		c.fail()
	}
	for c.err == nil && digit(c.peek()) {
		c.i++
	}
}

func digit(b byte) bool { return '0' <= b && b <= '9' }

// hexDigit returns the value of one, -1 for anything else.
func hexDigit(b byte) rune {
	switch {
	case digit(b):
		return rune(b - '0')
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return rune(b|0x20-'a') + 10
	}
	return -1
}

// Null reports whether a value is null.
func Null(value string) bool { return value == "null" }

// Text returns what a string says, and whether value is one. Without escapes it is a part of value. Half a surrogate pair becomes U+FFFD.
func Text(value string) (string, bool) {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return "", false
	}
	value = value[1 : len(value)-1]
	next := strings.IndexByte(value, '\\')
	if next < 0 {
		return value, true
	}
	var b strings.Builder
	b.Grow(len(value))
	for next >= 0 {
		b.WriteString(value[:next])
		r, size := unescape(value[next:])
		b.WriteRune(r)
		value = value[next+size:]
		next = strings.IndexByte(value, '\\')
	}
	b.WriteString(value)
	return b.String(), true
}

// unescape returns the character of the escape that s begins with, and the bytes that it takes.
func unescape(s string) (r rune, size int) {
	if len(s) < 2 {
		return utf8.RuneError, len(s)
	}
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, ok := unit(s)
		if !ok {
			return utf8.RuneError, 2
		}
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if low, ok := unit(s[6:]); ok {
			if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
				return whole, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(s[1]), 2
}

// unit reads \u and four digits.
func unit(s string) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for k := 2; k < 6; k++ {
		d := hexDigit(s[k])
		if d < 0 {
			return 0, false
		}
		r = r<<4 | d
	}
	return r, true
}

// Items returns the values of an array, and whether value is one.
func Items(value string) ([]string, bool) {
	if value == "" || value[0] != '[' {
		return nil, false
	}
	out := []string{}
	for item := range EachItem(value) {
		out = append(out, item)
	}
	return out, true
}

// EachItem yields the values of an array; of anything else none. It allocates nothing.
func EachItem(value string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if value == "" || value[0] != '[' {
			return
		}
		for i := skipSpace(value, 1); i < len(value) && value[i] != ']'; i = skipSpace(value, i) {
			end := skip(value, i)
			if !yield(value[i:end]) {
				return
			}
			if i = skipSpace(value, end); i < len(value) && value[i] == ',' {
				i++
			}
		}
	}
}

// EachMember yields the names, as they are spelled, and the values of an object, with those of equal names one after the other; of anything
// else none. It allocates nothing.
func EachMember(value string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if value == "" || value[0] != '{' {
			return
		}
		for i := skipSpace(value, 1); i < len(value) && value[i] != '}'; i = skipSpace(value, i) {
			end := skip(value, i)
			name := value[i:end]
			if i = skipSpace(value, end); i < len(value) && value[i] == ':' {
				i++
			}
			i = skipSpace(value, i)
			end = skip(value, i)
			if !yield(name, value[i:end]) {
				return
			}
			if i = skipSpace(value, end); i < len(value) && value[i] == ',' {
				i++
			}
		}
	}
}

// many is how many members an object has that are looked for one by one.
const many = 16

// Members are those of an object. Of members with one name the last counts.
type Members struct {
	list []Member
	at   map[string]int // places of names; nil while there are few
}

// Member is a name and its value.
type Member struct{ Name, Value string }

// Object returns the members of an object, and whether value is one.
func Object(value string) (Members, bool) {
	if value == "" || value[0] != '{' {
		return Members{}, false
	}
	m := Members{list: make([]Member, 0, 4)}
	for spelled, v := range EachMember(value) {
		name, _ := Text(spelled)
		m.set(name, v)
	}
	return m, true
}

// One returns an object of one member.
func One(name, value string) Members { return Members{list: []Member{{name, value}}} }

func (m *Members) set(name, value string) {
	if k := m.index(name); k >= 0 {
		m.list[k].Value = value
		return
	}
	m.list = append(m.list, Member{name, value})
	if m.at == nil && len(m.list) > many {
		m.at = make(map[string]int, 2*many)
		for k, have := range m.list {
			m.at[have.Name] = k
		}
	} else if m.at != nil {
		m.at[name] = len(m.list) - 1
	}
}

func (m *Members) index(name string) int {
	if m.at != nil {
		if k, ok := m.at[name]; ok {
			return k
		}
		return -1
	}
	for k := range m.list {
		if m.list[k].Name == name {
			return k
		}
	}
	return -1
}

// Get returns the value of a member, null included.
func (m *Members) Get(name string) (value string, ok bool) {
	if k := m.index(name); k >= 0 {
		return m.list[k].Value, true
	}
	return "", false
}

// All returns the members in the order in which their names came first. Nobody changes them.
func (m *Members) All() []Member { return m.list }

// Trim removes the white space around a value.
func Trim(s string) string { return strings.Trim(s, " \n\r\t") }

func skipSpace(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// skip returns the place behind the value that begins at i; it moves on in any case.
func skip(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch s[i] {
		case '"':
			i = skipText(s, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
			for depth == 0 && i < len(s) && !strings.ContainsRune(",:]}{[\" \n\r\t", rune(s[i])) {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return len(s)
}

// skipText returns the place behind the string that begins at i: behind the first quote with an even number of backslashes before it.
func skipText(s string, i int) int {
	for at := i + 1; at < len(s); {
		n := strings.IndexByte(s[at:], '"')
		if n < 0 {
			break
		}
		end := at + n
		slashes := 0
		for s[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		at = end + 1
	}
	return len(s)
}
