package parse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// lay lays out pages of glyphs.
func lay(t *testing.T, pages ...pdfPage) (Document, error) {
	t.Helper()
	return layIn(t.Context(), pages...)
}

func layIn(ctx context.Context, pages ...pdfPage) (Document, error) {
	l := &layout{r: &reading{Reader: NewReader(Config{}), ctx: ctx, cells: new(int), made: new(int)}}
	for _, p := range pages {
		if err := l.add(p); err != nil {
			return Document{}, err
		}
	}
	return l.document()
}

// typed sets a line of text.
func typed(s string, x, y, size float64) []glyph {
	var out []glyph
	for _, r := range s {
		w := size * 0.5
		if r > 0x2e80 {
			w = size
		}
		out = append(out, glyph{r: r, left: x, right: x + w*0.9, bottom: y, top: y + size*0.8, size: size})
		x += w
	}
	return append(out, glyph{r: '\n'})
}

// TestHostileLayoutsTakeLinearTime: pages with as many characters as they may have, in places that make layout hard.
func TestHostileLayoutsTakeLinearTime(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	const n = 6_000
	for name, at := range map[string]func(i int) (x, y, size float64){
		"one line":    func(i int) (x, y, size float64) { return float64(i) * 30, 100, 10 },
		"one column":  func(i int) (x, y, size float64) { return 100, float64(i) * -12, 10 },
		"two columns": func(i int) (x, y, size float64) { return float64(i%2) * 300, float64(i/2) * -12, 10 },
		"at random":   func(int) (x, y, size float64) { return rnd.Float64() * 1e6, rnd.Float64() * 1e6, 1 + rnd.Float64()*100 },
		"in a heap":   func(int) (x, y, size float64) { return 1, 1, 10 },
		"many sizes":  func(i int) (x, y, size float64) { return 50, float64(-i) * 40, 1 + float64(i) },
	} {
		p := pdfPage{width: 600, height: 800, objects: 1}
		for i := range n {
			x, y, size := at(i)
			p.glyphs = append(p.glyphs, typed([]string{"b", "a", "d"}[i%3], x, y, size)...)
		}
		start := time.Now()
		if _, err := lay(t, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}

// TestGarbled: what nobody writes is told from what people write in many languages.
func TestGarbled(t *testing.T) {
	text := func(s string) []glyph {
		var out []glyph
		for _, r := range s {
			out = append(out, glyph{r: r})
		}
		return out
	}
	for _, s := range []string{
		strings.Repeat("出差人员按规定等级乘坐交通工具，凭据报销。", 5), strings.Repeat("員工應於出差前五日提出申請，並附預算。", 5), strings.Repeat("The fee is 5 yuan. ", 30),
		strings.Repeat("Grüße aus München, schöne Ferien. ", 20), strings.Repeat("Это обычный текст на русском. ", 20), strings.Repeat("これは普通の文章です。", 20),
		strings.Repeat("12.50  3,400.00  (17.2)  98.1%\n", 40), "• \uf0b7 one\n\uf0b7 two\n\uf0b7 three\n\uf0b7 four\n\uf0b7 five\n\uf0b7 six", "", "IBM",
	} {
		if garbled(text(s)) {
			t.Errorf("%.60q is taken for rubbish", s)
		}
	}
	for _, s := range []string{
		strings.Repeat("\x00\x00\x00a", 20), strings.Repeat("\ue123\ue456文", 20), strings.Repeat("\ufffd名", 20), strings.Repeat("鍑哄樊浜哄憳鎸夎瀹氱瓑绾т箻鍧愪氦閫氬伐鍏", 5),
		strings.Repeat("\uf054\uf068\uf065 ", 20), strings.Repeat("7KLV LV #$%&'() ;<=>?@ [\\]^ ", 20),
	} {
		if !garbled(text(s)) {
			t.Errorf("%.60q is taken for text", s)
		}
	}
}

// TestLayout: a page that was scanned among others is named, a turned page is read, and a mark across it is not.
func TestLayout(t *testing.T) {
	page := func(lines ...string) pdfPage {
		p := pdfPage{width: 600, height: 800, objects: 3}
		for i, s := range lines {
			p.glyphs = append(p.glyphs, typed(s, 72, 700-float64(i)*14, 10)...)
		}
		return p
	}
	d, err := lay(t, page("The first page has one line of text that is long."), pdfPage{objects: 1}, pdfPage{}, page("The fourth has another one."))
	if err != nil || len(d.Left) != 1 || !strings.Contains(d.Left[0].String(), ": 2") || d.Blocks[len(d.Blocks)-1].Page != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	turned := page("This page lies on its side.", "It has two lines.")
	for i, g := range turned.glyphs {
		if g.r != '\n' {
			turned.glyphs[i] = glyph{r: g.r, left: 800 - g.top, right: 800 - g.bottom, bottom: g.left, top: g.right, size: g.size, angle: 1.5707963}
		}
	}
	for _, g := range typed("DRAFT", 100, 100, 80) {
		g.angle = 0
		turned.glyphs = append(turned.glyphs, g)
	}
	d, err = lay(t, turned)
	if err != nil || strings.Contains(d.Text, "DRAFT") || !strings.HasPrefix(strings.ReplaceAll(d.Text, "\n", " "), "This page lies on its side. ") {
		t.Errorf("%q, %v", d.Text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := layIn(ctx, page("x")); err == nil {
		t.Error("it goes on behind its time")
	}
}

// TestRunningLines: lines that pages share go, with the number of the page, and are counted; headings with numbers, sums and other lines that merely look
// alike stay, and so does a large line where it comes first.
func TestRunningLines(t *testing.T) {
	const text = "This is a line of text that fills most of the page."
	page := func(top string, size float64, bottom string) pdfPage {
		p := pdfPage{width: 600, height: 800, objects: 3}
		if top != "" {
			p.glyphs = append(p.glyphs, typed(top, 72, 760, size)...)
		}
		for i := range 3 {
			p.glyphs = append(p.glyphs, typed(text, 72, 600-float64(i)*14, 10)...)
		}
		if bottom != "" {
			p.glyphs = append(p.glyphs, typed(bottom, 72, 40, 10)...)
		}
		return p
	}
	for name, c := range map[string]struct {
		pages      []pdfPage
		kept, gone string
		left       int
	}{
		"numbers of pages":         {[]pdfPage{page("", 0, "Page 1 of 3"), page("", 0, "Page 2 of 3"), page("", 0, "Page 3 of 3")}, "", "Page", 3},
		"a name at the top":        {[]pdfPage{page("Handbook 2026", 9, "7"), page("Handbook 2026", 9, "8")}, "", "Handbook", 4},
		"headings with numbers":    {[]pdfPage{page("Step 1", 20, ""), page("Step 2", 20, "")}, "Step 1,Step 2", "", 0},
		"a large name":             {[]pdfPage{page("Handbook", 20, ""), page("Handbook", 20, ""), page("Handbook", 20, "")}, "Handbook", "", 2},
		"sums":                     {[]pdfPage{page("", 0, "Total 100"), page("", 0, "Total 250")}, "Total 100,Total 250", "", 0},
		"numbers of chapters":      {[]pdfPage{page("Annex 1", 10, ""), page("Annex 1", 10, ""), page("Annex 2", 10, ""), page("Annex 4", 10, "")}, "Annex 1,Annex 2,Annex 4", "", 0},
		"a line of a single page":  {[]pdfPage{page("Once", 9, ""), page("Twice", 9, "")}, "Once,Twice", "", 0},
		"a number that goes along": {[]pdfPage{page("", 0, "2026-1"), page("", 0, "2026-2"), page("", 0, "2026-3")}, "", "2026", 3},
	} {
		d, err := lay(t, c.pages...)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range strings.FieldsFunc(c.kept, func(r rune) bool { return r == ',' }) {
			if !strings.Contains(d.Text, s) {
				t.Errorf("%s: %q is lost in %q", name, s, d.Text)
			}
		}
		if c.gone != "" && strings.Contains(d.Text, c.gone) {
			t.Errorf("%s: %q is in %q", name, c.gone, d.Text)
		}
		said := ""
		for _, l := range d.Left {
			said += l.String()
		}
		if want := fmt.Sprintf("%d lines at the edges", c.left); c.left > 0 && !strings.Contains(said, want) || c.left == 0 && said != "" {
			t.Errorf("%s: left %q", name, said)
		}
		if name == "a large name" && strings.Count(d.Text, "Handbook") != 1 {
			t.Errorf("%q", d.Text)
		}
	}
}
