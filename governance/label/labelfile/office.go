package labelfile

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	maxParts  = 20_000
	maxSheets = 256

	contentTypes = "[Content_Types].xml"
	packageRels  = "_rels/.rels"

	relationsSpace  = "http://schemas.openxmlformats.org/package/2006/relationships"
	typesSpace      = "http://schemas.openxmlformats.org/package/2006/content-types"
	officeRelations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
	strictRelations = "http://purl.oclc.org/ooxml/officeDocument/relationships/"
	signatures      = "http://schemas.openxmlformats.org/package/2006/relationships/digital-signature/origin"
	customType      = "application/vnd.openxmlformats-officedocument.custom-properties+xml"
	sheetType       = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"
	customFormat    = "{D5CDD505-2E9C-101B-9397-08002B2CF9AE}"

	labelSheet     = "AIGC"
	labelSheetPart = "aigc-label.xml"
)

// dialect is how names are spelled: those that programs write, or those of Strict Open XML.
type dialect struct{ relations, custom, customRelation, variants, sheet string }

func transitional() dialect {
	const base = "http://schemas.openxmlformats.org/"
	return dialect{officeRelations, base + "officeDocument/2006/custom-properties", "custom-properties", base + "officeDocument/2006/docPropsVTypes", base + "spreadsheetml/2006/main"}
}

func strict() dialect {
	const base = "http://purl.oclc.org/ooxml/"
	return dialect{strictRelations, base + "officeDocument/customProperties", "customProperties", base + "officeDocument/docPropsVTypes", base + "spreadsheetml/main"}
}

// office is an archive of parts, of which few are unpacked.
type office struct {
	zip     *zip.Reader
	room    *room
	parts   map[string]*zip.File
	read    map[string][]byte // parts that were unpacked
	names   dialect
	custom  string            // the part of custom properties, "" without one
	main    string            // the document or the workbook
	signed  bool              // by somebody
	bound   bool              // it has content credentials (C2PA), which cover all of the archive
	rewrite map[string]string // parts that are written anew
	added   []string          // those of them that were not there
}

// officeKind tells a DOCX from an XLSX.
func officeKind(data []byte) (Kind, error) {
	o, err := openOffice(data)
	if err != nil {
		return "", err
	}
	kind := Kind("")
	err = o.walk(o.main, func(t xml.Token, _ []string, _, _ int) error {
		s, ok := t.(xml.StartElement)
		if !ok {
			return nil
		}
		kind = map[string]Kind{"document": DOCX, "workbook": XLSX}[s.Name.Local]
		return errStop
	})
	if err == nil && kind == "" {
		err = refuse(fault.Say("labelfile.unknown_kind"))
	}
	return kind, err
}

// openOffice reads the directory of an archive and finds its parts. It refuses what could be read in two ways.
func openOffice(data []byte) (*office, error) {
	// The archive's own count of its entries is no bound: the reader goes on as long as there are some.
	if bytes.Count(data, []byte("PK\x01\x02")) > maxParts {
		return nil, refuse(fault.Say("labelfile.unpacked"))
	}
	if !bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return nil, refuse(fault.Say("labelfile.archive"))
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, refuse(fault.Say("labelfile.archive"))
	}
	o := &office{zip: z, room: newRoom(), parts: map[string]*zip.File{}, read: map[string][]byte{}, rewrite: map[string]string{}}
	if err := o.list(uint64(len(data))); err != nil {
		return nil, err
	}
	if err := o.roots(); err != nil {
		return nil, err
	}
	if o.parts[o.main] == nil || o.custom != "" && o.parts[o.custom] == nil {
		return nil, refuse(fault.Say("labelfile.archive"))
	}
	return o, nil
}

// list notes the entries. Their names differ by more than capitals, and they do not overlap: their sum fits into the file.
func (o *office) list(size uint64) error {
	var packed uint64
	seen := map[string]bool{}
	for _, f := range o.zip.File {
		name := strings.ToLower(f.Name)
		packed += f.CompressedSize64
		if f.Flags&1 != 0 {
			return refuse(fault.Say("labelfile.encrypted"))
		}
		if seen[name] || packed > size {
			return refuse(fault.Say("labelfile.archive"))
		}
		o.bound = o.bound || name == "meta-inf/content_credential.c2pa" || f.Name == "META-INF/content_credential.c2pa"
		o.signed = o.signed || strings.HasPrefix(name, "_xmlsignatures/")
		seen[name], o.parts[f.Name] = true, f
	}
	if o.parts[contentTypes] == nil || o.parts[packageRels] == nil {
		return refuse(fault.Say("labelfile.archive"))
	}
	return nil
}

// roots finds the parts that the archive itself refers to.
func (o *office) roots() error {
	many := false
	err := o.relations(packageRels, func(r relation) {
		switch r.kind {
		case "custom-properties", "customProperties":
			many = many || o.custom != ""
			o.custom = r.target
		case "officeDocument":
			many = many || o.main != ""
			o.main, o.names = r.target, transitional()
			if r.strict {
				o.names = strict()
			}
		case signatures:
			o.signed = true
		}
	})
	if many { // programs differ in which they take
		err = refuse(fault.Say("labelfile.archive"))
	}
	return err
}

// text returns a part, as it is written anew or as it is.
func (o *office) text(name string) ([]byte, error) {
	if s, ok := o.rewrite[name]; ok {
		return []byte(s), nil
	}
	if b, ok := o.read[name]; ok {
		return b, nil
	}
	f := o.parts[name]
	if f == nil {
		return nil, refuse(fault.Say("labelfile.archive"))
	}
	r, err := f.Open()
	if err != nil {
		return nil, refuse(fault.Say("labelfile.archive"))
	}
	defer func() { _ = r.Close() }()
	b, err := o.room.read(r, maxPart, fault.Say("labelfile.archive"))
	if err != nil {
		return nil, err
	}
	o.read[name] = b
	return b, nil
}

// begin visits the beginning of a part, no more of it than is unpacked for that. Visit says when it has seen enough.
func (o *office) begin(name string, visit func(t xml.Token, path []string, from, to int) error) error {
	f := o.parts[name]
	if f == nil {
		return nil
	}
	r, err := f.Open()
	if err != nil {
		return refuse(fault.Say("labelfile.archive"))
	}
	defer func() { _ = r.Close() }()
	var b [64 << 10]byte
	n, err := io.ReadFull(r, b[:])
	if err == nil { // it is cut, so its XML ends too early
		_ = walkXML(b[:n], o.room, visit)
		return nil
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(fault.Say("labelfile.archive"))
	}
	return walkXML(b[:n], o.room, visit)
}

var errStop = errors.New("enough was read") // a sentinel

// walk reads a part.
func (o *office) walk(name string, visit func(t xml.Token, path []string, from, to int) error) error {
	b, err := o.text(name)
	if err != nil {
		return err
	}
	return walkXML(b, o.room, visit)
}

// walkXML calls visit for each token with the local names of the elements around it and its bytes. It refuses document types, with which entities come.
func walkXML(b []byte, r *room, visit func(t xml.Token, path []string, from, to int) error) error {
	if manyAttributes(b) {
		return refuse(fault.Say("labelfile.unpacked"))
	}
	d := xml.NewDecoder(bytes.NewReader(b))
	var around []string
	for {
		from := int(d.InputOffset())
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return refuse(fault.Say("labelfile.xml"))
		}
		if err := r.token(); err != nil {
			return err
		}
		switch t.(type) {
		case xml.Directive:
			return refuse(fault.Say("labelfile.xml"))
		case xml.EndElement:
			around = around[:len(around)-1]
		}
		err = visit(t, around, from, int(d.InputOffset()))
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
		if s, ok := t.(xml.StartElement); ok {
			if len(around) > 200 {
				return refuse(fault.Say("labelfile.xml"))
			}
			around = append(around, s.Name.Local)
		}
	}
}

// attribute returns an attribute without a namespace.
func attribute(s xml.StartElement, name string) string {
	for _, a := range s.Attr {
		if a.Name.Space == "" && a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// relation is a relationship within an archive.
type relation struct {
	id     string
	kind   string // without what all kinds of an office document begin with
	target string // a part
	strict bool
}

// relations visits the relationships of a part within the archive.
func (o *office) relations(name string, visit func(relation)) error {
	base := path.Dir(path.Dir(name))
	return o.walk(name, func(t xml.Token, _ []string, _, _ int) error {
		s, ok := t.(xml.StartElement)
		if !ok || s.Name.Local != "Relationship" || attribute(s, "TargetMode") == "External" {
			return nil
		}
		r := relation{id: attribute(s, "Id"), target: attribute(s, "Target")}
		if !strings.HasPrefix(r.target, "/") {
			r.target = path.Join("/", base, r.target)
		}
		r.target = strings.TrimPrefix(path.Clean(r.target), "/")
		r.kind, r.strict = strings.CutPrefix(attribute(s, "Type"), strictRelations)
		r.kind = strings.TrimPrefix(r.kind, officeRelations)
		visit(r)
		return nil
	})
}

// property is a label among the custom properties: its text, and where its element stands.
type property struct {
	value    text
	from, to int
}

// properties returns the labels, and the largest number of a property.
func (o *office) properties() (out []property, largest int, err error) {
	largest = 1
	if o.custom == "" {
		return nil, largest, nil
	}
	var now *property
	err = o.walk(o.custom, func(t xml.Token, around []string, from, to int) error {
		switch e := t.(type) {
		case xml.StartElement:
			if len(around) == 1 && e.Name.Local == "property" {
				if n, err := strconv.Atoi(attribute(e, "pid")); err == nil && n < 1<<30 {
					largest = max(largest, n)
				}
				if namesLabel(attribute(e, "name")) && len(out) < maxMarks {
					now = &property{from: from}
				}
			}
		case xml.CharData:
			if now != nil {
				now.value.add(string(e))
			}
		case xml.EndElement:
			if now != nil && len(around) == 1 {
				now.to = to
				out, now = append(out, *now), nil
			}
		}
		return nil
	})
	return out, largest, err
}

func readOffice(k Kind, data []byte) (Found, error) {
	o, err := openOffice(data)
	if err != nil {
		return Found{}, err
	}
	all, _, err := o.properties()
	if err != nil {
		return Found{}, err
	}
	out := Found{Signed: o.signed}
	for _, p := range all {
		out.Marks = append(out.Marks, p.value.mark("custom property"))
	}
	var yes bool
	if k == DOCX {
		yes, err = o.documentShows()
	} else {
		yes, err = o.sheetShows()
	}
	out.Visible = visible(yes)
	return out, err
}

// paragraphs visits the texts of the paragraphs of a document, without what is marked as hidden. What a style hides is not known here.
func (o *office) paragraphs(visit func(text string)) error {
	var now strings.Builder
	hidden := false // the run that is read
	return o.walk(o.main, func(t xml.Token, around []string, _, _ int) error {
		switch e := t.(type) {
		case xml.StartElement:
			switch name := e.Name.Local; {
			case name == "r":
				hidden = false
			case (name == "vanish" || name == "webHidden" || name == "specVanish") && slices.Contains(around, "r"):
				hidden = hidden || on(e)
			case name == "tab" || name == "br":
				_, _ = now.WriteString(" ")
			}
		case xml.CharData:
			if !hidden && len(around) > 0 && around[len(around)-1] == "t" {
				_, _ = now.Write(e)
			}
		case xml.EndElement:
			if e.Name.Local == "p" {
				visit(strings.TrimSpace(now.String()))
				now.Reset()
			}
		}
		return nil
	})
}

// on reads a property that is on unless it says otherwise.
func on(e xml.StartElement) bool {
	for _, a := range e.Attr {
		if a.Name.Local == "val" {
			return a.Value != "0" && a.Value != "false" && a.Value != "off"
		}
	}
	return true
}

// documentShows looks at the first and the last paragraph with text.
func (o *office) documentShows() (bool, error) {
	var firstLine, line string
	err := o.paragraphs(func(text string) {
		if text == "" {
			return
		}
		if line = text; firstLine == "" {
			firstLine = text
		}
	})
	return label.Marks(firstLine) || label.Marks(line), err
}

// sheets returns the parts of the sheets that are shown, in their order.
func (o *office) sheets() ([]string, error) {
	targets := map[string]string{}
	if o.parts[o.relationsOf(o.main)] == nil {
		return nil, nil
	}
	if err := o.relations(o.relationsOf(o.main), func(r relation) { targets[r.id] = r.target }); err != nil {
		return nil, err
	}
	var out []string
	err := o.walk(o.main, func(t xml.Token, around []string, _, _ int) error {
		s, ok := t.(xml.StartElement)
		if !ok || s.Name.Local != "sheet" || len(around) != 2 {
			return nil
		}
		state := attribute(s, "state")
		for _, a := range s.Attr {
			part := targets[a.Value]
			if a.Name.Local == "id" && a.Name.Space != "" && (state == "" || state == "visible") && part != "" && !slices.Contains(out, part) && len(out) < maxSheets {
				out = append(out, part)
			}
		}
		return nil
	})
	return out, err
}

// sheetShows looks at the first text of each sheet, where it stands in the cell itself.
func (o *office) sheetShows() (bool, error) {
	parts, err := o.sheets()
	if err != nil {
		return false, err
	}
	for _, part := range parts {
		shows, err := o.cellShows(part)
		if shows || err != nil {
			return shows, err
		}
	}
	return false, nil
}

// cellShows looks at the first text of a sheet that stands in a cell itself.
func (o *office) cellShows(part string) (shows bool, err error) {
	err = o.begin(part, func(t xml.Token, around []string, _, _ int) error {
		text, ok := t.(xml.CharData)
		if !ok || !slices.Contains(around, "is") || strings.TrimSpace(string(text)) == "" {
			return nil
		}
		shows = label.Marks(string(text))
		return errStop
	})
	return shows, err
}

func (o *office) relationsOf(part string) string {
	dir, name := path.Split(part)
	return dir + "_rels/" + name + ".rels"
}

func writeOffice(k Kind, data []byte, value, sentence string) ([]byte, error) {
	o, err := openOffice(data)
	if err != nil {
		return nil, err
	}
	if o.signed {
		return nil, refuse(fault.Say("labelfile.signed"))
	}
	if o.bound {
		return nil, refuse(fault.Say("labelfile.credentials"))
	}
	if err := o.setProperty(value); err != nil {
		return nil, err
	}
	if sentence != "" {
		if k == DOCX {
			err = o.addParagraph(sentence)
		} else {
			err = o.addSheet(sentence)
		}
		if err != nil {
			return nil, err
		}
	}
	return o.pack()
}

// setProperty writes the custom property.
func (o *office) setProperty(value string) error {
	all, largest, err := o.properties()
	if err != nil {
		return err
	}
	names := o.names
	element := func(pid int) string {
		return fmt.Sprintf(`<property xmlns="%s" fmtid="%s" pid="%d" name="AIGC"><vt:lpwstr xmlns:vt="%s">%s</vt:lpwstr></property>`,
			names.custom, customFormat, pid, names.variants, escapeXML(value))
	}
	if o.custom == "" {
		return o.addProperties(element(2))
	}
	b, err := o.text(o.custom)
	if err != nil {
		return err
	}
	names = dialectOf(b, o.names) // of this part: programs write Strict documents with the other names in it
	if len(all) > 0 {
		o.rewrite[o.custom] = string(splice(b, all[0].from, all[0].to, element(largest+1)))
		return nil
	}
	return o.append(o.custom, "Properties", element(largest+1))
}

// dialectOf returns the dialect of a part of custom properties.
func dialectOf(b []byte, otherwise dialect) dialect {
	out := otherwise
	_ = walkXML(b, newRoom(), func(t xml.Token, _ []string, _, _ int) error {
		s, ok := t.(xml.StartElement)
		if !ok {
			return nil
		}
		for _, d := range []dialect{transitional(), strict()} {
			if s.Name.Space == d.custom {
				out = d
			}
		}
		return errStop
	})
	return out
}

// addProperties adds the part of custom properties.
func (o *office) addProperties(element string) error {
	o.custom = "docProps/custom.xml"
	if o.parts[o.custom] != nil {
		return refuse(fault.Say("labelfile.archive"))
	}
	o.add(o.custom, `<Properties xmlns="`+o.names.custom+`">`+element+`</Properties>`)
	if err := o.relate(packageRels, o.names.relations+o.names.customRelation, o.custom); err != nil {
		return err
	}
	return o.declare(o.custom, customType)
}

// add has a new part written.
func (o *office) add(name, text string) {
	o.rewrite[name] = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n" + text
	o.added = append(o.added, name)
}

// append puts text at the end of the outermost element of a part.
func (o *office) append(part, root, text string) error {
	b, err := o.text(part)
	if err != nil {
		return err
	}
	at, open, name := -1, 0, ""
	err = walkXML(b, newRoom(), func(t xml.Token, around []string, from, to int) error {
		if _, ok := t.(xml.StartElement); ok && len(around) == 0 {
			open = to
			name = tagName(b[from:to])
		}
		if e, ok := t.(xml.EndElement); ok && len(around) == 0 && e.Name.Local == root {
			at = from
		}
		return nil
	})
	if err != nil || at < 0 {
		return refuse(fault.Say("labelfile.xml"))
	}
	if at == open && bytes.HasSuffix(b[:open], []byte("/>")) { // an element of one tag
		o.rewrite[part] = string(splice(b, open-2, open, ">"+text+"</"+name+">"))
		return nil
	}
	o.rewrite[part] = string(splice(b, at, at, text))
	return nil
}

// tagName returns the name of a start tag, with its prefix.
func tagName(tag []byte) string {
	tag = bytes.TrimLeft(tag, "<")
	if end := bytes.IndexAny(tag, " \t\r\n/>"); end > 0 {
		return string(tag[:end])
	}
	return string(tag)
}

// relate adds a relationship, under an id that no other one has.
func (o *office) relate(part, kind, target string) error {
	_, err := o.relateAs(part, kind, target)
	return err
}

func (o *office) relateAs(part, kind, target string) (string, error) {
	taken := map[string]bool{}
	err := o.walk(part, func(t xml.Token, _ []string, _, _ int) error {
		if s, ok := t.(xml.StartElement); ok {
			taken[attribute(s, "Id")] = true
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	id := "rIdAIGC"
	for i := 1; taken[id]; i++ {
		id = fmt.Sprintf("rIdAIGC%d", i)
	}
	return id, o.append(part, "Relationships", fmt.Sprintf(`<Relationship xmlns="%s" Id="%s" Type="%s" Target="%s"/>`, relationsSpace, id, kind, target))
}

// declare says the type of a new part. A part that is gone may have left its type behind.
func (o *office) declare(part, kind string) error {
	there := ""
	if err := o.walk(contentTypes, func(t xml.Token, _ []string, _, _ int) error {
		if s, ok := t.(xml.StartElement); ok && s.Name.Local == "Override" && strings.EqualFold(attribute(s, "PartName"), "/"+part) {
			there = attribute(s, "ContentType")
		}
		return nil
	}); err != nil {
		return err
	}
	if there == kind {
		return nil
	}
	if there != "" {
		return refuse(fault.Say("labelfile.archive"))
	}
	return o.append(contentTypes, "Types", fmt.Sprintf(`<Override xmlns="%s" PartName="/%s" ContentType="%s"/>`, typesSpace, part, kind))
}

// addParagraph puts the sentence before everything in the body of a document.
func (o *office) addParagraph(sentence string) error {
	b, err := o.text(o.main)
	if err != nil {
		return err
	}
	at, space := -1, ""
	err = walkXML(b, newRoom(), func(t xml.Token, around []string, _, to int) error {
		if s, ok := t.(xml.StartElement); ok && len(around) == 1 && s.Name.Local == "body" && !bytes.HasSuffix(b[:to], []byte("/>")) {
			at, space = to, s.Name.Space
			return errStop
		}
		return nil
	})
	if err != nil || at < 0 {
		return refuse(fault.Say("labelfile.xml"))
	}
	o.rewrite[o.main] = string(splice(b, at, at, `<w:p xmlns:w="`+escapeXML(space)+`"><w:r><w:t>`+escapeXML(sentence)+`</w:t></w:r></w:p>`))
	return nil
}

// addSheet appends a sheet with the sentence. Sheets before it keep their numbers, by which names refer to them.
func (o *office) addSheet(sentence string) error {
	part := path.Join(path.Dir(o.main), "worksheets", labelSheetPart)
	if o.parts[part] != nil {
		return refuse(fault.Say("labelfile.sheet"))
	}
	id, err := o.relateAs(o.relationsOf(o.main), o.names.relations+"worksheet", "worksheets/"+labelSheetPart)
	if err != nil {
		return err
	}
	b, err := o.text(o.main)
	if err != nil {
		return err
	}
	at, largest, space := -1, 0, ""
	err = walkXML(b, newRoom(), func(t xml.Token, around []string, from, _ int) error {
		switch e := t.(type) {
		case xml.StartElement:
			if len(around) == 2 && around[1] == "sheets" && e.Name.Local == "sheet" {
				n, err := strconv.Atoi(attribute(e, "sheetId"))
				if err != nil || n > 1<<30 || strings.EqualFold(attribute(e, "name"), labelSheet) {
					return refuse(fault.Say("labelfile.sheet"))
				}
				largest = max(largest, n)
			}
		case xml.EndElement:
			if len(around) == 1 && e.Name.Local == "sheets" {
				at, space = from, e.Name.Space
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if at < 0 || largest == 0 || space != o.names.sheet {
		return refuse(fault.Say("labelfile.sheet"))
	}
	o.rewrite[o.main] = string(splice(b, at, at, fmt.Sprintf(`<sheet xmlns="%s" xmlns:r="%s" name="%s" sheetId="%d" r:id="%s"/>`,
		space, strings.TrimSuffix(o.names.relations, "/"), labelSheet, largest+1, id)))
	o.add(part, `<worksheet xmlns="`+space+`"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>`+escapeXML(sentence)+`</t></is></c></row></sheetData></worksheet>`)
	return o.declare(part, sheetType)
}

// pack writes the archive. Parts that are not written anew keep their compressed bytes.
func (o *office) pack() ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range o.zip.File {
		text, ok := o.rewrite[f.Name]
		if !ok {
			if err := w.Copy(f); err != nil {
				return nil, refuse(fault.Say("labelfile.archive"))
			}
			continue
		}
		if err := pack(w, &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: f.Modified}, text); err != nil {
			return nil, err
		}
	}
	for _, name := range o.added {
		if err := pack(w, &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: o.parts[contentTypes].Modified}, o.rewrite[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.SetComment(o.zip.Comment), w.Close()); err != nil {
		return nil, refuse(fault.Say("labelfile.archive"))
	}
	return out.Bytes(), nil
}

func pack(w *zip.Writer, h *zip.FileHeader, text string) error {
	p, err := w.CreateHeader(h)
	if err != nil {
		return refuse(fault.Say("labelfile.archive"))
	}
	if _, err := io.WriteString(p, text); err != nil {
		return refuse(fault.Say("labelfile.archive"))
	}
	return nil
}

// escapeXML writes a text for XML.
func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // into memory
	return b.String()
}
