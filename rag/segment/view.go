package segment

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/lexical"
)

// View is a store as it was at one moment. It never changes and is safe for concurrent use; it holds memory and files until nothing refers to it, also
// when the store is closed. Ids of passages mean something within one view only.
type View struct {
	revision int64
	mark     string
	groups   [][]byte
	parts    []viewPart
}

type viewPart struct {
	*state
	base uint32 // of the ids of its rows
}

// Revision is the one of the last change.
func (v *View) Revision() int64 { return v.revision }

// Mark is the one of the last change.
func (v *View) Mark() string { return v.mark }

// Groups returns the groups of documents; a group's number is its place. In later views of an open store a number is of the same group, or of none,
// which is nil. The caller changes none.
func (v *View) Groups() [][]byte { return v.groups }

// Len returns the number of passages.
func (v *View) Len() int {
	n := uint64(0)
	for _, p := range v.parts {
		for _, b := range p.groups {
			n += b.GetCardinality()
		}
	}
	return int(n)
}

// Filter is a set of passages of a view, and the way to them: who has none reads none. It is immutable.
type Filter struct {
	view *View
	rows []*roaring.Bitmap // of each part
}

// Filter returns the passages that are in these groups and whose documents are valid at a time, in UTC unix µs; nil groups have none.
func (v *View) Filter(groups *roaring.Bitmap, at int64) *Filter { return v.In(groups).At(at) }

// In returns the passages that are in these groups, valid or not; nil groups have none.
func (v *View) In(groups *roaring.Bitmap) *Filter {
	f := &Filter{v, make([]*roaring.Bitmap, len(v.parts))}
	for i, p := range v.parts {
		var some []*roaring.Bitmap
		for number, rows := range p.groups {
			if groups != nil && groups.Contains(number) {
				some = append(some, rows)
			}
		}
		f.rows[i] = roaring.FastOr(some...)
	}
	return f
}

// At returns those of the passages whose documents are valid at a time, in UTC unix µs.
func (f *Filter) At(at int64) *Filter {
	out := &Filter{f.view, slices.Clone(f.rows)}
	for i, p := range f.view.parts {
		own := false
		for _, d := range p.dated {
			h := d.hidden(at)
			if h.IsEmpty() {
				continue
			}
			if !own {
				out.rows[i], own = out.rows[i].Clone(), true
			}
			out.rows[i].AndNot(h)
		}
	}
	return out
}

// Begun returns those of the passages whose documents are valid from a time or before, in UTC unix µs, whether they still are or not.
func (f *Filter) Begun(at int64) *Filter {
	out := &Filter{f.view, slices.Clone(f.rows)}
	for i, p := range f.view.parts {
		own := false
		for _, d := range p.dated {
			for _, r := range d.spans {
				if r.span.from <= at {
					continue
				}
				if !own {
					out.rows[i], own = out.rows[i].Clone(), true
				}
				out.rows[i].RemoveRange(uint64(r.first), uint64(r.end))
			}
		}
	}
	return out
}

// Without returns the passages that other does not have. Both are of one view.
func (f *Filter) Without(other *Filter) *Filter {
	out := &Filter{f.view, slices.Clone(f.rows)}
	for i, rows := range other.rows {
		if out.rows[i].Intersects(rows) {
			out.rows[i] = roaring.AndNot(out.rows[i], rows)
		}
	}
	return out
}

// View is the one that it is of.
func (f *Filter) View() *View { return f.view }

// Has reports whether a passage is among them.
func (f *Filter) Has(id uint32) bool {
	i, row, ok := f.view.locate(id)
	return ok && f.rows[i].Contains(row)
}

// HasAny reports whether a passage of a document is among them. It takes as long whatever the document has.
func (f *Filter) HasAny(e Entry) bool {
	if e.Passages == 0 {
		return false
	}
	i, first, ok := f.view.locate(e.First)
	return ok && f.rows[i].IntersectsWithInterval(uint64(first), uint64(first)+uint64(e.Passages))
}

// Documents returns the number of documents of which there is a passage, however many versions they have.
func (f *Filter) Documents() int {
	var keys []docKey
	f.each(func(d *docMeta) { keys = append(keys, d.key) })
	slices.SortFunc(keys, func(a, b docKey) int { return bytes.Compare(a[:], b[:]) })
	return len(slices.Compact(keys))
}

func (f *Filter) each(do func(*docMeta)) {
	for i, p := range f.view.parts {
		it := f.rows[i].Iterator()
		for it.HasNext() {
			doc := docOf(p.docs, it.Next())
			do(&p.docs[doc])
			_, end := rowsOf(p.docs, len(p.rows), doc)
			it.AdvanceIfNeeded(end)
		}
	}
}

// Entry is a document of a view: one version.
type Entry struct {
	Name

	From, Until int64
	// First is the id of its first passage; those of the others follow.
	First    uint32
	Passages int

	part viewPart
	doc  uint32
}

// Find returns what a view has of a document, by version. It reads no files.
func (v *View) Find(id string) []Entry {
	var out []Entry
	key := keyOf(id)
	for _, p := range v.parts {
		for _, doc := range p.lookup(key) {
			if p.present(doc) {
				e := p.describe(doc)
				e.ID = id
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Version, b.Version) })
	return out
}

// lookup returns the numbers of the documents with a key, whether they are there or not.
func (p viewPart) lookup(key docKey) []uint32 {
	var out []uint32
	if order := p.part.order; order != nil {
		first, _ := slices.BinarySearchFunc(order, key, func(d uint32, k docKey) int { return bytes.Compare(p.docs[d].key[:], k[:]) })
		for _, d := range order[first:] {
			if p.docs[d].key != key {
				break
			}
			out = append(out, d)
		}
		return out
	}
	for d := range p.docs { // a tail: it is small, and its map is the store's
		if p.docs[d].key == key {
			out = append(out, uint32(d))
		}
	}
	return out
}

// present reports whether a document of the part is there: its first passage is in a group. One without passages never is.
func (p viewPart) present(doc uint32) bool {
	first, end := rowsOf(p.docs, len(p.rows), doc)
	return first < end && p.groupOf(first) != gone
}

func (p viewPart) groupOf(row uint32) uint32 {
	for number, rows := range p.groups {
		if rows.Contains(row) {
			return number
		}
	}
	return gone
}

func (p viewPart) describe(doc uint32) Entry {
	first, end := rowsOf(p.docs, len(p.rows), doc)
	e := Entry{Name: Name{Version: p.docs[doc].version}, First: p.base + first, Passages: int(end - first), part: p, doc: doc}
	if d := p.dated[doc/datedDocs]; d != nil {
		for _, r := range d.spans {
			if r.doc == doc {
				e.From, e.Until = r.span.from, r.span.until
			}
		}
	}
	return e
}

// Groups returns the number of the group of each passage.
func (e *Entry) Groups() []uint32 {
	out := make([]uint32, 0, e.Passages)
	first, end := rowsOf(e.part.docs, len(e.part.rows), e.doc)
	number := uint32(gone)
	for row := first; row < end; row++ {
		if b := e.part.groups[number]; b == nil || !b.Contains(row) {
			number = e.part.groupOf(row)
		}
		out = append(out, number)
	}
	return out
}

// Texts reads what all passages of the document say, whoever may see them, and its detail.
func (e *Entry) Texts() ([]Found, error) {
	from := e.part.part.texts.Load().reader()
	first, end := rowsOf(e.part.docs, len(e.part.rows), e.doc)
	out := make([]Found, 0, end-first)
	for row := first; row < end; row++ {
		f, err := readPassage(from, &e.part.docs[e.doc], &e.part.rows[row])
		if err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		f.From, f.Until = e.From, e.Until
		out = append(out, f)
	}
	return out, nil
}

// Detail reads the detail of the document.
func (e *Entry) Detail() ([]byte, error) {
	_, detail, err := readDocument(e.part.part.texts.Load().reader(), &e.part.docs[e.doc])
	return detail, err
}

// Each calls do with every document of a view and its detail, in the order in which they lie on the disk. It stops at an error, and returns it.
func (v *View) Each(do func(e Entry, detail []byte) error) error {
	for _, p := range v.parts {
		from := p.part.texts.Load().reader()
		there := roaring.FastOr(slices.Collect(maps.Values(p.groups))...)
		for doc := range p.docs {
			if first, end := rowsOf(p.docs, len(p.rows), uint32(doc)); first == end || !there.Contains(first) {
				continue
			}
			id, detail, err := readDocument(from, &p.docs[doc])
			if err != nil {
				return fmt.Errorf("read document: %w", err)
			}
			e := p.describe(uint32(doc))
			e.ID = id
			if err := do(e, detail); err != nil {
				return err
			}
		}
	}
	return nil
}

// Len returns the number of passages.
func (f *Filter) Len() int {
	n := uint64(0)
	for _, b := range f.rows {
		n += b.GetCardinality()
	}
	return int(n)
}

// Only returns those of the passages that have one of the ids.
func (f *Filter) Only(ids []uint32) *Filter {
	out := &Filter{f.view, make([]*roaring.Bitmap, len(f.rows))}
	for i := range out.rows {
		out.rows[i] = roaring.New()
	}
	for _, id := range ids {
		if i, row, ok := f.view.locate(id); ok && f.rows[i].Contains(row) {
			out.rows[i].Add(row)
		}
	}
	return out
}

// locate returns the part and the row of an id.
func (v *View) locate(id uint32) (part int, row uint32, ok bool) {
	i, found := slices.BinarySearchFunc(v.parts, id, func(p viewPart, id uint32) int { return cmp.Compare(p.base, id) })
	if !found {
		i--
	}
	for found && i+1 < len(v.parts) && v.parts[i+1].base == id { // parts without rows
		i++
	}
	if i < 0 || int(id-v.parts[i].base) >= len(v.parts[i].rows) {
		return 0, 0, false
	}
	return i, id - v.parts[i].base, true
}

// Compare orders passages by their documents, versions and numbers: in the same way in every store that has them, whatever their ids are.
func (v *View) Compare(a, b uint32) int {
	i, row, _ := v.locate(a)
	j, other, _ := v.locate(b)
	p, q := v.parts[i], v.parts[j]
	x, y := &p.docs[docOf(p.docs, row)], &q.docs[docOf(q.docs, other)]
	return cmp.Or(bytes.Compare(x.key[:], y.key[:]), cmp.Compare(x.version, y.version), cmp.Compare(p.rows[row].number, q.rows[other].number))
}

// Near returns the n passages whose vectors are nearest to one: highest score first, equal scores by id. The answer is exact: see
// rag/index/sq8.
func (f *Filter) Near(ctx context.Context, vector []float32, n int) ([]index.Hit, error) {
	var all []index.Hit
	for i, p := range f.view.parts {
		if f.rows[i].IsEmpty() {
			continue
		}
		hits, err := p.part.vectors.Search(ctx, index.Query{Vector: vector, Allowed: f.rows[i], TopK: n})
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			all = append(all, index.Hit{ID: p.base + h.ID, Score: h.Score})
		}
	}
	slices.SortFunc(all, func(a, b index.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return all[:min(max(n, 0), len(all))], nil
}

// Words returns what [lexical.Rank] ranks; the ids of its hits are those of the view.
func (f *Filter) Words() []lexical.Part {
	var out []lexical.Part
	for i, p := range f.view.parts {
		for _, w := range p.words {
			allowed := f.rows[i]
			if w.first > 0 {
				allowed = roaring.AddOffset64(allowed, -int64(w.first))
			}
			out = append(out, lexical.Part{Segment: w.Segment, Allowed: allowed, Base: p.base + w.first})
		}
	}
	return out
}

// Found is a passage with its document.
type Found struct {
	Name
	Rule
	Detail             []byte
	Number, Start, End int
	Section, Text      string
}

// Passages returns what the passages with these ids say, in their order. Ids that the filter does not have are an error: whoever may not see a
// passage cannot read it.
func (f *Filter) Passages(ids []uint32) ([]Found, error) {
	v, out := f.view, make([]Found, len(ids))
	readers := map[int]*textReader{}
	for n, id := range ids {
		i, row, ok := v.locate(id)
		if !ok || !f.rows[i].Contains(row) {
			return nil, fmt.Errorf("read passage %d: it is not among those asked for", id)
		}
		p := v.parts[i]
		if readers[i] == nil {
			readers[i] = p.part.texts.Load().reader()
		}
		doc := docOf(p.docs, row)
		found, err := readPassage(readers[i], &p.docs[doc], &p.rows[row])
		if err != nil {
			return nil, fmt.Errorf("read passage %d: %w", id, err)
		}
		for number, rows := range p.groups {
			if rows.Contains(row) {
				found.Group = v.groups[number]
			}
		}
		if d := p.dated[doc/datedDocs]; d != nil {
			for _, r := range d.spans {
				if r.doc == doc {
					found.From, found.Until = r.span.from, r.span.until
				}
			}
		}
		out[n] = found
	}
	return out, nil
}

func readDocument(from *textReader, d *docMeta) (id string, detail []byte, err error) {
	b, err := from.record(d.offset, d.length)
	if err != nil {
		return "", nil, err
	}
	r := reader{b: b}
	id, detail = string(r.bytes()), slices.Clone(r.bytes())
	if r.failed || keyOf(id) != d.key {
		return "", nil, fmt.Errorf("%w: a text is not that of its document", ErrDamaged)
	}
	return id, detail, nil
}

// readPassage reads the records of a document and of one of its rows.
func readPassage(from *textReader, d *docMeta, row *rowMeta) (Found, error) {
	id, detail, err := readDocument(from, d)
	if err != nil {
		return Found{}, err
	}
	b, err := from.record(row.offset, row.length)
	if err != nil {
		return Found{}, err
	}
	r := reader{b: b}
	f := Found{Name: Name{id, d.version}, Detail: detail, Number: int(row.number), Start: int(row.start), End: int(row.end)}
	f.Section, f.Text = string(r.bytes()), string(r.bytes())
	if r.failed {
		return Found{}, fmt.Errorf("%w: a text is not that of its document", ErrDamaged)
	}
	return f, nil
}

// docRecord and rowRecord are what readPassage reads.
func docRecord(d *Document) []byte {
	var w writer
	w.bytes([]byte(d.ID))
	w.bytes(d.Detail)
	return w.b
}

func rowRecord(p *Passage) []byte {
	var w writer
	w.bytes([]byte(p.Section))
	w.bytes([]byte(p.Text))
	return w.b
}
