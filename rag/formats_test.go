package rag

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/chunk"
	"github.com/sluice-project/sluice/rag/parse"
)

// TestFormatsAreSearched: what files of several formats say is found, in its section, with tables whole and their header with them; what they have
// besides is said, again when they come again; and what cannot be read is refused with its reason.
func TestFormatsAreSearched(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	put := func(name, as string) (IngestResult, error) {
		body, err := os.ReadFile(filepath.Join("parse", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: as, Body: body})
	}
	for name, c := range map[string]struct {
		mime, question, section, text string
		left                          int
	}{
		"word.docx":   {parse.DOCX, "北京 经理 标准", "第一章 总则 > 适用范围", "北京 | 员工 | 500元", 2},
		"sheet.xlsx":  {parse.XLSX, "块存储 单价", "价目表", "存储 | 块存储 | ¥1,234.50", 3},
		"slides.pptx": {parse.PPTX, "Licence Cost", "Costs", "Item | Cost\nLicence | 100", 1},
		"mail.eml":    {parse.Mail, "服务器 金额", "清单.csv", "名称 | 金额\n服务器 | 100", 1},
	} {
		out, err := put(name, name)
		if err != nil || out.MIME != c.mime || len(out.Left) != c.left {
			t.Errorf("%s: %+v, %v", name, out, err)
			continue
		}
		if again, err := put(name, name); err != nil || again.Version != "v1" || len(again.Left) != c.left {
			t.Errorf("%s again: %+v, %v", name, again, err)
		}
		found := false
		for _, p := range find(t, s, "kb", c.question) {
			found = found || p.Document == name && strings.Contains(p.Section, c.section) && strings.Contains(p.Text, c.text)
		}
		if !found {
			t.Errorf("%s: %q is not found in %q: %+v", name, c.text, c.section, find(t, s, "kb", c.question))
		}
	}
	if _, err := put("word.docx", "word.xlsx"); !fault.Is(err, fault.CodeInvalidDocument) || !strings.Contains(err.Error(), "DOCX") {
		t.Errorf("a document by the name of a workbook: %v", err)
	}
}

// TestBusyIsNotBad: a document that finds no place is to be brought again; nothing is said of it.
func TestBusyIsNotBad(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	if err := s.reader.Close(); err != nil { // the reader that is closed has no places
		t.Fatal(err)
	}
	_, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("text")})
	if !fault.Is(err, fault.CodeDocumentsBusy) || fault.Public(err).RetryAfter() <= 0 || fault.Public(err).Kind() != fault.Unavailable {
		t.Error(err)
	}
}

// TestLongTablesKeepTheirHeader: each passage of a long table begins with the header and holds whole rows; passages of a PDF name their page.
func TestLongTablesKeepTheirHeader(t *testing.T) {
	body := "name,amount,remark\n" + strings.Repeat("desk lamp,17,ordered in spring\n", 200)
	d, err := parse.NewReader(parse.Config{TablePart: 200}).Read(t.Context(), parse.File{Name: "a.csv", Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, c := range passages(d, chunk.Config{Size: 200, Overlap: 40}) {
		lines := strings.Split(d.Text[c.Start:c.End], "\n")
		if lines[0] != "name | amount | remark" {
			t.Errorf("a passage begins with %q", lines[0])
		}
		for _, l := range lines[1:] {
			if l != "desk lamp | 17 | ordered in spring" {
				t.Errorf("a row is %q", l)
			}
			rows++
		}
	}
	if rows != 200 {
		t.Errorf("%d rows", rows)
	}
	d = parse.Document{Kind: parse.PDF, Text: "Fees\n\nFive yuan.\n\nSeven yuan.", Blocks: []parse.Block{
		{Kind: parse.Heading, Level: 1, Page: 1, Start: 0, End: 4}, {Page: 1, Start: 6, End: 16}, {Page: 2, Start: 18, End: 29},
	}}
	var sections []string
	for _, c := range passages(d, chunk.Config{Size: 18}) {
		sections = append(sections, c.shown())
	}
	for _, c := range passages(d, chunk.Config{Size: 512}) {
		sections = append(sections, c.shown())
	}
	if got := strings.Join(sections, ";"); got != "Fees, p. 1;Fees, p. 2;Fees, p. 1–2" {
		t.Errorf("sections %s", got)
	}
}

// TestPagesAreNoSections: passages run across pages, so no rule can name one; and what a section's rule hides is in no passage outside of it.
func TestPagesAreNoSections(t *testing.T) {
	text, blocks := strings.Builder{}, []parse.Block{}
	add := func(kind parse.BlockKind, page int, s string) {
		if text.Len() > 0 {
			text.WriteString("\n\n")
		}
		level := 0
		if kind == parse.Heading {
			level = 1
		}
		start := text.Len()
		text.WriteString(s)
		blocks = append(blocks, parse.Block{Kind: kind, Level: level, Page: page, Start: start, End: text.Len()})
	}
	add(parse.Heading, 1, "Fees")
	add(parse.Paragraph, 1, strings.Repeat("Open words. ", 10)+"Open.")
	add(parse.Paragraph, 2, strings.Repeat("More words. ", 10)+"More.")
	add(parse.Heading, 2, "Staff")
	add(parse.Paragraph, 2, strings.Repeat("Hidden words. ", 10)+"Hidden.")
	d := parse.Document{Kind: parse.PDF, Text: text.String(), Blocks: blocks}
	rows := passages(d, chunk.Config{Size: 512, Overlap: 64})
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	keep := s.store.rules
	v := &indexedVersion{versionRow: versionRow{Document: "d", Version: 1, Content: d.Text}, chunks: rows}
	for _, name := range []string{"p. 1", "p. 2", "Fees > p. 1", "Fees, p. 1", "Staff, p. 2"} {
		rule := Rule{Parts: []PartRule{{Section: name}}}
		if _, err := keep.resolve("d", rule, Rule{}, []*indexedVersion{v}); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("a rule on %q: %v", name, err)
		}
	}
	rule, err := keep.resolve("d", Rule{Parts: []PartRule{{Section: "Staff"}}}, Rule{}, []*indexedVersion{v})
	if err != nil {
		t.Fatal(err)
	}
	crossing := false
	for i, c := range rows {
		hidden := rule.Parts[0].covers(v, i, keep.sections("d", c.Section))
		if words := d.Text[c.Start:c.End]; hidden != strings.Contains(words, "Hidden") || hidden && strings.Contains(words, "words. More") {
			t.Errorf("covered %v: %q", hidden, words)
		}
		crossing = crossing || c.Place == "p. 1–2"
	}
	if !crossing {
		t.Error("no passage crosses a page")
	}
}

// TestPagesAreStored: passages name their pages, after a restart too, and what they are shown by is no section.
func TestPagesAreStored(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	doc := Document{Tenant: "acme", Collection: "kb", Name: "a.md", Body: []byte("# Fees\n\nfive yuan\n\n# Staff\n\nsix yuan")}
	draft, err := s.Read(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	draft.version.chunks[0].Place = "p. 1–2" // as of a PDF, without PDFium
	if _, err := s.Store(t.Context(), draft, s.from.Embed); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		shown := map[string]bool{}
		for _, p := range find(t, s, "kb", "yuan") {
			shown[p.Section] = true
		}
		if !shown["Fees, p. 1–2"] || !shown["Staff"] || len(shown) != 2 {
			t.Errorf("shown %v", shown)
		}
		doc.MayChangeAccess, doc.Rule = true, &Rule{Parts: []PartRule{{Section: "Fees, p. 1–2"}}}
		if _, err := s.Ingest(t.Context(), doc); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("a rule on what is shown: %v", err)
		}
		s = service(t, db, newHashed())
	}
}
