package segment

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index/sq8"
	"github.com/sluice-project/sluice/rag/lexical"
)

// part is a segment or the tail: documents and passages ("rows"), each known by its number in the part. Numbers never change while the part
// lives, whether it is in memory alone or in files too.
//
// Documents and rows are only appended: a view has the slices as they were. What may change about a document, its rule and whether it is there,
// is in current for changes and in states for views.
type part struct {
	vectors *sq8.Index
	docs    []docMeta
	rows    []rowMeta
	order   []uint32            // numbers of docs by key, of a segment
	byKey   map[docKey][]uint32 // the same of a tail
	texts   atomic.Pointer[texts]
	entry   segmentEntry // of its files, without changes; its name is "" as long as there are none. Under Store.mu.

	// Of changes, under Store.mu.
	current []uint32            // group of each document, or gone
	mixed   map[uint32][]uint32 // groups of the rows of those documents that have parts
	spans   []span              // period of each document
	dirty   *roaring.Bitmap     // documents that changed since its files were written
	touched *roaring.Bitmap     // documents that changed since work on its files began
	alive   int                 // rows of documents that are there
}

// gone is the group of documents that were deleted.
const gone = math.MaxUint32

// docKey stands for the id of a document: half a SHA-256.
type docKey [16]byte

func keyOf(id string) docKey {
	sum := sha256.Sum256([]byte(id))
	return docKey(sum[:16])
}

type docMeta struct {
	key     docKey
	version int64
	first   uint32 // its rows begin there and end where those of the next begin
	length  uint32 // of its record in the texts
	offset  int64
}

type rowMeta struct {
	number, start, end int32
	length             uint32 // of its record in the texts
	offset             int64
}

const (
	docBytes = 16 + 8 + 4 + 4 + 8
	rowBytes = 3*4 + 4 + 8
)

func (d *docMeta) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, d.key[:]...), uint64(d.version))
	b = binary.LittleEndian.AppendUint32(b, d.first)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, d.length), uint64(d.offset))
}

func docFrom(b []byte) docMeta {
	le := binary.LittleEndian
	return docMeta{docKey(b[:16]), int64(le.Uint64(b[16:])), le.Uint32(b[24:]), le.Uint32(b[28:]), int64(le.Uint64(b[32:]))}
}

func (r *rowMeta) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, uint32(r.number)), uint32(r.start)), uint32(r.end))
	return le.AppendUint64(le.AppendUint32(b, r.length), uint64(r.offset))
}

func rowFrom(b []byte) rowMeta {
	le := binary.LittleEndian
	return rowMeta{int32(le.Uint32(b)), int32(le.Uint32(b[4:])), int32(le.Uint32(b[8:])), le.Uint32(b[12:]), int64(le.Uint64(b[16:]))}
}

// span is a period of validity: 0 is no limit.
type span struct{ from, until int64 }

func (s span) holds(at int64) bool {
	return (s.from == 0 || s.from <= at) && (s.until == 0 || at < s.until)
}

func newTail(vectors *sq8.Index) *part {
	p := &part{vectors: vectors, byKey: map[docKey][]uint32{}, mixed: map[uint32][]uint32{}, dirty: roaring.New(), touched: roaring.New()}
	p.texts.Store(&texts{})
	return p
}

// rowsOf returns the first row of a document and the first behind it.
func rowsOf(docs []docMeta, rows int, doc uint32) (first, end uint32) {
	if int(doc)+1 < len(docs) {
		return docs[doc].first, docs[doc+1].first
	}
	return docs[doc].first, uint32(rows)
}

// docOf returns the document of a row: the last that begins at or before it.
func docOf(docs []docMeta, row uint32) uint32 {
	return uint32(sort.Search(len(docs), func(i int) bool { return docs[i].first > row }) - 1)
}

// find yields the documents of that name that are there.
func (p *part) find(n Name) []uint32 {
	key := keyOf(n.ID)
	numbers := p.byKey[key]
	if p.byKey == nil {
		first, _ := slices.BinarySearchFunc(p.order, key, func(d uint32, k docKey) int { return bytes.Compare(p.docs[d].key[:], k[:]) })
		end := first
		for end < len(p.order) && p.docs[p.order[end]].key == key {
			end++
		}
		numbers = p.order[first:end]
	}
	var out []uint32
	for _, d := range numbers {
		if p.current[d] != gone && (n.Version == 0 || p.docs[d].version == n.Version) {
			out = append(out, d)
		}
	}
	return out
}

// sorted returns the numbers of docs by key.
func sorted(docs []docMeta) []uint32 {
	out := make([]uint32, len(docs))
	for i := range out {
		out[i] = uint32(i)
	}
	slices.SortFunc(out, func(a, b uint32) int { return cmp.Or(bytes.Compare(docs[a].key[:], docs[b].key[:]), cmp.Compare(a, b)) })
	return out
}

// state is a part as a view sees it. It is immutable.
type state struct {
	part   *part
	docs   []docMeta
	rows   []rowMeta
	words  []placedWords
	groups map[uint32]*roaring.Bitmap // rows by group
	dated  map[uint32]*dated          // rows with a period, by number of document / datedDocs
}

// placedWords index some rows of a part: those from first on, as 0 and so on.
type placedWords struct {
	*lexical.Segment

	first uint32
}

// source is what a merge takes in, under the numbers of the rows.
func (w placedWords) source() lexical.Source {
	return lexical.Source{Segment: w.Segment, Renumber: func(id uint32) (uint32, bool) { return w.first + id, true }}
}

// dated are some documents with a period of validity.
type dated struct {
	spans  []datedRows
	cached atomic.Pointer[hidden]
}

type datedRows struct {
	doc, first, end uint32
	span            span
}

// datedDocs is how many documents lie in one [dated] at most: what a change of one copies.
const datedDocs = 1024

// hidden are the rows that are not valid at any time of a period, at until no more.
type hidden struct {
	from, until int64
	rows        *roaring.Bitmap
}

func (d *dated) hidden(at int64) *roaring.Bitmap {
	if c := d.cached.Load(); c != nil && c.from <= at && at < c.until {
		return c.rows
	}
	c := &hidden{math.MinInt64, math.MaxInt64, roaring.New()}
	for _, r := range d.spans {
		for _, t := range []int64{r.span.from, r.span.until} {
			if t == 0 {
				continue
			}
			if t <= at {
				c.from = max(c.from, t)
			} else {
				c.until = min(c.until, t)
			}
		}
		if !r.span.holds(at) {
			c.rows.AddRange(uint64(r.first), uint64(r.end))
		}
	}
	d.cached.Store(c)
	return c.rows
}

// draft makes the next state of a part. What it has not changed is shared.
type draft struct {
	state
	ownGroups map[uint32]bool
	ownDated  map[uint32]bool
}

func newDraft(s *state) *draft {
	d := &draft{state: *s, ownGroups: map[uint32]bool{}, ownDated: map[uint32]bool{}}
	d.groups, d.dated = maps.Clone(s.groups), maps.Clone(s.dated)
	if d.groups == nil {
		d.groups, d.dated = map[uint32]*roaring.Bitmap{}, map[uint32]*dated{}
	}
	return d
}

func (d *draft) group(number uint32) *roaring.Bitmap {
	b := d.groups[number]
	switch {
	case b == nil:
		b = roaring.New()
	case !d.ownGroups[number]:
		b = b.Clone()
	}
	d.groups[number], d.ownGroups[number] = b, true
	return b
}

// rule is what a part knows of the rule of a document. A group of gone takes the document away.
type rule struct {
	group uint32
	rows  []uint32 // groups of its rows, where they differ; nil: all have group
	span  span
}

func (p *part) rule(doc uint32) rule { return rule{p.current[doc], p.mixed[doc], p.spans[doc]} }

// rules are those of all documents.
func (p *part) rules() []rule {
	out := make([]rule, len(p.docs))
	for doc := range out {
		out[doc] = p.rule(uint32(doc))
	}
	return out
}

func (r rule) equal(o rule) bool {
	return r.group == o.group && r.span == o.span && slices.Equal(r.rows, o.rows)
}

// runs calls do for each run of rows, counted from 0, that have one group.
func (r rule) runs(n uint32, do func(group, from, to uint32)) {
	if r.rows == nil {
		do(r.group, 0, n)
		return
	}
	for from := uint32(0); from < n; {
		to := from + 1
		for to < n && r.rows[to] == r.rows[from] {
			to++
		}
		do(r.rows[from], from, to)
		from = to
	}
}

// place gives a document another rule in the draft and in the part.
func (d *draft) place(doc uint32, next rule) {
	p, s := d.part, next.span
	first, end := rowsOf(p.docs, len(p.rows), doc)
	was, group := p.rule(doc), next.group
	if was.group != group || !slices.Equal(was.rows, next.rows) {
		if was.group != gone {
			was.runs(end-first, func(g, from, to uint32) {
				b := d.group(g)
				if b.RemoveRange(uint64(first+from), uint64(first+to)); b.IsEmpty() {
					delete(d.groups, g)
					delete(d.ownGroups, g)
				}
			})
			p.alive -= int(end - first)
		}
		if group != gone {
			next.runs(end-first, func(g, from, to uint32) { d.group(g).AddRange(uint64(first+from), uint64(first+to)) })
			p.alive += int(end - first)
		}
		p.current[doc] = group
		if next.rows != nil && group != gone {
			p.mixed[doc] = next.rows
		} else {
			delete(p.mixed, doc)
		}
	}
	if group == gone {
		s = span{}
	}
	had := p.spans[doc]
	if had == s {
		return
	}
	p.spans[doc] = s
	number := doc / datedDocs
	own := d.dated[number]
	if !d.ownDated[number] {
		next := &dated{}
		if own != nil {
			next.spans = slices.Clone(own.spans)
		}
		own, d.dated[number], d.ownDated[number] = next, next, true
	}
	if had != (span{}) {
		own.spans = slices.DeleteFunc(own.spans, func(r datedRows) bool { return r.doc == doc })
	}
	if s != (span{}) {
		own.spans = append(own.spans, datedRows{doc, first, end, s})
	}
	if len(own.spans) == 0 {
		delete(d.dated, number)
		delete(d.ownDated, number)
	}
}

// done returns the state, with all that was appended to the part.
func (d *draft) done() *state {
	d.docs, d.rows = d.part.docs, d.part.rows
	s := d.state
	return &s
}
