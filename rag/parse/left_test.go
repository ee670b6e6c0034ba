package parse_test

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/rag/parse"
)

const (
	officeNS = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" ` +
		`xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" ` +
		`xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" ` +
		`xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"`
	relationHead = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`
	relationType = `http://schemas.openxmlformats.org/officeDocument/2006/relationships/`
)

// TestHiddenByStyle: text of Word is hidden by its own properties, by a style, or by what that is based on; what hangs on it is hidden with it.
func TestHiddenByStyle(t *testing.T) {
	style := func(kind, id, more string) string {
		return `<w:style w:type="` + kind + `" w:styleId="` + id + `">` + more + `</w:style>`
	}
	run := func(properties, text string) string {
		return `<w:r><w:rPr>` + properties + `</w:rPr><w:t>` + text + `</w:t></w:r>`
	}
	para := func(style, runs string) string {
		if style != "" {
			style = `<w:pPr><w:pStyle w:val="` + style + `"/></w:pPr>`
		}
		return `<w:p>` + style + runs + `</w:p>`
	}
	box := `<w:r><w:rPr><w:vanish/></w:rPr><w:drawing><w:txbxContent>` + para("", run("", "HIDDEN box")) + `</w:txbxContent></w:drawing></w:r>`
	note := `<w:r><w:rPr><w:vanish/></w:rPr><w:footnoteReference w:id="2"/></w:r>`
	row := func(properties, runs string) string {
		return `<w:tr><w:trPr>` + properties + `</w:trPr><w:tc>` + para("", runs) + `</w:tc></w:tr>`
	}
	body := repack(t, load(t, "numbered.docx"), map[string][]byte{
		"word/styles.xml": []byte(`<w:styles ` + officeNS + `>` +
			style("character", "secret", `<w:rPr><w:vanish/></w:rPr>`) + style("character", "below", `<w:basedOn w:val="secret"/>`) +
			style("character", "open", `<w:basedOn w:val="secret"/><w:rPr><w:vanish w:val="0"/></w:rPr>`) +
			style("paragraph", "draft", `<w:rPr><w:vanish/></w:rPr>`) + style("paragraph", "note", `<w:basedOn w:val="draft"/>`) + `</w:styles>`),
		"word/footnotes.xml": []byte(`<w:footnotes ` + officeNS + `><w:footnote w:id="2">` + para("", run("", "HIDDEN note")) + `</w:footnote></w:footnotes>`),
		"word/document.xml": []byte(`<w:document ` + officeNS + `><w:body>` +
			para("", run("", "a ")+run(`<w:vanish/>`, "HIDDEN")+run(`<w:rStyle w:val="secret"/>`, "HIDDEN")+run(`<w:rStyle w:val="below"/>`, "HIDDEN")+run(`<w:rStyle w:val="open"/>`, "b")) +
			para("draft", run("", "HIDDEN")) + para("note", run("", "HIDDEN")+run(`<w:vanish w:val="0"/>`, "c")) + para("draft", run(`<w:rStyle w:val="secret"/>`, "d")) +
			para("", box+note+run("", "e")) + `<w:tbl>` + row(`<w:del/>`, run("", "HIDDEN")+`<w:r><w:footnoteReference w:id="2"/></w:r>`) + row("", run("", "f")) + `</w:tbl>` +
			`</w:body></w:document>`),
	})
	d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{Name: "a.docx", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(d.Text), " "); got != "a b c d e f" {
		t.Errorf("text %q", got)
	}
	if o := outline(d); !strings.Contains(o, "left: hidden text was left out at 7 places\n") {
		t.Error(o)
	}
}

// TestHiddenByDefault: text is hidden where the document says so for all of it and nothing else is said.
func TestHiddenByDefault(t *testing.T) {
	body := repack(t, load(t, "numbered.docx"), map[string][]byte{
		"word/styles.xml": []byte(`<w:styles ` + officeNS + `><w:docDefaults><w:rPrDefault><w:rPr><w:vanish/></w:rPr></w:rPrDefault></w:docDefaults>` +
			`<w:style w:type="paragraph" w:default="1" w:styleId="n"/><w:style w:type="paragraph" w:styleId="open"><w:rPr><w:vanish w:val="0"/></w:rPr></w:style></w:styles>`),
		"word/document.xml": []byte(`<w:document ` + officeNS + `><w:body><w:p><w:r><w:t>HIDDEN</w:t></w:r></w:p><w:p><w:pPr><w:pStyle w:val="n"/></w:pPr><w:r><w:t>HIDDEN</w:t></w:r></w:p>` +
			`<w:p><w:pPr><w:pStyle w:val="open"/></w:pPr><w:r><w:t>open</w:t></w:r></w:p></w:body></w:document>`),
	})
	d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{Name: "a.docx", Body: body})
	if err != nil || d.Text != "open" {
		t.Errorf("%q, %v", d.Text, err)
	}
}

// TestLeftIsSaid: what an Office file has beside its text is counted.
func TestLeftIsSaid(t *testing.T) {
	read := func(name string, body []byte) string {
		d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{Name: name, Body: body})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return outline(d)
	}
	wants := func(name, got string, want ...string) {
		for _, w := range want {
			if !strings.Contains(got, "left: "+w+"\n") {
				t.Errorf("%s: no %q in\n%s", name, w, got)
			}
		}
		if strings.Contains(got, "HIDDEN") {
			t.Errorf("%s: hidden text in\n%s", name, got)
		}
	}
	wants("Word", read("a.docx", repack(t, load(t, "numbered.docx"), map[string][]byte{
		"word/_rels/document.xml.rels": []byte(relationHead + `<Relationship Id="r1" Type="` + relationType + `header" Target="header1.xml"/><Relationship Id="r2" Type="` + relationType +
			`footer" Target="footer1.xml"/><Relationship Id="r3" Type="` + relationType + `comments" Target="comments.xml"/></Relationships>`),
		"word/header1.xml":  []byte(`<w:hdr ` + officeNS + `><w:p><w:r><w:t>HIDDEN</w:t></w:r></w:p></w:hdr>`),
		"word/footer1.xml":  []byte(`<w:ftr ` + officeNS + `><w:p/></w:ftr>`),
		"word/comments.xml": []byte(`<w:comments ` + officeNS + `><w:comment><w:p><w:r><w:t>HIDDEN</w:t></w:r></w:p></w:comment></w:comments>`),
		"word/document.xml": []byte(`<w:document ` + officeNS + `><w:body><w:p><w:r><w:t>x</w:t></w:r><w:r><w:drawing><a:graphic><a:graphicData><c:chart r:id="r9"/></a:graphicData></a:graphic></w:drawing></w:r>` +
			`<w:r><w:drawing><a:graphic><a:graphicData><dgm:relIds r:dm="r8"/></a:graphicData></a:graphic></w:drawing></w:r></w:p></w:body></w:document>`),
	})), "2 charts or diagrams were not read", "1 headers and footers were not read", "1 comments were not read")
	wants("Excel", read("a.xlsx", repack(t, load(t, "merged.xlsx"), map[string][]byte{
		"xl/worksheets/_rels/sheet1.xml.rels": []byte(relationHead + `<Relationship Id="r1" Type="` + relationType + `drawing" Target="../drawings/d.xml"/><Relationship Id="r2" Type="` + relationType +
			`comments" Target="../c.xml"/></Relationships>`),
		"xl/drawings/d.xml": []byte(`<xdr:wsDr ` + officeNS + `><xdr:twoCellAnchor><xdr:pic/></xdr:twoCellAnchor><xdr:twoCellAnchor><xdr:graphicFrame/></xdr:twoCellAnchor>` +
			`<xdr:twoCellAnchor><xdr:sp><xdr:txBody><a:p><a:r><a:t>HIDDEN</a:t></a:r></a:p></xdr:txBody></xdr:sp><xdr:sp/></xdr:twoCellAnchor></xdr:wsDr>`),
		"xl/c.xml": []byte(`<comments><commentList><comment/><comment/></commentList></comments>`),
	})), "1 pictures were not read", "1 charts or diagrams were not read", "1 shapes with text were not read", "2 comments were not read")
	shape := func(hidden, text string) string {
		return `<p:sp><p:nvSpPr><p:cNvPr id="1" name="n"` + hidden + `/></p:nvSpPr><p:txBody><a:p><a:r><a:t>` + text + `</a:t></a:r></a:p></p:txBody></p:sp>`
	}
	got := read("a.pptx", repack(t, load(t, "slides.pptx"), map[string][]byte{
		"ppt/slides/slide1.xml": []byte(`<p:sld ` + officeNS + `><p:cSld><p:spTree>` + shape("", "open") + shape(` hidden="1"`, "HIDDEN") +
			`<p:grpSp><p:nvGrpSpPr><p:cNvPr id="2" name="g" hidden="1"/></p:nvGrpSpPr>` + shape("", "HIDDEN") + `</p:grpSp><p:grpSp><p:nvGrpSpPr><p:cNvPr id="2" name="g"/></p:nvGrpSpPr>` + shape("", "grouped") + `</p:grpSp>` +
			`<p:graphicFrame><a:graphic><a:graphicData><p:oleObj/></a:graphicData></a:graphic></p:graphicFrame>` +
			`<p:sp><p:txBody><a:p><a:m><m:oMath/></a:m></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>`),
	}))
	wants("PowerPoint", got, "2 hidden shapes were left out", "1 embedded documents or objects were not read", "1 formulas in text were not read")
	if !strings.Contains(got, "P open\n") || !strings.Contains(got, "P grouped\n") {
		t.Error(got)
	}
}
