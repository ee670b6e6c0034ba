// Package jsontext takes JSON texts apart and writes strings back into them. Texts of a request and of an answer are looked at value by value,
// so that what stands in for a value leaves the text JSON.
package jsontext

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// Text is a JSON text taken apart: its strings can be changed one by one, everything else stays as it is, so that it is JSON
// again whatever the strings become.
type Text struct {
	Parts  []Part
	source []byte
}

// Part is a string or a number of a text.
type Part struct {
	Text   string // decoded; may be changed
	Key    string // of the nearest member around it
	Outer  string // of the member whose object that member is in
	IsKey  bool
	Number bool

	start, end int
	original   string
}

// MaxPlain is the length up to which a number is too short to be anybody's.
const MaxPlain = 6

// Parse takes source apart; ok is false if it is no JSON. Numbers of a few digits are left alone.
func Parse(source []byte) (j *Text, ok bool) {
	if !json.Valid(source) {
		return nil, false
	}
	j = &Text{source: source}
	var keys []string              // of the members that are open
	key, outer := "", []string{""} // outer: of the objects that are open
	for i := 0; i < len(source); {
		switch c := source[i]; {
		case c == '{' || c == '[':
			keys = append(keys, key)
			if c == '{' {
				outer = append(outer, key)
			}
			i++
		case c == '}' || c == ']':
			keys, key = keys[:len(keys)-1], keys[len(keys)-1]
			if c == '}' {
				outer = outer[:len(outer)-1]
			}
			i++
		case c == '"':
			end := i + stringEnd(source[i:])
			p := Part{start: i, end: end, Key: key, Outer: outer[len(outer)-1]}
			_ = json.Unmarshal(source[i:end], &p.Text) // a literal of valid JSON
			p.original = p.Text
			rest := bytes.TrimLeft(source[end:], " \t\r\n")
			if p.IsKey = len(rest) > 0 && rest[0] == ':'; p.IsKey {
				key = p.Text
			}
			j.Parts = append(j.Parts, p)
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(source) && strings.IndexByte("+-.0123456789eE", source[end]) >= 0 {
				end++
			}
			if end-i > MaxPlain {
				text := string(source[i:end])
				j.Parts = append(j.Parts, Part{start: i, end: end, Key: key, Outer: outer[len(outer)-1], Number: true, Text: text, original: text})
			}
			i = end
		default:
			i++
		}
	}
	return j, true
}

// stringEnd returns the length of the literal at the beginning of b.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// Join puts the text together again. A number that was changed becomes a string.
func (j *Text) Join() []byte {
	var out []byte
	at := 0
	for _, p := range j.Parts {
		if p.Text == p.original {
			continue
		}
		out = append(out, j.source[at:p.start]...)
		out = AppendString(out, p.Text)
		at = p.end
	}
	if at == 0 {
		return j.source
	}
	return append(out, j.source[at:]...)
}

// AppendString appends a string literal.
func AppendString(dst []byte, s string) []byte {
	return append(AppendEscapedString(append(dst, '"'), s), '"')
}

// AppendEscapedString appends what stands between the quotes of a string literal; s must be UTF-8.
func AppendEscapedString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// NameBefore is what a rule sees before a value: the name it stands under, which is often what gives it away, as in {"password":"…"}
// or {"密码":"…"}. Letters are shown, and where there are Chinese ones only those: nothing in it can be taken for a value or a pseudonym.
// Nor can it together with the value: behind "手机: " a value might be read as the code of a pseudonym.
func NameBefore(key string) string {
	if key == "" || len(key) > MaxName {
		return ""
	}
	han := strings.ContainsFunc(key, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	return strings.Map(func(r rune) rune {
		switch {
		case han && unicode.Is(unicode.Han, r), !han && (r == '-' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'):
			return r
		case han:
			return '/'
		}
		return '_'
	}, key) + "= "
}

// MaxName is the length of the longest name that NameBefore shows.
const MaxName = 64

// Hex4 reads the four digits of the escape \u at i.
func Hex4(e []byte, i int) (rune, bool) {
	if len(e) < i+6 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(e[i+2:i+6]), 16, 16)
	return rune(n), err == nil
}
