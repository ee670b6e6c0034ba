package labelfile

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

const sentence = "本文件含人工智能生成的内容"

func labeler(t testing.TB) *label.Labeler {
	t.Helper()
	l, err := label.New(label.Config{Producer: `示例"公司"(A&B)\`}, keyring.FromBytes(bytes.Repeat([]byte{9}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ours(t testing.TB) label.Label {
	t.Helper()
	return labeler(t).Make("0194b3c2-7e7b-7c2a-9d1f-3f1f5b8a0001", "acme")
}

// archive packs parts in their order.
func archive(t testing.TB, parts ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(parts); i += 2 {
		w, err := z.Create(parts[i])
		if err == nil {
			_, err = io.WriteString(w, parts[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const (
	wordSpace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
	mainRel   = `<Relationships xmlns="` + relationsSpace + `"><Relationship Id="rId1" Type="` + officeRelations + `officeDocument" Target="%s"/></Relationships>`
)

// workbook is an XLSX of one sheet, with a macro.
func workbook(t testing.TB) []byte {
	t.Helper()
	return archive(
		t,
		contentTypes, `<?xml version="1.0"?><Types xmlns="`+typesSpace+`"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>`+
			`<Default Extension="xml" ContentType="application/xml"/>`+
			`<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>`+
			`<Override PartName="/xl/worksheets/sheet1.xml" ContentType="`+sheetType+`"/></Types>`,
		packageRels, fmt.Sprintf(mainRel, "xl/workbook.xml"),
		"xl/workbook.xml", `<workbook xmlns="`+transitional().sheet+`" xmlns:r="`+strings.TrimSuffix(officeRelations, "/")+`"><sheets><sheet name="Data" sheetId="1" r:id="rId1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels", `<Relationships xmlns="`+relationsSpace+`"><Relationship Id="rId1" Type="`+officeRelations+`worksheet" Target="worksheets/sheet1.xml"/></Relationships>`,
		"xl/worksheets/sheet1.xml", `<worksheet xmlns="`+transitional().sheet+`"><sheetData><row r="1"><c r="A1"><v>42</v></c></row></sheetData></worksheet>`,
		"xl/vbaProject.bin", "macro",
	)
}

func paper(t testing.TB, f report.Format) []byte {
	t.Helper()
	var out bytes.Buffer
	d := report.Document{Title: "Answer", Issuer: "Example", Created: time.Date(2026, 11, 24, 8, 30, 0, 0, time.UTC), Body: []report.Block{report.Paragraph("The weather is fine.")}}
	if err := report.Write(&out, f, d); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func picture(t testing.TB, k Kind) []byte {
	t.Helper()
	var out bytes.Buffer
	err := png.Encode(&out, image.NewGray(image.Rect(0, 0, 8, 8)))
	if k == JPEG {
		out.Reset()
		err = jpeg.Encode(&out, image.NewGray(image.Rect(0, 0, 8, 8)), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// samples returns files of each kind as people have them.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"empty.json":  []byte(`{}`),
		"full.json":   []byte("{\n  \"a\": [1, 2],\n  \"b\": \"AIGC\"\n}\n"),
		"plain.md":    []byte("# Title\n\nThe weather is fine.\n"),
		"front.md":    []byte("---\ntitle: \"x\" # a title\ntags: [a, b]\n---\n\n# Title\n"),
		"windows.md":  []byte("---\r\ntitle: x\r\n---\r\nText\r\n"),
		"rule.md":     []byte("---\n\nText\n\n---\n\nMore\n"),
		"bom.md":      []byte("\xef\xbb\xbfText\n"),
		"page.html":   []byte("<!DOCTYPE html>\n<html lang=zh><head><title>AI</title><script>'<body>'</script></head>\n<body class=x><p>天气</p></body></html>\n"),
		"bare.html":   []byte("<!DOCTYPE html><title>x</title>Text"),
		"none.html":   []byte("Text & more"),
		"plain.txt":   []byte("The weather is fine."),
		"empty.txt":   nil,
		"report.docx": paper(t, report.DOCX),
		"book.xlsx":   workbook(t),
		"report.pdf":  paper(t, report.PDF),
		"stream.pdf":  streamed(t),
		"picture.png": picture(t, PNG),
		"picture.jpg": picture(t, JPEG),
	}
}

// TestRoundTrip writes a label into each kind, reads it back, proves it ours, and refuses a second one.
func TestRoundTrip(t *testing.T) {
	l, x := labeler(t), ours(t)
	pass := func(x label.Label) label.Label { return l.Propagate(x, "p-1", "acme") }
	for name, data := range samples(t) {
		t.Run(name, func(t *testing.T) {
			k, err := Detect(name, data)
			if err != nil {
				t.Fatal(err)
			}
			before, err := Read(k, data)
			if err != nil || len(before.Marks) != 0 || before.Visible == VisibleYes {
				t.Fatalf("before: %+v %v", before, err)
			}
			got, err := unsigned().Write(k, data, x, sentence)
			if err != nil {
				t.Fatal(err)
			}
			found, err := Read(k, got.Data)
			if err != nil || len(found.Marks) != 1 || !found.Marks[0].Whole || l.Verify(found.Marks[0].Label, "acme") != nil {
				t.Fatalf("after: %+v %v\n%q", found, err, got.Data[:min(len(got.Data), 600)])
			}
			if seen := !slices.Contains([]Kind{PDF, PNG, JPEG}, k); got.Visible != seen || (found.Visible == VisibleYes) != seen {
				t.Errorf("visible %v, read %s", got.Visible, found.Visible)
			}
			if again, err := Detect(name, got.Data); err != nil || again != k {
				t.Errorf("the labelled file is %s: %v", again, err)
			}
			if _, err := unsigned().Write(k, got.Data, x, sentence); !is(err, fault.CodeConflict) {
				t.Errorf("a second label: %v", err)
			}
			passed, err := unsigned().Propagate(k, got.Data, pass)
			if err != nil {
				t.Fatal(err)
			}
			after, err := Read(k, passed.Data)
			if err != nil || len(after.Marks) != 1 || after.Marks[0].Label.PropagateID != "p-1" || !after.Marks[0].MadeHere(l, "acme") || !l.Propagated(after.Marks[0].Label, "acme") || l.Propagated(after.Marks[0].Label, "other") {
				t.Errorf("passed on: %+v %v", after, err)
			}
			if _, err := unsigned().Propagate(k, passed.Data, pass); !is(err, fault.CodeConflict) {
				t.Errorf("a second propagator: %v", err)
			}
			if silent, err := unsigned().Write(k, data, x, ""); err != nil || silent.Visible {
				t.Errorf("without a sentence: %v %v", silent.Visible, err)
			}
		})
	}
}

func is(err error, code fault.Code) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code() == code
}

// TestContentStays: what is not the label is what it was.
func TestContentStays(t *testing.T) {
	x := ours(t)
	write := func(name string, data []byte) []byte {
		t.Helper()
		k, err := Detect(name, data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unsigned().Write(k, data, x, sentence)
		if err != nil {
			t.Fatal(name, err)
		}
		return got.Data
	}
	all := samples(t)
	for _, name := range []string{"report.docx", "book.xlsx"} {
		before, after := parts(t, all[name]), parts(t, write(name, all[name]))
		changed := 0
		for part, bytes := range before {
			if after[part] != bytes {
				changed++
			}
		}
		if want := map[string]int{"report.docx": 3, "book.xlsx": 4}[name]; changed != want { // types, relationships, the document or the workbook and its relationships
			t.Errorf("%s: %d parts changed, want %d", name, changed, want)
		}
	}
	for _, name := range []string{"report.pdf", "stream.pdf"} {
		if got := write(name, all[name]); !bytes.HasPrefix(got, all[name]) {
			t.Errorf("%s: the update changed bytes before it", name)
		}
	}
	if _, err := png.Decode(bytes.NewReader(write("a.png", all["picture.png"]))); err != nil {
		t.Error(err)
	}
	if _, err := jpeg.Decode(bytes.NewReader(write("a.jpg", all["picture.jpg"]))); err != nil {
		t.Error(err)
	}
	var values map[string]any
	if err := json.Unmarshal(write("full.json", all["full.json"]), &values); err != nil || values["b"] != "AIGC" || values[jsonNotice] != sentence {
		t.Errorf("%v %v", values, err)
	}
	if got := string(write("front.md", all["front.md"])); !strings.Contains(got, "title: \"x\" # a title\ntags: [a, b]\n---\n\n"+sentence) && !strings.Contains(got, "title: \"x\" # a title") {
		t.Error(got)
	}
	// A text that shows a label gets no second one.
	if got := string(write("x.txt", []byte("Fine.\n\n(AI-generated content)\n"))); strings.Contains(got, sentence) {
		t.Error(got)
	}
}

// parts returns the compressed bytes of each part.
func parts(t *testing.T, data []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range z.File {
		r, err := f.OpenRaw()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = string(b)
	}
	return out
}

// packet is a PNG with an XMP packet.
func withPacket(t testing.TB, packet string) []byte {
	t.Helper()
	data := picture(t, PNG)
	const head = 8 + 25
	return splice(data, head, head, string(newChunk("iTXt", []byte(pngKeyword+"\x00\x00\x00\x00"+packet))))
}

const rdf = `<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="` + rdfSpace + `">%s</rdf:RDF></x:xmpmeta>`

// TestLabelsOfOthers: they are found in the forms that others write, whole or not, and stay.
func TestLabelsOfOthers(t *testing.T) {
	x := ours(t)
	value := x.HeaderValue()
	for name, data := range map[string][]byte{
		"wrapped.json":    []byte(`{"AIGC":{"AIGC":` + value + `}}`),
		"half.json":       []byte(`{"aigc":{"Label":"1"}}`),
		"twice.json":      []byte(`{"AIGC":` + value + `,"AIGC":` + value + `}`),
		"quoted.md":       []byte("---\nAIGC: '" + strings.ReplaceAll(value, "'", "''") + "'\n---\n"),
		"half.md":         []byte("---\nAIGC:\n  Label: '1'\n---\n"),
		"upper.html":      []byte(`<META CONTENT="{}" NAME=aigc>`),
		"attribute.png":   withPacket(t, fmt.Sprintf(rdf, `<rdf:Description xmlns:T="`+labelSpace+`" T:AIGC="`+escapeXML(value)+`"/>`)),
		"element.png":     withPacket(t, fmt.Sprintf(rdf, `<rdf:Description xmlns:T="`+labelSpace+`"><T:AIGC>{"Label":"1"}</T:AIGC></rdf:Description>`)),
		"information.pdf": []byte(minimal("/Info 3 0 R", "<< /AIGC <FEFF007B007D> >>")),
		"line.txt":        []byte("x\nAIGC: {\"Label\":\"1\"}\ny"),
	} {
		k, err := Detect(name, data)
		if err != nil {
			t.Fatal(name, err)
		}
		found, err := Read(k, data)
		if whole := strings.Contains(name, "wrapped") || strings.Contains(name, "quoted") || strings.Contains(name, "attribute") || strings.Contains(name, "twice"); err != nil || len(found.Marks) == 0 || found.Marks[0].Whole != whole {
			t.Errorf("%s: %+v %v", name, found, err)
		}
		if _, err := unsigned().Write(k, data, x, sentence); !is(err, fault.CodeConflict) {
			t.Errorf("%s: written over: %v", name, err)
		}
	}
	other := withPacket(t, fmt.Sprintf(rdf, `<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Sun</dc:title></rdf:Description>`))
	got, err := unsigned().Write(PNG, other, x, "")
	if err != nil || !bytes.Contains(got.Data, []byte("<dc:title>Sun</dc:title>")) || bytes.Count(got.Data, []byte(pngKeyword)) != 1 {
		t.Errorf("a packet without a label: %v", err)
	}
}

// minimal is a PDF with a classic table: its trailer and its third object can be chosen.
func minimal(trailer, third string) string {
	out := "%PDF-1.4\n"
	var at []int
	for i, o := range []string{"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [] /Count 0 >>", third} {
		at = append(at, len(out))
		out += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := len(out)
	out += "xref\n0 4\n0000000000 65535 f \n"
	for _, n := range at {
		out += fmt.Sprintf("%010d 00000 n \n", n)
	}
	return out + fmt.Sprintf("trailer\n<< /Size 4 /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", trailer, start)
}

// streamed is a PDF whose cross-references are a stream, and whose document information is in a stream of objects.
func streamed(t testing.TB) []byte {
	t.Helper()
	out := "%PDF-1.5\n"
	at := map[int]int{}
	put := func(n int, body string) {
		at[n] = len(out)
		out += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", n, body)
	}
	put(1, "<< /Type /Catalog /Pages 2 0 R >>")
	put(2, "<< /Type /Pages /Kids [5 0 R] /Count 1 >>")
	inside := "3 0 << /Title (Sun \\(1\\)) >>"
	put(4, fmt.Sprintf("<< /Type /ObjStm /N 1 /First 4 /Length %d >>\nstream\n%s\nendstream", len(inside), inside))
	put(5, "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] >>")
	start := len(out)
	rows := []byte{0, 0, 0, 0, 0, 0, 255, 255}
	for n := 1; n <= 5; n++ {
		if n == 3 {
			rows = append(rows, 2, 0, 0, 0, 0, 4, 0, 0)
			continue
		}
		rows = append(rows, row(at[n], 0)...)
	}
	rows = append(rows, row(start, 0)...)
	return []byte(out + fmt.Sprintf("6 0 obj\n<< /Type /XRef /Size 7 /W [1 5 2] /Root 1 0 R /Info 3 0 R /Length %d >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", len(rows), rows, start))
}

// edited returns an archive with parts changed; new ones go to its end.
func edited(t testing.TB, data []byte, change map[string]func(string) string) []byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if c := change[f.Name]; c != nil {
			if text = c(text); text == string(b) {
				t.Fatalf("%s: nothing to change in %s", f.Name, b)
			}
			delete(change, f.Name)
		}
		all = append(all, f.Name, text)
	}
	for name, c := range change {
		all = append(all, name, c(""))
	}
	return archive(t, all...)
}

func replace(old, with string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, with, 1) }
}

func whole(s string) func(string) string { return func(string) string { return s } }

// TestRefusals: what is damaged, hostile, or would break by a label is refused for that reason, and the same file without it is labelled.
func TestRefusals(t *testing.T) {
	x, all := ours(t), samples(t)
	docx, xlsx := all["report.docx"], all["book.xlsx"]
	pngAt := func(chunks ...string) []byte { return splice(picture(t, PNG), 33, 33, strings.Join(chunks, "")) }
	xmp := func(packet string) string {
		return string(newChunk("iTXt", []byte(pngKeyword+"\x00\x00\x00\x00"+packet)))
	}
	packed := func(size int) string {
		return string(newChunk("iTXt", append([]byte(pngKeyword+"\x01\x00\x00\x00"), deflated(t, make([]byte, size))...)))
	}
	plain := fmt.Sprintf(rdf, "")
	wrongSum, classic := picture(t, PNG), minimal("", "<< >>")
	wrongSum[len(wrongSum)-1] ^= 1
	start := classic[strings.LastIndex(classic, "startxref\n")+10 : strings.LastIndex(classic, "\n%%EOF")]
	many := strings.Repeat("0 1000 ", 1100)
	for name, c := range map[string]struct {
		kind      Kind
		good, bad []byte
		why       string
	}{
		"array":                   {JSON, []byte(`{"a":[1]}`), []byte(`[1]`), "labelfile.no_object"},
		"broken JSON":             {JSON, []byte(`{"a":1}`), []byte(`{"a":`), "labelfile.no_json"},
		"foreign notice":          {JSON, []byte(`{"AIGCnotice2":1}`)[:0], []byte(`{"AIGCNotice":"x"}`), "labelfile.notice"},
		"flow front matter":       {Markdown, []byte("---\na: 1\n---\n"), []byte("---\n{a: 1}\n---\n"), "labelfile.front_matter"},
		"broken front matter":     {Markdown, []byte("---\na: b\n---\n"), []byte("---\na: b: c\n---\n"), "labelfile.front_matter"},
		"breaks of YAML":          {Markdown, []byte("---\na: b\r\n---\n"), []byte("---\na: b\u0085# c\n---\n"), "labelfile.front_matter"},
		"carriage return in YAML": {Markdown, []byte("---\na: b\r\nc: d\n---\n"), []byte("---\na: b\rc: d\n---\n"), "labelfile.front_matter"},
		"long front matter":       {Markdown, []byte("---\na: b\n---\n"), []byte("---\na: b\n" + strings.Repeat("# c\n", maxFront/4) + "---\n"), "labelfile.front_matter"},
		"no UTF-8":                {HTML, []byte("<p>x</p>"), []byte("<p>\xff</p>"), "labelfile.no_utf8"},
		"open tag":                {HTML, []byte("<p>x</p><a href=x>"), []byte("<p>x</p><a href="), "labelfile.no_html"},
		"binary text":             {Text, []byte("ab"), []byte("a\x00b"), "labelfile.no_utf8"},
		"no archive":              {DOCX, docx, docx[:len(docx)-4], "labelfile.archive"},
		"many entries":            {DOCX, docx, append(bytes.Clone(docx), strings.Repeat("PK\x01\x02", maxParts)...), "labelfile.unpacked"},
		"bomb":                    {DOCX, docx, edited(t, docx, map[string]func(string) string{"word/document.xml": replace("<w:body>", strings.Repeat(" ", maxPart)+"<w:body>")}), "labelfile.unpacked"},
		"entity":                  {DOCX, docx, edited(t, docx, map[string]func(string) string{"word/document.xml": replace("<w:document", `<!DOCTYPE a [<!ENTITY e "x">]><w:document`)}), "labelfile.xml"},
		"two parts of one name":   {XLSX, xlsx, edited(t, xlsx, map[string]func(string) string{"XL/workbook.xml": whole("x")}), "labelfile.archive"},
		"signed document":         {DOCX, docx, edited(t, docx, map[string]func(string) string{"_xmlsignatures/sig1.xml": whole("x")}), "labelfile.signed"},
		"signed elsewhere":        {DOCX, docx, edited(t, docx, map[string]func(string) string{packageRels: replace("</Relationships>", `<Relationship Id="s" Type="`+signatures+`" Target="a/b.sigs"/></Relationships>`)}), "labelfile.signed"},
		"two documents":           {DOCX, docx, edited(t, docx, map[string]func(string) string{packageRels: replace("</Relationships>", `<Relationship Id="s" Type="`+officeRelations+`officeDocument" Target="word/document.xml"/></Relationships>`)}), "labelfile.archive"},
		"part outside":            {XLSX, xlsx, edited(t, xlsx, map[string]func(string) string{packageRels: replace("xl/workbook.xml", "../../etc/passwd")}), "labelfile.archive"},
		"type of another part":    {DOCX, docx, edited(t, docx, map[string]func(string) string{contentTypes: replace("</Types>", `<Override PartName="/docProps/custom.xml" ContentType="text/xml"/></Types>`)}), "labelfile.archive"},
		"no cross-reference":      {PDF, []byte(classic), []byte(strings.Replace(classic, "startxref", "startyref", 1)), "labelfile.pdf"},
		"far cross-reference":     {PDF, []byte(classic), []byte(strings.Replace(classic, "startxref\n"+start, "startxref\n999999", 1)), "labelfile.pdf"},
		"loop":                    {PDF, []byte(classic), []byte(minimal("/Prev "+start, "<< >>")), "labelfile.pdf"},
		"encrypted":               {PDF, []byte(minimal("/Info 3 0 R", "<< >>")), []byte(minimal("/Encrypt 3 0 R", "<< >>")), "labelfile.encrypted"},
		"certified":               {PDF, []byte(strings.Replace(classic, "/Pages 2 0 R >>", "/Perfs <<>>  >>", 1)), []byte(strings.Replace(classic, "/Pages 2 0 R >>", "/Perms <<>>  >>", 1)), "labelfile.certified"},
		"wrong size":              {PDF, []byte(classic), []byte(strings.Replace(classic, "/Size 4", "/Size 3", 1)), "labelfile.pdf"},
		"wrong length":            {PDF, crossed(t, "0 4", 4), bytes.Replace(crossed(t, "0 4", 4), []byte("/Length 16"), []byte("/Length 20"), 1), "labelfile.pdf"},
		"many entries of a PDF":   {PDF, crossed(t, "0 4", 4), crossed(t, many, 1100_000), "labelfile.unpacked"},
		"not a PNG":               {PNG, picture(t, PNG), []byte(pngHead), "labelfile.image"},
		"wrong checksum":          {PNG, picture(t, PNG), wrongSum, "labelfile.image"},
		"huge chunk":              {PNG, picture(t, PNG), splice(picture(t, PNG), 33, 37, "\x7f\xff\xff\xff"), "labelfile.image"},
		"many chunks":             {PNG, pngAt(string(newChunk("teST", nil))), pngAt(strings.Repeat(string(newChunk("teST", nil)), maxPieces)), "labelfile.unpacked"},
		"credentials":             {PNG, pngAt(string(newChunk("caBx", []byte("x")))), pngAt(string(newChunk("caBX", []byte("x")))), "labelfile.credentials"},
		"packed bomb":             {PNG, pngAt(xmp(plain)), pngAt(packed(maxPacket + 1)), "labelfile.unpacked"},
		"two packets":             {PNG, pngAt(xmp(plain)), pngAt(xmp(plain), xmp(plain)), "labelfile.packets"},
		"entity in XMP":           {PNG, pngAt(xmp(plain)), pngAt(xmp(`<!DOCTYPE a [<!ENTITY e "x">]>` + plain)), "labelfile.xml"},
		"cut JPEG":                {JPEG, picture(t, JPEG), picture(t, JPEG)[:40], "labelfile.image"},
		"several images":          {JPEG, jpegWith(t, 0xe2, "ICC_PROFILE"), jpegWith(t, 0xe2, "MPF\x00II"), "labelfile.several_images"},
		"unknown":                 {Kind("exe"), nil, []byte("x"), "labelfile.unknown_kind"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := unsigned().Write(c.kind, c.good, x, sentence); len(c.good) > 0 && err != nil {
				t.Errorf("without it: %v", err)
			}
			if _, err := unsigned().Write(c.kind, c.bad, x, sentence); !refused(err, c.why) {
				t.Errorf("%v, want %s", err, c.why)
			}
		})
	}
	for _, bad := range []string{"a\nb", "\xff", "\ufffe", "a\u202eb", strings.Repeat("x", maxValue)} {
		y := x
		y.ContentProducer = bad
		if _, err := unsigned().Write(Text, nil, y, ""); !refused(err, "labelfile.value") {
			t.Errorf("value %.10q: %v", bad, err)
		}
	}
	if _, err := unsigned().Write(Text, nil, x, "two\nlines"); !refused(err, "labelfile.sentence") {
		t.Error(err)
	}
	if _, err := Read(Text, make([]byte, MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "MiB") {
		t.Error(err)
	}
}

// jpegWith is a JPEG with a segment.
func jpegWith(t testing.TB, marker byte, body string) []byte {
	t.Helper()
	return splice(picture(t, JPEG), 2, 2, string([]byte{0xff, marker, byte((len(body) + 2) >> 8), byte(len(body) + 2)})+body)
}

// refused reports whether a file was refused for a reason.
func refused(err error, why string) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code() == fault.CodeInvalidValue && f.Message(fault.English) == fault.Public(refuse(fault.Say(message.ID(why)))).Message(fault.English)
}

// crossed is a PDF with a stream of cross-references of so many free entries before those of its objects.
func crossed(t testing.TB, index string, rows int) []byte {
	t.Helper()
	body := deflated(t, make([]byte, rows))
	out := "%PDF-1.5\n1 0 obj\n<< /Type /Catalog >>\nendobj\n"
	first := len(out)
	out += fmt.Sprintf("2 0 obj\n<< /Type /XRef /Size 3 /W [1 0 0] /Index [%s] /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\nendobj\n", index, len(body), body)
	own := append(row(9, 0), row(len(out), 0)...)
	second := len(out)
	return []byte(out + fmt.Sprintf("2 0 obj\n<< /Type /XRef /Size 3 /W [1 5 2] /Index [1 2] /Root 1 0 R /Prev %d /Length %d >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", first, len(own), own, second))
}

// TestBounds: what comes in many pieces costs no more than what is kept of it, and the room of a file is used up.
func TestBounds(t *testing.T) {
	var long text
	for range 3 * maxValue {
		long.add("x")
	}
	if len(long.b) != maxValue+1 || long.mark("x").Whole {
		t.Errorf("%d bytes of a label were kept", len(long.b))
	}
	r := &room{bytes: 10, tokens: 4}
	if b, err := unpack(deflated(t, make([]byte, 6)), 8, r); err != nil || len(b) != 6 {
		t.Error(err)
	}
	if _, err := unpack(deflated(t, make([]byte, 6)), 8, r); !refused(err, "labelfile.unpacked") {
		t.Errorf("more than is left: %v", err)
	}
	visit := func(xml.Token, []string, int, int) error { return nil }
	if err := walkXML([]byte("<a><b/></a>"), r, visit); err != nil {
		t.Error(err)
	}
	if err := walkXML([]byte("<a/>"), r, visit); !refused(err, "labelfile.unpacked") {
		t.Errorf("more tokens than are left: %v", err)
	}
	for count, want := range map[int]bool{maxPieces: true, maxPieces + 1: false} {
		var keys, attributes strings.Builder
		for i := range count {
			_, _ = fmt.Fprintf(&keys, "/%x 1", i)
			_, _ = fmt.Fprintf(&attributes, ` a%d=""`, i)
		}
		if _, _, ok := dictionary([]byte("<<"+keys.String()+">>"), 0); ok != want {
			t.Errorf("a dictionary of %d keys: %v", count, ok)
		}
		if err := walkXML([]byte("<a><b"+attributes.String()+"/></a>"), newRoom(), visit); (err == nil) != want {
			t.Errorf("a tag of %d attributes: %v", count, err)
		}
	}
	if _, err := stringsIn([]byte(`["a","b"]`), nil, &room{tokens: 3}); !refused(err, "labelfile.unpacked") {
		t.Errorf("more strings than are left: %v", err)
	}
	for k, data := range map[Kind]string{
		Text: strings.Repeat("AIGC: {}\n", 100), JSON: `{"a":1` + strings.Repeat(`,"AIGC":{}`, 100) + `}`, HTML: strings.Repeat("<meta name=AIGC>", 100),
		PNG: string(splice(picture(t, PNG), 33, 33, strings.Repeat(string(newChunk("tEXt", []byte("AIGC\x00x"))), 100))),
	} {
		if found, err := Read(k, []byte(data)); err != nil || len(found.Marks) != maxMarks {
			t.Errorf("%s: %d labels %v", k, len(found.Marks), err)
		}
	}
	spent := pdf{work: 3}
	if spent.spend(3) != nil || spent.spend(1) == nil {
		t.Error("the work of a PDF is not bounded")
	}
}

func deflated(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSignedPDF: a signature without a restriction is said, and its bytes stay.
func TestSignedPDF(t *testing.T) {
	data := []byte(minimal("", "<< /Type /Sig /ByteRange [0 1 2 3] >>"))
	got, err := unsigned().Write(PDF, data, ours(t), "")
	if err != nil || !got.Signed || !bytes.HasPrefix(got.Data, data) {
		t.Errorf("%+v %v", got.Signed, err)
	}
}

// TestDetect tells kinds by their content, and by their name where that is text. Text of another kind takes no line more.
func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       Kind
	}{
		{"answer", `{"a":1}`, JSON},
		{"note", "hello", Text},
		{"a.txt", "[1] Oaks, 2024", Text},
		{"a.log", "[2026-11-24] started", Text},
		{"page", "<!doctype html><p>", HTML},
		{"front", "---\na: 1\n---\n", Markdown},
		{"readme.MD", "hello", Markdown},
		{"picture.json", pngHead, PNG},
		{"md", "hello", Text},
		{"fake.pdf", "hello", ""},
		{"a.csv", "a,b", ""},
		{"a.py", "print(1)", ""},
		{"a.yaml", "a: 1", ""},
		{"a.svg", "<svg/>", ""},
		{"a.eml", "To: x", ""},
		{"a.txt", "<svg/>", ""},
		{"a", "<?xml version='1.0'?><a/>", ""},
		{"a.txt", `{\rtf1 x}`, ""},
		{"run", "#!/bin/sh\n", ""},
		{"a.txt", "{\"a\":1}\n{\"a\":2}\n", ""},
		{"a", "[1, 2]", ""},
		{"a", " %PDF-1.4", ""},
		{"x", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1old", ""},
		{"x", "\x7fELF\x00", ""},
	} {
		if got, err := Detect(c.name, []byte(c.data)); got != c.want || (err == nil) != (c.want != "") || err != nil && !is(err, fault.CodeInvalidValue) {
			t.Errorf("%s %q: %s %v", c.name, c.data, got, err)
		}
	}
}

// TestChecksum holds newChunk to the checksum of the standard library's reader.
func TestChecksum(t *testing.T) {
	c := newChunk("IEND", nil)
	if crc32.ChecksumIEEE([]byte("IEND")) != 0xae426082 || string(c) != "\x00\x00\x00\x00IEND\xae\x42\x60\x82" {
		t.Errorf("%x", c)
	}
}

// FuzzRead: no file makes a reader fail otherwise than with a fault, and what takes a label has it once.
func FuzzRead(f *testing.F) {
	x := ours(f)
	for name, data := range samples(f) {
		k, err := Detect(name, data)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) > 100_000 {
			continue
		}
		f.Add(string(k), data)
		if got, err := unsigned().Write(k, data, x, sentence); err == nil {
			f.Add(string(k), got.Data)
		}
	}
	f.Add(string(PDF), bytes.ReplaceAll(crossed(f, "0 4", 4), []byte("/W "), []byte("/X "))) // it has no widths, which was a panic once
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		var known *fault.Error
		if _, err := Detect(kind, data); err != nil && !errors.As(err, &known) {
			t.Errorf("detect: %v", err)
		}
		if _, err := Read(Kind(kind), data); err != nil && !errors.As(err, &known) {
			t.Errorf("read: %v", err)
		}
		got, err := unsigned().Write(Kind(kind), data, x, sentence)
		if err != nil {
			if !errors.As(err, &known) {
				t.Errorf("write: %v", err)
			}
			return
		}
		if found, err := Read(Kind(kind), got.Data); err != nil || len(found.Marks) != 1 || found.Marks[0].Label != x {
			t.Errorf("read back: %+v %v", found, err)
		}
	})
}

// unsigned writes labels only.
func unsigned() Writer { return Writer{} }
