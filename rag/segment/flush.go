package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/sluice-project/sluice/rag/index/sq8"
	"github.com/sluice-project/sluice/rag/lexical"
)

// Run writes segments and merges them as changes come, until ctx ends or the store is spoiled. Searches and changes go on meanwhile. Without it
// changes write segments themselves when they must, and nothing is merged.
func (s *Store) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		if err := s.tidy(ctx); err != nil && ctx.Err() == nil {
			if errors.Is(err, ErrSpoiled) || errors.Is(err, ErrClosed) {
				return fmt.Errorf("write segments: %w", err)
			}
			s.cfg.Log.Error("segments of passages cannot be written; the next change tries again", slog.String("dir", s.cfg.Dir), slog.Any("error", err))
		}
	}
}

func (s *Store) tidy(ctx context.Context) error {
	if err := s.flush(ctx, false); err != nil {
		return err
	}
	for {
		again, err := s.mergeSome(ctx, s.due)
		if err != nil || !again {
			return err
		}
	}
}

// Purge writes and merges until nothing of what was deleted is left in any file of the store.
func (s *Store) Purge(ctx context.Context) error {
	if err := s.flush(ctx, true); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	for {
		again, err := s.mergeSome(ctx, s.unclean)
		if err != nil {
			return fmt.Errorf("purge: %w", err)
		}
		if !again {
			break
		}
	}
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.removeStale(); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

// flush makes segments of the tails. all takes one that is small, too, and begins a new log in any case.
func (s *Store) flush(ctx context.Context, all bool) error {
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.freeze(all); err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.mu.Lock()
		if len(s.frozen) == 0 {
			s.mu.Unlock()
			return s.removeStale()
		}
		f := s.frozen[0]
		s.mu.Unlock()
		if err := s.save(f); err != nil {
			return err
		}
	}
}

// freeze begins a new log and with it a new tail. The caller holds work.
func (s *Store) freeze(all bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	tail := s.tail().part
	if !all && len(tail.rows) < s.cfg.TailPassages {
		return nil
	}
	next, err := createWAL(s.cfg.Files, s.cfg.Dir, s.sealer, s.log.number+1)
	if err != nil {
		return s.spoil(err)
	}
	before := s.log
	s.log = next
	s.frozen = append(s.frozen, frozen{tail, s.revision, next.number})
	s.addTail()
	s.publish()
	if err := before.f.Close(); err != nil {
		return s.spoil(fmt.Errorf("end log: %w", err))
	}
	return nil
}

// stateOf returns the state of a part. The caller holds mu.
func (s *Store) stateOf(p *part) (int, *state) {
	i := slices.IndexFunc(s.states, func(st *state) bool { return st.part == p })
	if i < 0 {
		return -1, nil
	}
	return i, s.states[i]
}

// save writes the oldest frozen tail, and then the manifest that has it in place of its log. The caller holds work.
func (s *Store) save(f frozen) error {
	p := f.part
	s.mu.Lock()
	_, st := s.stateOf(p)
	groups, spans := slices.Clone(p.current), slices.Clone(p.spans)
	p.touched.Clear()
	s.mu.Unlock()
	if len(p.docs) == 0 {
		return s.replace(f.log, f.revision, []*part{p}, nil, func() { s.frozen = s.frozen[1:] })
	}
	c := &contents{docs: p.docs, rows: p.rows, groups: groups, spans: spans, vectors: p.vectors, texts: func(w io.Writer) error {
		_, err := w.Write(p.texts.Load().memory)
		return err
	}}
	sources := make([]lexical.Source, len(st.words))
	for i, w := range st.words {
		sources[i].Segment = w
	}
	next, err := s.newPart(c, sources, p)
	if err != nil {
		return err
	}
	return s.replace(f.log, f.revision, []*part{p}, next, func() { s.frozen = s.frozen[1:] })
}

// merged is a part in files that is to take the place of others, and where their documents are in it.
type merged struct {
	state *state
	docs  map[*part][]uint32 // by number in the old part; gone if left out
}

// newPart writes contents and returns them as a part in which documents of from have the same numbers.
func (s *Store) newPart(c *contents, sources []lexical.Source, from *part) (*merged, error) {
	m, err := s.write(c, sources)
	if err != nil {
		return nil, err
	}
	same := make([]uint32, len(c.docs))
	for i := range same {
		same[i] = uint32(i)
	}
	m.docs = map[*part][]uint32{from: same}
	return m, nil
}

func (s *Store) write(c *contents, sources []lexical.Source) (*merged, error) {
	var words []*lexical.Segment
	if len(sources) > 0 {
		var err error
		if c.words, err = s.lexicon.merge(sources...); err != nil {
			return nil, fmt.Errorf("merge words: %w", err)
		}
		w, err := s.lexicon.open(c.words)
		if err != nil {
			return nil, fmt.Errorf("merge words: %w", err)
		}
		words = []*lexical.Segment{w}
	}
	e, err := s.writeSegment(c)
	if err != nil {
		return nil, err
	}
	file, err := openSealed(s.cfg.Dir, s.sealer, textsName(e.Name), e.TextBytes)
	if err != nil {
		return nil, errors.Join(err, s.removeFiles(e.Name))
	}
	p := newTail(c.vectors)
	p.docs, p.rows, p.order, p.byKey, p.entry = c.docs, c.rows, sorted(c.docs), nil, e
	p.current, p.spans = slices.Repeat([]uint32{gone}, len(c.docs)), make([]span, len(c.docs))
	p.texts.Store(&texts{file: file})
	d := newDraft(&state{part: p, words: words})
	for doc, g := range c.groups {
		if g != gone {
			d.place(uint32(doc), g, c.spans[doc])
		}
	}
	return &merged{state: d.done()}, nil
}

// catchUp gives the documents of a new part the rules that they have in the old ones by now. The caller holds mu.
func (m *merged) catchUp() {
	var d *draft
	for old, numbers := range m.docs {
		for it := old.touched.Iterator(); it.HasNext(); {
			doc, p := it.Next(), m.state.part
			to := numbers[doc]
			if to == gone || old.current[doc] == p.current[to] && old.spans[doc] == p.spans[to] {
				continue
			}
			if d == nil {
				d = newDraft(m.state)
			}
			d.place(to, old.current[doc], old.spans[doc])
			p.dirty.Add(to)
		}
	}
	if d != nil {
		m.state = d.done()
	}
}

// replace puts a part, or none, in the place of others, on the disk and then in memory. Views see one or the other. The caller holds work.
func (s *Store) replace(log, revision int64, old []*part, next *merged, then func()) error {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	if next != nil {
		next.catchUp()
	}
	m := s.manifest(log, revision)
	m.Segments = slices.DeleteFunc(m.Segments, func(e segmentEntry) bool {
		return slices.ContainsFunc(old, func(p *part) bool { return p.entry.Name == e.Name })
	})
	if next != nil {
		m.Segments = append(m.Segments, next.state.part.described())
	}
	s.mu.Unlock()

	// Changes go on: they are in the log from m.Log on, and doing them twice does no harm.
	err := m.write(s.cfg.Files, s.cfg.Dir, s.sealer)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return s.spoil(err) // the disk has the old manifest or the new one, and the files of both
	}
	s.floor, s.floorRevision = log, revision
	if next != nil {
		next.catchUp()
	}
	var states []*state
	for _, st := range s.states {
		if !slices.Contains(old, st.part) {
			states = append(states, st)
		}
	}
	if next != nil {
		states = slices.Insert(states, max(0, len(states)-1-len(s.frozenLeft(old))), next.state)
	}
	s.states = states
	if then != nil {
		then()
	}
	s.publish()
	return nil
}

// frozenLeft are the frozen tails that are not among old.
func (s *Store) frozenLeft(old []*part) []frozen {
	return slices.DeleteFunc(slices.Clone(s.frozen), func(f frozen) bool { return slices.Contains(old, f.part) })
}

// removeStale removes the files that the manifest on the disk does not name. The caller holds work.
func (s *Store) removeStale() error {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	m := s.manifest(s.floor, s.floorRevision)
	s.mu.Unlock()
	_, err := s.collect(m)
	if err == nil {
		err = s.cfg.Files.SyncDir(s.cfg.Dir)
	}
	return err
}

// tierParts is how many segments of about the same size are merged into one.
const tierParts = 4

// due returns the parts that are worth merging: some of like size, or one of which a quarter was deleted. The caller holds mu.
func (s *Store) due() []*part {
	tiers := map[int][]*part{}
	for _, st := range s.states {
		p := st.part
		if p.entry.Name == "" {
			continue
		}
		if dead := len(p.rows) - p.alive; dead*4 > len(p.rows) {
			return []*part{p}
		}
		tier := 0
		for n := p.alive; n > 2*s.cfg.TailPassages; n /= tierParts {
			tier++
		}
		tiers[tier] = append(tiers[tier], p)
		sum := 0
		for _, q := range tiers[tier] {
			sum += q.alive
		}
		if len(tiers[tier]) >= tierParts && sum <= s.cfg.SegmentPassages {
			return tiers[tier]
		}
	}
	return nil
}

// unclean returns a part that has deleted documents. The caller holds mu.
func (s *Store) unclean() []*part {
	for _, st := range s.states {
		if st.part.entry.Name != "" && slices.Contains(st.part.current, gone) {
			return []*part{st.part}
		}
	}
	return nil
}

// mergeSome merges the parts that choose returns, and reports whether there were some.
func (s *Store) mergeSome(ctx context.Context, choose func() []*part) (bool, error) {
	s.work.Lock()
	defer s.work.Unlock()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return false, err
	}
	old := choose()
	var all []snapshot
	for _, p := range old {
		_, st := s.stateOf(p)
		all = append(all, snapshot{st, slices.Clone(p.current), slices.Clone(p.spans)})
		p.touched.Clear()
	}
	s.mu.Unlock()
	if len(old) == 0 {
		return false, s.removeStale()
	}
	next, err := s.merge(ctx, all)
	if err != nil {
		return false, fmt.Errorf("merge segments: %w", err)
	}
	if err := s.replace(s.floor, s.floorRevision, old, next, nil); err != nil {
		return false, fmt.Errorf("merge segments: %w", err)
	}
	return true, s.removeStale()
}

// snapshot is a part when a merge began.
type snapshot struct {
	*state
	current []uint32
	spans   []span
}

// merge writes a segment with what is there of the parts; none if nothing is.
func (s *Store) merge(ctx context.Context, all []snapshot) (*merged, error) {
	c := &contents{vectors: sq8.New(s.cfg.Dim, s.cfg.Kernels)}
	docs := map[*part][]uint32{}
	var sources []lexical.Source
	for _, from := range all {
		numbers, rows := make([]uint32, len(from.docs)), slices.Repeat([]uint32{gone}, len(from.rows))
		for doc := range from.docs {
			if numbers[doc] = gone; from.current[doc] == gone {
				continue
			}
			numbers[doc] = uint32(len(c.docs))
			meta := from.docs[doc]
			first, end := rowsOf(from.docs, len(from.rows), uint32(doc))
			meta.first = uint32(len(c.rows))
			for row := first; row < end; row++ {
				rows[row] = uint32(len(c.rows))
				c.rows = append(c.rows, from.rows[row])
			}
			c.docs, c.groups, c.spans = append(c.docs, meta), append(c.groups, from.current[doc]), append(c.spans, from.spans[doc])
		}
		docs[from.part] = numbers
		if err := copyVectors(c.vectors, from.part.vectors, rows); err != nil {
			return nil, err
		}
		for _, w := range from.words {
			sources = append(sources, lexical.Source{Segment: w, Renumber: func(id uint32) (uint32, bool) { return rows[id], rows[id] != gone }})
		}
	}
	if len(c.docs) == 0 {
		return nil, nil //nolint:nilnil // everything was deleted
	}
	if len(c.rows) == 0 {
		sources = nil
	}
	c.texts = func(w io.Writer) error { return copyTexts(ctx, w, c, all, docs) }
	m, err := s.write(c, sources)
	if err != nil {
		return nil, err
	}
	m.docs = docs
	return m, nil
}

// copyVectors stores those rows of from that have a number in to, which rise.
func copyVectors(to, from *sq8.Index, numbers []uint32) error {
	var b []byte
	first, next := uint32(0), uint32(0)
	flush := func() error {
		err := to.Restore(first, b)
		b = b[:0]
		return err
	}
	for row, number := range numbers {
		if number == gone {
			continue
		}
		if len(b) == 0 {
			first, next = number, number
		}
		var ok bool
		if b, ok = from.AppendRow(b, uint32(row)); !ok {
			return fmt.Errorf("row %d has no vector", row)
		}
		if next++; next-first == 1024 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// copyTexts writes the records of the documents that have a number, with their passages, and enters where they are now.
func copyTexts(ctx context.Context, w io.Writer, c *contents, all []snapshot, docs map[*part][]uint32) error {
	offset := int64(0)
	for _, from := range all {
		texts := from.part.texts.Load().reader()
		move := func(at *int64, length uint32) error {
			b, err := texts.record(*at, length)
			if err != nil {
				return err
			}
			*at = offset
			offset += int64(length)
			_, err = w.Write(b)
			return err
		}
		for doc, to := range docs[from.part] {
			if to == gone {
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := move(&c.docs[to].offset, c.docs[to].length); err != nil {
				return err
			}
			first, end := rowsOf(from.docs, len(from.rows), uint32(doc))
			for i := range end - first {
				row := &c.rows[c.docs[to].first+i]
				if err := move(&row.offset, row.length); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || !os.IsNotExist(err)
}
