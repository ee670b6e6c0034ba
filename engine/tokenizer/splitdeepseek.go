package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// The pieces of DeepSeek's three patterns and of llama.cpp's default ones. Each measures a match at the beginning of a text, which is
// not empty.

func threeNumbers(text string) int { return numbers(text, 3) }

func numberRun(text string) int { return run(text, number) }

// threeDigits measures [0-9][0-9][0-9].
func threeDigits(text string) int {
	for i := range 3 {
		if i >= len(text) || text[i] < '0' || text[i] > '9' {
			return 0
		}
	}
	return 3
}

// cjkRun measures [一-龥぀-ゟ゠-ヿ]+.
func cjkRun(text string) int {
	for i, r := range text {
		if (r < 0x4E00 || r > 0x9FA5) && (r < 0x3040 || r > 0x30FF) {
			return i
		}
	}
	return len(text)
}

// punctuation measures [\p{P}\$\+<=>\^~\|]+.
func punctuation(text string) int {
	return runOf(text, func(r rune) bool {
		switch r {
		case '$', '+', '<', '=', '>', '^', '~', '|':
			return true
		}
		return unicode.IsPunct(r)
	})
}

// runOf returns the length of the longest prefix of text whose characters all satisfy is.
func runOf(text string, is func(rune) bool) int {
	for i, r := range text {
		if !is(r) {
			return i
		}
	}
	return len(text)
}

func isSign(r rune) bool       { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
func isLetterMark(r rune) bool { return kindOf(r) == letter || unicode.Is(unicode.M, r) }

// wordDeepSeek measures a match of
//
//	[!-/:-@[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func wordDeepSeek(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	if r < 0x80 && isPunctuation(r) {
		if n := runOf(text[1:], func(r rune) bool { return r < 0x80 && kindOf(r) == letter }); n > 0 {
			return 1 + n
		}
	}
	if r != '\r' && r != '\n' && kindOf(r) != letter && !isSign(r) {
		if n := runOf(text[size:], isLetterMark); n > 0 {
			return size + n
		}
	}
	if n := runOf(text, isLetterMark); n > 0 {
		return n
	}
	prefix := 0
	if r == ' ' {
		prefix = 1
	}
	if n := runOf(text[prefix:], isSign); n > 0 {
		n += prefix
		for n < len(text) && (text[n] == '\r' || text[n] == '\n') {
			n++
		}
		return n
	}
	if kindOf(r) != space {
		return 0
	}
	if n := lines(text); n > 0 {
		return n
	}
	return spaces(text)
}
