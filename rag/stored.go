package rag

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/rag/segment"
)

// What stands in a segment store of a collection: one document of it for each version, with a passage for each chunk. The group of a passage says what is
// needed to see it ([needs]), the period of a version when it is in effect, and its detail the rest that an answer needs ([detail]).

// passageStore is what a collection needs of [segment.Store]. Tests let it fail.
type passageStore interface {
	IndexWords(ctx context.Context, d *segment.Document) error
	Apply(ctx context.Context, c segment.Change) error
	View() *segment.View
	Purge(ctx context.Context) error
	Unclean() bool
	Run(ctx context.Context) error
	Close() error
}

// detail is what a version says of itself.
type detail struct {
	Name     string // of the document
	Title    string `json:",omitempty"`
	MIME     string
	Digest   string `json:",omitempty"`
	Embedder string // whose vectors are stored
	Known    string `json:",omitempty"` // as encodeKnown writes it
	FAQ      string `json:",omitempty"` // likewise encodeFAQ
	Bytes    int    // of its text
	Broken   bool   `json:",omitempty"` // what the tables have of it cannot be read
}

// readDetail reads the detail of a version in a store.
func readDetail(raw []byte) (d detail, err error) {
	if json.Unmarshal(raw, &d) != nil { // the error might quote it
		err = fmt.Errorf("%w: the detail of a version", segment.ErrDamaged)
	}
	return d, err
}

// readDetails reads the details of versions in a store, by their numbers.
func readDetails(versions []segment.Entry) (map[int64]detail, error) {
	out := map[int64]detail{}
	for _, e := range versions {
		raw, err := e.Detail()
		if err != nil {
			return nil, err
		}
		if out[e.Version], err = readDetail(raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// needs is what decides whether a search may find a passage, beside the time: the content of a group.
type needs struct {
	Conditions [][]Allow `json:"c,omitempty"` // one of each is needed
	Embedder   string    `json:"e,omitempty"` // of the vectors
	Ruled      bool      `json:"r,omitempty"` // the document has a rule
	Damaged    bool      `json:"d,omitempty"` // it has one that cannot be read
	Broken     bool      `json:"b,omitempty"` // what the version says cannot be read: searches fail while it is in effect
	Unreadable bool      `json:"u,omitempty"` // the labels of the document cannot be read: searches fail
}

func (n needs) encode() []byte {
	raw, _ := json.Marshal(n) // lists of strings always encode
	return raw
}

// unreadableVersion is the version that stands for a document whose labels cannot be read and of which the store has nothing.
const unreadableVersion = math.MaxInt64

// content is what a version says, as it is put into a store. broken ones have no passages of their own.
type content struct {
	version *indexedVersion
	broken  bool
	ready   *segment.Document // prepared; nil if it is not
}

// document makes the content what a store takes in, under a rule.
func (c *content) document(row versionRow, name string, model Model) segment.Document {
	d := detail{Name: name, MIME: row.MIME, Embedder: row.Embedder, Broken: c.broken}
	ready := c.ready
	if ready == nil {
		ready = c.unprepared(model)
	}
	out := *ready
	if !c.broken {
		v := c.version
		d.Title, d.Digest, d.Known, d.FAQ, d.Bytes = v.Title, v.Digest, v.Known, v.FAQ, len(v.Content)
	}
	out.Detail, _ = json.Marshal(d) // strings always encode
	out.Name = segment.Name{ID: row.Document, Version: row.Version}
	return out
}

// unprepared is what a store prepares.
func (c *content) unprepared(model Model) *segment.Document {
	if c.broken { // a passage that nobody finds stands for it
		return &segment.Document{Passages: []segment.Passage{{Vector: make([]float32, model.Dim)}}}
	}
	return &segment.Document{Passages: c.version.passages(model)}
}

// passages are those of a version. The vectors of another model are left out: they may be of another dimension, and are not comparable.
func (v *indexedVersion) passages(model Model) []segment.Passage {
	out := make([]segment.Passage, len(v.chunks))
	for i, c := range v.chunks {
		out[i] = segment.Passage{Number: c.Chunk, Start: c.Start, End: c.End, Section: c.joinPlace(), Text: v.text(i), Words: v.indexText(i)}
		if out[i].Vector = decodeVector(c.Vector); v.Embedder != model.ID {
			out[i].Vector = make([]float32, model.Dim)
		}
	}
	return out
}

// joinPlace is the section and the place of a chunk as a store keeps them, which knows of sections only.
func (c chunkRow) joinPlace() string { return c.Section + "\x00" + c.Place }

// cutPlace is a chunk with the section and the place that joinPlace has joined: places have no such character, whatever headings have.
func cutPlace(joined string) chunkRow {
	i := strings.LastIndexByte(joined, 0)
	if i < 0 {
		return chunkRow{Section: joined}
	}
	return chunkRow{Section: joined[:i], Place: joined[i+1:]}
}

// ruled says who may see a version and when, as a store has it. row.Embedder is whose vectors the store has of it, or is to have; v has the sections and places
// of its passages, which only parts of a rule need.
func (b *indexedDocument) ruled(row versionRow, v *indexedVersion, broken bool, keep ruleKeeper) segment.Rule {
	out := segment.Rule{From: row.ValidFrom, Until: row.ValidUntil}
	of := needs{Embedder: row.Embedder, Ruled: b.restricted(), Damaged: b.damaged, Broken: broken}
	d := datedVersion{indexedVersion: v, broken: broken}
	for i, p := range b.parts(&d, keep) {
		of.Conditions = p.conditions
		if group := of.encode(); i == 0 {
			out.Group = group
		} else {
			out.Parts = append(out.Parts, segment.Part{Group: group, Passages: p.chunks})
		}
	}
	return out
}

// placed adds to a change what makes the store say of a document what the tables say, and reports whether it then does: else what some versions say has to be
// read first, see contents. contents are those of versions by their ids.
func (b *indexedDocument) placed(c *segment.Change, view *segment.View, contents map[string]content, model Model, keep ruleKeeper, p *placing) (complete bool, err error) {
	complete = true
	have := map[int64]*segment.Entry{}
	for _, e := range view.Find(b.ID) {
		have[e.Version] = &e
	}
	for i := range b.rows {
		row := b.rows[i]
		e := have[row.Version]
		delete(have, row.Version)
		was := detail{}
		if e != nil {
			raw, err := e.Detail()
			if err == nil {
				was, err = readDetail(raw)
			}
			if err != nil {
				return false, err
			}
		}
		if e != nil && was.Embedder == row.Embedder && !was.Broken {
			b.move(c, view, e, row, false, keep, p)
			continue
		}
		if it, ok := contents[row.ID]; ok && (it.broken || it.version.Embedder == row.Embedder) {
			d := it.document(row, b.Name, model)
			v := it.version
			if it.broken {
				v = &indexedVersion{versionRow: row}
			}
			d.Rule = b.ruled(row, v, it.broken, keep)
			c.Put = append(c.Put, d)
			continue
		}
		complete = false
		if e != nil { // what it says, or its vectors, come later; who may see it and when does not wait
			row.Embedder = was.Embedder
			b.move(c, view, e, row, was.Broken, keep, p)
		}
	}
	for version := range have {
		c.Delete = append(c.Delete, segment.Name{ID: b.ID, Version: version})
	}
	return complete, nil
}

// outlines are the sections and places of the passages of versions that a store has, which only the parts of a rule need. What a version says does not change,
// so they hold however long ago they were read.
type outlines map[segment.Name][]chunkRow

// read adds the outlines of some versions. It reads and decrypts all that they say.
func (o outlines) read(entries []*segment.Entry) error {
	for _, e := range entries {
		texts, err := e.Texts()
		if err != nil {
			return fmt.Errorf("read sections of version %d: %w", e.Version, err)
		}
		chunks := make([]chunkRow, len(texts))
		for i, t := range texts {
			chunks[i] = cutPlace(t.Section)
			chunks[i].Chunk, chunks[i].Start, chunks[i].End = t.Number, t.Start, t.End
			if i > 0 && chunks[i].Section == chunks[i-1].Section {
				chunks[i].Section = chunks[i-1].Section // keeps one of them
			}
		}
		o[e.Name] = chunks
	}
	return nil
}

// placing is what [indexedDocument.placed] knows beside tables and store, and what it lacks.
type placing struct {
	known outlines
	lacks []*segment.Entry
}

// move gives a version that the store has its rule, if it has another. If it lacks the outline of the version it says so and does nothing.
func (b *indexedDocument) move(c *segment.Change, view *segment.View, e *segment.Entry, row versionRow, broken bool, keep ruleKeeper, p *placing) {
	v := &indexedVersion{versionRow: row}
	numbers, groups := e.Groups(), view.Groups()
	if len(b.rule.Parts) > 0 && !broken && !b.damaged {
		known, ok := p.known[e.Name]
		if !ok || len(known) != len(numbers) {
			p.lacks = append(p.lacks, e)
			return
		}
		v.chunks = known
	}
	next := b.ruled(row, v, broken, keep)
	if next.From == e.From && next.Until == e.Until && sameGroups(next, numbers, groups) {
		return
	}
	c.Move = append(c.Move, segment.Move{Name: e.Name, Rule: next})
}

// sameGroups reports whether passages are in the groups of a rule.
func sameGroups(r segment.Rule, numbers []uint32, groups [][]byte) bool {
	want := slices.Repeat([][]byte{r.Group}, len(numbers))
	for _, p := range r.Parts {
		for _, n := range p.Passages {
			want[n] = p.Group
		}
	}
	for i, n := range numbers {
		if !bytes.Equal(want[i], groups[n]) {
			return false
		}
	}
	return true
}

// placeUnreadable makes searches fail because of a document whose labels cannot be read.
func placeUnreadable(c *segment.Change, view *segment.View, id string, model Model) {
	rule := segment.Rule{Group: needs{Unreadable: true}.encode()}
	if have := view.Find(id); len(have) > 0 {
		c.Move = append(c.Move, segment.Move{Name: segment.Name{ID: id}, Rule: rule})
		return
	}
	d, _ := json.Marshal(detail{Broken: true})
	c.Put = append(c.Put, segment.Document{
		Name: segment.Name{ID: id, Version: unreadableVersion}, Rule: rule, Detail: d, Passages: []segment.Passage{{Vector: make([]float32, model.Dim)}},
	})
}
