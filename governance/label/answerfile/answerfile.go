// Package answerfile is a façade over the labels of files: makes files of answers, each with its label.
//
// A caller gives what was said and the label that the answer came with; there is no form in which a file comes without both parts of the label, so
// that no template can drop it. The visible label stands first, in a PDF at the foot of every page too, whatever the texts say themselves.
//
// That the texts are what the model said is for the caller to know: a label covers no content, and nobody here compares.
package answerfile

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Turn is what one side said.
type Turn struct {
	Asked bool // by a person; else an answer
	Text  string
}

// Conversation is what a file is made of.
type Conversation struct {
	Title  string // one line; "" for none
	Issuer string // who runs the installation
	Made   time.Time
	Lang   message.Lang // of the words that stand around the texts
	Turns  []Turn
}

// Kinds returns the kinds that files are made in.
func Kinds() []labelfile.Kind {
	return []labelfile.Kind{labelfile.Markdown, labelfile.HTML, labelfile.Text, labelfile.JSON, labelfile.DOCX, labelfile.PDF, labelfile.XLSX}
}

// The bounds of what a file is made of. Those of a sheet are Excel's.
const (
	maxText   = 4 << 20   // bytes, of all texts
	maxPaper  = 512 << 10 // the same for a PDF or a DOCX, which is set line by line
	maxBars   = 256 << 10 // of tables in all, which bounds their cells
	maxSheets = 255
	maxRows   = 1 << 20
	maxCells  = 1 << 14   // of a row
	maxCell   = 1<<15 - 1 // characters of UTF-16
)

// Make makes a file, labelled by a writer. An XLSX has the tables of the answers, one in each sheet. Errors: CodeInvalidValue for a kind that no file is made in, for texts
// or tables that are too large, for an XLSX of answers without a table, and for a label whose values no file can carry; CodeConflict and CodeInternal if the file
// could not be labelled, which no text should bring about.
func Make(w labelfile.Writer, k labelfile.Kind, c Conversation, x label.Label) (labelfile.Result, error) {
	if err := c.bounded(k); err != nil {
		return labelfile.Result{}, err
	}
	c = c.printable()
	sentence := c.sentence()
	var data []byte
	var err error
	switch k {
	case labelfile.Markdown:
		data = c.markdown()
	case labelfile.HTML:
		data = c.page()
	case labelfile.Text:
		data = c.plain()
	case labelfile.JSON:
		data, err = c.object()
	case labelfile.DOCX:
		data, err = c.paper(report.DOCX, sentence)
	case labelfile.PDF:
		data, err = c.paper(report.PDF, sentence)
	case labelfile.XLSX:
		data, err = c.tables()
	default:
		return labelfile.Result{}, fault.New(fault.CodeInvalidValue, "format", fault.Say("answerfile.format")).WithParam("format")
	}
	if err != nil {
		return labelfile.Result{}, err
	}
	out, err := w.WriteShown(k, data, x, sentence)
	if err != nil {
		return labelfile.Result{}, err
	}
	if k == labelfile.PDF {
		out.Visible = true // it was set into the pages
	}
	if !out.Visible {
		return labelfile.Result{}, fault.New(fault.CodeInternal)
	}
	return out, nil
}

// bounded refuses texts that are too large, before anything is made of them.
func (c Conversation) bounded(k labelfile.Kind) error {
	size, bars, most := len(c.Title), 0, maxText
	for _, t := range c.Turns {
		size += len(t.Text)
		if !t.Asked {
			bars += strings.Count(t.Text, "|")
		}
	}
	if k == labelfile.PDF || k == labelfile.DOCX {
		most = maxPaper
	}
	if size > most {
		return fault.New(fault.CodeInvalidValue, "turns", fault.Say("answerfile.too_large", most>>10)).WithParam("turns")
	}
	if k == labelfile.XLSX && bars > maxBars {
		return tooLarge()
	}
	return nil
}

func tooLarge() error {
	return fault.New(fault.CodeInvalidValue, "turns", fault.Say("answerfile.table_large")).WithParam("turns")
}

// printable returns the conversation with a title of one line, and the replacement character for what no text file has.
func (c Conversation) printable() Conversation {
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f {
				return '\ufffd'
			}
			return r
		}, strings.ToValidUTF8(s, "\ufffd"))
	}
	c.Title = clean(strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 { // they would turn what stands behind the title
			return -1
		}
		return r
	}, c.Title)), " "))
	turns := make([]Turn, len(c.Turns))
	for i, t := range c.Turns {
		turns[i] = Turn{t.Asked, clean(t.Text)}
	}
	c.Turns = turns
	return c
}

// sentence is the visible label, in the language of the answers.
func (c Conversation) sentence() string {
	var s label.Sentence
	for _, t := range c.Turns {
		if !t.Asked {
			s.Read(t.Text)
		}
	}
	return label.Wording(label.ChannelExport, s.Chinese())
}

// head is the line above a turn; the answer alone has none.
func (c Conversation) head(t Turn) string {
	switch {
	case len(c.Turns) == 1 && !t.Asked:
		return ""
	case t.Asked:
		return message.Say("answerfile.asked").In(c.Lang)
	default:
		return message.Say("answerfile.answered").In(c.Lang)
	}
}

// markdown begins with a front matter of its own, so that a text that begins with one is text.
func (c Conversation) markdown() []byte {
	var b strings.Builder
	_, _ = b.WriteString("---\n---\n\n")
	if c.Title != "" {
		_, _ = b.WriteString("# " + c.Title + "\n\n")
	}
	for _, t := range c.Turns {
		if h := c.head(t); h != "" {
			_, _ = b.WriteString("**" + h + "**\n\n")
		}
		_, _ = b.WriteString(t.Text + "\n\n")
	}
	return []byte(b.String())
}

func (c Conversation) plain() []byte {
	var b strings.Builder
	if c.Title != "" {
		_, _ = b.WriteString(inLines(c.Title) + "\n\n")
	}
	for _, t := range c.Turns {
		if h := c.head(t); h != "" {
			_, _ = b.WriteString(h + ":\n")
		}
		_, _ = b.WriteString(inLines(t.Text) + "\n\n")
	}
	return []byte(b.String())
}

// inLines keeps a text from looking like the line of a label: it quotes lines that begin like one.
func inLines(s string) string {
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\n")
	for i, line := range lines {
		start := strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
		if len(start) >= 4 && strings.EqualFold(start[:4], "AIGC") {
			lines[i] = "> " + line
		}
	}
	return strings.Join(lines, "\n")
}

func (c Conversation) page() []byte {
	var b strings.Builder
	lang := "en"
	if c.Lang == message.Chinese {
		lang = "zh-CN"
	}
	_, _ = fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=%q><head><meta charset=\"utf-8\"><title>%s</title></head>\n<body>\n", lang, html.EscapeString(c.Title))
	for _, t := range c.Turns {
		if h := c.head(t); h != "" {
			_, _ = b.WriteString("<h2>" + html.EscapeString(h) + "</h2>\n")
		}
		_, _ = b.WriteString(`<div style="white-space: pre-wrap">` + html.EscapeString(t.Text) + "</div>\n")
	}
	_, _ = b.WriteString("</body></html>\n")
	return []byte(b.String())
}

func (c Conversation) object() ([]byte, error) {
	type turn struct {
		Role string `json:"role"`
		Text string `json:"text"`
	}
	out := struct {
		Title string    `json:"title"`
		Made  time.Time `json:"made_at"`
		Turns []turn    `json:"turns"`
	}{c.Title, c.Made.UTC(), nil}
	for _, t := range c.Turns {
		role := "assistant"
		if t.Asked {
			role = "user"
		}
		out.Turns = append(out.Turns, turn{role, t.Text})
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the answer as JSON: %w", err)
	}
	return append(b, '\n'), nil
}

// paper sets the conversation on pages.
func (c Conversation) paper(f report.Format, sentence string) ([]byte, error) {
	d := report.Document{Lang: c.Lang, Title: c.Title, Issuer: c.Issuer, Created: c.Made, Footer: sentence}
	if d.Title == "" {
		d.Title = message.Say("answerfile.title").In(c.Lang)
	}
	if f == report.PDF {
		d.Subject = sentence
	}
	for _, t := range c.Turns {
		if h := c.head(t); h != "" {
			d.Body = append(d.Body, report.Heading{Level: 2, Text: h})
		}
		d.Body = append(d.Body, report.Paragraph(t.Text))
	}
	var out bytes.Buffer
	if err := report.Write(&out, f, d); err != nil {
		return nil, fmt.Errorf("set the answer on paper: %w", err)
	}
	return out.Bytes(), nil
}

// grids returns the tables of a text in Markdown: lines with bars, of which the second has hyphens.
func grids(text string) (out [][][]string) {
	var now [][]string
	ruled := false
	flush := func() {
		if ruled && len(now) > 0 {
			out = append(out, now)
		}
		now, ruled = nil, false
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, "|") {
			flush()
			continue
		}
		cells := cellsOf(line)
		if len(now) == 1 && !ruled && rule(cells) {
			ruled = true
			continue
		}
		now = append(now, cells)
	}
	flush()
	return out
}

// cellsOf splits a row; a bar behind a backslash is text.
func cellsOf(line string) []string {
	line = strings.ReplaceAll(strings.TrimPrefix(line, "|"), `\|`, "\x00")
	line = strings.TrimSuffix(line, "|")
	var out []string
	for cell := range strings.SplitSeq(line, "|") {
		out = append(out, strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
	}
	return out
}

// rule reports whether a row is the one between the head and the body.
func rule(cells []string) bool {
	for _, c := range cells {
		if strings.Trim(c, ":-") != "" || !strings.Contains(c, "-") {
			return false
		}
	}
	return true
}

const (
	sheets    = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
	relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
	xmlHead   = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"
)

// tables writes a workbook. Every cell is text, so that no program takes one for a formula.
func (c Conversation) tables() ([]byte, error) {
	var all [][][]string
	for _, t := range c.Turns {
		if !t.Asked {
			all = append(all, grids(t.Text)...)
		}
	}
	if len(all) == 0 {
		return nil, fault.New(fault.CodeInvalidValue, "format", fault.Say("answerfile.no_table")).WithParam("format")
	}
	if !fits(all) {
		return nil, tooLarge()
	}
	var types, names, rels strings.Builder
	parts := [][2]string{{"", ""}, {"_rels/.rels", xmlHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="` + relations + `/officeDocument" Target="xl/workbook.xml"/></Relationships>`}}
	for i, grid := range all {
		n := i + 1
		_, _ = fmt.Fprintf(&types, `<Override PartName="/xl/worksheets/sheet%d.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>`, n)
		_, _ = fmt.Fprintf(&names, `<sheet name="%d" sheetId="%d" r:id="rId%d"/>`, n, n, n)
		_, _ = fmt.Fprintf(&rels, `<Relationship Id="rId%d" Type="%s/worksheet" Target="worksheets/sheet%d.xml"/>`, n, relations, n)
		parts = append(parts, [2]string{fmt.Sprintf("xl/worksheets/sheet%d.xml", n), sheet(grid)})
	}
	parts[0] = [2]string{"[Content_Types].xml", xmlHead + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` +
		`<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>` +
		`<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>` + types.String() + `</Types>`}
	parts = append(
		parts,
		[2]string{"xl/workbook.xml", xmlHead + `<workbook xmlns="` + sheets + `" xmlns:r="` + relations + `"><sheets>` + names.String() + `</sheets></workbook>`},
		[2]string{"xl/_rels/workbook.xml.rels", xmlHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` + rels.String() + `</Relationships>`},
	)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, p := range parts {
		w, err := z.CreateHeader(&zip.FileHeader{Name: p[0], Method: zip.Deflate, Modified: c.Made.UTC()})
		if err == nil {
			_, err = io.WriteString(w, p[1])
		}
		if err != nil {
			return nil, fmt.Errorf("write a workbook: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("write a workbook: %w", err)
	}
	return out.Bytes(), nil
}

// fits reports whether tables are within the bounds of sheets.
func fits(all [][][]string) bool {
	for _, grid := range all {
		for _, row := range grid {
			if len(row) > maxCells || slices.ContainsFunc(row, func(cell string) bool { return len(cell) > maxCell && len(utf16.Encode([]rune(cell))) > maxCell }) {
				return false
			}
		}
		if len(grid) > maxRows {
			return false
		}
	}
	return len(all) <= maxSheets
}

func sheet(grid [][]string) string {
	var b strings.Builder
	_, _ = b.WriteString(xmlHead + `<worksheet xmlns="` + sheets + `"><sheetData>`)
	for _, row := range grid {
		_, _ = b.WriteString("<row>")
		for _, cell := range row {
			_, _ = b.WriteString(`<c t="inlineStr"><is><t xml:space="preserve">`)
			_ = xml.EscapeText(&b, []byte(cell)) // into memory
			_, _ = b.WriteString(`</t></is></c>`)
		}
		_, _ = b.WriteString("</row>")
	}
	_, _ = b.WriteString(`</sheetData></worksheet>`)
	return b.String()
}
