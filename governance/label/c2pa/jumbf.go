package c2pa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// The bounds of a store.
const (
	MaxStore = 16 << 20 // bytes; thumbnails of others are in them
	maxDepth = 8        // of boxes in boxes
	maxBoxes = 8 << 10
)

// The kinds of superboxes, as the first bytes of their UUIDs.
const (
	kindStore      = "c2pa"
	kindManifest   = "c2ma"
	kindUpdate     = "c2um"
	kindAssertions = "c2as"
	kindClaim      = "c2cl"
	kindSignature  = "c2cs"
	kindCBOR       = "cbor"
)

// uuidTail is what follows the four letters in a UUID of JUMBF (ISO/IEC 19566-5).
const uuidTail = "\x00\x11\x00\x10\x80\x00\x00\xaa\x00\x38\x9b\x71"

// errBox says that bytes are no boxes.
var errBox = errors.New("c2pa: the boxes of the manifest store are damaged")

// box is a box of JUMBF. A superbox has a kind, a label and children; another one has data only.
type box struct {
	name     string // of four letters, such as jumb
	data     []byte // behind the head of the box
	kind     string // of a superbox, see the constants; "" for a UUID of another form
	label    string // "" for none
	children []box  // without the description
}

// hashed is what hashes of a superbox are over: all but its head (C2PA, "Hashing JUMBF Boxes").
func (b box) hashed() []byte { return b.data }

// same reports whether two are one box of the store. Boxes that only look the same are compared nowhere: that takes time.
func (b box) same(as box) bool {
	return len(b.data) > 0 && len(b.data) == len(as.data) && &b.data[0] == &as.data[0]
}

// bytes writes a box again.
func (b box) bytes() []byte { return boxOf(b.name, b.data) }

// value returns the CBOR of the only child that has some; nil without one.
func (b box) value() []byte {
	var out []byte
	for _, c := range b.children {
		if c.name == "cbor" {
			if out != nil {
				return nil
			}
			out = c.data
		}
	}
	return out
}

// child returns the superbox of a label; ok is false without one, and where there are two.
func (b box) child(label string) (out box, ok bool) {
	for _, c := range b.children {
		if c.name == "jumb" && c.label == label {
			if ok {
				return box{}, false
			}
			out, ok = c, true
		}
	}
	return out, ok
}

// boxOf writes a box.
func boxOf(name string, parts ...[]byte) []byte {
	n := 8
	for _, p := range parts {
		n += len(p)
	}
	out := make([]byte, 0, n)
	out = append(binary.BigEndian.AppendUint32(out, uint32(n)), name...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// superbox writes a box with a description: its kind and its label, by which others refer to it.
func superbox(kind, label string, contents ...[]byte) []byte {
	description := append([]byte(kind+uuidTail+"\x03"+label), 0)
	return boxOf("jumb", append([][]byte{boxOf("jumd", description)}, contents...)...)
}

// parser counts the boxes.
type parser struct{ left int }

// boxes reads boxes that follow each other to the end.
func (p *parser) boxes(b []byte, depth int) (out []box, err error) {
	for len(b) > 0 {
		var one box
		if one, b, err = p.next(b, depth); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// next reads one box.
func (p *parser) next(b []byte, depth int) (one box, rest []byte, err error) {
	if p.left--; p.left < 0 || depth > maxDepth || len(b) < 8 {
		return box{}, nil, errBox
	}
	head, n := 8, uint64(binary.BigEndian.Uint32(b))
	switch {
	case n == 0: // to the end
		n = uint64(len(b))
	case n == 1 && len(b) >= 16:
		head, n = 16, binary.BigEndian.Uint64(b[8:])
	}
	if n < uint64(head) || n > uint64(len(b)) {
		return box{}, nil, errBox
	}
	one = box{name: string(b[4:8]), data: b[head:n]}
	if one.name == "jumb" {
		err = p.describe(&one, depth)
	}
	return one, b[n:], err
}

// describe reads what is in a superbox.
func (p *parser) describe(b *box, depth int) error {
	all, err := p.boxes(b.data, depth+1)
	if err != nil {
		return err
	}
	if len(all) == 0 || all[0].name != "jumd" || len(all[0].data) < 17 {
		return errBox
	}
	d := all[0].data
	if bytes.Equal(d[4:16], []byte(uuidTail)) {
		b.kind = string(d[:4])
	}
	if d[16]&2 != 0 { // it has a label
		end := bytes.IndexByte(d[17:], 0)
		if end < 0 {
			return errBox
		}
		b.label = string(d[17 : 17+end])
	}
	b.children = all[1:]
	return nil
}

// store is the content of a file's manifest store.
type store struct {
	manifests []box
	loose     bool // there is more than manifests in it, which no manifest can bind: other boxes, or bytes behind its box
	padded    bool // what is loose are zeros at its end
	unread    bool // it has manifests of kinds that are not known here, such as compressed ones
}

// parseStore reads a store. One that has manifests of unknown kinds only has none.
func parseStore(b []byte) (store, error) {
	if len(b) > MaxStore {
		return store{}, errBox
	}
	p := &parser{left: maxBoxes}
	top, rest, err := p.next(b, 0)
	if err != nil {
		return store{}, err
	}
	if top.name != "jumb" || top.kind != kindStore || top.label != "c2pa" {
		return store{}, errBox
	}
	s := store{loose: len(rest) > 0, padded: len(bytes.Trim(rest, "\x00")) == 0}
	labels := map[string]bool{}
	for _, m := range top.children {
		if m.name != "jumb" || m.kind != kindManifest && m.kind != kindUpdate {
			s.loose, s.padded, s.unread = true, false, s.unread || m.name == "jumb"
			continue
		}
		if m.label == "" || strings.Contains(m.label, "/") || labels[m.label] {
			return store{}, errBox
		}
		labels[m.label] = true
		s.manifests = append(s.manifests, m)
	}
	if len(s.manifests) == 0 && !s.unread {
		return store{}, errBox
	}
	return s, nil
}

// active is the manifest that speaks of the file: the last.
func (s store) active() box { return s.manifests[len(s.manifests)-1] }

// uriHead is what references to boxes of the same store begin with.
const uriHead = "self#jumbf="

// resolve returns the box that a reference of a manifest leads to.
func (s store) resolve(uri string, from box) (box, bool) {
	path, ok := strings.CutPrefix(uri, uriHead)
	if !ok {
		return box{}, false
	}
	at := from
	if rest, absolute := strings.CutPrefix(path, "/c2pa/"); absolute {
		label, inside, more := strings.Cut(rest, "/")
		found := false
		for _, m := range s.manifests {
			if m.label == label {
				at, found = m, true
			}
		}
		if !found || !more {
			return at, found
		}
		path = inside
	}
	for label := range strings.SplitSeq(path, "/") {
		if at, ok = at.child(label); !ok {
			return box{}, false
		}
	}
	return at, true
}
