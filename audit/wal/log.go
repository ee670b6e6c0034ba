package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record"
)

const (
	maxCommitBytes = 4 << 20 // what one write and fsync carries at most
	keptBuffer     = 1 << 18 // how large a buffer for commits is kept
	// ShareOfAdmitted keeps room, in tenths, for the outcomes of requests that were admitted before the budget ran out.
	ShareOfAdmitted = 9
	// FullShare is all there is.
	FullShare = 10
)

// Why an append is refused.
var (
	ErrFull   = errors.New("the write-ahead log is full: its records cannot be moved to the database; check the database")
	ErrSlow   = errors.New("the disk of the write-ahead log did not answer in time")
	ErrClosed = errors.New("the audit log is closed")
)

// Config says where a log lives and how it works.
type Config struct {
	Dir          string
	Writer       string // names this run
	SegmentBytes int64  // at which a new segment starts
	MaxBytes     int64  // that the segments may fill
	Deadline     time.Duration
	Files        durable.Files
	Now          func() time.Time
	Log          *slog.Logger
	Metrics      *Metrics
	Device       string // what metrics call it
}

// Log is the local write-ahead log: the segments of this run, which it appends to, and those of earlier runs. Its methods are safe for
// concurrent use.
type Log struct {
	Config

	mu       sync.Mutex
	queue    []*waiter
	probing  bool      // the next commit happens even if nothing waits
	turning  bool      // the next commit begins a segment
	running  bool      // a commit goroutine exists
	since    time.Time // when its current file operation began
	closed   bool
	failed   error // why the last commit failed; nil when it did not
	next     uint64
	number   int
	bytes    int64
	segments []*Segment // oldest first
	active   *Segment   // the last of them if it takes appends
	oldest   int64      // time of the first record that the last attempt to ship did not get into the database; 0 if it got all

	Former []string // the writers of earlier runs, or of a lost replica, whose records were found here; never changes

	file durable.File // of active; touched by the commit goroutine, and by close when there is none
	buf  []byte       // what one commit writes, used again by the next; the commit goroutine's
}

type waiter struct {
	payload  []byte
	attached []Attachment
	seq      uint64
	done     chan error
}

func (p *waiter) size() int64 { return frameSize(p.payload, p.attached) }

// Open recovers what earlier runs left in the directory, and returns the log of a new one.
func Open(cfg Config) (*Log, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	w := &Log{Config: cfg, next: 1}
	return w, w.recover()
}

// Append makes payload durable, with what stands before it or not at all, and returns its sequence. The share of the budget it may fill is
// given in tenths.
func (w *Log) Append(ctx context.Context, payload []byte, share int64, attached ...Attachment) (uint64, error) {
	p := &waiter{payload: payload, attached: attached, done: make(chan error, 1)}
	if err := w.enqueue(p, share); err != nil {
		return 0, err
	}
	timer := time.NewTimer(w.Deadline)
	defer timer.Stop()
	var err error
	select {
	case err = <-p.done:
	case <-timer.C:
		err = w.abandon(p, ErrSlow)
	case <-ctx.Done():
		err = w.abandon(p, ctx.Err())
	}
	if err != nil {
		return 0, err
	}
	return p.seq, nil
}

func (w *Log) enqueue(p *waiter, share int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusal(p.size(), share); err != nil {
		return err
	}
	w.queue = append(w.queue, p)
	w.start()
	return nil
}

// start makes sure that a commit goroutine runs. The caller holds the lock.
func (w *Log) start() {
	if !w.running {
		w.running, w.since = true, w.Now()
		go w.commitAll()
	}
}

// Probe tries, after a failed commit, whether the disk takes writes again, so that readiness returns without traffic.
func (w *Log) Probe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil && !w.closed && !w.running {
		w.probing = true
		w.start()
	}
}

// Turn begins a new segment if wrapped keys or marks are in the one that takes records, so that it can be retired. It returns the segments that hold
// some, by path; those of earlier runs count, since nobody looked.
func (w *Log) Turn() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var paths []string
	for _, s := range w.segments {
		if s.keys || s.Writer != w.Writer {
			paths = append(paths, s.Path)
		}
	}
	if w.active != nil && w.active.keys && !w.closed {
		w.turning, w.probing = true, true
		w.start()
	}
	return paths
}

// refusal says why a record of n bytes cannot be taken now. A failed commit is no reason: the next append is the retry.
func (w *Log) refusal(n, share int64) error {
	switch {
	case w.closed:
		return ErrClosed
	case w.running && w.Now().Sub(w.since) > w.Deadline:
		return ErrSlow
	case w.bytes+n > w.MaxBytes/10*share:
		return ErrFull
	}
	return nil
}

// abandon gives up waiting for p. If a commit already carries it, it may still become durable, unacknowledged.
func (w *Log) abandon(p *waiter, cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.queue, p); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
	select {
	case err := <-p.done: // it was decided while we came here
		return err
	default:
		return cause
	}
}

// commitAll writes what is queued, one fsync per round, until nothing waits. There is at most one such goroutine.
func (w *Log) commitAll() {
	for {
		w.mu.Lock()
		batch := w.take()
		if len(batch) == 0 && !w.probing {
			w.running = false
			w.mu.Unlock()
			return
		}
		first, seg := w.next, w.active
		if w.turning {
			seg = nil
		}
		w.probing, w.turning = false, false
		w.since = w.Now()
		w.mu.Unlock()

		seg, n, err := w.write(seg, first, batch)
		var left *Segment
		if err != nil {
			left = w.discard(seg)
		}

		w.mu.Lock()
		if left != nil {
			w.segments = append(w.segments, left)
		}
		w.finish(seg, first, n, batch, err)
		w.mu.Unlock()
		for i, p := range batch {
			p.seq = first + uint64(i)
			p.done <- err
		}
	}
}

func (w *Log) take() []*waiter {
	size, n := int64(0), 0
	for n < len(w.queue) && size < maxCommitBytes {
		size += w.queue[n].size()
		n++
	}
	batch := w.queue[:n:n]
	w.queue = w.queue[n:]
	return batch
}

// write appends the batch to seg, or to a fresh segment if seg is nil or long enough, and syncs. It returns the segment it wrote
// to and the bytes added. Only one commit goroutine exists, so the file needs no lock.
func (w *Log) write(seg *Segment, first uint64, batch []*waiter) (*Segment, int64, error) {
	buf := w.buf[:0]
	fresh := seg == nil || seg.Size >= w.SegmentBytes
	if fresh {
		next, err := w.create(first)
		if err != nil {
			return nil, 0, err
		}
		seg = next
		buf = AppendHeader(buf, filepath.Base(seg.Path), first)
	}
	for i, p := range batch {
		buf = AppendRecord(buf, Record{Seq: first + uint64(i), Payload: p.payload, Attached: p.attached})
	}
	if cap(buf) <= keptBuffer {
		w.buf = buf
	}
	n, err := w.file.Write(buf)
	if err == nil && n < len(buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return seg, 0, fmt.Errorf("write audit record: %w", err)
	}
	start := w.Now()
	if err := w.file.Sync(); err != nil {
		return seg, 0, fmt.Errorf("sync audit record: %w", err)
	}
	if fresh {
		if err := w.Files.SyncDir(w.Dir); err != nil {
			return seg, 0, fmt.Errorf("sync audit directory: %w", err)
		}
	}
	w.Metrics.fsync.Observe(w.Now().Sub(start).Seconds())
	return seg, int64(len(buf)), nil
}

// create opens the next segment file and closes the one before.
func (w *Log) create(first uint64) (*Segment, error) {
	if w.file != nil {
		_ = w.file.Close() // everything acknowledged in it is synced
		w.file = nil
	}
	w.number++
	path := Path(w.Dir, w.Writer, w.number)
	f, err := w.Files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create audit segment: %w", err)
	}
	w.file = f
	return &Segment{Path: path, Writer: w.Writer, Number: w.number, First: first, Last: first - 1}, nil
}

// finish records the result of a commit. After a failure the segment is given up: a later fsync that succeeds would say nothing
// about the pages this one lost. What it held before stays; what the failed batch left is void once a later segment starts.
func (w *Log) finish(seg *Segment, first uint64, bytes int64, batch []*waiter, err error) {
	if err != nil {
		if w.failed == nil { // said once, not for every request while the disk is full
			w.Log.Error("audit records cannot be made durable; requests are refused until the disk takes writes again", slog.String("error", err.Error()))
		}
		w.failed = err
		w.Metrics.failures.Inc()
		w.active = nil
		return
	}
	if w.failed != nil {
		w.Log.Info("audit log writes again")
		w.failed = nil
	}
	if seg != w.active {
		w.active = seg
		w.segments = append(w.segments, seg)
	}
	records := len(batch)
	seg.Last = first + uint64(records) - 1
	seg.keys = seg.keys || slices.ContainsFunc(batch, func(p *waiter) bool { return len(p.attached) > 0 })
	seg.Size += bytes
	w.next = seg.Last + 1
	w.bytes += bytes
	w.Metrics.appended.Add(float64(records))
	w.Metrics.batch.Observe(float64(records))
	w.Metrics.size.WithLabelValues(w.Device).Set(float64(w.bytes))
}

// discard frees the space of a failed batch where the disk allows; correctness does not depend on it. It runs without the lock,
// since a disk in trouble may hang here too. A fresh segment that could not be removed is returned: its void records must go
// before the segment that voids them does, so it is retired like the others.
func (w *Log) discard(seg *Segment) (left *Segment) {
	if seg == nil || w.file == nil {
		return nil
	}
	if seg == w.active {
		_ = w.file.Truncate(seg.Size)
	} else if w.Files.Remove(seg.Path) != nil {
		_ = w.file.Truncate(0)
		left = seg
	}
	_ = w.file.Close()
	w.file = nil
	return left
}

// recover takes over the segments that earlier runs left under dir. A torn tail is cut; anything else that cannot be read stops
// the start, since going on would silently lose acknowledged records.
func (w *Log) recover() error {
	found, err := Segments(w.Dir)
	if err != nil {
		return err
	}
	for i := range found {
		s := &found[i]
		if s.Damage == Corrupt {
			return fmt.Errorf("audit segment %s is damaged: %s; restore the file from a copy, or move it away and accept that `sluice audit verify` reports its records as missing", s.Path, s.Cause)
		}
		if s.Length != s.Size {
			w.Log.Warn("audit segment ends in an unfinished write, which is cut",
				slog.String("segment", s.Path), slog.Int64("bytes", s.Length-s.Size), slog.Uint64("last", s.Last))
		}
		if err := w.cut(s); err != nil {
			return err
		}
		if len(s.ends) == 0 {
			if err := w.Files.Remove(s.Path); err != nil {
				return fmt.Errorf("remove empty audit segment: %w", err)
			}
			continue
		}
		seg := s.Segment
		w.segments = append(w.segments, &seg)
		if !slices.Contains(w.Former, seg.Writer) {
			w.Former = append(w.Former, seg.Writer)
		}
		w.bytes += seg.Size
	}
	w.Metrics.size.WithLabelValues(w.Device).Set(float64(w.bytes))
	return nil
}

// cut removes what lies behind the last record that counts. A whole frame with a wrong checksum is kept beside the segment for
// inspection, since an unfinished write seldom looks like that.
func (w *Log) cut(s *Stored) error {
	if s.Length == s.Size {
		return nil
	}
	if s.Damage == Spoiled {
		b, err := os.ReadFile(s.Path)
		if err != nil {
			return fmt.Errorf("cut audit segment: %w", err)
		}
		if err := durable.Replace(w.Files, s.Path+".cut", b[s.Size:]); err != nil {
			return fmt.Errorf("cut audit segment: %w", err)
		}
	}
	if err := durable.Truncate(w.Files, s.Path, s.Size); err != nil {
		return fmt.Errorf("cut audit segment: %w", err)
	}
	return nil
}

// Ready reports why an append would be refused now; nil if nothing is known.
func (w *Log) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusal(record.MaxPayload, ShareOfAdmitted); err != nil {
		return err
	}
	return w.failed
}

// Segments returns copies of the segments, oldest first; only durable bytes count.
func (w *Log) Segments() []Segment {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Segment, len(w.segments))
	for i, s := range w.segments {
		out[i] = *s
	}
	return out
}

// MarkShipped notes that everything before offset in the segment at path, up to the record of sequence seq, is in the database.
func (w *Log) MarkShipped(path string, offset int64, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.segments {
		if s.Path == path {
			s.Shipped, s.landed = offset, seq
		}
	}
}

// MarkOldest notes the time of the first record that is about to be shipped, 0 when all are.
func (w *Log) MarkOldest(oldest int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldest = oldest
}

// Retire removes the closed segments whose records are all sealed; sealed gives the last sealed sequence per writer.
func (w *Log) Retire(sealed map[string]uint64) error {
	w.mu.Lock()
	var done []*Segment
	for _, s := range w.segments {
		if s != w.active && !s.Waiting() && s.Last <= sealed[s.Writer] {
			done = append(done, s)
		}
	}
	w.mu.Unlock()
	for _, s := range done {
		if err := w.Files.Remove(s.Path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("retire audit segment: %w", err)
		}
		w.mu.Lock()
		w.segments = slices.DeleteFunc(w.segments, func(o *Segment) bool { return o == s })
		w.bytes -= s.Size
		w.Metrics.size.WithLabelValues(w.Device).Set(float64(w.bytes))
		w.mu.Unlock()
	}
	return nil
}

// Close refuses further appends and waits, up to the deadline, for the commit in progress.
func (w *Log) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		w.mu.Lock()
		running := w.running
		w.mu.Unlock()
		if !running {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("close audit log: %w", ErrSlow) // the hung operation keeps the file
		case <-tick.C:
		}
	}
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// Backlog counts the durable records that are not in the database, as far as this process knows, and says when the first was written.
func (w *Log) Backlog() (records, oldest int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.segments {
		if s.Waiting() {
			records += int64(s.Last + 1 - max(s.First, s.landed+1))
		}
	}
	if records == 0 {
		return 0, 0
	}
	return records, w.oldest
}

// Drained returns the writers of earlier runs of which nothing waits any more.
func (w *Log) Drained() []string {
	waits := map[string]bool{}
	for _, s := range w.Segments() {
		waits[s.Writer] = waits[s.Writer] || s.Waiting()
	}
	var out []string
	for _, writer := range w.Former {
		if !waits[writer] {
			out = append(out, writer)
		}
	}
	return out
}

// DropCuts removes what recovery cut off a segment if it may hold a wrapped key or a mark.
func (w *Log) DropCuts() error {
	paths, err := filepath.Glob(filepath.Join(w.Dir, "*.cut"))
	if err != nil {
		return fmt.Errorf("remove cut records: %w", err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err == nil && (bytes.Contains(b, []byte(KindKey)) || bytes.Contains(b, []byte(KindMark))) {
			err = w.Files.Remove(path)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove cut records: %w", err)
		}
	}
	return nil
}
