package report

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"

	"github.com/sluice-project/sluice/internal/message"
)

// The fixed objects of a PDF; those of the pages follow.
const (
	catalogObject = iota + 1
	pagesObject
	infoObject
	fontObject
	cidFontObject
	descriptorObject
	fontFileObject
	toUnicodeObject
	firstPageObject
)

// pdfFile collects the objects of a PDF 1.7 and where they begin.
type pdfFile struct {
	out    bytes.Buffer
	starts []int // by number, less one
	err    error
}

func (p *pdfFile) object(body string) {
	p.starts = append(p.starts, p.out.Len())
	fmt.Fprintf(&p.out, "%d 0 obj\n%s\nendobj\n", len(p.starts), body)
}

func (p *pdfFile) stream(entries string, data []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err := z.Write(data)
	p.err = errors.Join(p.err, err, z.Close())
	p.object(fmt.Sprintf("<< /Filter /FlateDecode /Length %d%s >>\nstream\n%s\nendstream", packed.Len(), entries, packed.Bytes()))
}

// writePages writes a PDF of pages, each a content stream in one font.
func writePages(w io.Writer, d Document, f *face, pages [][]byte) error {
	p := &pdfFile{}
	p.out.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n") // bytes above 127 tell programs that the file is no text
	lang := "en"
	if d.Lang == message.Chinese {
		lang = "zh-CN"
	}
	p.object(fmt.Sprintf("<< /Type /Catalog /Pages %d 0 R /Lang (%s) /ViewerPreferences << /DisplayDocTitle true >> >>", pagesObject, lang))
	var kids bytes.Buffer
	for i := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", firstPageObject+2*i)
	}
	p.object(fmt.Sprintf("<< /Type /Pages /Count %d /Kids [ %s] /MediaBox [ 0 0 %g %g ] /Resources << /Font << /F %d 0 R >> >> >>",
		len(pages), &kids, pageWidth, pageHeight, fontObject))
	p.object(fmt.Sprintf("<< /Title %s /Subject %s /Author %s /Producer (Sluice) /CreationDate (D:%sZ) >>",
		utf16Text(d.Title), utf16Text(d.Subject), utf16Text(d.Issuer), d.Created.UTC().Format("20060102150405")))
	p.font(f)
	for i, content := range pages {
		p.object(fmt.Sprintf("<< /Type /Page /Parent %d 0 R /Contents %d 0 R >>", pagesObject, firstPageObject+2*i+1))
		p.stream("", content)
	}
	p.end()
	if p.err != nil {
		return p.err
	}
	_, err := w.Write(p.out.Bytes())
	return err
}

// end writes the table of the objects. The id of the file follows from its content.
func (p *pdfFile) end() {
	id := sha256.Sum256(p.out.Bytes())
	at := p.out.Len()
	fmt.Fprintf(&p.out, "xref\n0 %d\n0000000000 65535 f \n", len(p.starts)+1)
	for _, start := range p.starts {
		fmt.Fprintf(&p.out, "%010d 00000 n \n", start)
	}
	fmt.Fprintf(&p.out, "trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R /ID [ <%x> <%x> ] >>\nstartxref\n%d\n%%%%EOF\n",
		len(p.starts)+1, catalogObject, infoObject, id[:16], id[:16], at)
}

// font writes the font with the glyphs that were used. A code of a text is the number of its glyph.
func (p *pdfFile) font(f *face) {
	file := f.subset()
	name := subsetName(file)
	p.object(fmt.Sprintf("<< /Type /Font /Subtype /Type0 /BaseFont /%s /Encoding /Identity-H /DescendantFonts [ %d 0 R ] /ToUnicode %d 0 R >>",
		name, cidFontObject, toUnicodeObject))
	var widths bytes.Buffer
	for _, r := range f.used {
		fmt.Fprintf(&widths, " %d", f.glyph(r).advance)
	}
	p.object(fmt.Sprintf("<< /Type /Font /Subtype /CIDFontType2 /BaseFont /%s /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> "+
		"/FontDescriptor %d 0 R /CIDToGIDMap /Identity /DW 1000 /W [ 0 [%s ] ] >>", name, descriptorObject, &widths))
	p.object(fmt.Sprintf("<< /Type /FontDescriptor /FontName /%s /Flags 4 /FontBBox [ %s ] /ItalicAngle 0 /Ascent %d /Descent -%d /CapHeight %d /StemV 80 /FontFile2 %d 0 R >>",
		name, boxOfFont, ascent, descent, capHeight, fontFileObject))
	p.stream(fmt.Sprintf(" /Length1 %d", len(file)), file)
	p.stream("", toUnicode(f.used))
}

// subsetName is the name of the font with six letters before it that differ between subsets, as PDF asks.
func subsetName(file []byte) string {
	sum := sha256.Sum256(file)
	letters := make([]byte, 6)
	for i := range letters {
		letters[i] = 'A' + sum[i]%26
	}
	return string(letters) + "+NotoSansSC-Regular"
}

// toUnicode says which character each code is, so that text can be searched and copied.
func toUnicode(used []rune) []byte {
	var b bytes.Buffer
	b.WriteString("/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n" +
		"/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n" +
		"1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n")
	const most = 100 // entries of a block
	for from := 1; from < len(used); from += most {
		until := min(from+most, len(used))
		fmt.Fprintf(&b, "%d beginbfchar\n", until-from)
		for code := from; code < until; code++ {
			fmt.Fprintf(&b, "<%04X> <", code)
			for _, unit := range utf16.AppendRune(nil, used[code]) {
				fmt.Fprintf(&b, "%04X", unit)
			}
			b.WriteString(">\n")
		}
		b.WriteString("endbfchar\n")
	}
	b.WriteString("endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n")
	return b.Bytes()
}

// utf16Text writes a text of the document's properties.
func utf16Text(s string) string {
	out := []byte("<FEFF")
	for _, unit := range utf16.Encode([]rune(s)) {
		out = fmt.Appendf(out, "%04X", unit)
	}
	return string(append(out, '>'))
}
