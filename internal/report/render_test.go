package report

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/sluice-project/sluice/internal/message"
)

var made = time.Date(2026, 11, 24, 8, 30, 0, 0, time.FixedZone("", 8*3600))

// statement is a document with every kind of block, in a language.
func statement(l message.Lang) Document {
	d := Document{
		Lang: l, Title: "Statement of account", Subject: "November 2026, tenant Shanghai Pudong", Issuer: "Example Bank",
		Created: made, Footer: "SHA-256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	}
	if l == message.Chinese {
		d.Title, d.Subject, d.Issuer = "对账单", "2026 年 11 月，租户：上海浦东分行", "示例银行股份有限公司"
		d.Body = []Block{
			Verdict{Passed, "校验通过：没有记录被更改、删除、调序或截断。"},
			Fields{{"账户名称", "𬱖昇、赵珺玥、龘靐"}, {"统一社会信用代码", "91310000MA1K4BQ27X"}, {"日志树根", strings.Repeat("0123456789abcdef", 4)}},
			Heading{1, "一、费用明细"},
			Paragraph("本对账单根据已封存的审计记录与账簿逐条核对生成。所列金额均为人民币，精确到账簿所记的最小单位；“已核对”表示记录与账簿一致（见《用户协议》第 3.2 条）。\n如有异议，请于收到之日起 30 日内书面提出。"),
			Table{
				Caption: "表 1　按模型汇总",
				Columns: []Column{{Title: "模型"}, {Title: "用途"}, {Title: "请求数", Unit: "次", Number: true}, {Title: "词元", Unit: "千", Number: true}, {Title: "费用", Unit: "元", Number: true}},
				Rows: [][]string{
					{"qwen3-32b-instruct", "客服问答", Count(1234567), "98,321.5", "12,345.6789"},
					{"smollm2-135m", "摘要与分类，供内部使用；夜间批量任务", Count(12), "3.25", "0.000000001"},
				},
				Total: []string{"合计", "", Count(1234579), "98,324.75", "12,345.678900001"},
			},
			Heading{2, "注意事项"},
			List{false, []string{"金额含税。", "能耗按实测功率折算，单位为千瓦时；估算值已注明。未开启计量的节点不计入本表，但其请求数仍列入上表。"}},
			List{true, []string{"核对", "确认", "归档"}},
			Verdict{Failed, "发现问题 2 个"},
			Verdict{Neutral, "提示"},
		}
		return d
	}
	d.Body = []Block{
		Verdict{Passed, "OK: nothing was altered, removed, reordered or cut off."},
		Fields{{"Account", "Zoë Müller-Lüdenscheidt, 𬱖昇"}, {"Key", strings.Repeat("0123456789abcdef", 8)}},
		Heading{1, "1. Costs"},
		Paragraph("This statement was made from sealed audit records, each of which was compared with the books. Amounts are exact to the smallest unit that the books have (see section 3.2 of the agreement).\nObjections are to be made in writing within 30 days."),
		Table{
			Caption: "Table 1. By model",
			Columns: []Column{{Title: "Model"}, {Title: "Use"}, {Title: "Requests", Number: true}, {Title: "Tokens", Unit: "1,000", Number: true}, {Title: "Cost", Unit: "CNY", Number: true}},
			Rows: [][]string{
				{"qwen3-32b-instruct", "Customer service", Count(1234567), "98,321.5", "12,345.6789"},
				{"smollm2-135m", "Summaries and classification for internal use, nightly batches", Count(12), "3.25", "0.000000001"},
			},
			Total: []string{"Total", "", Count(1234579), "98,324.75", "12,345.678900001"},
		},
		Heading{2, "Notes"},
		List{false, []string{"Amounts include tax.", "Energy follows from measured power. Estimates are marked as such; nodes without meters are not in this table, though their requests are."}},
		List{true, []string{"Compare", "Confirm", "File"}},
		Verdict{Failed, "Problems found: 2"},
		Verdict{Neutral, "Note"},
	}
	return d
}

func render(t testing.TB, f Format, d Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, f, d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// texts returns every text of a document that a reader sees in the body, as it is to be written.
func texts(d Document) []string {
	out := []string{d.Title, d.Subject, message.Say("report.issued", d.Issuer, stamp(d)).In(d.Lang)}
	for _, b := range d.Body {
		switch b := b.(type) {
		case Heading:
			out = append(out, b.Text)
		case Paragraph:
			out = append(out, string(b))
		case List:
			out = append(out, b.Items...)
		case Fields:
			for _, f := range b {
				out = append(out, f.Name, f.Value)
			}
		case Verdict:
			out = append(out, b.Text)
		case Table:
			out = append(append(out, b.Caption), b.heads(d.Lang)...)
			for _, row := range b.lines() {
				out = append(out, row...)
			}
		}
	}
	return out
}

// squeeze takes all space out of a text: lines are broken where they have to be.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// tally counts the characters of a text.
func tally(s string) map[rune]int {
	out := map[rune]int{}
	for _, r := range squeeze(s) {
		out[r]++
	}
	return out
}

var (
	streams  = regexp.MustCompile(`(?s)/Length \d+[^>]*>>\nstream\n(.*?)\nendstream`)
	mappings = regexp.MustCompile(`<([0-9A-F]{4})> <([0-9A-F]+)>\n`)
	shown    = regexp.MustCompile(`<([0-9A-F]*)> Tj`)
)

// readPDF returns the lines of each page of a PDF of ours, by what the file says its codes are.
func readPDF(t testing.TB, file []byte) (pages [][]string) {
	t.Helper()
	var contents []string
	codes := map[string]string{}
	for _, m := range streams.FindAllSubmatch(file, -1) {
		z, err := zlib.NewReader(bytes.NewReader(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case bytes.Contains(plain, []byte("begincmap")):
			for _, m := range mappings.FindAllSubmatch(plain, -1) {
				raw, _ := hex.DecodeString(string(m[2]))
				var units []uint16
				for i := 0; i < len(raw); i += 2 {
					units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
				}
				codes[string(m[1])] = string(utf16.Decode(units))
			}
		case bytes.Contains(plain, []byte(" re f")):
			contents = append(contents, string(plain))
		}
	}
	for _, c := range contents {
		var lines []string
		for _, m := range shown.FindAllStringSubmatch(c, -1) {
			text := ""
			for i := 0; i < len(m[1]); i += 4 {
				r, ok := codes[m[1][i:i+4]]
				if !ok {
					t.Fatalf("the code %s has no character", m[1][i:i+4])
				}
				text += r
			}
			lines = append(lines, text)
		}
		pages = append(pages, lines)
	}
	return pages
}

// body returns the text of all pages without the lines at their top and bottom.
func body(d Document, pages [][]string) string {
	all := ""
	for i, lines := range pages {
		edges := 2
		if i > 0 {
			edges = 4
		}
		if d.Footer == "" || d.Issuer == "" {
			panic("a test's document has a footer and an issuer, so that the lines can be counted")
		}
		all += strings.Join(lines[:len(lines)-edges], "")
	}
	return squeeze(all)
}

// readDOCX returns the parts of a DOCX, each of them well-formed, and the text of the document.
func readDOCX(t testing.TB, file []byte) (parts map[string]string, text string) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	parts = map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		parts[f.Name] = string(raw)
		for dec := xml.NewDecoder(bytes.NewReader(raw)); ; {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			if chars, ok := tok.(xml.CharData); ok && f.Name == "word/document.xml" {
				text += string(chars)
			}
		}
	}
	return parts, squeeze(text)
}

// TestNothingVanishes: each file has the characters of the document, each as often, and none besides.
func TestNothingVanishes(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 40)
	bad := "bell\a, nul\x00, override\u202e, joiner\u200d, selector\ufe0f, broken \xff\xc3(, private \ue000, noncharacter \ufffe, tab\tline\nend, emoji 😀, rare 𠮷, ligature ﬁ, radical ⼀ and 一"
	odd := Document{
		Title: "Odd " + bad, Subject: bad, Issuer: "issuer", Footer: "footer", Created: made,
		Body: []Block{
			Heading{1, bad},
			Heading{2, long},
			Paragraph(bad), Paragraph(long), Paragraph(""),
			List{true, []string{bad, long, ""}},
			List{},
			Fields{{bad, long}, {long, bad}, {"", ""}},
			Fields{},
			Verdict{Failed, strings.Repeat(long+bad, 9)},
			Table{Caption: bad, Columns: []Column{{Title: bad, Unit: bad}, {Title: "n", Number: true}}, Rows: [][]string{{long, bad}, {bad}, {}, {strings.Repeat("长", 5000), long}}},
			Table{Columns: make([]Column, 80), Rows: [][]string{{"a", "b"}}},
			Paragraph(strings.Repeat("a line\n", 200)),
		},
	}
	for name, d := range map[string]Document{"English": statement(message.English), "Chinese": statement(message.Chinese), "odd": odd} {
		t.Run(name, func(t *testing.T) {
			f, err := newFace()
			if err != nil {
				t.Fatal(err)
			}
			want := tally(strings.Join(texts(d.printable(f.has)), ""))
			got := tally(body(d, readPDF(t, render(t, PDF, d))))
			for i := range 3 { // the numbers and marks of lists are no texts
				delete(want, []rune("•.1")[i])
				delete(got, []rune("•.1")[i])
			}
			for _, r := range "23" {
				delete(want, r)
				delete(got, r)
			}
			if name == "odd" { // heads are repeated
				for r := range want {
					if got[r] < want[r] {
						t.Errorf("PDF: %q comes %d times, want %d", r, got[r], want[r])
					}
				}
			} else if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("PDF: %v\nwant %v", got, want)
			}
			_, text := readDOCX(t, render(t, DOCX, d))
			if want := squeeze(strings.Join(texts(d.printable(nil)), "")); text != want {
				t.Errorf("DOCX: %s\nwant  %s", text, want)
			}
			unescaped := regexp.MustCompile(`\\(.)`).ReplaceAllString(string(render(t, Markdown, d)), "$1")
			for _, s := range texts(d.printable(nil)) {
				if !strings.Contains(squeeze(unescaped), squeeze(s)) {
					t.Errorf("Markdown lacks %q", s)
				}
			}
		})
	}
}

// TestSameBytes: a file follows from its document alone.
func TestSameBytes(t *testing.T) {
	for _, f := range []Format{PDF, DOCX, Markdown} {
		first := render(t, f, statement(message.Chinese))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if !bytes.Equal(render(t, f, statement(message.Chinese)), first) {
					t.Errorf("format %d: other bytes", f)
				}
			})
		}
		all.Wait()
		later := statement(message.Chinese)
		later.Created = made.Add(time.Second)
		if bytes.Equal(render(t, f, later), first) {
			t.Errorf("format %d does not say when it was made", f)
		}
	}
}

// TestThousandRows: rows stay in order and whole, each page of the table begins with its head, and what follows comes after it.
func TestThousandRows(t *testing.T) {
	d := Document{Title: "Rows", Issuer: "issuer", Footer: "footer", Created: made}
	table := Table{Columns: []Column{{Title: "Row", Number: true}, {Title: "Digest"}}}
	want := ""
	for i := range 1000 {
		row := []string{Count(int64(i)), fmt.Sprintf("digest-%04d", i)}
		table.Rows = append(table.Rows, row)
		want += row[0] + row[1]
	}
	d.Body = []Block{table, Paragraph("The end")}
	pages := readPDF(t, render(t, PDF, d))
	got := ""
	for i, page := range pages {
		text := strings.Join(page[:len(page)-2], "")
		if i > 0 {
			text = strings.Join(page[:len(page)-4], "")
		}
		before, rows, ok := strings.Cut(text, "RowDigest")
		if !ok || i > 0 && before != "" {
			t.Fatalf("page %d begins with %.40q", i+1, text)
		}
		if i > 0 && !strings.Contains(page[len(page)-2], fmt.Sprintf("Page %d of %d", i+1, len(pages))) {
			t.Errorf("page %d ends with %q", i+1, page[len(page)-4:])
		}
		got += rows
	}
	if len(pages) < 20 || got != want+"The end" {
		t.Errorf("%d pages, %d bytes of rows, want %d", len(pages), len(got), len(want))
	}
	parts, _ := readDOCX(t, render(t, DOCX, d)) // a word processor repeats the head and counts the pages
	if n := strings.Count(parts["word/document.xml"], "<w:tblHeader/>"); n != 1 {
		t.Errorf("%d heads are repeated", n)
	}
	if f := parts["word/footer.xml"]; !strings.Contains(f, `w:instr="PAGE"`) || !strings.Contains(f, `w:instr="NUMPAGES"`) || strings.Contains(f, "{") {
		t.Error(f)
	}
}

// TestEmptyTable says that there is nothing, in place of a head over nothing.
func TestEmptyTable(t *testing.T) {
	for l, want := range map[message.Lang]string{message.English: "No entries.", message.Chinese: "无记录。"} {
		d := Document{Lang: l, Title: "空 Empty", Issuer: "issuer", Footer: "footer", Created: made, Body: []Block{Table{Columns: []Column{{Title: "A"}}}}}
		_, text := readDOCX(t, render(t, DOCX, d))
		for name, got := range map[string]string{"PDF": body(d, readPDF(t, render(t, PDF, d))), "DOCX": text, "Markdown": squeeze(string(render(t, Markdown, d)))} {
			if !strings.Contains(got, squeeze(want)) {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	good := Document{Title: "t", Created: made}
	for name, d := range map[string]Document{
		"no time":         {Title: "t"},
		"no columns":      {Created: made, Body: []Block{Table{Caption: "c"}}},
		"cells in excess": {Created: made, Body: []Block{Table{Columns: []Column{{}}, Rows: [][]string{{"a", "b"}}}}},
		"a total too":     {Created: made, Body: []Block{Table{Columns: []Column{{}}, Total: []string{"a", "b"}}}},
	} {
		if err := Write(io.Discard, PDF, d); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	for _, f := range []Format{PDF, DOCX, Markdown} {
		if err := Write(fullDisk{}, f, good); !errors.Is(err, errFull) {
			t.Errorf("format %d on a full disk: %v", f, err)
		}
	}
	for name, want := range map[string]Format{"a.pdf": PDF, "b/C.PDF": PDF, "a.docx": DOCX, "a.md": Markdown} {
		if got, err := FormatOf(name); err != nil || got != want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
	if _, err := FormatOf("report.doc"); err == nil {
		t.Error("a .doc was accepted")
	}
}

var errFull = errors.New("no space left on device")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "张三\x00\u202e", "]]>&<w:t>", "\xff\xfe", "(\\) Tj ET endstream", strings.Repeat("长", 300), "a\n\nb\r\n", "１２３", "👨‍👩‍👧‍👦"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := Document{
			Title: s, Subject: s, Issuer: "issuer", Footer: "footer", Created: made, Lang: message.Chinese,
			Body: []Block{Heading{1, s}, Paragraph(s), List{false, []string{s}}, Fields{{s, s}}, Verdict{Passed, s}, Table{Caption: s, Columns: []Column{{Title: s, Unit: s, Number: true}, {}}, Rows: [][]string{{s, s}}, Total: []string{s}}},
		}
		face, err := newFace()
		if err != nil {
			t.Fatal(err)
		}
		got := tally(body(d, readPDF(t, render(t, PDF, d))))
		for r, n := range tally(strings.Join(texts(d.printable(face.has)), "")) {
			if got[r] < n && len(s) < 500 { // titles of columns that are longer may be cut
				t.Errorf("%q comes %d times, want %d", r, got[r], n)
			}
		}
		if _, text := readDOCX(t, render(t, DOCX, d)); text != squeeze(strings.Join(texts(d.printable(nil)), "")) {
			t.Errorf("DOCX has %q", text)
		}
		render(t, Markdown, d)
	})
}
