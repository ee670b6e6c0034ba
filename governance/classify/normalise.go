package classify

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// cell is one rune of normalised text and where it comes from in the original.
type cell struct {
	r          rune
	start, end int
}

// normalise appends the cells of text, which begins at offset base of the original, and returns how many bytes it used. What is
// left, fewer than four bytes, is the beginning of a rune; with final set nothing is left.
//
// Compatibility forms become plain (full-width, circled and mathematical digits among them), decimal digits of every script
// become ASCII, dashes become '-', middle dots '·'; characters without width, bidi controls, variation selectors and combining
// marks vanish. Each rune is treated alone, so a cut between two runes changes nothing.
func normalise(cells []cell, text string, base int, final bool) ([]cell, int) {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			cells = append(cells, cell{rune(c), base + i, base + i + 1})
			i++
			continue
		}
		if !final && !utf8.FullRuneInString(text[i:]) {
			return cells, i
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		start, end := base+i, base+i+size
		i += size
		switch {
		case r >= 0x3400 && r <= 0x9fff || r == utf8.RuneError:
			cells = append(cells, cell{r, start, end})
		case unicode.In(r, unicode.Cf, unicode.Mn, unicode.Me):
		default:
			for _, n := range norm.NFKC.String(string(r)) {
				if unicode.In(n, unicode.Mn, unicode.Me) {
					continue
				}
				cells = append(cells, cell{plain(n), start, end})
			}
		}
	}
	return cells, len(text)
}

// plain maps look-alikes that compatibility normalisation keeps apart.
func plain(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case r >= 0x2010 && r <= 0x2015 || r == 0x2212 || r == 0x2500 || r == 0x30fc:
		return '-'
	case r == 0x2022 || r == 0x30fb || r == 0x2027 || r == 0x22c5 || r == 0xb7:
		return '·'
	case unicode.IsSpace(r):
		return ' '
	case unicode.Is(unicode.Nd, r):
		return '0' + digitValue(r)
	}
	return r
}

// digitValue uses that Unicode keeps decimal digits in runs of ten from zero to nine.
func digitValue(r rune) rune {
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10
		}
	}
	return 0
}
