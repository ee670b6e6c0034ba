package parse_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/rag/parse"
)

// cost is what the reading of a file has taken of this process: bytes that were allocated, and time of processors, which other work of the machine
// hardly changes.
type cost struct {
	bytes uint64
	time  time.Duration
}

func reading(t *testing.T, cfg parse.Config, f parse.File) (parse.Document, cost, error) {
	t.Helper()
	now := func() cost {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return cost{m.TotalAlloc, time.Duration(u.Utime.Nano() + u.Stime.Nano())}
	}
	r := parse.NewReader(cfg)
	before := now()
	d, err := r.Read(t.Context(), f)
	after := now()
	return d, cost{after.bytes - before.bytes, after.time - before.time}, err
}

// TestTextIsCountedWhereItIsMade: what a small Word file says again and again is refused before it takes much memory, by each way to say it.
func TestTextIsCountedWhereItIsMade(t *testing.T) {
	const end = "</w:body></w:document>"
	long := strings.Repeat("lorem ipsum ", 8_000)
	paragraph := "<w:p><w:r><w:t>" + long + "</w:t></w:r></w:p>"
	merged := func(rows int) string {
		return `<w:tbl><w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>` + paragraph + "</w:tc></w:tr>" +
			strings.Repeat(`<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr></w:tc></w:tr>`, rows) + "</w:tbl>"
	}
	const ns = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"`
	note := `<w:footnotes ` + ns + `><w:footnote w:id="7">` + paragraph + `</w:footnote></w:footnotes>`
	numbering := `<w:numbering ` + ns + `><w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:lvlText w:val="` + long + `"/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num></w:numbering>`
	item := `<w:p><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>`
	for name, parts := range map[string]map[string][]byte{
		"a table in a table":    {"word/document.xml": []byte(wordHead + "<w:tbl><w:tr><w:tc>" + merged(3_000) + "</w:tc></w:tr></w:tbl>" + end)},
		"a table in a text box": {"word/document.xml": []byte(wordHead + "<w:p><w:r><w:pict><w:txbxContent>" + merged(3_000) + "</w:txbxContent></w:pict></w:r></w:p>" + end)},
		"a note that many refer to": {
			"word/document.xml":  []byte(wordHead + "<w:tbl><w:tr><w:tc><w:p><w:r>" + strings.Repeat(`<w:footnoteReference w:id="7"/>`, 3_000) + "</w:r></w:p></w:tc></w:tr></w:tbl>" + end),
			"word/footnotes.xml": []byte(note),
		},
		"a number in a cell": {
			"word/document.xml":  []byte(wordHead + "<w:tbl><w:tr><w:tc>" + strings.Repeat(item, 3_000) + "</w:tc></w:tr></w:tbl>" + end),
			"word/numbering.xml": []byte(numbering),
		},
	} {
		body := repack(t, load(t, "numbered.docx"), parts)
		d, took, err := reading(t, parse.Config{}, parse.File{Name: "a.docx", Body: body})
		var refused *parse.Error
		if !errors.As(err, &refused) {
			t.Errorf("%s: %d bytes became %d of text: %v", name, len(body), len(d.Text), err)
		}
		if took.bytes > 400<<20 {
			t.Errorf("%s: %d MiB were allocated for %d bytes", name, took.bytes>>20, len(body))
		}
	}
}

// TestWorkIsLinear: files that need work by the square of their size, if it is done naively.
func TestWorkIsLinear(t *testing.T) {
	slide := func(n int) []byte {
		return repack(t, load(t, "slides.pptx"), map[string][]byte{"ppt/slides/slide1.xml": []byte(`<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><p:cSld><p:spTree>` +
			`<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody>` + strings.Repeat("<a:p><a:r><a:t>xxxx</a:t></a:r></a:p>", n) + `</a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>` +
			`<p:sp><p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:txBody>` + strings.Repeat("<a:p><a:r><a:t>xxxx</a:t></a:r></a:p>", n) + `</p:txBody></p:sp></p:spTree></p:cSld></p:sld>`)})
	}
	joined := func(n int) []byte {
		return repack(t, load(t, "numbered.docx"), map[string][]byte{"word/document.xml": []byte(wordHead + strings.Repeat("<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>xxxx</w:t></w:r></w:p>", n) + "</w:body></w:document>")})
	}
	for name, f := range map[string]parse.File{
		"paragraphs of a cell and of a title": {Name: "a.pptx", Body: slide(30_000)},
		"paragraphs without ends":             {Name: "a.docx", Body: joined(30_000)},
	} {
		if _, took, err := reading(t, parse.Config{}, f); err != nil || took.bytes > 300<<20 {
			t.Errorf("%s: %v, %d MiB were allocated", name, err, took.bytes>>20)
		}
	}
	sheet := func(blocks, areas int) time.Duration {
		var s strings.Builder
		s.WriteString(`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`)
		for i := range blocks {
			fmt.Fprintf(&s, `<row r="%d"><c t="str"><v>a</v></c><c t="str"><v>b</v></c></row><row r="%d"><c><v>1</v></c><c><v>2</v></c></row>`, 3*i+1, 3*i+2)
		}
		s.WriteString(`</sheetData><mergeCells>` + strings.Repeat(`<mergeCell ref="C1:D2"/>`, areas) + `</mergeCells></worksheet>`)
		_, took, err := reading(t, parse.Config{}, parse.File{Name: "a.xlsx", Body: repack(t, load(t, "merged.xlsx"), map[string][]byte{"xl/worksheets/sheet1.xml": []byte(s.String())})})
		if err != nil {
			t.Fatal(err)
		}
		return took.time
	}
	blocks, areas, both := sheet(20_000, 1), sheet(1, 170_000), sheet(20_000, 170_000)
	if both > 3*(blocks+areas)+time.Second {
		t.Errorf("blocks take %s, areas %s, and both %s", blocks, areas, both)
	}
}

// TestDepthOfWhatIsSkipped: elements that nobody asks for are counted too. The decoder holds each one that is open.
func TestDepthOfWhatIsSkipped(t *testing.T) {
	body := repack(t, load(t, "numbered.docx"), map[string][]byte{"word/document.xml": []byte(wordHead + strings.Repeat("<a>", 1<<20))})
	_, took, err := reading(t, parse.Config{}, parse.File{Name: "a.docx", Body: body})
	if err == nil || !strings.Contains(err.Error(), "nested too deeply") || took.bytes > 32<<20 {
		t.Errorf("%v, %d MiB were allocated", err, took.bytes>>20)
	}
}

// TestPaddedBomb: what stands behind the packed bytes of a part does not make it look less of a bomb.
func TestPaddedBomb(t *testing.T) {
	content := []byte(wordHead + strings.Repeat("<w:p/>", 6<<20/6) + "</w:body></w:document>")
	var packed bytes.Buffer
	z, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	packed.Write(make([]byte, 256<<10))
	in, err := zip.NewReader(bytes.NewReader(load(t, "numbered.docx")), int64(len(load(t, "numbered.docx"))))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range in.File {
		if f.Name == "word/document.xml" {
			part, err := w.CreateRaw(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(content), CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(content))})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := part.Write(packed.Bytes()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := w.Copy(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{Name: "a.docx", Body: out.Bytes()}); err == nil || !strings.Contains(err.Error(), "unpacks to far more") {
		t.Error(err)
	}
}

// TestOneAttachmentWithTooMuchText: it is named, and the rest of the message is read.
func TestOneAttachmentWithTooMuchText(t *testing.T) {
	long := strings.Repeat("lorem ipsum dolor ", 1<<12)
	row := "<row>" + strings.Repeat(`<c t="s"><v>0</v></c>`, 200) + "</row>"
	book := repack(t, load(t, "merged.xlsx"), map[string][]byte{
		"xl/sharedStrings.xml":     []byte(`<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>` + long + `</t></si></sst>`),
		"xl/worksheets/sheet1.xml": []byte(`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>` + strings.Repeat(row, 50) + `</sheetData></worksheet>`),
	})
	mail := "From: a@b\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nbefore\r\n--x\r\nContent-Type: application/octet-stream; name=a.xlsx\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
		base64.StdEncoding.EncodeToString(book) + "\r\n--x\r\nContent-Type: text/csv; name=b.csv\r\n\r\nbehind,it\r\n--x--\r\n"
	d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{Name: "a.eml", Body: []byte(mail)})
	if err != nil || !strings.Contains(d.Text, "before") || !strings.Contains(d.Text, "behind | it") || len(d.Left) != 1 || !strings.Contains(d.Left[0].String(), "bytes of text") {
		t.Errorf("%.200q, %v, %v", d.Text, d.Left, err)
	}
}

// TestManyAtOnce: documents of all formats that are read together are what each is alone, and no more are read at once than may be.
func TestManyAtOnce(t *testing.T) {
	names := []string{"word.docx", "numbered.docx", "sheet.xlsx", "merged.xlsx", "slides.pptx", "mail.eml"}
	r := parse.NewReader(parse.Config{})
	if !testing.Short() {
		names = append(names, "gbk.pdf", "columns.pdf")
		r = pdfReader(t, parse.Config{})
	}
	alone := map[string]string{}
	for _, name := range names {
		d, err := r.Read(t.Context(), parse.File{Name: name, Body: load(t, name)})
		if err != nil {
			t.Fatal(err)
		}
		alone[name] = outline(d)
	}
	var all sync.WaitGroup
	for i := range 3 * len(names) {
		name := names[i%len(names)]
		body := load(t, name)
		all.Go(func() {
			d, err := r.Read(t.Context(), parse.File{Owner: strconv.Itoa(i % 4), Name: name, Body: body})
			if err != nil || outline(d) != alone[name] {
				t.Errorf("%s: %v\n%s", name, err, outline(d))
			}
		})
	}
	all.Wait()
}

// TestCloseWhilePDFsAreRead: a reader that is closed under its documents ends them, and frees PDFium behind them.
func TestCloseWhilePDFsAreRead(t *testing.T) {
	first := pdfReader(t, parse.Config{})
	body := load(t, "columns.pdf")
	if _, err := first.Read(t.Context(), parse.File{Name: "a.pdf", Body: body}); err != nil { // it is compiled
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ended := make(chan struct{}, 6)
	for i := range 6 {
		all.Go(func() {
			for {
				if _, err := first.Read(t.Context(), parse.File{Owner: strconv.Itoa(i), Name: "a.pdf", Body: bytes.Clone(body)}); err != nil {
					if !errors.Is(err, parse.ErrBusy) {
						t.Error(err)
					}
					return
				}
				ended <- struct{}{}
			}
		})
	}
	for range 3 {
		<-ended
	}
	go func() {
		for range ended {
		}
	}()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	close(ended)
}

// TestCompiledFolderMayFail: where compiled code cannot be kept, PDFs are read all the same.
func TestCompiledFolderMayFail(t *testing.T) {
	if testing.Short() || os.Getenv("SLUICE_TEST_LONG") == "" {
		t.Skip("PDFium is compiled anew in the long form")
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	r := parse.NewReader(parse.Config{Compiled: filepath.Join(file, "below")})
	defer r.Close()
	if _, err := r.Read(t.Context(), parse.File{Name: "gbk.pdf", Body: load(t, "gbk.pdf")}); err != nil {
		t.Error(err)
	}
}
