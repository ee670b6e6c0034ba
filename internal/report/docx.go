package report

import (
	"archive/zip"
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-project/sluice/internal/message"
)

// fixedParts are the parts of a DOCX that are alike in all.
//
//go:embed docx
var fixedParts embed.FS

const (
	xmlHead   = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"
	wordSpace = ` xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"`
	twips     = 20 // of a point: the unit of lengths
)

func writeDOCX(w io.Writer, d Document) error {
	f, err := newFace()
	if err != nil {
		return err
	}
	d = d.printable(nil)
	x := &wordBody{face: f, lang: d.Lang}
	x.paragraph("Title", d.Title)
	if d.Subject != "" {
		x.paragraph("Subtitle", d.Subject)
	}
	x.paragraph("Issued", message.Say("report.issued", d.Issuer, stamp(d)).In(d.Lang))
	for _, b := range d.Body {
		x.block(b)
	}
	var missing error
	fixedPart := func(name string) string {
		text, err := fixedParts.ReadFile("docx/" + name)
		missing = errors.Join(missing, err)
		return string(text)
	}
	parts := []struct{ name, text string }{
		{"[Content_Types].xml", fixedPart("content-types.xml")},
		{"_rels/.rels", fixedPart("package.rels")},
		{"docProps/core.xml", coreProperties(d)},
		{"word/document.xml", x.document()},
		{"word/_rels/document.xml.rels", fixedPart("document.rels")},
		{"word/styles.xml", fixedPart("styles.xml")},
		{"word/settings.xml", fixedPart("settings.xml")},
		{"word/fontTable.xml", fixedPart("fontTable.xml")},
		{"word/numbering.xml", numbering(x.numbered)},
		{"word/header.xml", xmlHead + `<w:hdr` + wordSpace + `><w:p><w:pPr><w:pStyle w:val="Header"/></w:pPr>` + run("", d.Title) + `<w:r><w:tab/></w:r>` + run("", d.Issuer) + `</w:p></w:hdr>`},
		{"word/footer.xml", footer(d)},
	}
	if missing != nil {
		return missing
	}
	z := zip.NewWriter(w)
	for _, p := range parts {
		part, err := z.CreateHeader(&zip.FileHeader{Name: p.name, Method: zip.Deflate, Modified: d.Created.UTC()})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(part, p.text); err != nil {
			return err
		}
	}
	return z.Close()
}

// escape writes a text for XML.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // into memory
	return b.String()
}

// run is a text with its properties.
func run(properties, text string) string {
	if properties != "" {
		properties = "<w:rPr>" + properties + "</w:rPr>"
	}
	text = strings.ReplaceAll(escape(text), "&#xA;", `</w:t><w:br/><w:t xml:space="preserve">`)
	return `<w:r>` + properties + `<w:t xml:space="preserve">` + text + `</w:t></w:r>`
}

func field(code string) string {
	return `<w:fldSimple w:instr="` + code + `"><w:r><w:t>1</w:t></w:r></w:fldSimple>`
}

// footer has the number of the page and of all pages, which the reader's program fills in.
func footer(d Document) string {
	count := run("", message.Say("report.page", "{page}", "{pages}").In(d.Lang))
	for mark, code := range map[string]string{"{page}": "PAGE", "{pages}": "NUMPAGES"} {
		count = strings.Replace(count, mark, `</w:t></w:r>`+field(code)+`<w:r><w:t xml:space="preserve">`, 1)
	}
	return xmlHead + `<w:ftr` + wordSpace + `><w:p><w:pPr><w:pStyle w:val="Footer"/></w:pPr>` + run("", d.Footer) + `<w:r><w:tab/></w:r>` + count + `</w:p></w:ftr>`
}

func coreProperties(d Document) string {
	return xmlHead + `<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" ` +
		`xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">` +
		`<dc:title>` + escape(d.Title) + `</dc:title><dc:subject>` + escape(d.Subject) + `</dc:subject><dc:creator>` + escape(d.Issuer) + `</dc:creator>` +
		`<dcterms:created xsi:type="dcterms:W3CDTF">` + d.Created.UTC().Format("2006-01-02T15:04:05Z") + `</dcterms:created></cp:coreProperties>`
}

// The definitions of lists: the first is a bullet, the others count, each list from one.
func numbering(lists int) string {
	var b strings.Builder
	b.WriteString(xmlHead + `<w:numbering` + wordSpace + `>`)
	for i, format := range []string{`<w:numFmt w:val="bullet"/><w:lvlText w:val="•"/>`, `<w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/>`} {
		fmt.Fprintf(&b, `<w:abstractNum w:abstractNumId="%d"><w:multiLevelType w:val="singleLevel"/><w:lvl w:ilvl="0"><w:start w:val="1"/>%s<w:lvlJc w:val="left"/>`+
			`<w:pPr><w:ind w:left="420" w:hanging="340"/></w:pPr></w:lvl></w:abstractNum>`, i, format)
	}
	b.WriteString(`<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>`)
	for i := range lists {
		fmt.Fprintf(&b, `<w:num w:numId="%d"><w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>`, i+2)
	}
	b.WriteString(`</w:numbering>`)
	return b.String()
}

// wordBody collects the paragraphs and tables of a document.
type wordBody struct {
	out      strings.Builder
	face     *face // measures columns
	lang     message.Lang
	numbered int // lists that count
}

func (x *wordBody) document() string {
	return xmlHead + `<w:document` + wordSpace + ` xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><w:body>` + x.out.String() +
		fmt.Sprintf(`<w:sectPr><w:headerReference w:type="default" r:id="rId5"/><w:footerReference w:type="default" r:id="rId6"/><w:footerReference w:type="first" r:id="rId6"/>`+
			`<w:pgSz w:w="11906" w:h="16838"/><w:pgMar w:top="%.0f" w:right="%.0f" w:bottom="%.0f" w:left="%.0f" w:header="600" w:footer="560" w:gutter="0"/><w:titlePg/></w:sectPr>`,
			marginTop*twips, marginSide*twips, marginBottom*twips, marginSide*twips) + `</w:body></w:document>`
}

func (x *wordBody) paragraph(style, text string) {
	fmt.Fprintf(&x.out, `<w:p><w:pPr><w:pStyle w:val="%s"/></w:pPr>%s</w:p>`, style, run("", text))
}

func (x *wordBody) block(b Block) {
	switch b := b.(type) {
	case Heading:
		x.paragraph(map[bool]string{true: "Heading1", false: "Heading2"}[b.Level <= 1], b.Text)
	case Paragraph:
		x.paragraph("Normal", string(b))
	case List:
		x.list(b)
	case Fields:
		x.fields(b)
	case Verdict:
		x.paragraph(map[Outcome]string{Neutral: "Verdict", Passed: "VerdictPassed", Failed: "VerdictFailed"}[b.Outcome], b.Text)
	case Table:
		x.table(b)
	}
}

func (x *wordBody) list(l List) {
	id := 1
	if l.Numbered {
		x.numbered++
		id = 1 + x.numbered
	}
	for _, item := range l.Items {
		fmt.Fprintf(&x.out, `<w:p><w:pPr><w:pStyle w:val="ListParagraph"/><w:numPr><w:ilvl w:val="0"/><w:numId w:val="%d"/></w:numPr></w:pPr>%s</w:p>`, id, run("", item))
	}
}

const thinLine = `w:val="single" w:sz="4" w:space="0" w:color="CCCFD4"/>`

// begin opens a table with columns of these widths, in points.
func (x *wordBody) begin(widths []float64) {
	x.out.WriteString(`<w:tbl><w:tblPr><w:tblW w:w="5000" w:type="pct"/><w:tblBorders><w:top ` + thinLine + `<w:bottom ` + thinLine + `<w:insideH ` + thinLine + `</w:tblBorders>` +
		`<w:tblLayout w:type="fixed"/><w:tblCellMar><w:left w:w="80" w:type="dxa"/><w:right w:w="80" w:type="dxa"/></w:tblCellMar></w:tblPr><w:tblGrid>`)
	for _, width := range widths {
		fmt.Fprintf(&x.out, `<w:gridCol w:w="%.0f"/>`, width*twips)
	}
	x.out.WriteString(`</w:tblGrid>`)
}

// end closes a table. A paragraph keeps it apart from a table that follows.
func (x *wordBody) end() {
	x.out.WriteString(`</w:tbl><w:p><w:pPr><w:pStyle w:val="Gap"/></w:pPr></w:p>`)
}

// cellStyle is how the cells of a row look.
type cellStyle struct{ cell, paragraph, run string }

func (x *wordBody) cell(width float64, st cellStyle, right bool, text string) {
	align := ""
	if right {
		align = `<w:jc w:val="right"/>`
	}
	fmt.Fprintf(&x.out, `<w:tc><w:tcPr><w:tcW w:w="%.0f" w:type="dxa"/>%s</w:tcPr><w:p><w:pPr><w:pStyle w:val="%s"/>%s</w:pPr>%s</w:p></w:tc>`,
		width*twips, st.cell, st.paragraph, align, run(st.run, text))
}

func (x *wordBody) fields(fields Fields) {
	names := 0.0
	for _, f := range fields {
		names = max(names, x.face.width(f.Name, 9))
	}
	names = min(names+16, textWidth*0.35)
	widths := []float64{names, textWidth - names}
	x.begin(widths)
	for _, f := range fields {
		x.out.WriteString(`<w:tr><w:trPr><w:cantSplit/></w:trPr>`)
		x.cell(widths[0], cellStyle{paragraph: "Cell", run: `<w:color w:val="6B7078"/>`}, false, f.Name)
		x.cell(widths[1], cellStyle{paragraph: "Cell"}, false, f.Value)
		x.out.WriteString(`</w:tr>`)
	}
	x.end()
}

func (x *wordBody) table(t Table) {
	if t.Caption != "" {
		x.paragraph("Caption", t.Caption)
	}
	st, size := cellStyle{paragraph: "Cell"}, 9.0
	if len(t.Columns) >= crowded {
		st.paragraph, size = "SmallCell", 7.5
	}
	heads, rows := t.heads(x.lang), t.lines()
	widths := x.face.shares(grid{columns: t.Columns, heads: heads, body: style{size: size}}, rows)
	x.begin(widths)
	x.out.WriteString(`<w:tr><w:trPr><w:cantSplit/><w:tblHeader/></w:trPr>`)
	for c, head := range heads {
		x.cell(widths[c], cellStyle{`<w:shd w:val="clear" w:color="auto" w:fill="F1F2F5"/>`, st.paragraph, `<w:b/>`}, t.Columns[c].Number, head)
	}
	x.out.WriteString(`</w:tr>`)
	for i, row := range rows {
		if t.Total != nil && i == len(rows)-1 {
			st.run = `<w:b/>`
		}
		x.out.WriteString(`<w:tr><w:trPr><w:cantSplit/></w:trPr>`)
		for c, text := range row {
			x.cell(widths[c], st, t.Columns[c].Number, text)
		}
		x.out.WriteString(`</w:tr>`)
	}
	x.end()
	if len(rows) == 0 {
		x.paragraph("Normal", message.Say("report.no_entries").In(x.lang))
	}
}
