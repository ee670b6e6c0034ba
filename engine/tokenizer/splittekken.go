package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// letterCase says which of the two letter classes of Mistral's pattern a character is in: upper [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}],
// lower [\p{Ll}\p{Lm}\p{Lo}\p{M}], or both.
func letterCase(r rune) (upper, lower bool) {
	switch {
	case 'a' <= r && r <= 'z':
		return false, true
	case 'A' <= r && r <= 'Z':
		return true, false
	case r < 0x80:
		return false, false
	case unicode.Is(unicode.Ll, r):
		return false, true
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return true, false
	case unicode.IsLetter(r) || unicode.Is(unicode.M, r):
		return true, true
	}
	return false, false
}

// wordTekken measures the first match of
//
//	[^\r\n\p{L}\p{N}]?U*L+|[^\r\n\p{L}\p{N}]?U+L*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// where U and L are the classes of [letterCase].
func wordTekken(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	k := kindOf(r)
	prefix := size
	if k == letter || k == number || r == '\r' || r == '\n' {
		prefix = 0
	}
	for _, measure := range []func(string) int{capitalized, capitals} {
		if prefix > 0 {
			if n := measure(text[prefix:]); n > 0 {
				return prefix + n
			}
		}
		if n := measure(text); n > 0 {
			return n
		}
	}
	if k == number {
		return size
	}
	if n := marks(text, "\r\n/"); n > 0 {
		return n
	}
	if n := lines(text); n > 0 {
		return n
	}
	return spaces(text)
}

// capitalized measures U*L+ as a regular expression finds it: U* takes all it can and gives back until a character of L follows.
func capitalized(text string) int {
	both, end := 0, len(text) // behind the last character of both classes; behind U*
	for i, r := range text {
		upper, lower := letterCase(r)
		if !upper {
			end = i
			break
		}
		if lower {
			both = i + utf8.RuneLen(r)
		}
	}
	last := end
	for i, r := range text[end:] {
		if _, lower := letterCase(r); !lower {
			break
		}
		last = end + i + utf8.RuneLen(r)
	}
	if last > end {
		return last
	}
	return both
}

// capitals measures U+L* where capitalized finds nothing, so that no character of L follows U+.
func capitals(text string) int {
	for i, r := range text {
		if upper, _ := letterCase(r); !upper {
			return i
		}
	}
	return len(text)
}
