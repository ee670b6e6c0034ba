package chunk_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/rag/chunk"
)

// check holds what Split promises for any input.
func check(t *testing.T, text string, headings []chunk.Heading, cfg chunk.Config) []chunk.Chunk {
	t.Helper()
	chunks := chunk.Split(text, headings, cfg)
	covered := make([]bool, len(text))
	last := -1
	for _, c := range chunks {
		if c.Start <= last || c.Start >= c.End || c.End > len(text) {
			t.Fatalf("chunk %+v after %d in %d bytes", c, last, len(text))
		}
		last = c.Start
		content := text[c.Start:c.End]
		if strings.TrimFunc(content, unicode.IsSpace) != content {
			t.Fatalf("chunk %q has blanks at its ends", content)
		}
		if utf8.ValidString(text) && !utf8.ValidString(content) {
			t.Fatalf("chunk %q cuts a character", content)
		}
		if n := utf8.RuneCountInString(content); n > 2*cfg.Size {
			t.Fatalf("chunk of %d characters", n)
		}
		for i := c.Start; i < c.End; i++ {
			covered[i] = true
		}
	}
	for i, r := range text {
		if !unicode.IsSpace(r) && !covered[i] {
			t.Fatalf("byte %d (%q) is in no chunk", i, r)
		}
	}
	return chunks
}

func TestSplitFollowsParagraphsAndSentences(t *testing.T) {
	a, b := strings.Repeat("一二三四。", 12), strings.Repeat("Some words. ", 8)
	text := a + "\n\n" + b + "\n\nlast one"
	cfg := chunk.Config{Size: 100, Overlap: 20}
	chunks := check(t, text, nil, cfg)
	if got := text[chunks[0].Start:chunks[0].End]; got != a {
		t.Errorf("first chunk %q does not end with the paragraph", got)
	}
	for _, c := range chunks {
		if n := utf8.RuneCountInString(text[c.Start:c.End]); n > cfg.Size {
			t.Errorf("chunk of %d characters", n)
		}
	}
	if chunks[1].Start >= chunks[0].End {
		t.Errorf("no overlap: %+v", chunks)
	}
}

func TestSplitKeepsSectionsApart(t *testing.T) {
	text := "intro\n\nA\n\nB\n\ntext b\n\nC\n\ntext c\n\nD"
	heading := func(s string, level int) chunk.Heading {
		i := strings.Index(text, "\n"+s) + 1
		return chunk.Heading{Start: i, End: i + len(s), Level: level}
	}
	got := check(t, text, []chunk.Heading{heading("A", 1), heading("B", 2), heading("C", 2), heading("D", 1)}, chunk.Config{Size: 100})
	want := []struct{ text, section string }{{"intro", ""}, {"A\n\nB\n\ntext b", "A > B"}, {"C\n\ntext c", "A > C"}, {"D", "D"}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range want {
		if text[got[i].Start:got[i].End] != w.text || got[i].Section != w.section {
			t.Errorf("chunk %d is %q in %q, want %q in %q", i, text[got[i].Start:got[i].End], got[i].Section, w.text, w.section)
		}
	}
}

func TestLongRunsAreCut(t *testing.T) {
	text := strings.Repeat("x", 10_000)
	if got := check(t, text, nil, chunk.Config{Size: 512, Overlap: 64}); len(got) < 19 {
		t.Errorf("only %d chunks", len(got))
	}
	accents := strings.Repeat("e\u0301", 700)
	for _, c := range check(t, accents, nil, chunk.Config{Size: 101}) {
		if r, _ := utf8.DecodeRuneInString(accents[c.Start:]); unicode.Is(unicode.M, r) {
			t.Errorf("chunk at %d begins with an accent", c.Start)
		}
	}
	if got := chunk.Split(" \n ", nil, chunk.Config{}); len(got) != 0 {
		t.Errorf("blank text gave %+v", got)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("一。二！\n\nthree. four\n五", 3, 9, 20, 5)
	f.Add("e\u0301\u0301\u0301 \u3000 x\n \n\t\ny", 0, 1, 1, 1)
	f.Add("\xff\xfe. \x80", 1, 2, 2, 0)
	f.Fuzz(func(t *testing.T, text string, a, b, size, overlap int) {
		size = 1 + (size&0xff+0x100)&0xff
		check(t, text, []chunk.Heading{{a, b, 1}, {b, b + 3, 2}}, chunk.Config{Size: size, Overlap: overlap % 300})
	})
}
