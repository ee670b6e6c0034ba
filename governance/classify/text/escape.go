package text

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
func escape(text string, final bool) (r rune, size int, v Verdict) {
	switch text[0] {
	case '\\':
		r, size, v = escapeJSON(text, final)
	case '%':
		r, size, v = escapeURL(text, final)
	case '&':
		r, size, v = escapeHTML(text, final)
	}
	if v == No {
		return rune(text[0]), 1, Yes
	}
	return r, size, v
}

// hexValue reads n hexadecimal digits at i; open if the text ends before them.
func hexValue(text string, i, n int, final bool) (value rune, v Verdict) {
	for k := i; k < i+n; k++ {
		if k >= len(text) {
			if final {
				return 0, No
			}
			return 0, Open
		}
		c := rune(text[k])
		if !IsHex(c) {
			return 0, No
		}
		d := c - '0'
		if !IsDigit(c) {
			d = Lower(c) - 'a' + 10
		}
		value = value<<4 | d
	}
	return value, Yes
}

func escapeJSON(text string, final bool) (rune, int, Verdict) {
	if len(text) < 2 {
		return 0, 0, unless(final)
	}
	switch text[1] {
	case 'n', 'r', 't':
		return '\n', 2, Yes
	case '"', '/', '\\':
		return rune(text[1]), 2, Yes
	case 'x':
		r, v := hexValue(text, 2, 2, final)
		return r, 4, v
	case 'u':
	default:
		return 0, 0, No
	}
	r, v := hexValue(text, 2, 4, final)
	if v != Yes || !utf16.IsSurrogate(r) {
		return r, 6, v
	}
	if len(text) < 8 {
		if !final && strings.HasPrefix(`\u`, text[6:]) {
			return 0, 0, Open
		}
		return utf8.RuneError, 6, Yes
	}
	low, v := rune(0), No
	if text[6:8] == `\u` {
		low, v = hexValue(text, 8, 4, final)
	}
	if v == Open {
		return 0, 0, Open
	}
	if pair := utf16.DecodeRune(r, low); v == Yes && pair != utf8.RuneError {
		return pair, 12, Yes
	}
	return utf8.RuneError, 6, Yes
}

// escapeURL reads one character of UTF-8 in percent-encoding.
func escapeURL(text string, final bool) (rune, int, Verdict) {
	var b []byte
	for i := 0; i < maxEscape; i += 3 {
		if i >= len(text) {
			return 0, 0, unless(final)
		}
		if text[i] != '%' {
			return 0, 0, No
		}
		value, v := hexValue(text, i+1, 2, final)
		if v != Yes {
			return 0, 0, v
		}
		b = append(b, byte(value))
		if r, size := utf8.DecodeRune(b); r != utf8.RuneError && size == len(b) {
			return r, i + 3, Yes
		}
		if utf8.FullRune(b) {
			return 0, 0, No
		}
	}
	return 0, 0, No
}

var entities = []struct {
	name string
	r    rune
}{{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", ' '}}

func escapeHTML(text string, final bool) (rune, int, Verdict) {
	if len(text) < 2 {
		return 0, 0, unless(final)
	}
	if text[1] != '#' {
		for _, e := range entities {
			if strings.HasPrefix(text, e.name) {
				return e.r, len(e.name), Yes
			}
			if !final && strings.HasPrefix(e.name, text) {
				return 0, 0, Open
			}
		}
		return 0, 0, No
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
				return 0, 0, No
			}
			return rune(value), i + 1, Yes
		case IsHex(c) || i == 2 && Lower(c) == 'x':
		default:
			return 0, 0, No
		}
	}
	return 0, 0, No
}

// unless is the answer where the text ends too early.
func unless(final bool) Verdict {
	if final {
		return No
	}
	return Open
}
