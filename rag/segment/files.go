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

// An index file has, one after the other: documents, their numbers by key, rows, the group of each document, the documents with a period, vectors,
// words.

const spanBytes = 4 + 8 + 8

func indexName(segment string) string { return segment + ".index" }
func textsName(segment string) string { return segment + ".texts" }

// contents is what the files of a segment have.
type contents struct {
	docs    []docMeta
	rows    []rowMeta
	groups  []uint32
	spans   []span
	vectors *sq8.Index
	words   []byte
	texts   func(io.Writer) error
}

// writeSegment makes the files of a segment, durably. They count when a manifest names them; after an error none is left, if the disk allows.
func (s *Store) writeSegment(ctx context.Context, c *contents) (e segmentEntry, err error) {
	e = segmentEntry{
		Name: fmt.Sprintf("seg-%x", seal.Random(8)), Docs: len(c.docs), Rows: len(c.rows), SpanBytes: int64(dates(c.spans) * spanBytes),
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
func dates(all []span) int {
	n := 0
	for _, s := range all {
		if s != (span{}) {
			n++
		}
	}
	return n
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
	for _, g := range c.groups {
		b = le.AppendUint32(b, g)
	}
	for doc := range c.docs {
		if at := c.spans[doc]; at != (span{}) {
			b = le.AppendUint64(le.AppendUint64(le.AppendUint32(b, uint32(doc)), uint64(at.from)), uint64(at.until))
		}
	}
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
	if docs < 0 || rows < 0 || e.SpanBytes < 0 || e.WordBytes < 0 || e.TextBytes < 0 || e.VectorBytes != rows*int64(sq8.RowBytes(s.cfg.Dim)) ||
		e.IndexBytes != docs*(docBytes+4+4)+rows*rowBytes+e.SpanBytes+e.VectorBytes+e.WordBytes {
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
		d.place(c.D, c.G, span{c.F, c.U})
		p.dirty.Add(c.D)
	}
	texted, err := openSealed(s.cfg.Dir, s.sealer, textsName(e.Name), e.TextBytes)
	if err != nil {
		return nil, err
	}
	p.texts.Store(&texts{file: texted})
	if rows > 0 {
		d.words = []*lexical.Segment{words}
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
	d := newDraft(&state{part: p})
	for doc, g := range groups {
		if g != gone {
			d.place(uint32(doc), g, spans[uint32(doc)])
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
