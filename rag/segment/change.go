package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/lexical"
)

// Change is what happens to a store at once, in this order: documents are deleted, then moved, then put.
type Change struct {
	// Revision of the tables up to which the store is complete with this change. It never falls. If that takes several changes, those before the last
	// carry the revision before, or a crash between them shows a revision that is not complete.
	Revision int64
	// Mark comes with the revision; what it means is the caller's. [View.Mark] returns the last one.
	Mark   string
	Delete []Name
	Move   []Move
	Put    []Document
}

// Name is one version of a document, or all of them if Version is 0.
type Name struct {
	ID      string
	Version int64
}

// Rule says who may see a document and when.
type Rule struct {
	// Group holds the passages with the same permissions; what the bytes mean is the caller's.
	Group []byte
	// Parts are passages that have another group.
	Parts []Part
	// From and Until are UTC unix µs: the document is valid at From and no more at Until. 0 is no limit.
	From, Until int64
}

// Part gives some passages of a document a group of their own. No passage is in two parts.
type Part struct {
	Group    []byte
	Passages []int // by their places in the document as it was put, from 0, rising
}

// Move gives documents another rule; one with parts names a version. Their vectors and texts stay as they are.
type Move struct {
	Name
	Rule
}

// Document is one version of a document with its passages. It takes the place of the same version; other versions stay.
type Document struct {
	Name // the version is above 0
	Rule
	// Detail comes back with each passage; what it means is the caller's.
	Detail   []byte
	Passages []Passage

	words *lexical.Segment // of all passages, see [Store.IndexWords]
}

// Passage is a part of a document.
type Passage struct {
	Number     int // in the document
	Start, End int // in its text
	Section    string
	Text       string
	// Words is the text for the lexical index. It is not kept beside it.
	Words  string
	Vector []float32
}

// maxChange bounds a change in bytes, so that a hostile length in a log reserves no memory.
const maxChange = 1 << 30

func (c *Change) check(dim int, newest int64) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrChange}, args...)...)
	}
	if c.Revision < newest {
		return bad("revision %d is before %d", c.Revision, newest)
	}
	for _, n := range c.Delete {
		if n.ID == "" || n.Version < 0 {
			return bad("delete %q, version %d", n.ID, n.Version)
		}
	}
	for _, m := range c.Move {
		if m.ID == "" || m.Version < 0 || !m.sensible(math.MaxInt32) || len(m.Parts) > 0 && m.Version == 0 {
			return bad("move %q, version %d", m.ID, m.Version)
		}
	}
	seen := map[Name]bool{}
	for _, d := range c.Put {
		if d.ID == "" || d.Version <= 0 || !d.sensible(len(d.Passages)) || seen[d.Name] {
			return bad("document %q, version %d", d.ID, d.Version)
		}
		seen[d.Name] = true
		for _, p := range d.Passages {
			if !fits(p.Number) || !fits(p.Start) || !fits(p.End) {
				return bad("passage %d of document %q", p.Number, d.ID)
			}
			if err := index.Check(p.Vector, dim); err != nil {
				return bad("passage %d of document %q: %w", p.Number, d.ID, err)
			}
		}
	}
	return nil
}

// sensible reports whether a rule can be that of a document of so many passages.
func (r *Rule) sensible(passages int) bool {
	seen := map[int]bool{}
	for _, p := range r.Parts {
		for i, n := range p.Passages {
			if n < 0 || n >= passages || seen[n] || i > 0 && n < p.Passages[i-1] {
				return false
			}
			seen[n] = true
		}
	}
	return r.From >= 0 && r.Until >= 0
}

func fits(n int) bool { return n >= 0 && n <= math.MaxInt32 }

// encode returns the change as the log has it.
func (c *Change) encode() []byte {
	var w writer
	w.int(c.Revision)
	w.bytes([]byte(c.Mark))
	w.int(int64(len(c.Delete)))
	for _, n := range c.Delete {
		w.name(n)
	}
	w.int(int64(len(c.Move)))
	for _, m := range c.Move {
		w.name(m.Name)
		w.rule(m.Rule)
	}
	w.int(int64(len(c.Put)))
	for _, d := range c.Put {
		w.name(d.Name)
		w.rule(d.Rule)
		w.bytes(d.Detail)
		w.int(int64(len(d.Passages)))
		for _, p := range d.Passages {
			w.int(int64(p.Number))
			w.int(int64(p.Start))
			w.int(int64(p.End))
			w.bytes([]byte(p.Section))
			w.bytes([]byte(p.Text))
			if head, ok := strings.CutSuffix(p.Words, p.Text); ok { // as it nearly always does
				w.int(1)
				w.bytes([]byte(head))
			} else {
				w.int(0)
				w.bytes([]byte(p.Words))
			}
			for _, v := range p.Vector {
				w.b = binary.LittleEndian.AppendUint32(w.b, math.Float32bits(v))
			}
		}
	}
	return w.b
}

// decodeChange reads what encode wrote. It reserves no more memory than a small multiple of len(b).
func decodeChange(b []byte, dim int) (Change, error) {
	r := reader{b: b}
	c := Change{Revision: r.int(), Mark: string(r.bytes())}
	for range r.count(2) {
		c.Delete = append(c.Delete, r.name())
	}
	for range r.count(6) {
		c.Move = append(c.Move, Move{r.name(), r.rule()})
	}
	for range r.count(8) {
		d := Document{Name: r.name(), Rule: r.rule(), Detail: r.bytes()}
		for range r.count(7 + 4*dim) {
			p := Passage{Number: int(r.int()), Start: int(r.int()), End: int(r.int()), Section: string(r.bytes()), Text: string(r.bytes())}
			if ends := r.int(); ends == 1 {
				p.Words = string(r.bytes()) + p.Text
			} else {
				p.Words = string(r.bytes())
			}
			if vector := r.take(4 * uint64(dim)); vector != nil {
				p.Vector = make([]float32, dim)
				for i := range p.Vector {
					p.Vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(vector[4*i:]))
				}
			}
			d.Passages = append(d.Passages, p)
		}
		c.Put = append(c.Put, d)
	}
	if r.failed || len(r.b) > 0 {
		return Change{}, fmt.Errorf("%w: not a change", ErrChange)
	}
	return c, nil
}

// writer appends values of variable length.
type writer struct{ b []byte }

func (w *writer) int(v int64)    { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) bytes(v []byte) { w.int(int64(len(v))); w.b = append(w.b, v...) }
func (w *writer) name(n Name)    { w.bytes([]byte(n.ID)); w.int(n.Version) }

func (w *writer) rule(r Rule) {
	w.bytes(r.Group)
	w.int(r.From)
	w.int(r.Until)
	w.int(int64(len(r.Parts)))
	for _, p := range r.Parts {
		w.bytes(p.Group)
		w.int(int64(len(p.Passages)))
		before := 0
		for _, n := range p.Passages {
			w.int(int64(n - before))
			before = n
		}
	}
}

// reader reads them. After the first that is not there it gives zeros and failed is set.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.failed = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a number of things that have at least size bytes each.
func (r *reader) count(size int) int64 {
	n := r.int()
	if n < 0 || n > int64(len(r.b)/size) {
		r.b, r.failed = nil, true
		return 0
	}
	return n
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.failed = nil, true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) bytes() []byte { return r.take(uint64(r.int())) } // a negative length is too large
func (r *reader) name() Name    { return Name{string(r.bytes()), r.int()} }

func (r *reader) rule() Rule {
	out := Rule{Group: r.bytes(), From: r.int(), Until: r.int()}
	for range r.count(2) {
		p := Part{Group: r.bytes()}
		before := 0
		for range r.count(1) {
			before += int(r.int())
			p.Passages = append(p.Passages, before)
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}
