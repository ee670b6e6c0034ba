package parse

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// Bounds of a packed file. A file of the largest size that people save is far within them; a bomb is not.
const (
	maxEntries  = 20_000
	maxInflated = 128 << 20 // bytes that are read of all parts together
	maxRatio    = 400       // a part that is larger than its packed form so many times is a bomb,
	ratioFrom   = 4 << 20   // if it is larger than this
	maxDepth    = 200       // of elements that are read by recursion
	maxOpen     = 1000      // elements that are open at once, read or not: the decoder holds each
)

var (
	errBomb    = &Error{fault.Say("parse.zip_bomb")}
	errDamaged = &Error{fault.Say("parse.damaged")}
	errDeep    = &Error{fault.Say("parse.too_deep")}
	errDTD     = &Error{fault.Say("parse.xml_dtd")}
	errSlow    = &Error{fault.Say("parse.too_slow")}
	errLocked  = &Error{fault.Say("parse.encrypted")}
	errMacros  = &Error{fault.Say("parse.macros")}
	errNoPart  = errors.New("the package has no such part")
)

// archive is an OOXML package. Its parts are looked up by name and read as streams; nothing is written to a disk, and no relationship to
// something outside is followed.
type archive struct {
	r        *reading
	parts    map[string]*zip.File // by name without the leading slash, in lower case: names differ by more than that
	types    map[string]string    // content types of parts, by the same name
	inflated int64
}

// openArchive checks the package as a whole: no part is there twice, which readers would read differently; none is encrypted; none is a program.
func (r *reading) openArchive(body []byte) (*archive, error) {
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, errDamaged
	}
	if len(z.File) > maxEntries {
		return nil, errBomb
	}
	z.RegisterDecompressor(zip.Deflate, func(in io.Reader) io.ReadCloser {
		packed := &packedBytes{in: in}
		return &inflating{flate.NewReader(packed), packed, 0}
	})
	a := &archive{r: r, parts: make(map[string]*zip.File, len(z.File)), types: map[string]string{}}
	for _, f := range z.File {
		name := partName(f.Name)
		switch {
		case strings.HasSuffix(f.Name, "/"):
			continue
		case a.parts[name] != nil:
			return nil, errDamaged
		case f.Flags&1 != 0:
			return nil, errLocked
		case strings.HasSuffix(name, "vbaproject.bin"), strings.Contains(name, "/macrosheets/"):
			return nil, errMacros
		}
		a.parts[name] = f
	}
	x, err := a.open("[content_types].xml")
	if errors.Is(err, errNoPart) {
		return nil, refuse(fault.Say("parse.other_archive"))
	}
	if err != nil {
		return nil, err
	}
	endings := map[string]string{}
	err = x.root(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "Default":
			endings[strings.ToLower(attribute(e, "Extension"))] = attribute(e, "ContentType")
		case "Override":
			a.types[partName(attribute(e, "PartName"))] = attribute(e, "ContentType")
		}
		if err := r.hold(heldEntry); err != nil {
			return err
		}
		return x.skip()
	})
	if err != nil {
		return nil, err
	}
	for name := range a.parts {
		if a.types[name] == "" {
			a.types[name] = endings[strings.TrimPrefix(path.Ext(name), ".")]
		}
		if strings.Contains(strings.ToLower(a.types[name]), "macroenabled") {
			return nil, errMacros
		}
	}
	return a, nil
}

// partName is the name under which a part is found. It never names a file of this machine, whatever it is.
func partName(name string) string {
	return strings.TrimPrefix(strings.ToLower(path.Clean("/"+strings.ReplaceAll(name, `\`, "/"))), "/")
}

// noPart turns a part that must be there and is not into a refusal.
func noPart(err error) error {
	if errors.Is(err, errNoPart) {
		return errDamaged
	}
	return err
}

// relation is a relationship of a part to another one of the package.
type relation struct{ kind, target string }

// relations returns those of a part by id. Those that lead outside have no target.
func (a *archive) relations(part string) (map[string]relation, error) {
	dir, file := path.Split(part)
	x, err := a.open(dir + "_rels/" + file + ".rels")
	if errors.Is(err, errNoPart) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]relation{}
	err = x.root(func(e xml.StartElement) error {
		r := relation{kind: path.Base(attribute(e, "Type"))}
		if !strings.EqualFold(attribute(e, "TargetMode"), "External") {
			if target := attribute(e, "Target"); strings.HasPrefix(target, "/") {
				r.target = partName(target)
			} else {
				r.target = partName(dir + target)
			}
		}
		out[attribute(e, "Id")] = r
		if err := a.r.hold(heldEntry); err != nil {
			return err
		}
		return x.skip()
	})
	return out, err
}

// of returns the target of the relationship of a kind with the least id, "" for none.
func of(all map[string]relation, kind string) string {
	first, out := "", ""
	for id, r := range all {
		if r.kind == kind && r.target != "" && (first == "" || id < first) {
			first, out = id, r.target
		}
	}
	return out
}

// main returns the part that the document begins with.
func (a *archive) main() (string, error) {
	all, err := a.relations("")
	if err != nil {
		return "", err
	}
	name := of(all, "officeDocument")
	if name == "" || a.parts[name] == nil {
		return "", errDamaged
	}
	return name, nil
}

// title returns the title of the properties, "" for none.
func (a *archive) title() (string, error) {
	all, err := a.relations("")
	if err != nil {
		return "", err
	}
	x, err := a.open(of(all, "core-properties"))
	if errors.Is(err, errNoPart) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var title string
	err = x.root(func(e xml.StartElement) error {
		if e.Name.Local != "title" {
			return x.skip()
		}
		var err error
		title, err = x.text()
		return err
	})
	return title, err
}

// open begins to read a part. Error: errNoPart if there is none.
func (a *archive) open(name string) (*elements, error) {
	f := a.parts[partName(name)]
	if name == "" || f == nil {
		return nil, errNoPart
	}
	in, err := f.Open()
	if err != nil {
		return nil, errDamaged
	}
	return newElements(a.r.ctx, &unpacked{a, in}), nil
}

// heldEntry is what an entry of a list that is kept costs, in cells.
const heldEntry = 8

// packedBytes counts what is taken of the packed bytes of a part.
type packedBytes struct {
	in io.Reader
	n  int64
}

// Read implements io.Reader.
func (r *packedBytes) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.n += int64(n)
	return n, err
}

// inflating is a part that is being unpacked. It ends where too much comes of the packed bytes that it has taken. Sizes that the file declares are not
// believed.
type inflating struct {
	io.ReadCloser
	packed *packedBytes
	n      int64
}

// Read implements io.Reader.
func (r *inflating) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.n += int64(n); r.n > ratioFrom && r.n/maxRatio > r.packed.n {
		return n, errBomb
	}
	return n, err
}

// unpacked bounds what is unpacked of all parts together, and ends with the reading.
type unpacked struct {
	archive *archive
	in      io.Reader
}

// Read implements io.Reader.
func (r *unpacked) Read(p []byte) (int, error) {
	if err := ended(r.archive.r.ctx); err != nil {
		return 0, err
	}
	n, err := r.in.Read(p)
	if r.archive.inflated += int64(n); r.archive.inflated > maxInflated {
		return n, errBomb
	}
	return n, err
}

// elements reads XML by recursive descent. It takes no document type, so that there are no entities to expand, follows nothing, and bounds depth
// and time.
type elements struct {
	ctx    context.Context
	d      *xml.Decoder
	depth  int // of each
	open   int // elements
	tokens int
}

func newElements(ctx context.Context, in io.Reader) *elements {
	d := xml.NewDecoder(in)
	d.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		e, err := named(label)
		if err != nil {
			return nil, err
		}
		return e.NewDecoder().Reader(in), nil
	}
	return &elements{ctx: ctx, d: d}
}

func (x *elements) token() (xml.Token, error) {
	if x.tokens++; x.tokens%1024 == 0 {
		if err := ended(x.ctx); err != nil {
			return nil, err
		}
	}
	t, err := x.d.Token()
	if err != nil {
		if err := ended(x.ctx); err != nil {
			return nil, err
		}
		var e *Error
		if errors.As(err, &e) {
			return nil, e
		}
		return nil, errDamaged
	}
	switch t := t.(type) {
	case xml.StartElement:
		if x.open++; x.open > maxOpen {
			return nil, errDeep
		}
	case xml.EndElement:
		x.open--
	case xml.Directive:
		if bytes.HasPrefix(bytes.TrimSpace(t), []byte("DOCTYPE")) {
			return nil, errDTD
		}
	}
	return t, nil
}

// root calls fn for each child of the root element.
func (x *elements) root(fn func(e xml.StartElement) error) error {
	return x.rootElement(func(xml.StartElement) error { return x.each(fn) })
}

// rootElement calls fn for the root element.
func (x *elements) rootElement(fn func(e xml.StartElement) error) error {
	for {
		t, err := x.token()
		if err != nil {
			return err
		}
		if e, is := t.(xml.StartElement); is {
			return fn(e)
		}
	}
}

// each calls fn for each child of the element that was begun, and reads its end. fn reads the child to its end: by each, text or skip.
func (x *elements) each(fn func(e xml.StartElement) error) error {
	if x.depth++; x.depth > maxDepth {
		return errDeep
	}
	for {
		t, err := x.token()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if err := fn(t); err != nil {
				return err
			}
		case xml.EndElement:
			x.depth--
			return nil
		}
	}
}

// text reads the element that was begun and returns its own text.
func (x *elements) text() (string, error) {
	var b strings.Builder
	for {
		t, err := x.token()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.CharData:
			b.Write(t)
		case xml.StartElement:
			if err := x.skip(); err != nil {
				return "", err
			}
		case xml.EndElement:
			return b.String(), nil
		}
	}
}

// skip reads the element that was begun to its end.
func (x *elements) skip() error {
	for depth := 1; depth > 0; {
		t, err := x.token()
		if err != nil {
			return err
		}
		switch t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	return nil
}

// attribute returns the attribute of that local name, "" for none.
func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// on reports whether an element that switches something, such as <w:b/> or <w:b w:val="0"/>, switches it on.
func on(e xml.StartElement) bool {
	switch attribute(e, "val") {
	case "0", "false", "off", "none":
		return false
	}
	return true
}
