package parse_test

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/rag/parse"
)

// used is the time that processors have worked for this process. Unlike that of a clock it says something where others work too.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRead says how many bytes of a file are read in a second of one processor, by format. Those of Office files are of what is unpacked.
func BenchmarkRead(b *testing.B) {
	sentence := "出差人员按规定等级乘坐交通工具，凭据报销。 The fee is 5 yuan at every desk. "
	word := wordHead + strings.Repeat("<w:p><w:r><w:t>"+sentence+"</w:t></w:r></w:p>", 20_000) + "</w:body></w:document>"
	var sheet strings.Builder
	sheet.WriteString(`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`)
	for i := range 20_000 {
		fmt.Fprintf(&sheet, `<row r="%d"><c r="A%d" t="inlineStr"><is><t>item</t></is></c><c r="B%d"><v>%d.25</v></c><c r="C%d"><v>%d</v></c></row>`, i+1, i+1, i+1, i, i+1, i)
	}
	sheet.WriteString(`</sheetData></worksheet>`)
	for name, c := range map[string]struct {
		kind string
		body []byte
		size int
	}{
		"text":     {parse.Text, []byte(strings.Repeat(sentence+"\n\n", 20_000)), 0},
		"markdown": {parse.Markdown, []byte(strings.Repeat("# Head\n\n"+sentence+"\n\n- **a**\n", 20_000)), 0},
		"html":     {parse.HTML, []byte(strings.Repeat("<h2>Head</h2><p>"+sentence+"<ul><li>a</ul>", 20_000)), 0},
		"csv":      {parse.CSV, []byte(strings.Repeat("item,12.50,"+sentence+"\n", 20_000)), 0},
		"mail":     {parse.Mail, []byte("From: a@b\n\n" + strings.Repeat(sentence+"\n\n", 20_000)), 0},
		"docx":     {parse.DOCX, repack(b, load(b, "numbered.docx"), map[string][]byte{"word/document.xml": []byte(word)}), len(word)},
		"xlsx":     {parse.XLSX, repack(b, load(b, "sheet.xlsx"), map[string][]byte{"xl/worksheets/sheet1.xml": []byte(sheet.String())}), sheet.Len()},
	} {
		b.Run(name, func(b *testing.B) {
			r := parse.NewReader(parse.Config{})
			before := used(b)
			for b.Loop() {
				if _, err := r.Read(b.Context(), parse.File{MIME: c.kind, Body: c.body}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(max(c.size, len(c.body))*b.N)/1e6/(used(b)-before).Seconds(), "MB/cpu-s")
		})
	}
	b.Run("pdf", func(b *testing.B) { // by page
		r := pdfReader(b, parse.Config{})
		body := load(b, "columns.pdf")
		if _, err := r.Read(b.Context(), parse.File{MIME: parse.PDF, Body: body}); err != nil { // PDFium starts
			b.Fatal(err)
		}
		before := used(b)
		for b.Loop() {
			if _, err := r.Read(b.Context(), parse.File{MIME: parse.PDF, Body: bytes.Clone(body)}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(2*b.N)/(used(b)-before).Seconds(), "pages/cpu-s")
	})
}
