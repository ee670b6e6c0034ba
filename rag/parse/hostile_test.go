package parse_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/rag/parse"
)

// repack copies a package and changes its parts by name; nil drops one. New ones are added.
func repack(t testing.TB, body []byte, change map[string][]byte) []byte {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	put := func(name string, content []byte) {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	done := map[string]bool{}
	for _, f := range in.File {
		done[f.Name] = true
		content, changed := change[f.Name]
		if changed && content == nil {
			continue
		}
		if !changed {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if content, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		put(f.Name, content)
	}
	for name, content := range change {
		if !done[name] && content != nil {
			put(name, content)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const wordHead = `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>`

// TestHostileFiles: each is refused for what is wrong with it, in both languages, and soon.
func TestHostileFiles(t *testing.T) {
	docx, xlsx, pptx := load(t, "numbered.docx"), load(t, "sheet.xlsx"), load(t, "slides.pptx")
	document := func(xml string) []byte { return repack(t, docx, map[string][]byte{"word/document.xml": []byte(xml)}) }
	paragraph := "<w:p><w:r><w:t>x</w:t></w:r></w:p>"
	duplicate := func() []byte {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		for _, name := range []string{"[Content_Types].xml", "word/document.xml", "WORD\\document.xml"} {
			if _, err := w.Create(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	locked := bytes.Clone(docx)
	locked[bytes.Index(locked, []byte("PK\x01\x02"))+8] |= 1
	bomb := strings.Repeat(" ", 20<<20)
	for name, c := range map[string]struct {
		file string
		body []byte
		want string
	}{
		"a bomb":                   {"a.docx", document(wordHead + bomb + "</w:body></w:document>"), "unpacks to far more"},
		"entities":                 {"a.docx", document(`<!DOCTYPE a [<!ENTITY b "cccc"><!ENTITY d "&b;&b;">]>` + wordHead + "<w:p><w:r><w:t>&d;</w:t></w:r></w:p></w:body></w:document>"), "document type definition"},
		"an entity without a DTD":  {"a.docx", document(wordHead + "<w:p><w:r><w:t>&d;</w:t></w:r></w:p></w:body></w:document>"), "damaged"},
		"depth":                    {"a.docx", document(wordHead + strings.Repeat("<w:sdt><w:sdtContent>", 1000) + paragraph), "nested too deeply"},
		"depth of tables":          {"a.docx", document(wordHead + strings.Repeat("<w:tbl><w:tr><w:tc>", 1000) + paragraph), "nested too deeply"},
		"depth of what is skipped": {"a.docx", document(wordHead + strings.Repeat("<w:x>", 100_000) + paragraph), "nested too deeply"},
		"cells":                    {"a.docx", document(wordHead + "<w:tbl>" + strings.Repeat(`<w:tr>`+strings.Repeat(`<w:tc><w:tcPr><w:gridSpan w:val="256"/></w:tcPr></w:tc>`, 60)+"</w:tr>", 300) + "</w:tbl></w:body></w:document>"), "cells; split it"},
		"two parts of one name":    {"a.docx", duplicate(), "damaged"},
		"a locked part":            {"a.docx", locked, "encrypted"},
		"macros":                   {"a.docx", repack(t, docx, map[string][]byte{"word/vbaProject.bin": {1}}), "macros"},
		"a macro document":         {"a.docx", repack(t, docx, map[string][]byte{"[Content_Types].xml": []byte(`<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/word/document.xml" ContentType="application/vnd.ms-word.document.macroEnabled.main+xml"/></Types>`)}), "macros"},
		"no main part":             {"a.docx", repack(t, docx, map[string][]byte{"word/document.xml": nil}), "damaged"},
		"a main part outside":      {"a.docx", repack(t, docx, map[string][]byte{"_rels/.rels": []byte(`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="http://127.0.0.1:1/x" TargetMode="External"/></Relationships>`)}), "damaged"},
		"a path out":               {"a.docx", repack(t, docx, map[string][]byte{"_rels/.rels": []byte(`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="../../../../../../etc/passwd"/></Relationships>`)}), "damaged"},
		"a workbook as a document": {"a.docx", xlsx, "it is XLSX"},
		"a document as a text":     {"a.txt", docx, "it is DOCX"},
		"a text as a workbook":     {"a.xlsx", []byte("a,b"), "does not look like XLSX"},
		"another archive":          {"a.zip", repack(t, docx, map[string][]byte{"[Content_Types].xml": nil}), "archives of other kinds"},
		"a column far away":        {"a.xlsx", repack(t, xlsx, map[string][]byte{"xl/worksheets/sheet1.xml": []byte(`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1">` + strings.Repeat("<c><v>1</v></c>", 20_000) + `</row></sheetData></worksheet>`)}), "damaged"},
		"cut off":                  {"a.pptx", pptx[:len(pptx)/2], "damaged"},
		"mail inside mail":         {"a.eml", nested(5), ""},
		"mail without a head":      {"a.eml", []byte("x"), "no e-mail"},
		"parts inside parts":       {"a.eml", parts(50), "nested too deeply"},
		"encrypted mail":           {"a.eml", []byte("From: a@b\r\nContent-Type: multipart/encrypted; boundary=x\r\n\r\n--x--"), "encrypted"},
		"encrypted mail by CMS":    {"a.eml", []byte("From: a@b\r\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\r\n\r\nx"), "encrypted"},
		"bytes that are no text":   {"a.txt", []byte("a\x00\x01\x02\x00b\x00\x00"), "not text"},
		"single bytes of Europe":   {"a.txt", []byte("Gr\xfc\xdfe aus M\xfcnchen, sch\xf6ne Gr\xfc\xdfe"), "cannot be told"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{Name: c.file, Body: c.body})
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var refused *parse.Error
			if !errors.As(err, &refused) || !strings.Contains(refused.Error(), c.want) || refused.Reason.In(message.Chinese) == refused.Reason.In(message.English) {
				t.Errorf("%v, %.100q", err, d.Text)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// nested is a message in a message, and so on. The innermost that are too deep are named in what is left out.
func nested(n int) []byte {
	body := "innermost"
	for i := range n {
		body = fmt.Sprintf("From: a@b\r\nSubject: %d\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n\r\ntext %d\r\n--b%d\r\nContent-Type: message/rfc822\r\n\r\n%s\r\n--b%d--\r\n", i, i, i, i, i, body, i)
	}
	return []byte(body)
}

func parts(n int) []byte {
	body := "\r\ninnermost"
	for i := range n {
		body = fmt.Sprintf("Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n%s\r\n--b%d--\r\n", i, i, body, i)
	}
	return []byte("From: a@b\r\n" + body)
}

// TestHugeTextIsRefused: cells share a text that is far longer than the file.
func TestHugeTextIsRefused(t *testing.T) {
	xlsx := load(t, "merged.xlsx")
	long := strings.Repeat("lorem ipsum dolor ", 1<<16)
	row := "<row>" + strings.Repeat(`<c t="s"><v>0</v></c>`, 200) + "</row>"
	body := repack(t, xlsx, map[string][]byte{
		"xl/sharedStrings.xml":     []byte(`<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>` + long + `</t></si></sst>`),
		"xl/worksheets/sheet1.xml": []byte(`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>` + strings.Repeat(row, 50) + `</sheetData></worksheet>`),
	})
	if _, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{Name: "a.xlsx", Body: body}); err == nil || !strings.Contains(err.Error(), "bytes of text") {
		t.Errorf("%d bytes say gigabytes: %v", len(body), err)
	}
}

// TestDamagedFiles cuts files off and turns bits in them. Each is read or refused, soon, and what is read holds what documents promise.
func TestDamagedFiles(t *testing.T) {
	r := parse.NewReader(parse.Config{MaxTime: 10 * time.Second})
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, file := range files {
		name := filepath.Base(file)
		kind, known := map[string]string{".docx": parse.DOCX, ".xlsx": parse.XLSX, ".pptx": parse.PPTX, ".eml": parse.Mail, ".tsv": parse.TSV, ".pdf": parse.PDF}[filepath.Ext(name)]
		if !known {
			continue
		}
		reader, n := r, 40
		if kind == parse.PDF {
			if testing.Short() {
				continue
			}
			reader, n = pdfReader(t, parse.Config{MaxTime: 10 * time.Second}), 6
		}
		t.Run(name, func(t *testing.T) {
			body := load(t, name)
			read := func(b []byte) {
				t.Helper()
				d, err := reader.Read(t.Context(), parse.File{MIME: kind, Body: b})
				var refused *parse.Error
				switch {
				case err == nil:
					holds(t, d)
				case !errors.As(err, &refused):
					t.Errorf("not refused but failed: %v", err)
				}
			}
			for range n {
				read(body[:rnd.IntN(len(body))])
				b := bytes.Clone(body)
				for range 1 + rnd.IntN(8) {
					b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
				}
				read(b)
			}
		})
	}
}

// FuzzPackage changes the parts of Office files: damage to a packed file seldom reaches the readers of what is inside.
func FuzzPackage(f *testing.F) {
	seeds := []struct{ file, part string }{
		{"word.docx", "word/document.xml"},
		{"numbered.docx", "word/numbering.xml"},
		{"numbered.docx", "word/styles.xml"},
		{"sheet.xlsx", "xl/worksheets/sheet1.xml"},
		{"sheet.xlsx", "xl/styles.xml"},
		{"merged.xlsx", "xl/worksheets/sheet1.xml"},
		{"slides.pptx", "ppt/slides/slide1.xml"},
		{"slides.pptx", "ppt/_rels/presentation.xml.rels"},
	}
	packages := map[string][]byte{}
	for i, s := range seeds {
		body := load(f, s.file)
		packages[s.file] = body
		z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
		if err != nil {
			f.Fatal(err)
		}
		r, err := z.Open(s.part)
		if err != nil {
			f.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), content)
	}
	r := parse.NewReader(parse.Config{MaxTime: 10 * time.Second})
	f.Fuzz(func(t *testing.T, i uint8, content []byte) {
		s := seeds[int(i)%len(seeds)]
		d, err := r.Read(t.Context(), parse.File{Name: s.file, Body: repack(t, packages[s.file], map[string][]byte{s.part: content})})
		var refused *parse.Error
		switch {
		case err == nil:
			holds(t, d)
		case !errors.As(err, &refused):
			t.Fatal(err)
		}
	})
}

// FuzzFormat holds number formats to their bound.
func FuzzFormat(f *testing.F) {
	f.Add(`[$-804]yyyy"年"m"月"d"日";@`, "45000.5")
	f.Add(`#,##0.00_);[Red](#,##0.00)`, "-1e300")
	f.Add(`##0.0E+0`, "1e-300")
	f.Add(`[h]:mm:ss.000`, "2958465.999999")
	f.Fuzz(func(t *testing.T, code, number string) {
		if s := parse.FormatForTest(code, number); len(s) > 4*len(code)+1000 {
			t.Fatalf("%q of %q: %d bytes", code, number, len(s))
		}
	})
}

// TestCharacterSets: each text is read as it was written, by its mark, its declaration or its looks.
func TestCharacterSets(t *testing.T) {
	decode := func(s string) []byte {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const text = "出差人员按规定等级乘坐交通工具，凭据报销。"
	for name, c := range map[string]struct {
		mime string
		body []byte
		want string
	}{
		"GB18030":            {"text/plain", gb(text), text},
		"GB18030, declared":  {"text/plain; charset=gb2312", gb(text), text},
		"Big5":               {"text/plain", decode("pViudKRIrfvAs6v2s1epd7Wlr8WtvKekpeazcaR1qOOhQb7Ms+a+2rP4vlCquqZhpOihQw=="), ""},
		"UTF-16 with a mark": {"text/plain", append([]byte{0xff, 0xfe}, wide(text)...), text},
		"UTF-16 without":     {"text/plain", wide(text + "\n" + text + " 2026\n"), text + "\n" + text + " 2026"},
		"UTF-8, declared as something else that it cannot be": {"text/plain; charset=shift_jis", []byte(text), "\x00"},
		"a page that says so": {"text/html", append([]byte("<meta charset=gbk><p>"), gb(text)...), text},
	} {
		d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{MIME: c.mime, Body: c.body})
		switch {
		case c.want == "\x00":
			if err == nil {
				t.Errorf("%s: read as %q", name, d.Text)
			}
		case c.want == "":
			if err != nil || !strings.ContainsAny(d.Text, "的地") {
				t.Errorf("%s: %q, %v", name, d.Text, err)
			}
		case err != nil || d.Text != c.want:
			t.Errorf("%s: %q, %v", name, d.Text, err)
		}
	}
}

func gb(s string) []byte {
	b, err := simplifiedchinese.GB18030.NewEncoder().Bytes([]byte(s))
	if err != nil {
		panic(err)
	}
	return b
}

func wide(s string) []byte {
	b, err := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().Bytes([]byte(s))
	if err != nil {
		panic(err)
	}
	return b
}
