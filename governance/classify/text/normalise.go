package text

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// Cell is one rune of normalised text and where it comes from in the original.
type Cell struct {
	R     rune
	Han   uint16 // the place of a common Chinese character plus one, see [lexicon.Place]; else 0
	Size  uint8  // bytes of the original, at most [maxEscape]
	Start int
}

func cellOf(r rune, size, start int) Cell {
	c := Cell{R: r, Size: uint8(size), Start: start}
	if place, ok := lexicon.Place(r); ok {
		c.Han = uint16(place + 1)
	}
	return c
}

// End is the offset in the original behind the character.
func (c Cell) End() int { return c.Start + int(c.Size) }

// normaliser makes cells of text that arrives in pieces.
//
// Compatibility forms become plain (full-width, circled and mathematical digits among them), decimal digits of every script
// become ASCII, dashes become '-', middle dots '·', letters of other scripts that look like Latin ones those; characters without width,
// bidi controls, variation selectors and combining marks vanish; escapes of JSON, URLs and HTML become what they stand for, one level
// deep (see escape.go). Each of these is treated alone. Chinese numerals become digits where they spell a number digit by digit: a run of
// at least [numeralRun] digits, [numeralHan] of them Chinese; the cells of a shorter run are kept back until it is over.
type normaliser struct {
	staged []Cell // the end of a run of digits that begins with a Chinese one
	digits int    // in the run so far, staged or not
	han    int    // of them Chinese
	gap    int    // how many separators came last
}

const (
	numeralRun = 5
	numeralHan = 2
)

// add appends the cells of text, which begins at offset base of the original, and returns how many bytes it used. What is
// left, fewer than [maxEscape] bytes, is the beginning of a rune or an escape; with final set nothing is left.
func (n *normaliser) add(cells []Cell, text string, base int, final bool) ([]Cell, int) {
	i := 0
	for i < len(text) {
		c := text[i]
		if n.digits == 0 { // what stays as it is, and neither is nor continues a number: nearly everything
			if c < utf8.RuneSelf && stays[c] {
				cells = append(cells, Cell{R: rune(c), Size: 1, Start: base + i})
				i++
				continue
			}
			r, han := threeBytes(text[i:]), uint16(0)
			if IsCommonHan(r) {
				if han = staysHan[r-HanFirst]; han == 0 {
					r = 0
				}
			} else {
				r = ofMark(r)
			}
			if r != 0 {
				cells = append(cells, Cell{R: r, Han: han, Size: 3, Start: base + i})
				i += 3
				continue
			}
		}
		if c < utf8.RuneSelf {
			r, size := rune(c), 1
			if c == '\\' || c == '%' || c == '&' {
				var v Verdict
				if r, size, v = escape(text[i:], final); v == Open {
					return n.end(cells, final), i
				}
			}
			cells = n.spread(cells, r, base+i, size)
			i += size
			continue
		}
		if !final && !utf8.FullRuneInString(text[i:]) {
			break
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		cells = n.spread(cells, r, base+i, size)
		i += size
	}
	return n.end(cells, final), i
}

// stays are the characters of ASCII that neither begin an escape nor are digits.
var stays = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = !IsDigit(rune(c)) && c != '\\' && c != '%' && c != '&'
	}
	return t
}()

// staysHan are the places plus one of the common Chinese characters that are no numerals, 0 for those.
var staysHan = func() *[HanLast - HanFirst]uint16 {
	t := new([HanLast - HanFirst]uint16)
	for i := range t {
		if r := HanFirst + rune(i); Numeral(r) < 0 {
			t[i] = cellOf(r, 0, 0).Han
		}
	}
	return t
}()

// threeBytes decodes a character from U+3000 to U+FFFF at the beginning of text, 0 for others and what is none.
func threeBytes(text string) rune {
	if len(text) < 3 || text[0]&0xf0 != 0xe0 || text[0] < 0xe3 || text[1]&0xc0 != 0x80 || text[2]&0xc0 != 0x80 {
		return 0
	}
	return rune(text[0]&0xf)<<12 | rune(text[1]&0x3f)<<6 | rune(text[2]&0x3f)
}

// The common Chinese characters, which have a [lexicon.Place]: from the first on, before the last.
const (
	HanFirst = 0x4e00
	HanLast  = 0xa000
)

// IsCommonHan reports whether r is a common Chinese character.
func IsCommonHan(r rune) bool { return uint32(r-HanFirst) < HanLast-HanFirst }

// ofMark is what the comma, the full stop and their like in Chinese text become, 0 for anything else.
func ofMark(r rune) rune {
	switch {
	case r == '、' || r == '。':
		return r
	case r >= 0xff01 && r <= 0xff5e && stays[r-0xfee0]:
		return r - 0xfee0
	}
	return 0
}

func (n *normaliser) end(cells []Cell, final bool) []Cell {
	if final {
		cells = n.flush(cells)
	}
	return cells
}

// spread appends what one rune of the original becomes.
func (n *normaliser) spread(cells []Cell, r rune, start, size int) []Cell {
	switch {
	case r < utf8.RuneSelf:
		return n.put(cells, cellOf(r, size, start))
	case r >= 0x3400 && r <= 0x9fff || r == utf8.RuneError || r >= 0x3001 && r <= 0x301b: // Han and its punctuation stay
		return n.put(cells, cellOf(r, size, start))
	case r >= 0xff01 && r <= 0xff5e: // full-width forms of ASCII
		return n.put(cells, cellOf(r-0xfee0, size, start))
	case r < foldLast:
		switch k := foldings()[r]; k {
		case foldNone:
			return cells
		case foldMore:
		default:
			return n.put(cells, cellOf(k, size, start))
		}
	case unicode.In(r, unicode.Cf, unicode.Mn, unicode.Me):
		return cells
	}
	for _, k := range norm.NFKC.String(string(r)) {
		if !unicode.In(k, unicode.Mn, unicode.Me) {
			cells = n.put(cells, cellOf(plain(k), size, start))
		}
	}
	return cells
}

// What a character becomes that does not become another single one.
const (
	foldNone rune = -1 // nothing
	foldMore rune = -2 // several characters
)

const foldLast = 0x3000

// foldings are what the characters below foldLast become: signs, and letters of other scripts.
var foldings = sync.OnceValue(func() *[foldLast]rune {
	t := new([foldLast]rune)
	for i := range t {
		t[i] = foldNone
		if r := rune(i); unicode.In(r, unicode.Cf, unicode.Mn, unicode.Me) {
			continue
		}
		for _, k := range norm.NFKC.String(string(rune(i))) {
			switch {
			case unicode.In(k, unicode.Mn, unicode.Me):
			case t[i] == foldNone:
				t[i] = plain(k)
			default:
				t[i] = foldMore
			}
		}
	}
	return t
})

// put appends one cell, or keeps it back while it may be part of a number in Chinese numerals.
func (n *normaliser) put(cells []Cell, c Cell) []Cell {
	switch value := Numeral(c.R); {
	case IsDigit(c.R):
		n.digits, n.gap = n.digits+1, 0
	case value >= 0:
		n.digits, n.han, n.gap = n.digits+1, n.han+1, 0
		if n.spelt() {
			c.R, c.Han = '0'+value, 0
			return append(n.convert(cells), c)
		}
		n.staged = append(n.staged, c)
		return cells
	case n.digits > 0 && n.gap < 2 && (c.R == ' ' || c.R == '-' || c.R == '·' || c.R == '\n'):
		n.gap++
	default:
		if n.digits == 0 {
			return append(cells, c)
		}
		return append(n.flush(cells), c)
	}
	if n.spelt() {
		return append(n.convert(cells), c)
	}
	if len(n.staged) > 0 {
		n.staged = append(n.staged, c)
		return cells
	}
	return append(cells, c)
}

// spelt reports whether the run is a number that is spelt digit by digit.
func (n *normaliser) spelt() bool { return n.digits >= numeralRun && n.han >= numeralHan }

func (n *normaliser) convert(cells []Cell) []Cell {
	for _, c := range n.staged {
		if value := Numeral(c.R); value >= 0 {
			c.R, c.Han = '0'+value, 0
		}
		cells = append(cells, c)
	}
	n.staged = n.staged[:0]
	return cells
}

// flush ends a run; what was kept back stays as it is.
func (n *normaliser) flush(cells []Cell) []Cell {
	cells = append(cells, n.staged...)
	*n = normaliser{staged: n.staged[:0]}
	return cells
}

// stagedAt returns where in the original the first cell that is kept back comes from.
func (n *normaliser) stagedAt() (start int, ok bool) {
	if len(n.staged) == 0 {
		return 0, false
	}
	return n.staged[0].Start, true
}

// Numeral is the value of a Chinese numeral, in the forms of print, of cheques and of the radio; -1 for what is none.
func Numeral(r rune) rune {
	switch {
	case uint32(r-HanFirst) < uint32(len(numerals)):
		if numeralFilter[r>>6&15]>>(r&63)&1 == 0 { // most of them: the table is large
			return -1
		}
		return rune(numerals[r-HanFirst]) - 1
	case r == '〇' || r == '○':
		return 0
	}
	return -1
}

// numerals holds the values of Chinese numerals plus one.
var numerals = func() *[HanLast - HanFirst]uint8 {
	t := new([HanLast - HanFirst]uint8)
	for value, runes := range []string{"零洞", "一壹幺弌", "二贰貳两", "三叁參", "四肆", "五伍", "六陆陸", "七柒拐", "八捌", "九玖勾"} {
		for _, r := range runes {
			t[r-HanFirst] = uint8(value) + 1
		}
	}
	return t
}()

// numeralFilter has a bit for the last ten bits of each numeral.
var numeralFilter = func() (t [16]uint64) {
	for i, value := range numerals {
		if r := HanFirst + rune(i); value > 0 {
			t[r>>6&15] |= 1 << (r & 63)
		}
	}
	return t
}()

// lookalike maps Cyrillic and Greek letters that are drawn like Latin ones.
const (
	lookalikeFrom = "АВСЕНІЈКМОРЅТУХаеһіјорсѕухԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧοια"
	lookalikeTo   = "ABCEHIJKMOPSTYXaehijopcsyxdqwABEZHIKMNOPTYXoia"
)

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
	case r >= 0x370 && r <= 0x52f:
		if at := strings.IndexRune(lookalikeFrom, r); at >= 0 {
			return rune(lookalikeTo[utf8.RuneCountInString(lookalikeFrom[:at])])
		}
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
