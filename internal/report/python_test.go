package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/testpython"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// readers reads a PDF with pypdf and a DOCX with python-docx, which know nothing of this package.
const readers = `
import json, sys, docx, pypdf
pdf = pypdf.PdfReader(sys.argv[1], strict=True)
fonts = []
for page in pdf.pages:
    for f in page["/Resources"]["/Font"].values():
        f = f.get_object()["/DescendantFonts"][0].get_object()
        d = f["/FontDescriptor"].get_object()
        fonts.append([str(d["/FontName"]), len(d["/FontFile2"].get_object().get_data())])
word = docx.Document(sys.argv[2])
body = []
for part in word.element.body.iterchildren():
    for p in part.iter("{http://schemas.openxmlformats.org/wordprocessingml/2006/main}p"):
        body.append("".join(t.text or "" for t in p.iter("{http://schemas.openxmlformats.org/wordprocessingml/2006/main}t")))
section = word.sections[0]
print(json.dumps(dict(
    pages=[p.extract_text() for p in pdf.pages], fonts=fonts, title=pdf.metadata.title, author=pdf.metadata.author,
    made=pdf.metadata.creation_date.isoformat(), word=body, tables=[[[c.text for c in r.cells] for r in t.rows] for t in word.tables],
    styles=[p.style.name for p in word.paragraphs], wordtitle=word.core_properties.title, wordmade=word.core_properties.created.isoformat(),
    width=section.page_width.mm, height=section.page_height.mm, footer=section.footer.paragraphs[0].text,
)))
`

type read struct {
	Pages, Word, Styles                              []string
	Fonts                                            [][2]any
	Title, Author, Made, Wordtitle, Wordmade, Footer string
	Tables                                           [][][]string
	Width, Height                                    float64
}

// TestOtherReaders holds PDF and DOCX to what others read in them.
func TestOtherReaders(t *testing.T) {
	python := testpython.Python(t, "report", "python")
	for name, l := range map[string]message.Lang{"English": message.English, "Chinese": message.Chinese} {
		t.Run(name, func(t *testing.T) {
			d := statement(l)
			got := readByOthers(t, python, d)
			all := ""
			for _, page := range got.Pages {
				all += squeeze(page)
			}
			text := squeeze(strings.Join(got.Word, ""))
			for _, s := range texts(d) {
				if !strings.Contains(all, squeeze(s)) && !brokenCell(d, s) {
					t.Errorf("pypdf does not find %q in %s", s, all)
				}
				if !strings.Contains(text, squeeze(s)) {
					t.Errorf("python-docx does not find %q", s)
				}
			}
			if got.Title != d.Title || got.Author != d.Issuer || got.Made != "2026-11-24T00:30:00+00:00" {
				t.Errorf("the PDF says %q by %q at %s", got.Title, got.Author, got.Made)
			}
			if got.Wordtitle != d.Title || got.Wordmade != "2026-11-24T00:30:00+00:00" || int(got.Width+0.5) != 210 || int(got.Height+0.5) != 297 {
				t.Errorf("the DOCX says %q at %s, %g × %g mm", got.Wordtitle, got.Wordmade, got.Width, got.Height)
			}
			for _, f := range got.Fonts {
				if name, size := fmt.Sprint(f[0]), f[1].(float64); !regexp.MustCompile(`^/[A-Z]{6}\+NotoSansSC-Regular$`).MatchString(name) || size > 200_000 {
					t.Errorf("font %s of %g bytes", name, size)
				}
			}
			if len(got.Tables) != 2 || len(got.Tables[1]) != 4 || got.Tables[1][3][4] != "12,345.678900001" {
				t.Errorf("tables %q", got.Tables)
			}
			if s := strings.Join(got.Styles, " "); !strings.Contains(s, "Title") || !strings.Contains(s, "Heading 1") || !strings.Contains(s, "Verdict Passed") {
				t.Errorf("styles %s", s)
			}
		})
	}
}

// brokenCell says whether a text stands in cells that are broken into lines, between which a reader sees other cells.
func brokenCell(d Document, s string) bool {
	for _, b := range d.Body {
		if table, ok := b.(Table); ok {
			for _, row := range append(table.lines(), table.heads(d.Lang)) {
				for _, cell := range row {
					if cell == s {
						return true
					}
				}
			}
		}
	}
	return false
}

// TestEveryChineseCharacter writes each Chinese character of the catalogues, and of the font those beyond the first plane, which rare names
// have, and reads them again.
func TestEveryChineseCharacter(t *testing.T) {
	f, err := newFace()
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := os.ReadFile("../message/zh.txt")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[rune]bool{}
	for _, r := range string(catalogue) {
		if unicode.Is(unicode.Han, r) {
			wanted[r] = true
			if !f.has(r) {
				t.Errorf("the font lacks %q, which the catalogue uses", r)
			}
		}
	}
	for r := rune(0x20000); r < 0x32000; r++ {
		if f.has(r) {
			wanted[r] = true
		}
	}
	all := ""
	for r := range wanted {
		all += string(r)
	}
	if len(wanted) < 500 {
		t.Fatalf("only %d characters", len(wanted))
	}
	got := tally(strings.Join(readByOthers(t, testpython.Python(t, "report", "python"), Document{Title: "t", Issuer: "i", Created: made, Body: []Block{Paragraph(all)}}).Pages, ""))
	for r := range wanted {
		if got[r] != 1 {
			t.Errorf("pypdf finds %q (%U) %d times", r, r, got[r])
		}
	}
}

func readByOthers(t *testing.T, python string, d Document) (r read) {
	t.Helper()
	files := []string{filepath.Join(t.TempDir(), "a.pdf"), filepath.Join(t.TempDir(), "a.docx")}
	for i, f := range []Format{PDF, DOCX} {
		if err := os.WriteFile(files[i], render(t, f, d), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), python, append([]string{"-c", readers}, files...)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Logf("%s", exit.Stderr)
		}
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPoppler: the extractor that most viewers and search engines build on finds the text as well.
func TestPoppler(t *testing.T) {
	dbtest.Programs(t, "pdftotext")
	d := statement(message.Chinese)
	file := filepath.Join(t.TempDir(), "a.pdf")
	if err := os.WriteFile(file, render(t, PDF, d), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "pdftotext", "-layout", file, "-").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, s := range texts(d) {
		if !strings.Contains(squeeze(string(out)), squeeze(s)) && !brokenCell(d, s) {
			t.Errorf("pdftotext does not find %q in %s", s, out)
		}
	}
}
