package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sluice-project/sluice/rag/index/sq8"
	"github.com/sluice-project/sluice/rag/lexical"
)

// Run writes segments and merges them as changes come, until ctx ends, or the store is spoiled or closed, which are errors. Searches and changes go on
// meanwhile. Without it only changes with passages write segments, when they must, and nothing is merged.
func (s *Store) Run(ctx context.Context) error {
	ctx, done := s.during(ctx)
	defer done()
	var wg sync.WaitGroup
	var flushed, merged error
	// Beside one another: small segments do not wait for a merge of large ones.
	wg.Go(func() {
		flushed = s.repeat(ctx, s.wakeFlush, func() error { return s.flush(ctx, false) })
	})
	wg.Go(func() { merged = s.repeat(ctx, s.wakeMerge, func() error { return s.mergeAll(ctx) }) })
	wg.Wait()
	if err := cmp.Or(flushed, merged); err != nil {
		return fmt.Errorf("write segments: %w", err)
	}
	return nil
}

func (s *Store) repeat(ctx context.Context, wake <-chan struct{}, work func() error) error {
	for {
		err := work()
		switch {
		case errors.Is(err, ErrSpoiled) || errors.Is(err, ErrClosed):
			return err
		case err != nil && ctx.Err() == nil:
			s.cfg.Log.Error("segments of passages cannot be written; the next change tries again", slog.String("dir", s.cfg.Dir), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); errors.Is(err, ErrClosed) {
				return err
			}
			return nil
		case <-wake:
		}
	}
}

// during returns a context that ends with ctx and with the store.
func (s *Store) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// mergeAll merges as long as something is worth it.
func (s *Store) mergeAll(ctx context.Context) error {
	for {
		again, err := s.mergeSome(ctx, s.due)
		if err != nil || !again {
			return err
		}
	}
}

// Purge writes and merges until nothing of what was deleted before it was called is left in any file of the store, nor of rules that were replaced.
func (s *Store) Purge(ctx context.Context) error {
	ctx, done := s.during(ctx)
	defer done()
	if err := s.purge(ctx); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

func (s *Store) purge(ctx context.Context) (err error) {
	s.mu.Lock()
	replaced := s.replaced
	s.replaced = false // what is replaced from now on the next one removes
	s.mu.Unlock()
	defer func() {
		if err != nil && replaced {
			s.mu.Lock()
			s.replaced = true
			s.mu.Unlock()
		}
	}()
	if err := s.flush(ctx, true); err != nil {
		return err
	}
	// Nobody else merges meanwhile. So each segment that has something of it now, and only these, must be written again, once.
	if err := s.merging.enter(ctx); err != nil {
		return err
	}
	defer s.merging.leave()
	s.mu.Lock()
	old := s.unclean()
	s.mu.Unlock()
	for _, p := range old {
		if err := s.mergeParts(ctx, []*part{p}); err != nil {
			return err
		}
	}
	return s.removeStale()
}

// flush makes segments of the tails. all takes one that is small, too, and begins a new log.
func (s *Store) flush(ctx context.Context, all bool) error {
	ctx, done := s.during(ctx)
	defer done()
	if err := s.flushing.enter(ctx); err != nil {
		return err
	}
	defer s.flushing.leave()
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
		if err := s.save(ctx, f); err != nil {
			return err
		}
	}
}

// freeze begins a new log and with it a new tail. The caller holds flushing.
func (s *Store) freeze(all bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if !s.full() && (!all || s.pending.changes == 0) {
		return nil
	}
	end := mark{s.log.number + 1, s.revision, s.mark, s.log.last}
	next, err := createWAL(s.cfg.Files, s.cfg.Dir, s.sealer, end.log, end.before)
	if err != nil {
		return s.spoil(err)
	}
	before := s.log
	s.log = next
	s.frozen = append(s.frozen, frozen{s.tail().part, s.pending, end})
	s.pending = pending{bytes: next.size}
	s.addTail()
	s.publish()
	if err := before.f.Close(); err != nil {
		return s.spoil(fmt.Errorf("end log: %w", err))
	}
	return nil
}

// stateOf returns the state of a part. The caller holds mu.
func (s *Store) stateOf(p *part) *state {
	return s.states[slices.IndexFunc(s.states, func(st *state) bool { return st.part == p })]
}

// save writes the oldest frozen tail, and then the manifest that has it in place of its log. The caller holds flushing.
func (s *Store) save(ctx context.Context, f frozen) error {
	p := f.part
	s.mu.Lock()
	st := s.stateOf(p)
	was := p.rules()
	p.touched.Clear()
	s.mu.Unlock()
	if len(p.docs) == 0 {
		return s.replace([]*part{p}, nil, &f)
	}
	c := &contents{docs: p.docs, rows: p.rows, rules: was, vectors: p.vectors, texts: func(w io.Writer) error {
		_, err := w.Write(p.texts.Load().memory)
		return err
	}}
	sources := make([]lexical.Source, len(st.words))
	for i, w := range st.words {
		sources[i] = w.source()
	}
	next, err := s.newPart(ctx, c, sources, p)
	if err != nil {
		return err
	}
	return s.replace([]*part{p}, next, &f)
}

// merged is a part in files that is to take the place of others, and where their documents are in it.
type merged struct {
	state *state
	docs  map[*part][]uint32 // by number in the old part; gone if left out
}

// newPart writes contents and returns them as a part in which documents of from have the same numbers.
func (s *Store) newPart(ctx context.Context, c *contents, sources []lexical.Source, from *part) (*merged, error) {
	m, err := s.write(ctx, c, sources)
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

func (s *Store) write(ctx context.Context, c *contents, sources []lexical.Source) (*merged, error) {
	var words []placedWords
	if len(sources) > 0 {
		var err error
		if c.words, err = s.lexicon.merge(sources...); err != nil {
			return nil, fmt.Errorf("merge words: %w", err)
		}
		w, err := s.lexicon.open(c.words)
		if err != nil {
			return nil, fmt.Errorf("merge words: %w", err)
		}
		words = []placedWords{{w, 0}}
	}
	e, err := s.writeSegment(ctx, c)
	if err != nil {
		return nil, err
	}
	file, err := openSealed(s.cfg.Dir, s.sealer, textsName(e.Name), e.TextBytes)
	if err != nil {
		return nil, errors.Join(err, s.discard(e.Name))
	}
	p := newTail(c.vectors)
	p.docs, p.rows, p.order, p.byKey, p.entry = c.docs, c.rows, sorted(c.docs), nil, e
	p.current, p.spans = slices.Repeat([]uint32{gone}, len(c.docs)), make([]span, len(c.docs))
	p.texts.Store(&texts{file: file})
	d := newDraft(&state{part: p, words: words})
	for doc, r := range c.rules {
		if r.group != gone {
			d.place(uint32(doc), r)
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
			if to == gone || old.rule(doc).equal(p.rule(to)) {
				continue
			}
			if d == nil {
				d = newDraft(m.state)
			}
			d.place(to, old.rule(doc))
			p.dirty.Add(to)
		}
	}
	if d != nil {
		m.state = d.done()
	}
}

// replace puts a part, or none, in the place of others, on the disk and then in memory: of segments, or of the oldest frozen tail. Views see one or the
// other. What it could not put there is removed.
func (s *Store) replace(old []*part, next *merged, tail *frozen) error {
	s.manifests.Lock()
	defer s.manifests.Unlock()
	from := s.floor
	if tail != nil {
		from = tail.end
	}
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		if next != nil {
			err = errors.Join(err, s.discard(next.state.part.entry.Name))
		}
		return err
	}
	if next != nil {
		next.catchUp()
	}
	s.forget()
	m := s.manifest(from)
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
	for _, p := range old {
		if name := p.entry.Name; name != "" {
			s.stale = append(s.stale, indexName(name), textsName(name))
		}
	}
	for ; s.floor.log < from.log; s.floor.log++ {
		s.stale = append(s.stale, walName(s.floor.log))
	}
	s.floor = from
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
	s.stir() // there may be more to merge
	if tail != nil {
		s.frozen = s.frozen[1:]
	}
	s.publish()
	return nil
}

// frozenLeft are the frozen tails that are not among old.
func (s *Store) frozenLeft(old []*part) []frozen {
	return slices.DeleteFunc(slices.Clone(s.frozen), func(f frozen) bool { return slices.Contains(old, f.part) })
}

// removeStale removes the files that are to be, and tries again what failed before.
func (s *Store) removeStale() error {
	s.manifests.Lock() // Close waits for it: what is removed later could be another process's
	defer s.manifests.Unlock()
	s.mu.Lock()
	names, err := s.stale, s.usable()
	if err == nil {
		s.stale = nil
	}
	s.mu.Unlock()
	if err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names {
		path := filepath.Join(s.cfg.Dir, name)
		if failed := s.cfg.Files.Remove(path); failed != nil && exists(path) {
			err = errors.Join(err, failed)
		}
	}
	if err = errors.Join(err, s.cfg.Files.SyncDir(s.cfg.Dir)); err != nil {
		s.mu.Lock()
		s.stale = append(s.stale, names...)
		s.mu.Unlock()
		return fmt.Errorf("remove what is not needed: %w", err)
	}
	return nil
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

// Unclean reports whether something of what was deleted, or of a rule that was replaced, may still be in the files of the store: whether [Store.Purge] has
// something to do.
func (s *Store) Unclean() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replaced {
		return true
	}
	for _, st := range s.states {
		if slices.Contains(st.part.current, gone) {
			return true
		}
	}
	return false
}

// unclean returns the parts in files that have deleted documents. The caller holds mu.
func (s *Store) unclean() []*part {
	var out []*part
	for _, st := range s.states {
		if st.part.entry.Name != "" && slices.Contains(st.part.current, gone) {
			out = append(out, st.part)
		}
	}
	return out
}

// mergeSome merges the parts in files that choose returns, and reports whether there were some.
func (s *Store) mergeSome(ctx context.Context, choose func() []*part) (bool, error) {
	ctx, done := s.during(ctx)
	defer done()
	if err := s.merging.enter(ctx); err != nil {
		return false, err
	}
	defer s.merging.leave()
	s.mu.Lock()
	old := choose()
	s.mu.Unlock()
	if len(old) == 0 {
		return false, s.removeStale()
	}
	if err := s.mergeParts(ctx, old); err != nil {
		return false, err
	}
	return true, s.removeStale()
}

// mergeParts puts one part in the place of some in files. The caller holds merging, so that nobody else replaces them.
func (s *Store) mergeParts(ctx context.Context, old []*part) error {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	var all []snapshot
	for _, p := range old {
		st := s.stateOf(p)
		all = append(all, snapshot{st, p.rules()})
		p.touched.Clear()
	}
	s.mu.Unlock()
	next, err := s.merge(ctx, all)
	if err == nil {
		err = s.replace(old, next, nil)
	}
	if err != nil {
		return fmt.Errorf("merge segments: %w", err)
	}
	return nil
}

// snapshot is a part when a merge began.
type snapshot struct {
	*state

	rules []rule
}

// merge writes a segment with what is there of the parts; none if nothing is.
func (s *Store) merge(ctx context.Context, all []snapshot) (*merged, error) {
	c := &contents{vectors: sq8.New(s.cfg.Dim, s.cfg.Kernels)}
	docs := map[*part][]uint32{}
	var sources []lexical.Source
	for _, from := range all {
		numbers, rows := make([]uint32, len(from.docs)), slices.Repeat([]uint32{gone}, len(from.rows))
		for doc := range from.docs {
			if numbers[doc] = gone; from.rules[doc].group == gone {
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
			c.docs, c.rules = append(c.docs, meta), append(c.rules, from.rules[doc])
		}
		docs[from.part] = numbers
		if err := copyVectors(ctx, c.vectors, from.part.vectors, rows); err != nil {
			return nil, err
		}
		for _, w := range from.words {
			sources = append(sources, lexical.Source{Segment: w.Segment, Renumber: func(id uint32) (uint32, bool) {
				to := rows[w.first+id]
				return to, to != gone
			}})
		}
	}
	if len(c.docs) == 0 {
		return nil, nil //nolint:nilnil // everything was deleted
	}
	if len(c.rows) == 0 {
		sources = nil
	}
	c.texts = func(w io.Writer) error { return copyTexts(w, c, all, docs) }
	m, err := s.write(ctx, c, sources)
	if err != nil {
		return nil, err
	}
	m.docs = docs
	return m, nil
}

// copyVectors stores those rows of from that have a number in to, which rise.
func copyVectors(ctx context.Context, to, from *sq8.Index, numbers []uint32) error {
	var b []byte
	first, next := uint32(0), uint32(0)
	flush := func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
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
func copyTexts(w io.Writer, c *contents, all []snapshot, docs map[*part][]uint32) error {
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
	_, err := os.Lstat(path) //nolint:gosec // a name of ours in the directory of the store
	return err == nil || !os.IsNotExist(err)
}
