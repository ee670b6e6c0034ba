package fingerprint

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	hanFirst, hanLast = 0x4E00, 0x9FFF // the block of common Han characters, none of which is written in two ways
	hangulFirst       = 0xAC00
	hangulLast        = 0xD7A3
	none              = -1
)

// asciiForms has what ASCII characters become; none for those that go.
//
//nolint:gochecknoglobals // constant
var asciiForms = func() (out [utf8.RuneSelf]rune) {
	for r := range rune(utf8.RuneSelf) {
		out[r] = none
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			out[r] = confusable(unicode.ToLower(r))
		}
	}
	return out
}()

// confusable makes one character of those that readers of pictures take for each other.
func confusable(r rune) rune {
	switch r {
	case 'o':
		return '0'
	case 'i', 'l':
		return '1'
	default:
		return r
	}
}

// eachForm calls use with what a character becomes: nothing for most that are neither letter nor numeral, several for a ligature.
func eachForm(r rune, use func(rune)) {
	switch {
	case r < utf8.RuneSelf:
		if f := asciiForms[r]; f != none {
			use(f)
		}
	case r >= hanFirst && r <= hanLast, r >= hangulFirst && r <= hangulLast:
		use(r)
	default:
		eachOther(r, use)
	}
}

func eachOther(r rune, use func(rune)) {
	if r == utf8.RuneError {
		return
	}
	var buf [utf8.UTFMax]byte
	parts := norm.NFKD.Properties(utf8.AppendRune(buf[:0], r)).Decomposition()
	if parts == nil {
		fold(r, use)
		return
	}
	for len(parts) > 0 {
		p, n := utf8.DecodeRune(parts)
		parts = parts[n:]
		fold(p, use)
	}
}

// fold calls use with a character that is left when accents and what is no text have gone.
func fold(r rune, use func(rune)) {
	if unicode.IsLetter(r) || unicode.IsNumber(r) {
		use(confusable(unicode.ToLower(unicode.ToUpper(r)))) // by way of the upper case: sigma has two forms in the lower one
	}
}
