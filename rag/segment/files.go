package segment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/rag/index/sq8"
	"github.com/sluice-project/sluice/rag/lexical"
)

// An index file has, one after the other: documents, their numbers by key, rows, the group of each document, the documents with a period, those with several groups, vectors,
// words.

const spanBytes = 4 + 8 + 8

func indexName(segment string) string { return segment + ".index" }
func textsName(segment string) string { return segment + ".texts" }

// contents is what the files of a segment have.
type contents struct {
	docs    []docMeta
	rows    []rowMeta
	rules   []rule
	vectors *sq8.Index
	words   []byte
	texts   func(io.Writer) error
}

// writeSegment makes the files of a segment, durably. They count when a manifest names them; after an error none is left, if the disk allows.
func (s *Store) writeSegment(ctx context.Context, c *contents) (e segmentEntry, err error) {
	e = segmentEntry{
		Name: fmt.Sprintf("seg-%x", seal.Random(8)), Docs: len(c.docs), Rows: len(c.rows), SpanBytes: int64(dates(c.rules) * spanBytes), MixedBytes: int64(len(mixedBytes(c.rules))),
		VectorBytes: int64(len(c.rows)) * int64(sq8.RowBytes(s.cfg.Dim)), WordBytes: int64(len(c.words)),
	}
	// The texts first: what merges segments learns only from them where its documents and rows are.
	if e.TextBytes, err = writeSealed(ctx, s.cfg.Files, s.cfg.Dir, s.sealer, textsName(e.Name), c.texts); err != nil {
		return e, errors.Join(err, s.discard(e.Name))
	}
	e.IndexBytes, err = writeSealed(ctx, s.cfg.Files, s.cfg.Dir, s.sealer, indexName(e.Name), func(w io.Writer) error { return writeIndex(w, c) })
	if err == nil {
		err = s.cfg.Files.SyncDir(s.cfg.Dir)
	}
	if err != nil {
		return e, errors.Join(err, s.discard(e.Name))
	}
	return e, nil
}

// dates counts the documents with a period.
func dates(all []rule) int {
	n := 0
	for _, r := range all {
		if r.span != (span{}) {
			n++
		}
	}
	return n
}

// mixedBytes are the documents with several groups: their number, how many runs of rows they have, and of each how many rows and which group.
func mixedBytes(all []rule) (b []byte) {
	le := binary.LittleEndian
	for doc, r := range all {
		if r.rows == nil {
			continue
		}
		b = le.AppendUint32(b, uint32(doc))
		at, n := len(b), uint32(0)
		b = le.AppendUint32(b, 0)
		r.runs(uint32(len(r.rows)), func(group, from, to uint32) {
			b = le.AppendUint32(le.AppendUint32(b, to-from), group)
			n++
		})
		le.PutUint32(b[at:], n)
	}
	return b
}

// mixed reads what mixedBytes wrote of documents with so many rows. It reserves no more memory than these rows need.
func mixed(b []byte, groups int, rows func(doc uint32) int) (map[uint32][]uint32, bool) {
	le, out := binary.LittleEndian, map[uint32][]uint32{}
	word := func() (n uint32, ok bool) {
		if len(b) < 4 {
			return 0, false
		}
		n, b = le.Uint32(b), b[4:]
		return n, true
	}
	for len(b) > 0 {
		doc, _ := word()
		n, ok := word()
		if !ok || int64(n)*8 > int64(len(b)) {
			return nil, false
		}
		var runs []uint32
		for range 2 * n {
			v, _ := word()
			runs = append(runs, v)
		}
		if out[doc], ok = unroll(runs, rows(doc), groups); !ok {
			return nil, false
		}
	}
	return out, true
}

// unroll returns the groups of rows from runs; false unless they are those of so many rows, and known.
func unroll(runs []uint32, rows, groups int) ([]uint32, bool) {
	out := make([]uint32, 0, max(rows, 0))
	for i := 0; i+1 < len(runs); i += 2 {
		if int64(runs[i]) > int64(rows-len(out)) || int64(runs[i+1]) >= int64(groups) {
			return nil, false
		}
		out = append(out, slices.Repeat(runs[i+1:i+2], int(runs[i]))...)
	}
	return out, rows >= 0 && len(out) == rows && len(runs)%2 == 0
}

// discard removes the files of a segment that no manifest names; if that fails, the next merge or flush tries again.
func (s *Store) discard(segment string) error {
	var all []error
	for _, name := range []string{indexName(segment), textsName(segment)} {
		path := filepath.Join(s.cfg.Dir, name)
		if err := s.cfg.Files.Remove(path); err != nil && exists(path) {
			all = append(all, err)
			s.mu.Lock()
			s.stale = append(s.stale, name)
			s.mu.Unlock()
		}
	}
	return errors.Join(all...)
}

func writeIndex(w io.Writer, c *contents) error {
	var b []byte
	flush := func(least int) error {
		if len(b) < least {
			return nil
		}
		_, err := w.Write(b)
		b = b[:0]
		return err
	}
	le := binary.LittleEndian
	for i := range c.docs {
		b = c.docs[i].append(b)
		if err := flush(pageBytes); err != nil {
			return err
		}
	}
	for _, d := range sorted(c.docs) {
		b = le.AppendUint32(b, d)
	}
	for i := range c.rows {
		b = c.rows[i].append(b)
		if err := flush(pageBytes); err != nil {
			return err
		}
	}
	for _, r := range c.rules {
		b = le.AppendUint32(b, r.group)
	}
	for doc := range c.docs {
		if at := c.rules[doc].span; at != (span{}) {
			b = le.AppendUint64(le.AppendUint64(le.AppendUint32(b, uint32(doc)), uint64(at.from)), uint64(at.until))
		}
	}
	b = append(b, mixedBytes(c.rules)...)
	for row := range c.rows {
		var ok bool
		if b, ok = c.vectors.AppendRow(b, uint32(row)); !ok {
			return fmt.Errorf("row %d has no vector", row)
		}
		if err := flush(pageBytes); err != nil {
			return err
		}
	}
	if err := flush(1); err != nil {
		return err
	}
	_, err := w.Write(c.words)
	return err
}

// loadSegments reads the segments of a manifest, two at a time.
func (s *Store) loadSegments(ctx context.Context, entries []segmentEntry) error {
	s.states = make([]*state, len(entries))
	failures := make([]error, len(entries))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 2)
	for i, e := range entries {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() != nil {
				failures[i] = context.Cause(ctx)
				return
			}
			s.states[i], failures[i] = s.loadSegment(e)
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

func (s *Store) loadSegment(e segmentEntry) (*state, error) {
	path := filepath.Join(s.cfg.Dir, indexName(e.Name))
	docs, rows := int64(e.Docs), int64(e.Rows)
	if docs < 0 || rows < 0 || e.SpanBytes < 0 || e.MixedBytes < 0 || e.WordBytes < 0 || e.TextBytes < 0 || e.VectorBytes != rows*int64(sq8.RowBytes(s.cfg.Dim)) ||
		e.IndexBytes != docs*(docBytes+4+4)+rows*rowBytes+e.SpanBytes+e.MixedBytes+e.VectorBytes+e.WordBytes {
		return nil, damaged(path, 0, "the manifest describes no segment")
	}
	f, err := openSealed(s.cfg.Dir, s.sealer, indexName(e.Name), e.IndexBytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.f.Close() }()
	p := newTail(sq8.New(s.cfg.Dim, s.cfg.Kernels))
	p.byKey, p.entry = nil, e
	p.entry.Changed = nil
	d, words, err := s.readIndex(p, &pageReader{file: f}, e)
	if err != nil {
		return nil, err
	}
	for _, c := range e.Changed {
		if int64(c.D) >= docs || c.G != gone && int(c.G) >= len(s.groups) {
			return nil, damaged(path, 0, "the manifest changes what the segment has not")
		}
		r := rule{group: c.G, span: span{c.F, c.U}}
		if len(c.P) > 0 && c.G != gone {
			first, end := rowsOf(p.docs, len(p.rows), c.D)
			var ok bool
			if r.rows, ok = unroll(c.P, int(end-first), len(s.groups)); !ok {
				return nil, damaged(path, 0, "the manifest changes what the segment has not")
			}
		}
		d.place(c.D, r)
		p.dirty.Add(c.D)
	}
	texted, err := openSealed(s.cfg.Dir, s.sealer, textsName(e.Name), e.TextBytes)
	if err != nil {
		return nil, err
	}
	p.texts.Store(&texts{file: texted})
	if rows > 0 {
		d.words = []placedWords{{words, 0}}
	}
	return d.done(), nil
}

// readIndex fills a part from its index file.
func (s *Store) readIndex(p *part, from io.Reader, e segmentEntry) (*draft, *lexical.Segment, error) {
	broken := func(what string) error {
		return damaged(filepath.Join(s.cfg.Dir, indexName(e.Name)), 0, "%s do not fit", what)
	}
	each := func(n int, size int, f func(i int, b []byte)) error {
		b := make([]byte, size)
		for i := range n {
			if _, err := io.ReadFull(from, b); err != nil {
				return err
			}
			f(i, b)
		}
		return nil
	}
	le := binary.LittleEndian
	p.docs, p.order, p.rows = make([]docMeta, e.Docs), make([]uint32, e.Docs), make([]rowMeta, e.Rows)
	p.current, p.spans = slices.Repeat([]uint32{gone}, e.Docs), make([]span, e.Docs)
	groups, fits := make([]uint32, e.Docs), true
	err := errors.Join(
		each(e.Docs, docBytes, func(i int, b []byte) { p.docs[i] = docFrom(b) }),
		each(e.Docs, 4, func(i int, b []byte) {
			p.order[i] = le.Uint32(b)
			fits = fits && int64(p.order[i]) < int64(e.Docs)
		}),
		each(e.Rows, rowBytes, func(i int, b []byte) { p.rows[i] = rowFrom(b) }),
		each(e.Docs, 4, func(i int, b []byte) {
			groups[i] = le.Uint32(b)
			fits = fits && (groups[i] == gone || int(groups[i]) < len(s.groups))
		}),
	)
	if err != nil {
		return nil, nil, err
	}
	before := uint32(0)
	for _, d := range p.docs {
		fits = fits && d.first >= before && int64(d.first) <= int64(e.Rows)
		before = d.first
	}
	if !fits || e.SpanBytes%spanBytes != 0 {
		return nil, nil, broken("its documents")
	}
	spans := map[uint32]span{}
	if err := each(int(e.SpanBytes/spanBytes), spanBytes, func(_ int, b []byte) {
		spans[le.Uint32(b)] = span{int64(le.Uint64(b[4:])), int64(le.Uint64(b[12:]))}
	}); err != nil {
		return nil, nil, err
	}
	several := make([]byte, e.MixedBytes)
	if _, err := io.ReadFull(from, several); err != nil {
		return nil, nil, err
	}
	rows, ok := mixed(several, len(s.groups), func(doc uint32) int {
		if int64(doc) >= int64(e.Docs) {
			return -1
		}
		first, end := rowsOf(p.docs, e.Rows, doc)
		return int(end - first)
	})
	if !ok {
		return nil, nil, broken("its groups")
	}
	d := newDraft(&state{part: p})
	for doc, g := range groups {
		if g != gone {
			d.place(uint32(doc), rule{g, rows[uint32(doc)], spans[uint32(doc)]})
		}
	}
	size := sq8.RowBytes(s.cfg.Dim)
	for row := 0; row < e.Rows; {
		n := min(1024, e.Rows-row)
		b := make([]byte, n*size)
		if _, err := io.ReadFull(from, b); err != nil {
			return nil, nil, err
		}
		if err := p.vectors.Restore(uint32(row), b); err != nil {
			return nil, nil, broken("its vectors")
		}
		row += n
	}
	if e.WordBytes == 0 {
		return d, nil, nil
	}
	data := make([]byte, e.WordBytes)
	if _, err := io.ReadFull(from, data); err != nil {
		return nil, nil, err
	}
	words, err := s.lexicon.open(data)
	if err != nil {
		return nil, nil, damaged(filepath.Join(s.cfg.Dir, indexName(e.Name)), 0, "its words: %w", err)
	}
	return d, words, nil
}
