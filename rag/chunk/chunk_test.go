package chunk_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/rag/chunk"
)

// check holds what Split promises for any input.
func check(t *testing.T, text string, headings []chunk.Heading, whole []chunk.Range, cfg chunk.Config) []chunk.Chunk {
	t.Helper()
	chunks := chunk.Split(text, headings, whole, cfg)
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
	chunks := check(t, text, nil, nil, cfg)
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
	got := check(t, text, []chunk.Heading{heading("A", 1), heading("B", 2), heading("C", 2), heading("D", 1)}, nil, chunk.Config{Size: 100})
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
	if got := check(t, text, nil, nil, chunk.Config{Size: 512, Overlap: 64}); len(got) < 19 {
		t.Errorf("only %d chunks", len(got))
	}
	accents := strings.Repeat("e\u0301", 700)
	for _, c := range check(t, accents, nil, nil, chunk.Config{Size: 101}) {
		if r, _ := utf8.DecodeRuneInString(accents[c.Start:]); unicode.Is(unicode.M, r) {
			t.Errorf("chunk at %d begins with an accent", c.Start)
		}
	}
	if got := chunk.Split(" \n ", nil, nil, chunk.Config{}); len(got) != 0 {
		t.Errorf("blank text gave %+v", got)
	}
}

// TestTablesStayWhole: one that fits is in one chunk, wherever it begins; one that does not is cut between its lines.
func TestTablesStayWhole(t *testing.T) {
	row := strings.Repeat("x", 9) + "\n"
	table := strings.TrimSpace(strings.Repeat(row, 8))
	text := strings.Repeat("Some words. ", 3) + "\n\n" + table + "\n\n" + strings.Repeat("More words. ", 20)
	at := strings.Index(text, table)
	for size, whole := range map[int]bool{80: true, 79: true, 60: false} {
		found := false
		for _, c := range check(t, text, nil, []chunk.Range{{at, at + len(table)}}, chunk.Config{Size: size, Overlap: 10}) {
			found = found || c.Start <= at && c.End >= at+len(table)
			if s := text[c.Start:c.End]; !whole && strings.Contains(s, "x") && strings.Trim(s, "x")[:1] == "x" {
				t.Errorf("a row is cut in %q", s)
			}
		}
		if found != whole {
			t.Errorf("chunks of %d: the table of %d characters is whole: %t", size, len(table), found)
		}
	}
	for _, c := range chunk.Split(text, nil, nil, chunk.Config{Size: 80, Overlap: 10}) {
		if c.Start <= at && c.End >= at+len(table) {
			t.Error("the table is whole although nobody asks for it, so this test shows nothing")
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("一。二！\n\nthree. four\n五", 3, 9, 20, 5)
	f.Add("e\u0301\u0301\u0301 \u3000 x\n \n\t\ny", 0, 1, 1, 1)
	f.Add("\xff\xfe. \x80", 1, 2, 2, 0)
	f.Fuzz(func(t *testing.T, text string, a, b, size, overlap int) {
		size = 1 + (size&0xff+0x100)&0xff
		check(t, text, []chunk.Heading{{a, b, 1}, {b, b + 3, 2}}, []chunk.Range{{b, a}, {a + 1, size + 3}}, chunk.Config{Size: size, Overlap: overlap % 300})
	})
}
