package segment

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/lexical"
)

// View is a store as it was at one moment. It never changes and is safe for concurrent use; it holds memory and files until nothing refers to it, also
// when the store is closed. Ids of passages mean something within one view only.
type View struct {
	revision int64
	groups   [][]byte
	parts    []viewPart
}

type viewPart struct {
	*state
	base uint32 // of the ids of its rows
}

// Revision is the one of the last change.
func (v *View) Revision() int64 { return v.revision }

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

// Filter returns the passages of documents that are in these groups and valid at a time, in UTC unix µs; nil groups have none.
func (v *View) Filter(groups *roaring.Bitmap, at int64) *Filter {
	f := &Filter{v, make([]*roaring.Bitmap, len(v.parts))}
	for i, p := range v.parts {
		var some []*roaring.Bitmap
		for number, rows := range p.groups {
			if groups != nil && groups.Contains(number) {
				some = append(some, rows)
			}
		}
		rows := roaring.FastOr(some...)
		for _, d := range p.dated {
			if h := d.hidden(at); !h.IsEmpty() {
				rows.AndNot(h)
			}
		}
		f.rows[i] = rows
	}
	return f
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
			out = append(out, lexical.Part{Segment: w, Allowed: f.rows[i], Base: p.base})
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

// readPassage reads the records of a document and of one of its rows.
func readPassage(from *textReader, d *docMeta, row *rowMeta) (Found, error) {
	b, err := from.record(d.offset, d.length)
	if err != nil {
		return Found{}, err
	}
	r := reader{b: b}
	f := Found{Name: Name{string(r.bytes()), d.version}, Detail: slices.Clone(r.bytes()), Number: int(row.number), Start: int(row.start), End: int(row.end)}
	if b, err = from.record(row.offset, row.length); err != nil {
		return Found{}, err
	}
	q := reader{b: b}
	f.Section, f.Text = string(q.bytes()), string(q.bytes())
	if r.failed || q.failed || keyOf(f.ID) != d.key {
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
