package classify

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestDisguises finds values in the forms that programs and people give them; the finding covers exactly what stands for the value.
func TestDisguises(t *testing.T) {
	for _, e := range []example{
		{Mobile, "语音：«一三八零零一三八零零零»，谢谢"},
		{Mobile, "«幺三八 零零幺三 八零零零»"},
		{Mobile, "«幺三八洞洞幺三八洞洞洞»"},
		{Mobile, "«138零零一三八零零零»"},
		{Mobile, "«壹叁捌零零壹叁捌零零零»"},
		{ResidentID, "«一一零一零五一九四九一二三一零零二Ｘ»"},
		{Mobile, `{"phone":"«\u0031\u0033800138000»"}`},
		{Email, `«zs\u0040example.com»`},
		{Mobile, `电话\t«13800138000»\n`},
		{Mobile, "q=«%31%33800138000»&x=1"},
		{Email, "to=«zs%40example.com»"},
		{Email, "«zs&#64;example.com»"},
		{Mobile, "«&#x31;3800138000»;"},
		{Email, "«zs@ехample.com»"}, // two letters are Cyrillic
		{Mobile, "«" + base64.StdEncoding.EncodeToString([]byte("手机13800138000")) + "»"},
		{Mobile, "data:text/plain;base64,«" + base64.StdEncoding.EncodeToString([]byte("call 13800138000 now!")) + "»。"},
		{Mobile, "«" + base64.RawURLEncoding.EncodeToString([]byte("电话是：13800138000？")) + "»"},
		{"", "一二三四五六"},
		{"", "二〇二四年一月一日三点"},
		{"", "第一、二、三条"},
		{"", "%zz %E5%BC &#xZZ; &; \\u00 \\q 100%"},
		{"", base64.StdEncoding.EncodeToString([]byte("nothing to see here"))},
		{"", base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("手机13800138000"))))}, // one level only
	} {
		text, start, end := e.parse()
		got := New().Find(text)
		if e.class == "" {
			if len(got) != 0 {
				t.Errorf("%q: %+v", text, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Class != e.class || got[0].Start != start || got[0].End != end {
			t.Errorf("%q: %+v, want %s [%d,%d)", text, got, e.class, start, end)
		}
		for cut := range len(text) {
			if whole, parts := scanPieces(New(), text), scanPieces(New(), text[:cut], text[cut:]); whole != parts {
				t.Errorf("%q cut at %d:\n%s\n%s", text, cut, parts, whole)
			}
		}
	}
}

// TestValueAnywhereInLongBase64 hides a value at every place of a run that is decoded in pieces.
func TestValueAnywhereInLongBase64(t *testing.T) {
	for at := 0; at < 3000; at += 37 {
		plain := strings.Repeat("x ", at/2) + "手机 13800138000 " + strings.Repeat(" y", (3100-at)/2)
		text := "前" + base64.StdEncoding.EncodeToString([]byte(plain)) + "后"
		var shown strings.Builder
		New(Mobile).Each(text, func(s Segment) {
			if s.Class == "" {
				shown.WriteString(s.Text)
			}
		})
		for off := range 4 { // whatever is left, wherever one begins to decode
			for _, run := range strings.FieldsFunc(shown.String(), func(r rune) bool { return !isBase64(r) }) {
				if len(run) > off {
					b, _ := base64.RawStdEncoding.DecodeString(run[off : off+(len(run)-off)/4*4])
					if strings.Contains(string(b), "13800138000") {
						t.Fatalf("a value at %d is left", at)
					}
				}
			}
		}
	}
}

func TestEscapesStandForThemselves(t *testing.T) {
	for r := rune(1); r < 0x3000; r += 7 {
		for _, text := range []string{fmt.Sprintf(`\u%04x`, r), url.QueryEscape(string(r)), fmt.Sprintf("&#%d;", r), fmt.Sprintf("&#X%x;", r)} {
			if !strings.ContainsAny(text[:1], `\%&`) || r >= 0xd800 && r < 0xe000 {
				continue
			}
			if got, size, v := escape(text, true); got != r || size != len(text) || v != yes {
				t.Fatalf("%q is %q, %d, %d", text, got, size, v)
			}
			for cut := 1; cut < len(text); cut++ {
				if _, _, v := escape(text[:cut], false); v != open {
					t.Fatalf("%q is decided", text[:cut])
				}
			}
		}
	}
}

// FuzzNormalise: cells are in order, inside the text, and the same however it is cut.
func FuzzNormalise(f *testing.F) {
	for _, s := range fragments() {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var whole, parts normaliser
		want, used := whole.add(nil, text, 0, true)
		if used != len(text) {
			t.Fatalf("%d of %d bytes used", used, len(text))
		}
		last := 0
		for _, c := range want {
			if c.start < last || c.end() <= c.start || c.end() > len(text) {
				t.Fatalf("cell %+v behind %d", c, last)
			}
			last = c.start
		}
		if len(text) == 0 {
			return
		}
		cut = (cut%len(text) + len(text)) % len(text)
		got, n := parts.add(nil, text[:cut], 0, false)
		if cut-n >= maxEscape {
			t.Fatalf("%d bytes are kept back", cut-n)
		}
		got, _ = parts.add(got, text[n:], n, true)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q cut at %d:\n%v\n%v", text, cut, got, want)
		}
	})
}

// TestShortCutsOfTheNormaliser: the short cuts for what is read most give what the long way gives, for every character of three bytes.
func TestShortCutsOfTheNormaliser(t *testing.T) {
	for r := rune(0x800); r <= 0xffff; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		text := string(r)
		var short, long normaliser
		got, used := short.add(nil, text, 0, true)
		want := long.flush(long.spread(nil, r, 0, len(text)))
		if used != len(text) || !slices.Equal(got, want) {
			t.Fatalf("%U: %v, want %v", r, got, want)
		}
	}
	for _, bad := range []string{"\xe3\x80", "\xe3\x80a", "\xe3a\x80", "\xed\xa0\x80", "\xef\xbc", "\xef\xff\x8c"} {
		var n normaliser
		cells, used := n.add(nil, bad, 0, true)
		if used != len(bad) || len(cells) == 0 || cells[0].r != utf8.RuneError {
			t.Errorf("%x: %v", bad, cells)
		}
	}
}
