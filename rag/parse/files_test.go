package parse_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/rag/parse"
)

// load reads a file of testdata.
func load(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// outline writes the blocks of a document, each with a letter for its kind and its level.
func outline(d parse.Document) string {
	var out strings.Builder
	for _, b := range d.Blocks {
		out.WriteString([]string{"P", "H", "I", "T", "C"}[b.Kind])
		if b.Level > 0 {
			out.WriteByte('0' + byte(b.Level))
		}
		out.WriteString(" " + strings.ReplaceAll(d.Text[b.Start:b.End], "\n", "⏎") + "\n")
	}
	for _, l := range d.Left {
		out.WriteString("left: " + l.String() + "\n")
	}
	return out.String()
}

// TestFilesOfOthers holds the readers to what people see in files that other programs made.
func TestFilesOfOthers(t *testing.T) {
	r := parse.NewReader(parse.Config{})
	for name, want := range map[string]struct{ title, outline string }{
		"word.docx": {"差旅费管理办法", `H1 差旅费管理办法
H1 第一章 总则
P 为规范差旅费管理，制定本办法。Travel expenses follow these rules.
H2 适用范围
I1 1. 员工
I1 2. 外聘专家
I1 机票
I1 火车票
T 城市 | 级别 | 标准⏎北京 | 经理 | 650元⏎北京 | 员工 | 500元
P Kept inserted after tab⏎next line
P A joined paragraph.
P Box:
P text in a box
left: hidden text was left out at 1 places
left: 2 headers and footers were not read
`},
		"numbered.docx": {"第一章 Scope", `H1 第一章 Scope
P With a note[1] in it.
P [1] The first footnote.
I2 一.1 first
I3 (i) deep
I2 一.2 second
H1 第二章 Fees
I2 二.1 again
T h1 | h2⏎r1 | r2
`},
		"sheet.xlsx": {"", `H1 价目表
P 2026 年价目表
T 品类 | 项目 | 单价 | 生效日⏎存储 | 对象存储 | ¥0.12 | 2026年3月1日⏎存储 | 块存储 | ¥1,234.50 | 2026年4月15日⏎折扣 | 长期 | 12.5%
H1 Second
T Code | Started | Ok⏎13800138000 | 2026-01-02 15:04:00 | TRUE⏎7 | 2026-01-03 0:30:00 | FALSE
left: 1 hidden sheets were left out
left: hidden rows (1) and columns (1) were left out
left: 1 formulas have no stored value; open and save it with a spreadsheet program
`},
		"merged.xlsx": {"M", `H1 M
T 地区 | 人数⏎地区 | 男 | 女⏎华东 | 10 | 12⏎华北 | 8 | 9
T Rich text cell⏎3
`},
		"slides.pptx": {"发布计划", `H1 发布计划
I1 第一阶段：试点
I2 三家分行
P Speaker note.
H1 Costs
T Item | Cost⏎Licence | 100
H1 Untitled slide
P untitled slide
left: 1 hidden slides were left out
`},
		"mail.eml": {"合同审批：A-12", `P From: 张三 <zhang@example.com>⏎To: li@example.com⏎Date: Fri, 27 Nov 2026 10:00:00 +0800⏎Subject: 合同审批：A-12
P 请审批附件。
P > 上一封：何时签？
H1 清单.csv
T 名称 | 金额⏎服务器 | 100
H1 message/rfc822
P From: b@example.com⏎Subject: inner
P inner text
left: the attachment 章.png was not read: this type is not supported; send plain text, Markdown, HTML, CSV, DOCX, XLSX, PPTX, PDF or e-mail
`},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := r.Read(t.Context(), parse.File{Name: name, Body: load(t, name)})
			if err != nil {
				t.Fatal(err)
			}
			holds(t, d)
			if got := outline(d); got != want.outline || d.Title != want.title {
				t.Errorf("title %q\n%s\nwant %q\n%s", d.Title, got, want.title, want.outline)
			}
		})
	}
}

// TestNumbersAsShown holds number formats to what SheetJS makes of them, but for what is said here.
func TestNumbersAsShown(t *testing.T) {
	lines := bufio.NewScanner(strings.NewReader(string(load(t, "formats.tsv"))))
	checked := 0
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		switch {
		case f[2] == "": // no date: Excel shows ####, and we the number
			continue
		case (f[0] == "General" || f[0] == "@") && f[1] == "1000000000000": // whole numbers are written in full
			continue
		case f[1] == "-1234.565": // exactly between two: SheetJS rounds the binary number, Excel and we the decimal one
			continue
		case f[0] == "000-0000" || strings.HasSuffix(f[0], ",,\"M\"") && f[1] == "-1": // SheetJS drops digits and a sign
			continue
		case strings.HasPrefix(f[0], "dddd") && (len(f[1]) < 4 || f[1][0] == '0'): // weekdays before March 1900, which Excel has wrong
			continue
		}
		checked++
		if got := parse.FormatForTest(f[0], f[1]); got != f[2] {
			t.Errorf("%s of %s: %q, want %q", f[0], f[1], got, f[2])
		}
	}
	if checked < 600 {
		t.Errorf("only %d numbers were checked", checked)
	}
}

func write(t testing.TB, file string, body []byte) {
	t.Helper()
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
}
