package text

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEscapesStandForThemselves(t *testing.T) {
	for r := rune(1); r < 0x3000; r += 7 {
		for _, text := range []string{fmt.Sprintf(`\u%04x`, r), url.QueryEscape(string(r)), fmt.Sprintf("&#%d;", r), fmt.Sprintf("&#X%x;", r)} {
			if !strings.ContainsAny(text[:1], `\%&`) || r >= 0xd800 && r < 0xe000 {
				continue
			}
			if got, size, v := escape(text, true); got != r || size != len(text) || v != Yes {
				t.Fatalf("%q is %q, %d, %d", text, got, size, v)
			}
			for cut := 1; cut < len(text); cut++ {
				if _, _, v := escape(text[:cut], false); v != Open {
					t.Fatalf("%q is decided", text[:cut])
				}
			}
		}
	}
}

// FuzzNormalise: cells are in order, inside the text, and the same however it is cut.
func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"身份证号：", "１３８ ００13\u20618000", "一三八零零一三八", "%E7%8E%8B", `\\u738b\\ud83d\\ude00`, "&#x738b;&amp;", "zhang@ex\u200dample.com", "\xe3\x80", "①②③"} {
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
			if c.Start < last || c.End() <= c.Start || c.End() > len(text) {
				t.Fatalf("cell %+v behind %d", c, last)
			}
			last = c.Start
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
		if used != len(bad) || len(cells) == 0 || cells[0].R != utf8.RuneError {
			t.Errorf("%x: %v", bad, cells)
		}
	}
}

// TestResetKeepsNothing: of a text that a window has read nothing is left behind a reset, and what was read before others of it neither.
func TestResetKeepsNothing(t *testing.T) {
	for _, s := range []string{"我叫王小明，电话13800138000", "一三八零零一", strings.Repeat("普通的文字，", 2000)} {
		var w Buffer
		w.Read(s, 0, false)
		w.Forget(w.End() - 3)
		w.Reset()
		for i, c := range w.cells[:cap(w.cells)] {
			if c != (Cell{}) {
				t.Fatalf("cell %d of %.20q is kept", i, s)
			}
		}
		if w.End() != 0 || w.base != 0 || w.final || len(w.norm.staged) > 0 {
			t.Errorf("%.20q: %+v", s, w.norm)
		}
	}
}

// TestPlacesStay: what stands at a place is the same before and after cells on its left were dropped.
func TestPlacesStay(t *testing.T) {
	var w Buffer
	w.Read(strings.Repeat("号码13800138000，", 20), 0, false)
	whole, stretch := slices.Clone(w.Cells(0, w.End())), w.Stretch(200, 210)
	w.Forget(150)
	w.Forget(30) // fewer than half of the rest
	if w.Place(0) != 150 || w.Index(149) >= 0 || w.At(-1) != Edge {
		t.Fatalf("the window begins at place %d", w.Place(0))
	}
	for p := Place(150); int(p) < len(whole); p++ {
		if i := w.Index(p); w.Place(i) != p || w.At(i) != whole[p].R || *w.Cell(i) != whole[p] {
			t.Fatalf("%c stands at place %d, want %c", w.At(i), p, whole[p].R)
		}
	}
	if s := w.Span(stretch); s != (Span{50, 60}) || w.Stretch(50, 60) != stretch {
		t.Errorf("the stretch %v is cells %v", stretch, s)
	}
	if end := w.End(); end != len(whole)-150 || w.At(end) != Unknown {
		t.Errorf("%d cells are left of %d", end, len(whole))
	}
}
