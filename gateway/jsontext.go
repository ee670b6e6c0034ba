package gateway

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// jsonText is a JSON text taken apart: its strings can be changed one by one, everything else stays as it is, so that it is JSON
// again whatever the strings become.
type jsonText struct {
	source []byte
	parts  []jsonPart
}

// jsonPart is a string or a number of a text.
type jsonPart struct {
	start, end int
	key        string // of the nearest member around it
	outer      string // of the member whose object that member is in
	isKey      bool
	number     bool
	text       string // decoded; may be changed
	original   string
}

// maxPlain is the length up to which a number is too short to be anybody's.
const maxPlain = 6

// newJSONText takes source apart; ok is false if it is no JSON. Numbers of a few digits are left alone.
func newJSONText(source []byte) (j *jsonText, ok bool) {
	if !json.Valid(source) {
		return nil, false
	}
	j = &jsonText{source: source}
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
			p := jsonPart{start: i, end: end, key: key, outer: outer[len(outer)-1]}
			_ = json.Unmarshal(source[i:end], &p.text) // a literal of valid JSON
			p.original = p.text
			rest := bytes.TrimLeft(source[end:], " \t\r\n")
			if p.isKey = len(rest) > 0 && rest[0] == ':'; p.isKey {
				key = p.text
			}
			j.parts = append(j.parts, p)
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(source) && strings.IndexByte("+-.0123456789eE", source[end]) >= 0 {
				end++
			}
			if end-i > maxPlain {
				text := string(source[i:end])
				j.parts = append(j.parts, jsonPart{start: i, end: end, key: key, outer: outer[len(outer)-1], number: true, text: text, original: text})
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

// join puts the text together again. A number that was changed becomes a string.
func (j *jsonText) join() []byte {
	var out []byte
	at := 0
	for _, p := range j.parts {
		if p.text == p.original {
			continue
		}
		out = append(out, j.source[at:p.start]...)
		out = appendString(out, p.text)
		at = p.end
	}
	if at == 0 {
		return j.source
	}
	return append(out, j.source[at:]...)
}

// appendString appends a string literal.
func appendString(dst []byte, s string) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends what stands between the quotes of a string literal; s must be UTF-8.
func appendEscaped(dst []byte, s string) []byte {
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

// nameBefore is what a rule sees before a value: the name it stands under, which is often what gives it away, as in {"password":"…"}
// or {"密码":"…"}. Letters are shown, and where there are Chinese ones only those: nothing in it can be taken for a value or a pseudonym.
// Nor can it together with the value: behind "手机: " a value might be read as the code of a pseudonym.
func nameBefore(key string) string {
	if key == "" || len(key) > maxContext {
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

const maxContext = 64
