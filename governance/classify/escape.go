package classify

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxEscape bounds an escape in bytes: a surrogate pair of JSON, or four bytes of a URL.
const maxEscape = 12

// escape reads the escape that text begins with: what it stands for, and how long it is. What is no escape stands for itself. It is
// open if more text is needed to tell, which only happens before the end of the text.
func escape(text string, final bool) (r rune, size int, v verdict) {
	switch text[0] {
	case '\\':
		r, size, v = escapeJSON(text, final)
	case '%':
		r, size, v = escapeURL(text, final)
	case '&':
		r, size, v = escapeHTML(text, final)
	}
	if v == no {
		return rune(text[0]), 1, yes
	}
	return r, size, v
}

// hexValue reads n hexadecimal digits at i; open if the text ends before them.
func hexValue(text string, i, n int, final bool) (value rune, v verdict) {
	for k := i; k < i+n; k++ {
		if k >= len(text) {
			if final {
				return 0, no
			}
			return 0, open
		}
		c := rune(text[k])
		if !isHex(c) {
			return 0, no
		}
		d := c - '0'
		if !isDigit(c) {
			d = lower(c) - 'a' + 10
		}
		value = value<<4 | d
	}
	return value, yes
}

func escapeJSON(text string, final bool) (rune, int, verdict) {
	if len(text) < 2 {
		return 0, 0, unless(final)
	}
	switch text[1] {
	case 'n', 'r', 't':
		return '\n', 2, yes
	case '"', '/', '\\':
		return rune(text[1]), 2, yes
	case 'x':
		r, v := hexValue(text, 2, 2, final)
		return r, 4, v
	case 'u':
	default:
		return 0, 0, no
	}
	r, v := hexValue(text, 2, 4, final)
	if v != yes || !utf16.IsSurrogate(r) {
		return r, 6, v
	}
	if len(text) < 8 {
		if !final && strings.HasPrefix(`\u`, text[6:]) {
			return 0, 0, open
		}
		return utf8.RuneError, 6, yes
	}
	low, v := rune(0), no
	if text[6:8] == `\u` {
		low, v = hexValue(text, 8, 4, final)
	}
	if v == open {
		return 0, 0, open
	}
	if pair := utf16.DecodeRune(r, low); v == yes && pair != utf8.RuneError {
		return pair, 12, yes
	}
	return utf8.RuneError, 6, yes
}

// escapeURL reads one character of UTF-8 in percent-encoding.
func escapeURL(text string, final bool) (rune, int, verdict) {
	var b []byte
	for i := 0; i < maxEscape; i += 3 {
		if i >= len(text) {
			return 0, 0, unless(final)
		}
		if text[i] != '%' {
			return 0, 0, no
		}
		value, v := hexValue(text, i+1, 2, final)
		if v != yes {
			return 0, 0, v
		}
		b = append(b, byte(value))
		if r, size := utf8.DecodeRune(b); r != utf8.RuneError && size == len(b) {
			return r, i + 3, yes
		}
		if utf8.FullRune(b) {
			return 0, 0, no
		}
	}
	return 0, 0, no
}

var entities = []struct { //nolint:gochecknoglobals // a constant table
	name string
	r    rune
}{{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", ' '}}

func escapeHTML(text string, final bool) (rune, int, verdict) {
	if len(text) < 2 {
		return 0, 0, unless(final)
	}
	if text[1] != '#' {
		for _, e := range entities {
			if strings.HasPrefix(text, e.name) {
				return e.r, len(e.name), yes
			}
			if !final && strings.HasPrefix(e.name, text) {
				return 0, 0, open
			}
		}
		return 0, 0, no
	}
	for i := 2; i < maxEscape; i++ {
		if i >= len(text) {
			return 0, 0, unless(final)
		}
		switch c := rune(text[i]); {
		case c == ';':
			digits, base := text[2:i], 10
			if hex, ok := strings.CutPrefix(strings.ToLower(digits), "x"); ok {
				digits, base = hex, 16
			}
			value, err := strconv.ParseInt(digits, base, 32)
			if err != nil || value == 0 || !utf8.ValidRune(rune(value)) {
				return 0, 0, no
			}
			return rune(value), i + 1, yes
		case isHex(c) || i == 2 && lower(c) == 'x':
		default:
			return 0, 0, no
		}
	}
	return 0, 0, no
}

// unless is the answer where the text ends too early.
func unless(final bool) verdict {
	if final {
		return no
	}
	return open
}
