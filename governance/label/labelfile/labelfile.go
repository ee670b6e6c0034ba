// Package labelfile is a leaf over label: writes the label of AI-generated content into files, and finds labels in files.
//
// A label has two parts. The metadata are the seven fields of GB 45438-2025 (element AIGC) as JSON, one copy in a file; the visible sentence is what
// people read. Where they stand:
//
//	kind      metadata                                                 visible sentence
//	json      member "AIGC" of the outermost object                    member "AIGCNotice"
//	md        key AIGC of the YAML front matter                        first paragraph
//	html      <meta name="AIGC"> in the head                           first paragraph of the body, the last without a body tag
//	txt       last line, "AIGC: {…}", which is visible too             first line
//	docx      custom property AIGC (docProps/custom.xml)               first paragraph
//	xlsx      custom property AIGC                                     a last sheet, "AIGC"
//	pdf       key AIGC of the document information, by an appended     not written: whoever makes a PDF sets it in the page
//	          update that leaves every byte before it as it was
//	png, jpeg property TC260:AIGC of the XMP packet                    not written: it would have to be drawn
//
// The places for md, docx, xlsx and pdf are those of the practice guide TC260-PG-20258A, those for images those of TC260-PG-20259A. Neither says where
// the label of JSON, HTML and plain text is: a member, a meta element and a line are this package's reading. Plain text has no metadata at all,
// so that its line can be deleted as easily as it is read.
//
// The promise of [Writer.Write] and [Writer.Propagate]: the result was read back, and has the label once and whole. What does not concern the label keeps its
// bytes: other parts of a DOCX or XLSX even their compressed form, so macros are untouched. What cannot be labelled without breaking something of somebody else
// is refused: a signed DOCX, a certified PDF. A PDF that is signed without such a restriction keeps its
// signatures, which cover the bytes before the update; programs will say that it was added to afterwards.
//
// PNG, JPEG and PDF get content credentials (C2PA, see package c2pa) behind the label, which cover it and every other byte; a PDF that somebody signed gets none. They stand in
// the chunk caBX of a PNG, in segments APP11 of a JPEG, and in a file that belongs to a PDF (AFRelationship C2PA_Manifest), by a second update. Credentials that a file has already stay in it as
// the parent of the new ones; a writer that writes none refuses such a file, since a label breaks them.
//
// Labels of others are theirs: Write refuses a file that has a label, also a broken one. Whoever passes such a file on fills the
// fields of the propagator, by Propagate, if they are empty. Labels of others are looked for under every name that contains AIGC, in capitals or not: members of the
// outermost object of JSON and sluice.label.AIGC of a saved reply, keys of the front matter, meta elements, lines of plain text, custom properties, keys of the
// document information, properties of the XMP packet also of a PDF, text chunks, Exif, extended XMP and comments of images. Nowhere else: not deeper in JSON, not in
// attachments and pictures of a document. One that is found under another name than the table's is said and keeps its place.
//
// A visible label is a line of the words that labels are made of, first or last in the text, and not marked as hidden: a comment of Markdown, an element with the
// attribute hidden or a style that may hide it, hidden text of a DOCX, a hidden sheet. What style sheets hide is not known.
//
// Files are hostile input. Sizes are bounded, of one file no more than 64 MiB are unpacked, document types and entities of XML are
// refused, and chunks, segments and cross-references are checked against the file. All errors are of package fault: CodeInvalidValue for a file
// that cannot be read or labelled, CodeConflict for one whose label is not ours to change. No error quotes a file.
//
// All functions are safe for concurrent use.
package labelfile

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/internal/fault"
)

// MaxBytes is the size of the largest file that is read.
const MaxBytes = 64 << 20

// Kind is a kind of file.
type Kind string

// The kinds, by their usual endings.
const (
	JSON     Kind = "json"
	Markdown Kind = "md"
	HTML     Kind = "html"
	Text     Kind = "txt"
	DOCX     Kind = "docx"
	XLSX     Kind = "xlsx"
	PDF      Kind = "pdf"
	PNG      Kind = "png"
	JPEG     Kind = "jpeg"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{JSON, Markdown, HTML, Text, DOCX, XLSX, PDF, PNG, JPEG} }

// Visible says whether a file has a visible label.
type Visible string

// The answers. Nobody looks at the pixels of an image or at the pages of a PDF.
const (
	VisibleYes       Visible = "yes"
	VisibleNo        Visible = "no"
	VisibleUndecided Visible = "undecided"
)

// Mark is a label that stands in a file.
type Mark struct {
	Place string      // where, such as "front matter" or "XMP packet"; a name of formats, the same in every language
	Label label.Label // of a label that is whole
	Whole bool        // exactly the seven strings; else somebody wrote another form, and Label is empty

	wrapped bool // in an object AIGC, as some producers write them
}

// MadeHere reports whether an installation made the label for a tenant, and nobody changed it.
func (m Mark) MadeHere(l *label.Labeler, tenant string) bool {
	return m.Whole && l.Verify(m.Label, tenant) == nil
}

// PassedOnHere reports whether an installation passed the label on for a tenant, and nobody changed it since.
func (m Mark) PassedOnHere(l *label.Labeler, tenant string) bool {
	return m.Whole && l.Propagated(m.Label, tenant)
}

// Found is what a file says about how it was made.
type Found struct {
	Kind    Kind
	Marks   []Mark // at most 64
	Visible Visible
	Signed  bool // a PDF, DOCX or XLSX with a signature of somebody
}

// Result is a labelled file.
type Result struct {
	Data    []byte
	Visible bool // whether the sentence stands in it
	Signed  bool // whether it has a signature of somebody, after which it was added to
	// Credentials says whether it has content credentials of this installation, and if not, why.
	Credentials Credentials
	// Signer is whose key signed them, as label.credentials_revoked names signers; "" without.
	Signer string
}

// carrier is what a kind of file can do.
type carrier struct {
	// read finds all labels.
	read func(data []byte) (Found, error)
	// write puts JSON, which is ASCII, in place of the label that is there, or adds it, and adds the sentence unless it is "".
	write func(data []byte, value, sentence string) ([]byte, error)
	// seen says whether write writes sentences.
	seen bool
}

func carrierOf(k Kind) (carrier, error) {
	switch k {
	case JSON:
		return carrier{readJSON, writeJSON, true}, nil
	case Markdown:
		return carrier{readMarkdown, writeMarkdown, true}, nil
	case HTML:
		return carrier{readHTML, writeHTML, true}, nil
	case Text:
		return carrier{readText, writeText, true}, nil
	case DOCX, XLSX:
		return carrier{
			func(d []byte) (Found, error) { return readOffice(k, d) },
			func(d []byte, value, sentence string) ([]byte, error) { return writeOffice(k, d, value, sentence) },
			true,
		}, nil
	case PDF:
		return carrier{readPDF, writePDF, false}, nil
	case PNG:
		return carrier{readPNG, writePNG, false}, nil
	case JPEG:
		return carrier{readJPEG, writeJPEG, false}, nil
	default:
		return carrier{}, refuse(fault.Say("labelfile.unknown_kind"))
	}
}

// refuse is the error for a file that cannot be read or labelled.
func refuse(why fault.Phrase) error {
	return fault.New(fault.CodeInvalidValue, "file", why).WithParam("file")
}

// Detect finds out the kind of a file from its content, and where that is text from its name too: a line or a paragraph more breaks what is no plain
// text. Errors: CodeInvalidValue for files that take no label.
func Detect(name string, data []byte) (Kind, error) {
	switch {
	case len(data) > MaxBytes:
		return "", refuse(fault.Say("labelfile.too_large", MaxBytes>>20))
	case bytes.HasPrefix(data, []byte("%PDF-")):
		return PDF, nil
	case bytes.HasPrefix(data, []byte(pngHead)):
		return PNG, nil
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return JPEG, nil
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return officeKind(data)
	case bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")):
		return "", refuse(fault.Say("labelfile.old_office"))
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return "", refuse(fault.Say("labelfile.unknown_kind"))
	}
	kind := textKind(path.Ext(strings.ToLower(name)), data)
	if kind == "" {
		return "", refuse(fault.Say("labelfile.unknown_kind"))
	}
	return kind, nil
}

// textKind takes the ending of the name, and what the text begins with where that says nothing; "" for text of other kinds.
func textKind(ending string, data []byte) Kind {
	start := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), 512)], "\ufeff \t\r\n"))
	begins := func(with ...string) bool {
		return slices.ContainsFunc(with, func(s string) bool { return bytes.HasPrefix(start, []byte(s)) })
	}
	switch ending {
	case ".json":
		return JSON
	case ".md", ".markdown":
		return Markdown
	case ".html", ".htm", ".xhtml":
		return HTML
	case ".txt", ".log", "":
	default:
		return ""
	}
	switch {
	case ending == "" && begins("{") && json.Valid(data):
		return JSON
	case ending == "" && begins("<!doctype html", "<html"):
		return HTML
	case ending == "" && begins("---\n", "---\r\n"):
		return Markdown
	case begins("<", "{\\rtf", "#!", "%pdf", "%!ps", "begin:v"), begins("{", "[") && startsJSON(data):
		return ""
	default:
		return Text
	}
}

// startsJSON reports whether the first line of a text ends with a value of JSON, as it does where there is one or one on each line: a line more would break it.
func startsJSON(data []byte) bool {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	d := json.NewDecoder(bytes.NewReader(data))
	var value json.RawMessage
	if d.Decode(&value) != nil {
		return false
	}
	rest := bytes.TrimLeft(data[d.InputOffset():], " \t")
	return len(rest) == 0 || rest[0] == '\n' || rest[0] == '\r'
}

// Read finds the labels in a file. A file without one is no error. Errors: CodeInvalidValue.
func Read(k Kind, data []byte) (Found, error) {
	c, err := carrierOf(k)
	if err != nil {
		return Found{}, err
	}
	if len(data) > MaxBytes {
		return Found{}, refuse(fault.Say("labelfile.too_large", MaxBytes>>20))
	}
	found, err := c.read(data)
	if err != nil {
		return Found{}, err
	}
	found.Kind = k
	if !c.seen {
		found.Visible = VisibleUndecided
	}
	return found, nil
}

// Writer writes labels into files, and content credentials behind them. The zero value writes labels only, and refuses files with content credentials, which a label breaks.
type Writer struct {
	// Authority signs content credentials; nil for none.
	Authority *c2pa.Authority
	// Left says why there is no authority; "" means CredentialsOff.
	Left Credentials
}

// Write adds a label to a file that has none, with a visible sentence unless it is "". A file that shows a visible label already gets no
// second one. That the label is the one of this content is for the caller to know: a label covers none. Errors: CodeInvalidValue; CodeConflict if the file has a label.
func (w Writer) Write(k Kind, data []byte, x label.Label, sentence string) (Result, error) {
	found, err := unlabelled(k, data)
	if err != nil {
		return Result{}, err
	}
	if found.Visible == VisibleYes {
		sentence = ""
	}
	return w.put(k, data, x, sentence, found, false)
}

// WriteShown is Write with the sentence whatever the file shows already: for files whose text somebody else wrote, who may have written a label too.
func (w Writer) WriteShown(k Kind, data []byte, x label.Label, sentence string) (Result, error) {
	found, err := unlabelled(k, data)
	if err != nil {
		return Result{}, err
	}
	return w.put(k, data, x, sentence, found, false)
}

// unlabelled reads a file without a label.
func unlabelled(k Kind, data []byte) (Found, error) {
	found, err := Read(k, data)
	if err != nil {
		return Found{}, err
	}
	if len(found.Marks) > 0 {
		return Found{}, fault.New(fault.CodeConflict, fault.Say("labelfile.labelled"))
	}
	return found, nil
}

// Propagate fills the propagator's fields of the one label that a file has, as fill does: whoever passes content of others on says so, and takes
// nothing away. Errors: CodeInvalidValue; CodeConflict if the file has no whole label, several, or one whose propagator is named already.
func (w Writer) Propagate(k Kind, data []byte, fill func(label.Label) label.Label) (Result, error) {
	found, err := Read(k, data)
	if err != nil {
		return Result{}, err
	}
	if len(found.Marks) != 1 || !found.Marks[0].Whole {
		return Result{}, fault.New(fault.CodeConflict, fault.Say("labelfile.no_single_label"))
	}
	x := found.Marks[0].Label
	if x.ContentPropagator+x.PropagateID+x.ReservedCode2 != "" {
		return Result{}, fault.New(fault.CodeConflict, fault.Say("labelfile.propagated"))
	}
	filled := fill(x)
	x.ContentPropagator, x.PropagateID, x.ReservedCode2 = filled.ContentPropagator, filled.PropagateID, filled.ReservedCode2
	return w.put(k, data, x, "", found, true)
}

// put writes and reads back. A foreign label is one that was found in the file.
func (w Writer) put(k Kind, data []byte, x label.Label, sentence string, found Found, foreign bool) (Result, error) {
	c, err := carrierOf(k)
	if err != nil {
		return Result{}, err
	}
	before, err := w.credentialed(k, data, found)
	if err != nil {
		return Result{}, err
	}
	before.foreign = foreign
	value, err := encode(x)
	if err != nil {
		return Result{}, err
	}
	if len(before.Marks) == 1 && before.Marks[0].wrapped {
		value = `{"AIGC":` + value + `}`
	}
	if strings.ContainsAny(sentence, "\r\n") || !utf8.ValidString(sentence) {
		return Result{}, refuse(fault.Say("labelfile.sentence"))
	}
	if !c.seen {
		sentence = ""
	}
	out, err := c.write(data, value, sentence)
	if err != nil {
		return Result{}, err
	}
	after, err := Read(k, out)
	if err != nil || len(after.Marks) != 1 || after.Marks[0].Label != x || sentence != "" && after.Visible != VisibleYes {
		return Result{}, refuse(fault.Say("labelfile.not_read_back"))
	}
	result := Result{Visible: after.Visible == VisibleYes, Signed: before.Signed}
	err = w.credential(k, out, x, before, &result)
	return result, err
}

// encode returns the JSON of a label. It refuses values that other programs could not read: GB 45438-2025 wants characters of GB 18030.
func encode(x label.Label) (string, error) {
	for _, v := range [...]string{
		x.Label, x.ContentProducer, x.ProduceID, x.ReservedCode1, x.ContentPropagator, x.PropagateID, x.ReservedCode2,
	} {
		if !printable(v) {
			return "", refuse(fault.Say("labelfile.value"))
		}
	}
	value := x.HeaderValue()
	if len(value) > maxValue {
		return "", refuse(fault.Say("labelfile.value"))
	}
	return value, nil
}

// printable reports whether a text has no control characters, nor those that turn the text behind them, and is the same text after a way through GB 18030.
func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0xfffe || r == 0xffff {
			return false
		}
	}
	there, err := simplifiedchinese.GB18030.NewEncoder().String(s)
	if err != nil {
		return false
	}
	back, err := simplifiedchinese.GB18030.NewDecoder().String(there)
	return err == nil && back == s
}

// mark reads what stands at a place. Some producers wrap the seven strings in an object AIGC.
func mark(place, value string) Mark {
	if x, err := label.Parse(value); err == nil {
		return Mark{Place: place, Label: x, Whole: true}
	}
	var wrapped map[string]json.RawMessage
	if len(value) <= maxValue && json.Unmarshal([]byte(value), &wrapped) == nil && len(wrapped) == 1 && tokens(value) == 2*7+2+3 {
		if x, err := label.Parse(string(wrapped["AIGC"])); err == nil {
			return Mark{Place: place, Label: x, Whole: true, wrapped: true}
		}
	}
	return Mark{Place: place}
}

// tokens counts the names, values and braces of JSON that was read: of two members of one name, programs take one or the other.
func tokens(value string) (n int) {
	for d := json.NewDecoder(strings.NewReader(value)); ; n++ {
		if _, err := d.Token(); err != nil {
			return n
		}
	}
}

// visible says what is known of a text's visible label.
func visible(yes bool) Visible {
	if yes {
		return VisibleYes
	}
	return VisibleNo
}

// splice returns data with what stands from a to b replaced.
func splice(data []byte, a, b int, with string) []byte {
	out := make([]byte, 0, len(data)-(b-a)+len(with))
	return append(append(append(out, data[:a]...), with...), data[b:]...)
}
