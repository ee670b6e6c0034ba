package parse_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
	"github.com/sluice-project/sluice/internal/testcache"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/parse"
)

// pdfReader returns a reader that keeps compiled PDFium beside other things of tests. The race detector's form would compile for a minute.
func pdfReader(t testing.TB, cfg parse.Config) *parse.Reader {
	t.Helper()
	if testing.Short() {
		t.Skip("PDFium is not compiled in the short form")
	}
	dir, err := testcache.Root("pdfium")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Compiled = dir
	r := parse.NewReader(cfg)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestPDF holds the reader to what people see in PDFs of several producers.
func TestPDF(t *testing.T) {
	r := pdfReader(t, parse.Config{})
	read := func(t *testing.T, name string) (parse.Document, error) {
		t.Helper()
		d, err := r.Read(t.Context(), parse.File{Name: name, Body: load(t, name)})
		if err == nil {
			holds(t, d)
		}
		return d, err
	}
	t.Run("a map of Chinese characters that the file names and does not contain", func(t *testing.T) {
		d, err := read(t, "gbk.pdf")
		if want := "H1 关于印发差旅费管理办法的通知\nP 各部门：\nP 现将差旅费管理办法印发给你们，请遵照执行。出差人员按规定等级乘坐交通工具，凭据报销。\n"; err != nil || outline(d) != want {
			t.Errorf("got %v\n%s", err, outline(d))
		}
	})
	t.Run("columns", func(t *testing.T) {
		d, err := read(t, "columns.pdf")
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := 1; i <= 15; i++ {
			want = append(want, fmt.Sprintf("Paragraph %d begins", i), fmt.Sprintf("Paragraph %d ends", i))
		}
		if got := regexp.MustCompile(`Paragraph \d+ (begins|ends)`).FindAllString(strings.ReplaceAll(d.Text, "\n", " "), -1); !slices.Equal(got, want) {
			t.Errorf("in this order: %q", got)
		}
		if strings.Contains(d.Text, "Travel policy 2026") || regexp.MustCompile(`Page \d`).MatchString(d.Text) {
			t.Error("the lines at the edges of the pages are in the text")
		}
		if o := outline(d); !strings.Contains(o, "H1 1. Section number 1\n") || !strings.Contains(o, "H1 11. Section number 11\n") || d.Blocks[len(d.Blocks)-1].Page != 2 {
			t.Errorf("headings or pages are missing in\n%s", o)
		}
	})
	t.Run("table", func(t *testing.T) {
		d, err := read(t, "table.pdf")
		if err != nil || !strings.Contains(outline(d), "\nT City | Grade | Limit⏎City 1 | Grade B | 410 yuan⏎City 2 | Grade C | 420 yuan⏎") || !strings.Contains(outline(d), "yuan\nP After the table.") {
			t.Errorf("got %v\n%s", err, outline(d))
		}
	})
	for name, want := range map[string]string{
		"encrypted.pdf": "encrypted", "blank.pdf": "pictures without text", "garbled.pdf": "text of page 1 cannot be read", "owner.pdf": "",
	} {
		if _, err := read(t, name); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// signs are the characters of a text without blanks, sorted: readers differ in the order of columns and cells.
func signs(s string) string {
	out := []rune(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '|' || r == '\u00ad' {
			return -1
		}
		return r
	}, s))
	slices.Sort(out)
	return string(out)
}

// words are the words of a text, sorted.
func words(s string) []string {
	out := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '|' })
	slices.Sort(out)
	return out
}

// TestPDFEqualsPoppler: pdftotext, which shares nothing with PDFium, finds the same words.
func TestPDFEqualsPoppler(t *testing.T) {
	r := pdfReader(t, parse.Config{})
	dbtest.Programs(t, "pdftotext")
	folder := t.TempDir()
	var statement bytes.Buffer
	if err := report.Write(&statement, report.PDF, report.Document{
		Lang: message.Chinese, Title: "对账单", Subject: "2026 年 11 月", Issuer: "示例银行", Created: time.Unix(1795000000, 0), Body: []report.Block{
			report.Heading{Level: 1, Text: "一、费用明细"},
			report.Paragraph("本对账单根据已封存的审计记录与账簿逐条核对生成。所列金额均为人民币，精确到账簿所记的最小单位。"),
			report.Table{Caption: "按模型汇总", Columns: []report.Column{{Title: "模型"}, {Title: "费用", Unit: "元", Number: true}}, Rows: [][]string{{"qwen3-32b", "12.50"}, {"smollm2", "0.30"}}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"columns.pdf": load(t, "columns.pdf"), "table.pdf": load(t, "table.pdf"), "fpdf.pdf": load(t, "fpdf.pdf"), "chromium.pdf": load(t, "chromium.pdf"), "owner.pdf": load(t, "owner.pdf"),
		"statement.pdf": statement.Bytes(),
	} {
		d, err := r.Read(t.Context(), parse.File{Name: name, Body: body})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file := filepath.Join(folder, name)
		write(t, file, body)
		said, err := exec.CommandContext(t.Context(), "pdftotext", file, "-").Output()
		if err != nil {
			t.Fatal(err)
		}
		theirs := regexp.MustCompile(`Travel policy 2026|Page \d`).ReplaceAllString(string(said), "") // at the edges
		if name == "statement.pdf" {
			if ours := signs(d.Text); ours != signs(theirs) {
				t.Errorf("%s: we read\n%s\npdftotext\n%s", name, d.Text, theirs)
			}
			continue
		}
		ours, poppler := words(d.Text), words(theirs)
		for i := range max(len(ours), len(poppler)) {
			if i >= len(ours) || i >= len(poppler) || ours[i] != poppler[i] {
				t.Errorf("%s: we read %d words, pdftotext %d; the first that differ are %q and %q", name, len(ours), len(poppler), ours[min(i, len(ours)):], poppler[min(i, len(poppler)):])
				break
			}
		}
	}
}

// TestPDFIsGivenUp: one that takes longer than it may ends, and the next one is read.
func TestPDFIsGivenUp(t *testing.T) {
	r := pdfReader(t, parse.Config{})
	if _, err := r.Read(t.Context(), parse.File{Name: "owner.pdf", Body: load(t, "owner.pdf")}); err != nil {
		t.Fatal(err)
	}
	slow := pdfReader(t, parse.Config{MaxTime: 5 * time.Millisecond})
	for range 3 {
		if _, err := slow.Read(t.Context(), parse.File{Name: "columns.pdf", Body: load(t, "columns.pdf")}); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("within 5 ms: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ctx, parse.File{Name: "columns.pdf", Body: load(t, "columns.pdf")}); err == nil {
		t.Error("a cancelled request reads on")
	}
	if _, err := slow.Read(t.Context(), parse.File{Name: "gbk.txt", Body: []byte("x")}); err != nil {
		t.Error(err)
	}
	if _, err := r.Read(t.Context(), parse.File{Name: "gbk.pdf", Body: load(t, "gbk.pdf")}); err != nil {
		t.Errorf("behind one that was given up: %v", err)
	}
}
