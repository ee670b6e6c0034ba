package report

import (
	_ "embed" // the font
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// notoSansSC is Noto Sans SC Regular 2.004 as npm @expo-google-fonts/noto-sans-sc 0.4.3 has it, unchanged. A test holds its digest.
//
//go:embed noto/NotoSansSC-Regular.ttf
var notoSansSC []byte

// The metrics of the font, in thousandths of its size.
const (
	ascent    = 880
	descent   = 120
	capHeight = 733
	boxOfFont = "-1002 -1048 2928 1808"
)

// face is the font of one PDF. It gives every character that is used a code of its own, in the order of first use, so that two characters
// with one glyph are still two when text is copied.
type face struct {
	font   *sfnt.Font
	buf    sfnt.Buffer
	glyphs map[rune]glyph
	codes  map[rune]uint16
	used   []rune // by code; the first is that of .notdef
}

type glyph struct {
	index   sfnt.GlyphIndex // 0: the font has none
	advance int             // thousandths of the size
}

func newFace() (*face, error) {
	f, err := sfnt.Parse(notoSansSC)
	if err != nil {
		return nil, fmt.Errorf("read the font: %w", err)
	}
	return &face{font: f, glyphs: map[rune]glyph{}, codes: map[rune]uint16{}, used: []rune{0}}, nil
}

func (f *face) glyph(r rune) glyph {
	g, ok := f.glyphs[r]
	if ok {
		return g
	}
	if i, err := f.font.GlyphIndex(&f.buf, r); err == nil && i != 0 {
		if advance, err := f.font.GlyphAdvance(&f.buf, i, fixed.I(1000), 0); err == nil {
			g = glyph{i, advance.Round()}
		}
	}
	f.glyphs[r] = g
	return g
}

func (f *face) has(r rune) bool { return f.glyph(r).index != 0 }

// width returns how long s is in a size, in points.
func (f *face) width(s string, size float64) float64 {
	sum := 0
	for _, r := range s {
		sum += f.glyph(r).advance
	}
	return float64(sum) * size / 1000
}

// encode returns s in the codes of this PDF, as a hexadecimal string.
func (f *face) encode(s string) string {
	out := make([]byte, 0, 4*len(s))
	for _, r := range s {
		code, ok := f.codes[r]
		if !ok {
			code = uint16(len(f.used))
			f.codes[r] = code
			f.used = append(f.used, r)
		}
		out = fmt.Appendf(out, "%04X", code)
	}
	return string(out)
}

// subset returns a TrueType file with the glyphs of the characters that were used, in the order of their codes. The glyphs of this font
// are all simple, none is made of others; a test holds that.
func (f *face) subset() []byte {
	from := tables(notoSansSC)
	loca, hmtx := from["loca"], from["hmtx"]
	var glyf, newLoca, newHmtx []byte
	for _, r := range f.used {
		i := int(f.glyph(r).index)
		if r == 0 {
			i = 0
		}
		newLoca = binary.BigEndian.AppendUint32(newLoca, uint32(len(glyf)))
		glyf = append(glyf, from["glyf"][binary.BigEndian.Uint32(loca[4*i:]):binary.BigEndian.Uint32(loca[4*i+4:])]...)
		newHmtx = append(newHmtx, hmtx[4*i:4*i+4]...)
	}
	newLoca = binary.BigEndian.AppendUint32(newLoca, uint32(len(glyf)))
	head, hhea, maxp := slices.Clone(from["head"]), slices.Clone(from["hhea"]), slices.Clone(from["maxp"])
	binary.BigEndian.PutUint32(head[8:], 0) // the checksum of the whole, which readers of PDF do not look at
	binary.BigEndian.PutUint16(hhea[34:], uint16(len(f.used)))
	binary.BigEndian.PutUint16(maxp[4:], uint16(len(f.used)))
	return assemble(map[string][]byte{
		"glyf": glyf, "head": head, "hhea": hhea, "hmtx": newHmtx, "loca": newLoca, "maxp": maxp, "prep": from["prep"],
	})
}

// tables returns the tables of a TrueType file by their names.
func tables(font []byte) map[string][]byte {
	out := map[string][]byte{}
	for i := range int(binary.BigEndian.Uint16(font[4:])) {
		row := font[12+16*i:]
		at, size := binary.BigEndian.Uint32(row[8:]), binary.BigEndian.Uint32(row[12:])
		out[string(row[:4])] = font[at : at+size]
	}
	return out
}

func assemble(tables map[string][]byte) []byte {
	names := slices.Sorted(maps.Keys(tables))
	power := 1 // the largest power of two that is no more than the number of tables
	log := 0
	for power*2 <= len(names) {
		power, log = power*2, log+1
	}
	out := binary.BigEndian.AppendUint32(nil, 0x00010000)
	for _, n := range []int{len(names), power * 16, log, (len(names) - power) * 16} {
		out = binary.BigEndian.AppendUint16(out, uint16(n))
	}
	at := len(out) + 16*len(names)
	var data []byte
	for _, name := range names {
		t := tables[name]
		padded := append(slices.Clone(t), make([]byte, -len(t)&3)...)
		sum := uint32(0)
		for i := 0; i < len(padded); i += 4 {
			sum += binary.BigEndian.Uint32(padded[i:])
		}
		out = append(out, name...)
		for _, n := range []uint32{sum, uint32(at + len(data)), uint32(len(t))} {
			out = binary.BigEndian.AppendUint32(out, n)
		}
		data = append(data, padded...)
	}
	return append(out, data...)
}
