package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/sq8"
	"github.com/sluice-project/sluice/rag/lexical"
)

// Config says where a store is and what it holds.
type Config struct {
	Dir     string // of this store alone; it is made if it is not there
	Key     seal.Key
	Model   string // whose vectors the store has
	Dim     int    // of the vectors
	Kernels kernel.Kernels
	Log     *slog.Logger  // nil discards
	Files   durable.Files // nil is the operating system
	// TailPassages is how many passages, or changes to documents, lie in memory and in the log before they become a segment; 0 means 16,384.
	TailPassages int
	// TailBytes is how many bytes of them do; 0 means 64 MiB.
	TailBytes int64
	// SegmentPassages is how many a merged segment has at most; 0 means 524,288. A merge needs memory for one more such segment.
	SegmentPassages int
}

// Store is the passages of one collection. It is safe for concurrent use: changes wait for one another, searches wait for nobody.
type Store struct {
	cfg     Config
	sealer  sealer
	lock    *os.File
	lexicon lexicon
	view    atomic.Pointer[View]
	ctx     context.Context //nolint:containedctx // it lasts until Close
	stop    context.CancelCauseFunc
	// wakeFlush and wakeMerge tell Run that there is something to do.
	wakeFlush, wakeMerge chan struct{}

	// What is slow never waits for what is slower: flushing is held by whoever makes a segment of a tail, merging by whoever merges segments, each for
	// as long as that takes; manifests by whoever replaces the manifest, which has the log from floor on. They are taken before mu.
	flushing, merging gate
	manifests         sync.Mutex
	floor             mark

	mu       sync.Mutex
	states   []*state          // of segments, of tails that are not in files yet, of the tail
	groups   [][]byte          // nil where no document is any more
	numbers  map[string]uint32 // of groups
	free     []uint32          // places in groups that may be used again
	revision int64
	mark     string // of the last change
	log      *wal
	pending  pending // what is in the tail
	frozen   []frozen
	stale    []string // files that are to be removed
	replaced bool     // rules were, since the last purge: what they say, such as names of people, may still be in the manifest and the log
	cut      int64
	spoiled  error
	closed   bool
}

// mark is a place between two logs.
type mark struct {
	log      int64 // the one behind it
	revision int64 // of the last change before it
	mark     string
	before   link
}

// pending is what a tail and its logs have.
type pending struct {
	bytes   int64 // in the logs
	changes int   // documents put, moved and deleted
}

// gate is a mutex that is not waited for longer than a context lasts.
type gate chan struct{}

func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) leave() { <-g }

// frozen is a tail that grows no more and is not in files yet.
type frozen struct {
	part *part
	has  pending
	end  mark
}

// lexicon is what the store needs of package lexical. Tests let it fail.
type lexicon interface {
	build(texts []string) ([]byte, error)
	open(data []byte) (*lexical.Segment, error)
	merge(sources ...lexical.Source) ([]byte, error)
}

type words struct{}

func (words) build(texts []string) ([]byte, error) {
	var b lexical.Builder
	for i, t := range texts {
		if err := b.Add(uint32(i), t); err != nil {
			return nil, err
		}
	}
	return b.Build(), nil
}

func (words) open(data []byte) (*lexical.Segment, error)      { return lexical.Open(data) }
func (words) merge(sources ...lexical.Source) ([]byte, error) { return lexical.Merge(sources...) }

// Open opens the store in cfg.Dir, or makes an empty one. Close it after use. Errors: [ErrInUse], [ErrDamaged], [ErrForeign].
func Open(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, words{}) }

func open(ctx context.Context, cfg Config, lx lexicon) (_ *Store, err error) {
	if cfg.Dir == "" || cfg.Dim <= 0 || cfg.Dim > 1<<16 {
		return nil, fmt.Errorf("open passages: no directory, or vectors of %d components", cfg.Dim)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Files == nil {
		cfg.Files = durable.OS{}
	}
	cfg.TailPassages = cmp.Or(cfg.TailPassages, 16<<10)
	cfg.TailBytes = cmp.Or(cfg.TailBytes, 64<<20)
	cfg.SegmentPassages = cmp.Or(cfg.SegmentPassages, 512<<10)
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open passages: %w", err)
	}
	lock, err := Lock(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open passages: %w", err)
	}
	s := &Store{
		cfg: cfg, lock: lock, lexicon: lx, wakeFlush: make(chan struct{}, 1), wakeMerge: make(chan struct{}, 1), flushing: make(gate, 1), merging: make(gate, 1), numbers: map[string]uint32{},
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	if err := s.load(ctx); err != nil {
		if s.log != nil {
			err = errors.Join(err, s.log.f.Close())
		}
		return nil, fmt.Errorf("open passages: %w", errors.Join(err, lock.Close()))
	}
	return s, nil
}

// Lock takes a directory for this process until the file is closed. Error: [ErrInUse].
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s", ErrInUse, dir)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *Store) load(ctx context.Context) error {
	m, v, err := readManifest(s.cfg.Dir, s.cfg.Key)
	if err != nil {
		return err
	}
	if m == nil {
		return s.create()
	}
	if err := m.check(s.cfg.Model, s.cfg.Dim); err != nil {
		return err
	}
	s.sealer, s.revision, s.mark, s.floor = v, m.Revision, m.Mark, mark{m.Log, m.Revision, m.Mark, link(m.Before)}
	for i, g := range m.Groups {
		if g == nil {
			s.free = append(s.free, uint32(i)) // no view of ours knows it
		} else {
			s.numbers[string(g)] = uint32(i)
		}
	}
	s.groups = m.Groups
	if err := s.loadSegments(ctx, m.Segments); err != nil {
		return err
	}
	s.addTail()
	logs, stale, err := s.sort(m)
	if err != nil {
		return err
	}
	if err := s.loadLogs(ctx, logs); err != nil {
		return err
	}
	s.publish()
	s.stir()
	// Only now nothing is missing; and the directory was synced, so that what the manifest does not name it will not name again.
	s.stale = stale
	return s.removeStale()
}

// loadLogs does again what the logs say, and goes on with the last.
func (s *Store) loadLogs(ctx context.Context, logs []int64) error {
	before := s.floor.before
	for i, number := range logs {
		if number != s.floor.log+int64(i) {
			break
		}
		w, err := loadWAL(s.cfg.Dir, s.sealer, number)
		if err != nil {
			return err
		}
		last := i == len(logs)-1
		whole, end, err := w.read(last, before, s.replay)
		if err != nil {
			return err
		}
		before = end
		if last {
			if s.log, err = w.resume(s.cfg.Files, whole, end); err != nil {
				return err
			}
			if s.cut = int64(len(w.b)) - whole; s.cut > 0 {
				s.cfg.Log.Warn("the end of the log of stored passages was not whole and was cut: what it lacks must be there in the tables",
					slog.String("path", w.path), slog.Int64("offset", whole), slog.Int64("bytes", s.cut), slog.Int64("revision", s.revision))
			}
		}
		s.pending.bytes += whole
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if s.log == nil {
		missing := s.floor.log
		for slices.Contains(logs, missing) {
			missing++
		}
		return damaged(filepath.Join(s.cfg.Dir, walName(missing)), 0, "it is not there")
	}
	return nil
}

// create makes an empty store. Its log comes first: a manifest names a log that is there.
func (s *Store) create() (err error) {
	s.sealer = sealer{s.cfg.Key, fmt.Sprintf("%x", seal.Random(16))}
	names, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		switch name := n.Name(); {
		case strings.TrimSuffix(name, ".new") == walName(1) && empty(n): // of a creation that did not end
			if err := s.cfg.Files.Remove(filepath.Join(s.cfg.Dir, name)); err != nil {
				return err
			}
		case strings.HasPrefix(name, "wal-") || strings.HasPrefix(name, "seg-"):
			return damaged(filepath.Join(s.cfg.Dir, manifestName), 0, "it is not there, and %s is", name)
		}
	}
	s.floor.log = 1
	if s.log, err = createWAL(s.cfg.Files, s.cfg.Dir, s.sealer, s.floor.log, s.floor.before); err != nil {
		return err
	}
	s.addTail()
	if err := s.manifest(s.floor).write(s.cfg.Files, s.cfg.Dir, s.sealer); err != nil {
		return err
	}
	s.publish()
	return nil
}

func empty(n os.DirEntry) bool {
	info, err := n.Info()
	return err == nil && info.Size() <= int64(walBegin)
}

// sort returns the numbers of the logs from the first one on, and the names of the files that nothing names any more, which a crash has left.
func (s *Store) sort(m *manifest) (logs []int64, stale []string, err error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range entries {
		name := n.Name()
		base, ext, _ := strings.Cut(name, ".")
		number, isLog := strings.CutPrefix(base, "wal-")
		i, err := strconv.ParseInt(number, 10, 64)
		if isLog = isLog && err == nil && base == walName(i); isLog && ext == "" && i >= m.Log {
			logs = append(logs, i)
			continue
		}
		named := slices.ContainsFunc(m.Segments, func(e segmentEntry) bool { return e.Name == base })
		if isLog && (ext == "" || ext == "new") || base == manifestName && ext == "new" || strings.HasPrefix(base, "seg-") && ext != "" && !named {
			stale = append(stale, name)
		}
	}
	slices.Sort(logs)
	return logs, stale, nil
}

func (s *Store) replay(plain []byte) error {
	c, err := decodeChange(plain, s.cfg.Dim)
	if err == nil {
		err = s.check(&c)
	}
	if err != nil {
		return err
	}
	w, err := s.wordsOf(&c)
	if err != nil {
		return err
	}
	return s.commit(&c, w)
}

// check reports whether a change fits the store. The caller holds mu, or nobody else has the store yet.
func (s *Store) check(c *Change) error {
	if err := c.check(s.cfg.Dim, s.revision); err != nil {
		return err
	}
	for _, m := range c.Move {
		if len(m.Parts) == 0 {
			continue
		}
		for _, st := range s.states {
			for _, doc := range st.part.find(m.Name) {
				if first, end := rowsOf(st.part.docs, len(st.part.rows), doc); !m.sensible(int(end - first)) {
					return fmt.Errorf("%w: parts of %q, version %d", ErrChange, m.ID, m.Version)
				}
			}
		}
	}
	return nil
}

// addTail begins a tail. The caller holds mu, or nobody else has the store yet.
func (s *Store) addTail() {
	s.states = append(s.states, newDraft(&state{part: newTail(sq8.New(s.cfg.Dim, s.cfg.Kernels))}).done())
}

func (s *Store) tail() *state { return s.states[len(s.states)-1] }

// number returns the number of a group. The caller holds mu.
func (s *Store) number(group []byte) uint32 {
	n, ok := s.numbers[string(group)]
	if ok {
		return n
	}
	group = append([]byte{}, group...)
	if last := len(s.free) - 1; last >= 0 {
		n, s.free = s.free[last], s.free[:last]
		s.groups = slices.Clone(s.groups) // views have the old ones
		s.groups[n] = group
	} else {
		n = uint32(len(s.groups))
		s.groups = append(s.groups, group)
	}
	s.numbers[string(group)] = n
	return n
}

// forget drops the names of groups in which no document is, so that they do not pile up, and leave the disk. Their numbers are not used again as
// long as the store is open, since callers may have kept them. The caller holds mu.
func (s *Store) forget() {
	used := make([]bool, len(s.groups))
	for _, st := range s.states {
		for _, g := range st.part.current {
			if g != gone {
				used[g] = true
			}
		}
		for _, rows := range st.part.mixed {
			for _, g := range rows {
				used[g] = true
			}
		}
	}
	s.groups = slices.Clone(s.groups)
	for n, g := range s.groups {
		if g != nil && !used[n] {
			delete(s.numbers, string(g))
			s.groups[n] = nil
		}
	}
}

// wordsOf indexes the passages of a change, in their order: in one segment, but for documents that are prepared.
func (s *Store) wordsOf(c *Change) ([]placedWords, error) {
	var out []placedWords
	var some []string
	first, row := uint32(0), uint32(0)
	flush := func() error {
		if len(some) > 0 {
			w, err := s.index(some)
			if err != nil {
				return err
			}
			out = append(out, placedWords{w, first})
		}
		some, first = nil, row
		return nil
	}
	for i := range c.Put {
		d := &c.Put[i]
		if d.words != nil {
			if err := flush(); err != nil {
				return nil, err
			}
			if d.words.Len() > 0 {
				out = append(out, placedWords{d.words, row})
			}
		}
		for j := range d.Passages {
			if d.words == nil {
				some = append(some, d.Passages[j].Words)
			}
		}
		row += uint32(len(d.Passages))
		if d.words != nil {
			first = row
		}
	}
	return out, flush()
}

func (s *Store) index(texts []string) (*lexical.Segment, error) {
	data, err := s.lexicon.build(texts)
	if err != nil {
		return nil, fmt.Errorf("index words: %w", err)
	}
	return s.lexicon.open(data)
}

// IndexWords does what takes long of putting a document, so that [Store.Apply] need not: it indexes its words, and waits, at most until ctx ends, while many more
// passages lie in memory than segments are made of. The passages stay as they are from then on.
func (s *Store) IndexWords(ctx context.Context, d *Document) error {
	if err := s.makeRoom(ctx); err != nil {
		return err
	}
	texts := make([]string, len(d.Passages))
	for i := range d.Passages {
		texts[i] = d.Passages[i].Words
	}
	w, err := s.index(texts)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChange, err)
	}
	d.words = w
	return nil
}

// Apply makes a change, which is on the disk and in every view from then on when it returns without an error. A change with documents that are not prepared
// waits, at most until ctx ends, while many more passages lie in memory than segments are made of; any other waits for no segment.
//
// Errors: [ErrChange], [ErrSpoiled], [ErrClosed], the one of ctx and one that says that there was no room, after which nothing of the change is stored;
// after any other the store is spoiled, and the change is stored or not.
func (s *Store) Apply(ctx context.Context, c Change) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	plain := c.encode()
	if len(plain) > maxChange {
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrChange, len(plain), maxChange)
	}
	if slices.ContainsFunc(c.Put, func(d Document) bool { return d.words == nil }) {
		if err := s.makeRoom(ctx); err != nil {
			return err
		}
	}
	w, err := s.wordsOf(&c) // without the lock: it takes long, and nobody who deletes or moves waits for it
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChange, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.check(&c); err != nil {
		return err
	}
	if err := s.log.append(plain); err != nil {
		return s.spoil(err)
	}
	if err := s.commit(&c, w); err != nil { //nolint:contextcheck // what is in the log is not to be given up
		return s.spoil(err)
	}
	s.publish()
	s.pending.bytes += int64(len(plain)) + walHeader + seal.Overhead
	s.stir()
	return nil
}

// stir wakes Run if there is something to do, or no more. The caller holds mu, or nobody else has the store yet.
func (s *Store) stir() {
	for wake, need := range map[chan struct{}]bool{s.wakeFlush: s.full(), s.wakeMerge: len(s.due()) > 0} {
		if !need && s.spoiled == nil {
			continue
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// full reports whether the tail is large enough for a segment. The caller holds mu.
func (s *Store) full() bool {
	return len(s.tail().part.rows) >= s.cfg.TailPassages || s.pending.changes >= s.cfg.TailPassages || s.pending.bytes >= s.cfg.TailBytes
}

// makeRoom writes segments while they are written more slowly than changes come.
func (s *Store) makeRoom(ctx context.Context) error {
	if !s.behind() {
		return nil
	}
	if err := s.flush(ctx, false); err != nil {
		return fmt.Errorf("make room for a change: %w", err)
	}
	return nil
}

// behind reports whether segments are written more slowly than changes come.
func (s *Store) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, bytes := len(s.tail().part.rows), s.pending.bytes
	for _, f := range s.frozen {
		rows += len(f.part.rows)
		bytes += f.has.bytes
	}
	return rows >= 4*s.cfg.TailPassages || bytes >= 4*s.cfg.TailBytes
}

func (s *Store) usable() error {
	switch {
	case s.closed:
		return ErrClosed
	case s.spoiled != nil:
		return fmt.Errorf("%w: %w", ErrSpoiled, s.spoiled)
	}
	return nil
}

// spoil ends changes. The caller holds mu.
func (s *Store) spoil(err error) error {
	if s.spoiled == nil {
		s.spoiled = err
		s.cfg.Log.Error("stored passages cannot be changed until they are opened again", slog.String("dir", s.cfg.Dir), slog.Any("error", err))
		s.stir()
	}
	return err
}

// commit makes a change in memory, which nothing but a broken promise of ours can stop. The caller holds mu.
func (s *Store) commit(c *Change, w []placedWords) error {
	drafts := map[int]*draft{}
	place := func(n Name, to func(rows int) rule) {
		for i, st := range s.states {
			for _, doc := range st.part.find(n) {
				if drafts[i] == nil {
					drafts[i] = newDraft(st)
				}
				first, end := rowsOf(st.part.docs, len(st.part.rows), doc)
				drafts[i].place(doc, to(int(end-first)))
				st.part.dirty.Add(doc)
				st.part.touched.Add(doc)
			}
		}
	}
	away := func(int) rule { return rule{group: gone} }
	for _, n := range c.Delete {
		place(n, away)
	}
	s.replaced = s.replaced || len(c.Move) > 0
	for i := range c.Move {
		place(c.Move[i].Name, func(rows int) rule { return s.ruled(&c.Move[i].Rule, rows) })
	}
	last := len(s.states) - 1
	tail := s.tail().part
	begin := uint32(len(tail.rows))
	var entries []index.Entry
	all := tail.texts.Load().memory
	record := func(b []byte) (int64, uint32) {
		all = append(all, b...)
		return int64(len(all) - len(b)), uint32(len(b))
	}
	for i := range c.Put {
		d := &c.Put[i]
		place(d.Name, away)
		if drafts[last] == nil {
			drafts[last] = newDraft(s.tail())
		}
		doc := docMeta{key: keyOf(d.ID), version: d.Version, first: uint32(len(tail.rows))}
		doc.offset, doc.length = record(docRecord(d))
		for j := range d.Passages {
			p := &d.Passages[j]
			row := rowMeta{number: int32(p.Number), start: int32(p.Start), end: int32(p.End)}
			row.offset, row.length = record(rowRecord(p))
			entries = append(entries, index.Entry{ID: uint32(len(tail.rows)), Vector: p.Vector})
			tail.rows = append(tail.rows, row)
		}
		number := uint32(len(tail.docs))
		tail.docs, tail.current, tail.spans = append(tail.docs, doc), append(tail.current, gone), append(tail.spans, span{})
		tail.byKey[doc.key] = append(tail.byKey[doc.key], number)
		drafts[last].place(number, s.ruled(&d.Rule, len(d.Passages)))
	}
	if err := tail.vectors.Upsert(context.Background(), entries); err != nil {
		return err
	}
	tail.texts.Store(&texts{memory: all})
	s.states = slices.Clone(s.states)
	for i, d := range drafts {
		if i == last {
			d.words = slices.Clone(d.words)
			for _, some := range w {
				d.words = append(d.words, placedWords{some.Segment, begin + some.first})
			}
		}
		s.states[i] = d.done()
	}
	s.revision, s.mark = c.Revision, c.Mark
	s.pending.changes += max(1, len(c.Delete)+len(c.Move)+len(c.Put))
	return s.fold()
}

// ruled is the rule of a document of so many passages under the numbers of its groups. The caller holds mu.
func (s *Store) ruled(r *Rule, passages int) rule {
	out := rule{group: s.number(r.Group), span: span{r.From, r.Until}}
	for _, p := range r.Parts {
		if out.rows == nil {
			out.rows = slices.Repeat([]uint32{out.group}, passages)
		}
		g := s.number(p.Group)
		for _, n := range p.Passages {
			out.rows[n] = g
		}
	}
	return out
}

// maxWords is how many lexical segments a tail has before they are merged: every search visits all of them.
const maxWords = 16

// fold merges the youngest lexical segments of the tail when there are many. Each word is merged some log(n) times.
func (s *Store) fold() error {
	last := len(s.states) - 1
	for {
		tail := s.states[last]
		n := len(tail.words)
		if n < maxWords {
			return nil
		}
		from := n - 1
		for size := tail.words[from].Len(); from > 0 && tail.words[from-1].Len() <= 2*size; from-- {
			size += tail.words[from-1].Len()
		}
		from = min(from, n-maxWords/2)
		w, err := s.mergeWords(tail.words[from:])
		if err != nil {
			return err
		}
		next := *tail
		next.words = append(slices.Clone(tail.words[:from]), placedWords{w, 0})
		s.states[last] = &next
	}
}

func (s *Store) mergeWords(all []placedWords) (*lexical.Segment, error) {
	sources := make([]lexical.Source, len(all))
	for i, w := range all {
		sources[i] = w.source()
	}
	data, err := s.lexicon.merge(sources...)
	if err != nil {
		return nil, fmt.Errorf("merge words: %w", err)
	}
	return s.lexicon.open(data)
}

// publish lets views have what the store has now. The caller holds mu.
func (s *Store) publish() {
	v := &View{revision: s.revision, mark: s.mark, groups: slices.Clip(s.groups)}
	base := uint32(0)
	for _, st := range s.states {
		v.parts = append(v.parts, viewPart{st, base})
		base += uint32(len(st.rows))
	}
	s.view.Store(v)
}

// View returns the store as it is now.
func (s *Store) View() *View { return s.view.Load() }

// Revision returns the revision of the last change.
func (s *Store) Revision() int64 { return s.View().revision }

// Cut returns how many bytes at the end of the log were no whole record when the store was opened. 0 does not say that nothing is missing; what says
// that is [Store.Revision].
func (s *Store) Cut() int64 { return s.cut }

// Close ends changes and lets another process open the store. It waits for a manifest that is being replaced, but for no merge: that ends by itself
// soon after, without effect. Views that were taken go on.
func (s *Store) Close() error {
	s.stop(ErrClosed)
	s.manifests.Lock()
	defer s.manifests.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.log.f.Close(), s.lock.Close())
}

// manifest describes the store with its log from a mark on. The caller holds mu.
func (s *Store) manifest(from mark) *manifest {
	m := &manifest{
		Format: formatVersion, Analyzer: lexical.AnalyzerVersion, Model: s.cfg.Model, Dim: s.cfg.Dim, Revision: from.revision, Mark: from.mark, Log: from.log,
		Before: from.before[:], Groups: slices.Clip(s.groups),
	}
	for _, st := range s.states {
		if st.part.entry.Name != "" {
			m.Segments = append(m.Segments, st.part.described())
		}
	}
	return m
}

// described returns the entry of a part with what became of its documents since its files were written. The caller holds mu.
func (p *part) described() segmentEntry {
	var out []docChange
	for it := p.dirty.Iterator(); it.HasNext(); {
		doc := it.Next()
		r := p.rule(doc)
		c := docChange{D: doc, G: r.group, F: r.span.from, U: r.span.until}
		if r.rows != nil {
			r.runs(uint32(len(r.rows)), func(group, from, to uint32) { c.P = append(c.P, to-from, group) })
		}
		out = append(out, c)
	}
	e := p.entry
	e.Changed = out
	return e
}
