package labelfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/internal/fault"
)

// Credentials says what became of the content credentials (C2PA) of a labelled file.
type Credentials string

// The answers.
const (
	CredentialsWritten Credentials = "written"
	CredentialsOff     Credentials = "off"      // the installation writes none
	CredentialsSuite   Credentials = "suite"    // it has the national suite, whose algorithms the standard does not know
	CredentialsNoPlace Credentials = "no_place" // none are written into files of this kind
	CredentialsSigned  Credentials = "signed"   // somebody signed the file: attaching one would be one more change after the signature
)

// credentials is how content credentials stand in a kind of file.
type credentials struct {
	media string
	// find returns the store of a file; nil without one.
	find func(data []byte) (*c2pa.Carried, error)
	// place puts a store into a file, in place of the one that is there.
	place func(data, store []byte) ([]byte, c2pa.Range, error)
}

func credentialsOf(k Kind) (credentials, bool) {
	switch k {
	case PDF:
		return credentials{"application/pdf", findInPDF, placeInPDF}, true
	case PNG:
		return credentials{"image/png", findInPNG, placeInPNG}, true
	case JPEG:
		return credentials{"image/jpeg", findInJPEG, placeInJPEG}, true
	default:
		return credentials{}, false
	}
}

// HasCredentials reports whether files of a kind may have content credentials.
func HasCredentials(k Kind) bool {
	_, ok := credentialsOf(k)
	return ok
}

// FindCredentials returns the content credentials of a file, nil without any; only PNG, JPEG and PDF have them. They are checked by [c2pa.Check]. Errors: CodeInvalidValue for a
// file that has several, or cannot be read.
func FindCredentials(k Kind, data []byte) (*c2pa.Carried, error) {
	how, ok := credentialsOf(k)
	if !ok {
		return nil, nil //nolint:nilnil // there are none
	}
	if len(data) > MaxBytes {
		return nil, refuse(fault.Say("labelfile.too_large", MaxBytes>>20))
	}
	return how.find(data)
}

// CheckCredentials finds the content credentials of a file and checks them; nil without any. What a file has in a form that cannot be taken apart, or twice, is [c2pa.Unjudged]: whoever reads
// a file is told of everything else in it.
func CheckCredentials(k Kind, data []byte, anchors c2pa.Anchors) *c2pa.Report {
	carried, err := FindCredentials(k, data)
	switch {
	case err != nil:
		return &c2pa.Report{State: c2pa.Unjudged, Code: c2pa.CodeUnread}
	case carried == nil:
		return nil
	}
	r := c2pa.Check(data, *carried, anchors)
	return &r
}

// before is what a file had before it was labelled.
type before struct {
	Found
	store   *c2pa.Carried
	report  c2pa.Report
	foreign bool // the label that it gets was in it
}

// credential completes the result with content credentials in a labelled file, which it reads back, or with why it has none. Errors: CodeInvalidValue;
// CodeSigningUnavailable for a clock that is wrong.
func (w Writer) credential(k Kind, data []byte, x label.Label, old before, result *Result) error {
	how, ok := credentialsOf(k)
	none := func(why Credentials) error {
		result.Data, result.Credentials = data, why
		return nil
	}
	switch {
	case !ok:
		return none(CredentialsNoPlace)
	case w.Authority == nil && w.Left == "":
		return none(CredentialsOff)
	case w.Authority == nil:
		return none(w.Left)
	case old.Signed:
		return none(CredentialsSigned)
	}
	content := c2pa.Content{Label: x, Format: how.media, ParentReport: old.report, Foreign: old.foreign}
	if old.store != nil {
		content.Parent = old.store.Store
	}
	out, signer, err := w.Authority.Attach(content, func(store []byte) ([]byte, c2pa.Range, error) { return how.place(data, store) })
	switch {
	case errors.Is(err, c2pa.ErrParent):
		return refuse(fault.Say("labelfile.credentials_kept"))
	case errors.Is(err, c2pa.ErrClock):
		return fault.Wrap(err, fault.CodeSigningUnavailable)
	case err != nil:
		return err
	}
	carried, err := how.find(out)
	if err != nil || carried == nil {
		return refuse(fault.Say("labelfile.not_read_back"))
	}
	report := c2pa.Check(out, *carried, w.Authority.Anchors())
	again, err := Read(k, out)
	if err != nil || report.State != c2pa.Trusted || report.Label == nil || *report.Label != x || len(again.Marks) != 1 || again.Marks[0].Label != x {
		return refuse(fault.Say("labelfile.not_read_back"))
	}
	result.Data, result.Credentials, result.Signer = out, CredentialsWritten, signer
	return nil
}

// credentialed reads the content credentials of a file that is to be labelled. Without an authority they cannot be kept: a label would break them.
func (w Writer) credentialed(k Kind, data []byte, found Found) (before, error) {
	out := before{Found: found}
	how, ok := credentialsOf(k)
	if !ok {
		return out, nil
	}
	var err error
	if out.store, err = how.find(data); err != nil || out.store == nil {
		return out, err
	}
	if w.Authority == nil || found.Signed {
		return out, refuse(fault.Say("labelfile.credentials"))
	}
	out.report = c2pa.Check(data, *out.store, w.Authority.Anchors())
	return out, nil
}

// pngStore is the chunk of content credentials.
const pngStore = "caBX"

func findInPNG(data []byte) (*c2pa.Carried, error) {
	if !bytes.HasPrefix(data, []byte(pngHead)) {
		return nil, refuse(fault.Say("labelfile.image"))
	}
	all, err := chunks(data)
	if err != nil {
		return nil, err
	}
	var out *c2pa.Carried
	for _, c := range all {
		if c.kind != pngStore {
			continue
		}
		if out != nil {
			return nil, refuse(fault.Say("labelfile.several_credentials"))
		}
		out = &c2pa.Carried{Store: c.data, At: c2pa.Range{From: c.from, To: c.to}}
	}
	return out, nil
}

// placeInPNG puts the chunk behind the header, where readers find it without the pixels.
func placeInPNG(data, store []byte) ([]byte, c2pa.Range, error) {
	old, err := findInPNG(data)
	if err != nil {
		return nil, c2pa.Range{}, err
	}
	all, err := chunks(data)
	if err != nil {
		return nil, c2pa.Range{}, err
	}
	from, to := all[0].to, all[0].to
	if old != nil {
		from, to = old.At.From, old.At.To
	}
	piece := newChunk(pngStore, store)
	return splice(data, from, to, string(piece)), c2pa.Range{From: from, To: from + len(piece)}, nil
}

// The head of a segment of a JPEG that has a part of a box (ISO/IEC 19566-5): "JP", the number of the box in the file, and that of the part in the box.
const (
	jumbfMarker = 0xeb
	jumbfHead   = 8
	boxHead     = 8 // length and type of the box, again in each part
	maxJUMBF    = maxSegment - jumbfHead - boxHead
)

// jumbf is the number of the box that a segment has a part of, and of the part; ok is false for other segments.
func (s segment) jumbf() (instance uint16, part uint32, ok bool) {
	if s.marker != jumbfMarker || len(s.data) < jumbfHead+boxHead || string(s.data[:2]) != "JP" || string(s.data[jumbfHead+4:jumbfHead+boxHead]) != "jumb" {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(s.data[2:]), binary.BigEndian.Uint32(s.data[4:]), true
}

// findInJPEG joins the segments of the one box that is a store of content credentials. Boxes of others, such as those of 360° images, are left alone.
func findInJPEG(data []byte) (*c2pa.Carried, error) {
	all, err := segments(data)
	if err != nil {
		return nil, err
	}
	var out *c2pa.Carried
	for i := 0; i < len(all); i++ {
		instance, part, ok := all[i].jumbf()
		if !ok || !bytes.Contains(all[i].data[:min(len(all[i].data), 64)], []byte("jumdc2pa")) {
			continue
		}
		if out != nil {
			return nil, refuse(fault.Say("labelfile.several_credentials"))
		}
		out = &c2pa.Carried{Store: slices.Clone(all[i].data[jumbfHead:]), At: c2pa.Range{From: all[i].from, To: all[i].to}}
		for ; i+1 < len(all); i++ {
			n, next, ok := all[i+1].jumbf()
			if !ok || n != instance || next != part+1 || !bytes.Equal(all[i+1].data[jumbfHead:jumbfHead+boxHead], out.Store[:boxHead]) {
				break
			}
			part = next
			out.Store = append(out.Store, all[i+1].data[jumbfHead+boxHead:]...)
			out.At.To = all[i+1].to
		}
	}
	return out, nil
}

// placeInJPEG puts the segments behind the label's, in front of which stand JFIF and Exif.
func placeInJPEG(data, store []byte) ([]byte, c2pa.Range, error) {
	old, err := findInJPEG(data)
	if err != nil {
		return nil, c2pa.Range{}, err
	}
	all, err := segments(data)
	if err != nil {
		return nil, c2pa.Range{}, err
	}
	at, packet, err := xmpSegment(all)
	if err != nil {
		return nil, c2pa.Range{}, err
	}
	from, to := 2, 2
	switch {
	case old != nil:
		from, to = old.At.From, old.At.To
	case packet != nil:
		from, to = all[at].to, all[at].to
	}
	instance := uint16(1) // one that no other box of the file has
	for _, s := range all {
		if n, _, ok := s.jumbf(); ok && n >= instance && n < 0xffff {
			instance = n + 1
		}
	}
	head, body := store[:boxHead], store[boxHead:]
	var piece []byte
	for part := uint32(1); len(body) > 0; part++ {
		n := min(len(body), maxJUMBF)
		piece = append(piece, 0xff, jumbfMarker)
		piece = binary.BigEndian.AppendUint16(piece, uint16(2+jumbfHead+boxHead+n))
		piece = append(piece, "JP"...)
		piece = binary.BigEndian.AppendUint16(piece, instance)
		piece = binary.BigEndian.AppendUint32(piece, part)
		piece = append(append(piece, head...), body[:n]...)
		body = body[n:]
	}
	return splice(data, from, to, string(piece)), c2pa.Range{From: from, To: from + len(piece)}, nil
}

// The names of a PDF's content credentials.
const (
	pdfRelation = "/C2PA_Manifest"
	pdfName     = "(content_credential.c2pa)"
)

// items returns the texts of an array.
func items(text []byte) ([][]byte, bool) {
	if !bytes.HasPrefix(text, []byte("[")) {
		return nil, false
	}
	var out [][]byte
	for at := 1; ; {
		at = blanks(text, at)
		if at < len(text) && text[at] == ']' {
			return out, true
		}
		to := value(text, at, 1)
		if to < 0 || len(out) == maxPieces {
			return nil, false
		}
		out, at = append(out, text[at:to]), to
	}
}

// resolved returns the text of a value that stands directly or by reference.
func (p *pdf) resolved(text []byte) ([]byte, error) {
	if number, _, ref := reference(text); ref > 0 {
		return p.object(number, false)
	}
	return text, nil
}

// attached returns the files that belong to the document, and the number of the one that has content credentials, -1 for none.
func (p *pdf) attached() (files [][]byte, at int, err error) {
	root, err := p.dictOf(p.trailer["Root"])
	if err != nil || root["AF"] == nil || string(root["AF"]) == "null" {
		return nil, -1, err
	}
	text, err := p.resolved(root["AF"])
	if err != nil {
		return nil, -1, err
	}
	files, ok := items(text)
	if !ok {
		return nil, -1, refuse(fault.Say("labelfile.pdf"))
	}
	at = -1
	for i, f := range files {
		if number, _, ref := reference(f); ref > 0 {
			if x, there := p.objects[number]; !there || x.free { // a reference to nothing is null: no file of ours
				continue
			}
			if f, err = p.object(number, false); err != nil {
				return nil, -1, err
			}
		}
		if d, _, ok := dictionary(f, 0); !ok || string(d["AFRelationship"]) != pdfRelation {
			continue
		}
		if at >= 0 {
			return nil, -1, refuse(fault.Say("labelfile.several_credentials"))
		}
		at = i
	}
	return files, at, nil
}

func findInPDF(data []byte) (*c2pa.Carried, error) {
	p, err := openPDF(data)
	if err != nil {
		return nil, err
	}
	files, at, err := p.attached()
	if err != nil || at < 0 {
		return nil, err
	}
	d, err := p.dictOf(files[at])
	if err != nil {
		return nil, err
	}
	if d, err = p.dictOf(d["EF"]); err != nil {
		return nil, err
	}
	stream := d["F"]
	if stream == nil {
		stream = d["UF"]
	}
	number, _, ref := reference(stream)
	if ref == 0 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	if _, err := p.object(number, true); err != nil { // the number there is looked at, too: programs differ in what they take else
		return nil, err
	}
	d, from, to, err := p.rawStream(p.objects[number].offset)
	if err != nil {
		return nil, err
	}
	store, err := p.filtered(d, data[from:to], c2pa.MaxStore)
	return &c2pa.Carried{Store: store, At: c2pa.Range{From: from, To: to}, Entered: p.enters(from, to)}, err
}

// enters reports whether an object or a section of cross-references begins in a range.
func (p *pdf) enters(from, to int) bool {
	for _, x := range p.objects {
		if x.in == 0 && !x.free && x.offset >= from && x.offset < to {
			return true
		}
	}
	return slices.ContainsFunc(p.sections, func(at int) bool { return at >= from && at < to })
}

// placeInPDF appends an update with the store as a file that belongs to the document. A store that is there already stays where it is, in the bytes before the update,
// and is referred to no more.
func placeInPDF(data, store []byte) ([]byte, c2pa.Range, error) {
	p, err := openPDF(data)
	if err != nil {
		return nil, c2pa.Range{}, err
	}
	if err := p.changeable(); err != nil {
		return nil, c2pa.Range{}, err
	}
	number, generation, ref := reference(p.trailer["Root"])
	if ref == 0 {
		return nil, c2pa.Range{}, refuse(fault.Say("labelfile.pdf"))
	}
	if p.objects[number].in != 0 {
		generation = 0
	}
	specification, stream := p.size, p.size+1
	catalog, err := p.catalogWith(fmt.Sprintf("%d 0 R", specification))
	if err != nil {
		return nil, c2pa.Range{}, err
	}
	out, from := p.update(
		written{number: number, generation: generation, text: catalog},
		written{number: specification, text: fmt.Sprintf("<< /Type /Filespec /F %s /UF %s /AFRelationship %s /Desc (C2PA content credentials) /EF << /F %d 0 R /UF %d 0 R >> >>",
			pdfName, pdfName, pdfRelation, stream, stream)},
		written{number: stream, text: fmt.Sprintf("<< /Type /EmbeddedFile /Subtype /application#2Fc2pa /Params << /Size %d >> /Length %d >>", len(store), len(store)), stream: store},
	)
	return out, c2pa.Range{From: from, To: from + len(store)}, nil
}

// catalogWith returns the catalog of the document with a file that belongs to it, in place of the content credentials that it had.
func (p *pdf) catalogWith(file string) (string, error) {
	text, err := p.resolved(p.trailer["Root"])
	if err != nil {
		return "", err
	}
	files, at, err := p.attached()
	if err != nil {
		return "", err
	}
	var old []byte
	if at >= 0 {
		old = files[at]
		files = slices.Delete(files, at, at+1)
	}
	list := append(slices.Clip(files), []byte(file))
	if text, err = set(text, "AF", "["+string(bytes.Join(list, []byte(" ")))+"]"); err != nil {
		return "", err
	}
	names, err := p.namesWith(text, file, old)
	if err != nil || names == "" {
		return string(text), err
	}
	text, err = set(text, "Names", names)
	return string(text), err
}

// namesWith returns the directory of names with a file, so that viewers list it; "" where it has the form of a tree, in which the file is found by the catalog alone.
func (p *pdf) namesWith(catalog []byte, file string, old []byte) (string, error) {
	root, _, _ := dictionary(catalog, 0)
	entry := "<< /Names [" + pdfName + " " + file + "] >>"
	if root["Names"] == nil {
		return "<< /EmbeddedFiles " + entry + " >>", nil
	}
	text, err := p.resolved(root["Names"])
	if err != nil {
		return "", err
	}
	names, _, ok := dictionary(text, 0)
	if !ok {
		return "", refuse(fault.Say("labelfile.pdf"))
	}
	if names["EmbeddedFiles"] != nil {
		d, err := p.dictOf(names["EmbeddedFiles"])
		if err != nil {
			return "", err
		}
		if d["Kids"] != nil || d["Names"] == nil {
			return "", nil
		}
		list, err := p.resolved(d["Names"])
		if err != nil {
			return "", err
		}
		pairs, ok := items(list)
		if !ok || len(pairs)%2 != 0 {
			return "", refuse(fault.Say("labelfile.pdf"))
		}
		if entry, ok = inOrder(pairs, file, old); !ok {
			return "", nil
		}
	}
	out, err := set(text, "EmbeddedFiles", entry)
	return string(out), err
}

// inOrder returns a list of names with a file among them, which are in the order of their bytes; ok is false where a name is no string, or another file has this one.
func inOrder(pairs [][]byte, file string, old []byte) (string, bool) {
	own, _ := textOf([]byte(pdfName))
	var out [][]byte
	done := false
	for i := 0; i < len(pairs); i += 2 {
		if old != nil && bytes.Equal(pairs[i+1], old) {
			continue
		}
		name, ok := textOf(pairs[i])
		if !ok || name == own {
			return "", false
		}
		if !done && name > own {
			out, done = append(out, []byte(pdfName), []byte(file)), true
		}
		out = append(out, pairs[i], pairs[i+1])
	}
	if !done {
		out = append(out, []byte(pdfName), []byte(file))
	}
	return "<< /Names [" + string(bytes.Join(out, []byte(" "))) + "] >>", true
}

// set returns a dictionary with a key.
func set(text []byte, key, with string) ([]byte, error) {
	d, end, ok := dictionary(text, 0)
	if !ok {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	if there, ok := d[key]; ok {
		from := cap(text) - cap(there) // the value is a part of the text
		return splice(text[:end], from, from+len(there), with), nil
	}
	return splice(text[:end], end-2, end-2, " /"+key+" "+with+" "), nil
}
