package report

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
}

// TestEqualDecimals: zeros are put behind numbers, and nothing else is touched.
func TestEqualDecimals(t *testing.T) {
	table := Table{Columns: []Column{{Number: true}, {}}, Rows: [][]string{{"1", "1"}, {"-2.5", "2.5"}, {"1,000.125", "x"}, {"n/a", ""}, {"1.2.3", ""}}, Total: []string{"1,001"}}
	got := fmt.Sprint(table.lines())
	if want := "[[1.000 1] [-2.500 2.5] [1,000.125 x] [n/a ] [1.2.3 ] [1,001.000 ]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if fmt.Sprint(table.Rows[0], table.Total) != "[1 1] [1,001]" {
		t.Error("the caller's table was changed")
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"张三 Zoë": "张三 Zoë", "a\x07b": "a[U+0007]b", "a\u202eb": "a[U+202E]b", "\xff": "[0xFF]", "\ufffd": "\ufffd", "a\tb\nc": "a b c",
		"a\u2003b": "a b", "a\u3000b": "a\u3000b", "\u00ad\u200b\ufeff": "[U+00AD][U+200B][U+FEFF]", "\U000e0100": "[U+E0100]", "\u3164": "[U+3164]",
	} {
		if got := visible(in, false, nil); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
	if got := visible("a\nb😀", true, func(r rune) bool { return r < 128 }); got != "a\nb[U+1F600]" {
		t.Errorf("%q", got)
	}
}

// TestWrap: no line is longer than it may be, punctuation does not begin one, and words stay whole where they can.
func TestWrap(t *testing.T) {
	f, err := newFace()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                      "",
		"hello wide world":      "hello|wide|world",
		"一二三四五，六七":              "一二三四|五，六七",
		"《一二三四》":                "《一二三|四》",
		"0123456789abcdefghijk": "01234567|89abcdef|ghijk",
		"a\n\nb":                "a||b",
	} {
		lines := f.wrap(text, 10, 45)
		if got := strings.Join(lines, "|"); got != want {
			t.Errorf("%q is broken into %q, want %q", text, got, want)
		}
		for _, l := range lines {
			if f.width(l, 10) > 45 {
				t.Errorf("%q is %g wide", l, f.width(l, 10))
			}
		}
	}
	if got := f.fit("0123456789abc", 10, 45); got != "012345…" || f.width(got, 10) > 45 {
		t.Errorf("fitted to %q", got)
	}
}

// TestFont: it is the published file with its licence, and its glyphs are simple, as the subset takes for granted.
func TestFont(t *testing.T) {
	sum := sha256.Sum256(notoSansSC)
	if hex.EncodeToString(sum[:]) != "d45f67f0a7c0ca3f256950777ce6a61cc7ce5f9696d02900cbbaac25f8aa7d16" {
		t.Errorf("the digest of the font is %x", sum)
	}
	licence, err := os.ReadFile("noto/OFL.txt")
	if err != nil || !strings.Contains(string(licence), "SIL OPEN FONT LICENSE Version 1.1") {
		t.Errorf("licence: %v", err)
	}
	from := tables(notoSansSC)
	if binary.BigEndian.Uint16(from["head"][50:]) != 1 || binary.BigEndian.Uint16(from["head"][18:]) != 1000 || len(from["hmtx"]) != len(from["loca"])-4 {
		t.Error("the font has short offsets, another unit or shared widths")
	}
	for at := 0; at+8 <= len(from["loca"]); at += 4 {
		start, end := binary.BigEndian.Uint32(from["loca"][at:]), binary.BigEndian.Uint32(from["loca"][at+4:])
		if start < end && int16(binary.BigEndian.Uint16(from["glyf"][start:])) < 0 {
			t.Fatalf("glyph %d is made of others", at/4)
		}
	}
}

// TestSubset: the glyph of a code is that of its character, with its width.
func TestSubset(t *testing.T) {
	f, err := newFace()
	if err != nil {
		t.Fatal(err)
	}
	const text = "Zoë 张三，𬱖昇 1,234.5 元"
	f.encode(text)
	all, some := tables(notoSansSC), tables(f.subset())
	glyph := func(tables map[string][]byte, i int) (shape, metrics string) {
		loca := tables["loca"]
		return string(tables["glyf"][binary.BigEndian.Uint32(loca[4*i:]):binary.BigEndian.Uint32(loca[4*i+4:])]), string(tables["hmtx"][4*i : 4*i+4])
	}
	for code, r := range f.used {
		shape, metrics := glyph(some, code)
		if wantShape, wantMetrics := glyph(all, int(f.glyph(r).index)); shape != wantShape || metrics != wantMetrics {
			t.Errorf("the glyph of %q is that of another character", r)
		}
	}
	if n := binary.BigEndian.Uint16(some["maxp"][4:]); int(n) != len(f.used) || n < 15 {
		t.Errorf("%d glyphs for %d characters", n, len(f.used))
	}
}
