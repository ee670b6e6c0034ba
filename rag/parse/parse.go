// Package parse is a leaf: it extracts the text of documents, with what is heading, list and table in it.
//
// The extracted text is what is stored, searched and cited; offsets of citations count its bytes. Text that a person would not see
// does not get into it: scripts, styles, comments, hidden elements, and characters without a shape that can carry instructions or
// turn the reading direction around. Links keep their text and lose their address; images leave their description. Nothing is fetched
// and nothing is run: neither macros nor formulas nor scripts.
//
// Files come from people. Each is read in bounded time and memory, whatever it says, and few at once; one that cannot be read whole is refused with
// its reason rather than read in part; what a format has that is no text is named in [Document.Left].
package parse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// The kinds of document, by media type.
const (
	Text     = "text/plain"
	Markdown = "text/markdown"
	HTML     = "text/html"
	CSV      = "text/csv"
	TSV      = "text/tab-separated-values"
	Mail     = "message/rfc822"
	DOCX     = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	XLSX     = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	PPTX     = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
	PDF      = "application/pdf"
)

// Kinds lists the kinds of document with the endings of their files.
func Kinds() map[string][]string {
	return map[string][]string{
		Text: {".txt", ".text"}, Markdown: {".md", ".markdown"}, HTML: {".html", ".htm", ".xhtml"}, CSV: {".csv"}, TSV: {".tsv", ".tab"}, Mail: {".eml"},
		DOCX: {".docx"}, XLSX: {".xlsx"}, PPTX: {".pptx"}, PDF: {".pdf"},
	}
}

// GuessesHeadings reports whether headings of a kind are found by how they look, and not by what the file says they are: another release may find others,
// and so may a change of anything in the file. An e-mail may have such a document attached.
func GuessesHeadings(kind string) bool { return kind == PDF || kind == Mail }

// Config sets up a reader. The zero value is usable.
type Config struct {
	// TablePart is how many characters of a table stay together, with a copy of its header: as many as a passage has. 0 means 512.
	TablePart int
	// MaxTime bounds the reading of one document; 0 means 30 seconds. Waiting for others does not count.
	MaxTime time.Duration
	// AtOnce is how many documents are read at once, of whatever kind: it bounds the memory that they take together, which is up to a gigabyte for the
	// worst of each. 0 means 3. One owner has all places but one, so that a document of another owner need not wait for his.
	AtOnce int
	// MaxWait is how long a document waits for its place, before it is [ErrBusy]; 0 means twice MaxTime: the next place that is free is of the owner who has
	// the fewest.
	MaxWait time.Duration
	// Compiled is a folder in which compiled code of PDFium is kept between processes; nobody else may write to it. Empty, or where it cannot be used: it
	// is compiled again by each process that reads a PDF, which takes some seconds of two processors.
	Compiled string
}

// ErrBusy says that other documents had all places for as long as one waits, or that the reader is being closed. It says nothing of the file.
var ErrBusy = errors.New("parse: too many documents are being read")

// File is a file to read.
type File struct {
	Owner string // who brings it, such as a tenant: places are shared out fairly between owners
	Name  string
	MIME  string // the declared media type, perhaps with a character set; empty or application/octet-stream: by name and content
	Body  []byte
}

// Reader reads documents. It is safe for concurrent use.
type Reader struct {
	cfg    Config
	pdf    *pdfEngine
	places *places
	closed context.Context // ends when the reader is closed
	end    context.CancelFunc
}

// NewReader returns a reader. Close frees what it holds.
func NewReader(cfg Config) *Reader {
	if cfg.TablePart <= 0 {
		cfg.TablePart = 512
	}
	if cfg.MaxTime <= 0 {
		cfg.MaxTime = 30 * time.Second
	}
	if cfg.AtOnce <= 0 {
		cfg.AtOnce = 3
	}
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = 2 * cfg.MaxTime
	}
	r := &Reader{cfg: cfg, pdf: &pdfEngine{dir: cfg.Compiled, atOnce: cfg.AtOnce}, places: newPlaces(cfg.AtOnce)}
	r.closed, r.end = context.WithCancel(context.Background())
	return r
}

// closeTime is how long Close waits for the documents that it ends. They hear of it within milliseconds.
const closeTime = 10 * time.Second

// Close ends the documents that are being read with [ErrBusy], as those that come later. If one does not end within ten seconds, Close returns an
// error and leaves to it what it uses: the process is about to end.
func (r *Reader) Close() error {
	r.end()
	if !r.places.close(closeTime) {
		return fmt.Errorf("close the reader: a document is still being read after %s", closeTime)
	}
	return r.pdf.close()
}

// Read extracts the text of a file. Every failure is an [*Error], but [ErrBusy] and those of ctx and of this machine.
func (r *Reader) Read(ctx context.Context, f File) (Document, error) {
	if err := r.places.take(ctx, f.Owner, r.cfg.MaxWait); err != nil {
		return Document{}, err
	}
	defer r.places.give(f.Owner)
	if r.closed.Err() != nil {
		return Document{}, ErrBusy
	}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.closed, func() { cancel(ErrBusy) })() //nolint:contextcheck // the reader's own
	in := &reading{Reader: r, ctx: own, cancel: cancel, clock: startClock(r.cfg.MaxTime, func() { cancel(errSlow) }), cells: new(int), made: new(int)}
	defer in.clock.stop()
	d, err := in.file(f)                           //nolint:contextcheck // it has it
	if cause := context.Cause(own); cause != nil { // what a part of a file made of it does not matter
		return Document{}, cause
	}
	return d, err
}

// reading is the reading of one file, or of one that is inside another.
type reading struct {
	*Reader
	ctx    context.Context // its cause is why the reading ends
	cancel context.CancelCauseFunc
	clock  *clock
	depth  int  // of files inside files
	cells  *int // cells and other small things that are held, of all files
	made   *int // bytes of text that were made of other text, of all files
}

// ended returns why a reading ended, nil if it has not. Every loop whose length a file decides asks for it, and every reader of a packed part.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

var errText = &Error{fault.Say("parse.too_much_text", maxText)}

// spend counts text before it is made of other text: copied, joined, repeated or put in a format. Where it returns false there is too much of it: the text is
// not made, and the whole reading ends. Text that is taken from the file once does not count.
func (r *reading) spend(n int) bool {
	if *r.made += n; *r.made <= 2*maxText {
		return true
	}
	*r.made = 2*maxText + 1 // it does not overflow
	r.tooMuch()
	return false
}

// tooMuch ends the reading for the size of its text.
func (r *reading) tooMuch() { r.cancel(errText) }

// maxCells bounds what tables hold in memory.
const maxCells = 4 << 20

// hold counts cells that are kept until the table is written.
func (r *reading) hold(n int) error {
	if *r.cells += n; *r.cells > maxCells {
		return refuse(fault.Say("parse.too_many_cells", maxCells))
	}
	return nil
}

func (r *reading) builder() *builder { return &builder{part: r.cfg.TablePart, tooMuch: r.tooMuch} }

func (r *reading) file(f File) (Document, error) {
	kind, charset, err := r.kindOf(f)
	if err != nil {
		return Document{}, err
	}
	d, err := r.within(kind, charset, f.Body)
	d.Kind = kind
	return d, err
}

// inside reads a file that is inside another. One that has too much text ends alone; what ends the reading of the whole ends both.
func (r *reading) inside(name, kind, charset string, body []byte) (Document, error) {
	if r.depth+1 > maxAttached {
		return Document{}, errDeep
	}
	in := *r
	in.depth++
	own, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	in.ctx, in.cancel, in.made = own, cancel, new(int)
	if charset != "" {
		kind += "; charset=" + charset
	}
	d, err := in.file(File{Name: name, MIME: kind, Body: body})
	if cause := context.Cause(own); cause != nil {
		return Document{}, cause
	}
	return d, err
}

// within reads a document of a kind.
func (r *reading) within(kind, charset string, body []byte) (d Document, err error) {
	switch kind {
	case Text, Markdown, HTML, CSV, TSV:
		text, err := decode(body, charset, kind == HTML)
		if err != nil {
			return Document{}, err
		}
		if d, err = r.text(kind, text); err != nil {
			return Document{}, err
		}
	case Mail:
		d, err = r.mail(body)
	case DOCX, XLSX, PPTX:
		d, err = r.office(kind, body)
	case PDF:
		d, err = r.readPDF(body)
	default:
		err = refuse(fault.Say("parse.unknown_type"))
	}
	if err != nil {
		return Document{}, err
	}
	if strings.TrimSpace(d.Text) == "" {
		return Document{}, refuse(fault.Say("rag.no_text"))
	}
	return d, nil
}

// emptyText reports the refusal of a document that says nothing.
func emptyText(e *Error) bool { return e.Reason.String() == fault.Say("rag.no_text").String() }

func (r *reading) text(kind, text string) (Document, error) {
	switch kind {
	case Markdown:
		return r.markdown(text)
	case HTML:
		return r.hypertext(text)
	case CSV:
		return r.delimited(text, false)
	case TSV:
		return r.delimited(text, true)
	}
	return plain(text), nil
}

func (r *reading) office(kind string, body []byte) (Document, error) {
	a, err := r.openArchive(body)
	if err != nil {
		return Document{}, err
	}
	switch kind {
	case DOCX:
		return r.docx(a)
	case XLSX:
		return r.xlsx(a)
	default:
		return r.pptx(a)
	}
}

// kindOf tells the kind of a file. The declared type decides, then the ending of the name; the content must agree, and decides where neither says
// anything.
func (r *reading) kindOf(f File) (kind, charset string, err error) {
	said, charset, err := declared(f.MIME, f.Name)
	if err != nil {
		return "", "", err
	}
	found, err := r.sniff(f.Body)
	if err != nil {
		return "", "", err
	}
	switch {
	case said == "" && found != "":
		return found, "", nil
	case said == "":
		return "", "", refuse(fault.Say("parse.unknown_ending"))
	case found == said, found == "" && slices.Contains([]string{Text, Markdown, HTML, CSV, TSV, Mail}, said):
		return said, charset, nil
	case found == "":
		return "", "", refuse(fault.Say("parse.not_what_it_says", shortName(said)))
	}
	return "", "", refuse(fault.Say("parse.mismatch", shortName(said), shortName(found)))
}

// shortName names a kind by its usual ending.
func shortName(kind string) string {
	if endings := Kinds()[kind]; len(endings) > 0 {
		return strings.ToUpper(endings[0][1:])
	}
	return kind
}

// declared returns the kind that the type or the name of a file says, "" if they say none, and the character set of the type.
func declared(mimeType, name string) (kind, charset string, err error) {
	if mimeType != "" {
		t, params, err := mime.ParseMediaType(mimeType)
		if err != nil {
			return "", "", refuse(fault.Say("parse.type_malformed"))
		}
		charset = params["charset"]
		switch t {
		case "text/x-markdown":
			t = Markdown
		case "application/xhtml+xml":
			t = HTML
		case "application/csv", "text/comma-separated-values":
			t = CSV
		case "application/x-pdf":
			t = PDF
		}
		if Kinds()[t] != nil {
			return t, charset, nil
		}
		if legacy(t) && strings.EqualFold(path.Ext(name), ".csv") { // Windows with Excel calls them so
			return CSV, charset, nil
		}
		if legacy(t) {
			return "", "", refuse(fault.Say("parse.legacy_office"))
		}
		if strings.Contains(strings.ToLower(t), "macroenabled") {
			return "", "", errMacros
		}
		if t != "application/octet-stream" && t != "application/zip" {
			return "", "", refuse(fault.Say("parse.unknown_type"))
		}
	}
	ending := strings.ToLower(path.Ext(name))
	for k, endings := range Kinds() {
		if slices.Contains(endings, ending) {
			return k, charset, nil
		}
	}
	switch ending {
	case ".docm", ".dotm", ".xlsm", ".xltm", ".xlsb", ".pptm", ".potm", ".ppsm":
		return "", "", errMacros
	case ".doc", ".xls", ".ppt", ".dot", ".wps", ".et", ".dps", ".rtf":
		return "", "", refuse(fault.Say("parse.legacy_office"))
	case ".msg":
		return "", "", refuse(fault.Say("parse.outlook"))
	case ".odt", ".ods", ".odp":
		return "", "", refuse(fault.Say("parse.opendocument"))
	}
	return "", charset, nil
}

func legacy(t string) bool {
	return slices.Contains([]string{"application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint", "application/rtf", "text/rtf"}, t)
}

// sniff returns the kind that the content of a file is certainly of, "" for text and what is not known.
func (r *reading) sniff(body []byte) (string, error) {
	head := body[:min(len(body), 1024)]
	switch {
	case bytes.HasPrefix(body, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")):
		return "", compound(body)
	case bytes.HasPrefix(body, []byte("PK\x03\x04")), bytes.HasPrefix(body, []byte("PK\x05\x06")):
		return r.packed(body)
	case bytes.Contains(head, []byte("%PDF-")) && !isText(head):
		return PDF, nil
	case bytes.HasPrefix(head, []byte("%PDF-")):
		return PDF, nil
	case bytes.HasPrefix(head, []byte(`{\rtf`)):
		return "", refuse(fault.Say("parse.legacy_office"))
	}
	return "", nil
}

// isText reports whether bytes look like those of a text that merely speaks of a format.
func isText(head []byte) bool {
	for _, c := range head {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' || c >= 0x80 {
			return false
		}
	}
	return true
}

// compound says what is wrong with a file of the old format of Office, which also wraps encrypted ones of the new format.
func compound(body []byte) error {
	wide := func(s string) bool {
		var b []byte
		for i := range len(s) {
			b = append(b, s[i], 0)
		}
		return bytes.Contains(body, b)
	}
	switch {
	case wide("EncryptedPackage"):
		return errLocked
	case wide("__substg1.0_"):
		return refuse(fault.Say("parse.outlook"))
	}
	return refuse(fault.Say("parse.legacy_office"))
}

// packed tells what a zip file is by the type of its main part.
func (r *reading) packed(body []byte) (string, error) {
	if bytes.Contains(body[:min(len(body), 256)], []byte("mimetypeapplication/vnd.oasis.opendocument")) {
		return "", refuse(fault.Say("parse.opendocument"))
	}
	a, err := r.openArchive(body)
	if err != nil {
		return "", err
	}
	main, err := a.main()
	if err != nil {
		return "", err
	}
	t := a.types[main]
	for kind, mark := range map[string]string{DOCX: "wordprocessingml.", XLSX: "spreadsheetml.", PPTX: "presentationml."} {
		if strings.Contains(t, mark) {
			return kind, nil
		}
	}
	return "", refuse(fault.Say("parse.other_archive"))
}

// isBinary reports whether the text has characters that text does not have. A file of another kind has them in its first bytes.
func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8192)], 0) >= 0 }

// clean removes what has no shape, and turns other control characters into blanks.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case invisible(r):
			return -1
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0:
			return ' '
		}
		return r
	}, s)
}

// invisible reports whether r takes no place on paper: zero-width characters, direction marks and overrides, soft hyphens, the
// invisible operators, and the tag characters that hide whole sentences.
func invisible(r rune) bool {
	switch {
	case r == 0x00ad, r == 0x034f, r == 0x061c, r == 0x180e, r == 0xfeff,
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, // Hangul fillers
		r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r >= 0xfe00 && r <= 0xfe0f, r >= 0xfff9 && r <= 0xfffb,
		r >= 0x1d173 && r <= 0x1d17a, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}
