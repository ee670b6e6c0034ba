package audit

import (
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

	"github.com/sluice-project/sluice/audit/record"
)

const (
	maxCommitBytes = 4 << 20 // what one write and fsync carries at most
	keptBuffer     = 1 << 18 // how large a buffer for commits is kept
	// admittedShare keeps room, in tenths, for the outcomes of requests that were admitted before the budget ran out.
	admittedShare = 9
)

var (
	errFull   = errors.New("the write-ahead log is full: its records cannot be moved to the database; check the database")
	errSlow   = errors.New("the disk of the write-ahead log did not answer in time")
	errClosed = errors.New("the audit log is closed")
)

// wal is the local write-ahead log: the segments of this run, which it appends to, and those of earlier runs.
type wal struct {
	dir          string
	writer       string
	segmentBytes int64
	maxBytes     int64
	deadline     time.Duration
	files        files
	now          func() time.Time
	log          *slog.Logger
	metrics      *metrics
	device       string // what metrics call it

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
	segments []*segment // oldest first
	active   *segment   // the last of them if it takes appends
	oldest   int64      // time of the first record that the last attempt to ship did not get into the database; 0 if it got all

	former []string // the writers of earlier runs, or of a lost replica, whose records were found here; never changes

	file file   // of active; touched by the commit goroutine, and by close when there is none
	buf  []byte // what one commit writes, used again by the next; the commit goroutine's
}

type waiter struct {
	payload  []byte
	attached []attachment
	seq      uint64
	done     chan error
}

func (p *waiter) size() int64 { return frameSize(p.payload, p.attached) }

// append makes payload durable, with what stands before it or not at all, and returns its sequence. The share of the budget it may fill is
// given in tenths.
func (w *wal) append(ctx context.Context, payload []byte, share int64, attached ...attachment) (uint64, error) {
	p := &waiter{payload: payload, attached: attached, done: make(chan error, 1)}
	if err := w.enqueue(p, share); err != nil {
		return 0, err
	}
	timer := time.NewTimer(w.deadline)
	defer timer.Stop()
	var err error
	select {
	case err = <-p.done:
	case <-timer.C:
		err = w.abandon(p, errSlow)
	case <-ctx.Done():
		err = w.abandon(p, ctx.Err())
	}
	if err != nil {
		return 0, err
	}
	return p.seq, nil
}

func (w *wal) enqueue(p *waiter, share int64) error {
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
func (w *wal) start() {
	if !w.running {
		w.running, w.since = true, w.now()
		go w.commitAll()
	}
}

// probe tries, after a failed commit, whether the disk takes writes again, so that readiness returns without traffic.
func (w *wal) probe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil && !w.closed && !w.running {
		w.probing = true
		w.start()
	}
}

// turn begins a new segment if wrapped keys are in the one that takes records, so that it can be retired. It returns the segments that hold
// keys, by path; those of earlier runs count, since nobody looked.
func (w *wal) turn() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var paths []string
	for _, s := range w.segments {
		if s.keys || s.writer != w.writer {
			paths = append(paths, s.path)
		}
	}
	if w.active != nil && w.active.keys && !w.closed {
		w.turning, w.probing = true, true
		w.start()
	}
	return paths
}

// refusal says why a record of n bytes cannot be taken now. A failed commit is no reason: the next append is the retry.
func (w *wal) refusal(n, share int64) error {
	switch {
	case w.closed:
		return errClosed
	case w.running && w.now().Sub(w.since) > w.deadline:
		return errSlow
	case w.bytes+n > w.maxBytes/10*share:
		return errFull
	}
	return nil
}

// abandon gives up waiting for p. If a commit already carries it, it may still become durable, unacknowledged.
func (w *wal) abandon(p *waiter, cause error) error {
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
func (w *wal) commitAll() {
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
		w.since = w.now()
		w.mu.Unlock()

		seg, n, err := w.write(seg, first, batch)
		var left *segment
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

func (w *wal) take() []*waiter {
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
func (w *wal) write(seg *segment, first uint64, batch []*waiter) (*segment, int64, error) {
	buf := w.buf[:0]
	fresh := seg == nil || seg.size >= w.segmentBytes
	if fresh {
		next, err := w.create(first)
		if err != nil {
			return nil, 0, err
		}
		seg = next
		buf = append(buf, segmentHeader(filepath.Base(seg.path), first)...)
	}
	for i, p := range batch {
		for _, a := range p.attached {
			buf = appendAttachment(buf, first+uint64(i), a)
		}
		buf = appendFrame(buf, first+uint64(i), p.payload)
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
	start := w.now()
	if err := w.file.Sync(); err != nil {
		return seg, 0, fmt.Errorf("sync audit record: %w", err)
	}
	if fresh {
		if err := w.files.SyncDir(w.dir); err != nil {
			return seg, 0, fmt.Errorf("sync audit directory: %w", err)
		}
	}
	w.metrics.fsync.Observe(w.now().Sub(start).Seconds())
	return seg, int64(len(buf)), nil
}

// create opens the next segment file and closes the one before.
func (w *wal) create(first uint64) (*segment, error) {
	if w.file != nil {
		_ = w.file.Close() // everything acknowledged in it is synced
		w.file = nil
	}
	w.number++
	path := segmentPath(w.dir, w.writer, w.number)
	f, err := w.files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create audit segment: %w", err)
	}
	w.file = f
	return &segment{path: path, writer: w.writer, number: w.number, first: first, last: first - 1}, nil
}

// finish records the result of a commit. After a failure the segment is given up: a later fsync that succeeds would say nothing
// about the pages this one lost. What it held before stays; what the failed batch left is void once a later segment starts.
func (w *wal) finish(seg *segment, first uint64, bytes int64, batch []*waiter, err error) {
	if err != nil {
		if w.failed == nil { // said once, not for every request while the disk is full
			w.log.Error("audit records cannot be made durable; requests are refused until the disk takes writes again", slog.String("error", err.Error()))
		}
		w.failed = err
		w.metrics.failures.Inc()
		w.active = nil
		return
	}
	if w.failed != nil {
		w.log.Info("audit log writes again")
		w.failed = nil
	}
	if seg != w.active {
		w.active = seg
		w.segments = append(w.segments, seg)
	}
	records := len(batch)
	seg.last = first + uint64(records) - 1
	seg.keys = seg.keys || slices.ContainsFunc(batch, func(p *waiter) bool { return len(p.attached) > 0 })
	seg.size += bytes
	w.next = seg.last + 1
	w.bytes += bytes
	w.metrics.appended.Add(float64(records))
	w.metrics.batch.Observe(float64(records))
	w.metrics.walBytes.WithLabelValues(w.device).Set(float64(w.bytes))
}

// discard frees the space of a failed batch where the disk allows; correctness does not depend on it. It runs without the lock,
// since a disk in trouble may hang here too. A fresh segment that could not be removed is returned: its void records must go
// before the segment that voids them does, so it is retired like the others.
func (w *wal) discard(seg *segment) (left *segment) {
	if seg == nil || w.file == nil {
		return nil
	}
	if seg == w.active {
		_ = w.file.Truncate(seg.size)
	} else if w.files.Remove(seg.path) != nil {
		_ = w.file.Truncate(0)
		left = seg
	}
	_ = w.file.Close()
	w.file = nil
	return left
}

// recover takes over the segments that earlier runs left under dir. A torn tail is cut; anything else that cannot be read stops
// the start, since going on would silently lose acknowledged records.
func (w *wal) recover() error {
	found, err := readSegments(w.dir)
	if err != nil {
		return err
	}
	for i := range found {
		s := &found[i]
		if s.damage == corrupt {
			return fmt.Errorf("audit segment %s is damaged: %s; restore the file from a copy, or move it away and accept that `sluice audit verify` reports its records as missing", s.path, s.cause)
		}
		if s.length != s.size {
			w.log.Warn("audit segment ends in an unfinished write, which is cut",
				slog.String("segment", s.path), slog.Int64("bytes", s.length-s.size), slog.Uint64("last", s.last))
		}
		if err := w.cut(s); err != nil {
			return err
		}
		if len(s.ends) == 0 {
			if err := w.files.Remove(s.path); err != nil {
				return fmt.Errorf("remove empty audit segment: %w", err)
			}
			continue
		}
		seg := s.segment
		w.segments = append(w.segments, &seg)
		if !slices.Contains(w.former, seg.writer) {
			w.former = append(w.former, seg.writer)
		}
		w.bytes += seg.size
	}
	w.metrics.walBytes.WithLabelValues(w.device).Set(float64(w.bytes))
	return nil
}

// cut removes what lies behind the last record that counts. A whole frame with a wrong checksum is kept beside the segment for
// inspection, since an unfinished write seldom looks like that.
func (w *wal) cut(s *stored) error {
	if s.length == s.size {
		return nil
	}
	if s.damage == spoiled {
		b, err := os.ReadFile(s.path)
		if err != nil {
			return fmt.Errorf("cut audit segment: %w", err)
		}
		if err := replaceIn(w.files, s.path+".cut", b[s.size:]); err != nil {
			return fmt.Errorf("cut audit segment: %w", err)
		}
	}
	if err := truncate(w.files, s.path, s.size); err != nil {
		return fmt.Errorf("cut audit segment: %w", err)
	}
	return nil
}

// ready reports why an append would be refused now; nil if nothing is known.
func (w *wal) ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusal(record.MaxPayload, admittedShare); err != nil {
		return err
	}
	return w.failed
}

// snapshot returns copies of the segments, oldest first; only durable bytes count.
func (w *wal) snapshot() []segment {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]segment, len(w.segments))
	for i, s := range w.segments {
		out[i] = *s
	}
	return out
}

// shippedTo notes that everything before offset in the segment at path, up to the record of sequence seq, is in the database.
func (w *wal) shippedTo(path string, offset int64, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.segments {
		if s.path == path {
			s.shipped, s.landed = offset, seq
		}
	}
}

// shipping notes the time of the first record that is about to be shipped, 0 when all are.
func (w *wal) shipping(oldest int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldest = oldest
}

// retire removes the closed segments whose records are all sealed; sealed gives the last sealed sequence per writer.
func (w *wal) retire(sealed map[string]uint64) error {
	w.mu.Lock()
	var done []*segment
	for _, s := range w.segments {
		if s != w.active && !s.waiting() && s.last <= sealed[s.writer] {
			done = append(done, s)
		}
	}
	w.mu.Unlock()
	for _, s := range done {
		if err := w.files.Remove(s.path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("retire audit segment: %w", err)
		}
		w.mu.Lock()
		w.segments = slices.DeleteFunc(w.segments, func(o *segment) bool { return o == s })
		w.bytes -= s.size
		w.metrics.walBytes.WithLabelValues(w.device).Set(float64(w.bytes))
		w.mu.Unlock()
	}
	return nil
}

// close refuses further appends and waits, up to the deadline, for the commit in progress.
func (w *wal) close(ctx context.Context) error {
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
			return fmt.Errorf("close audit log: %w", errSlow) // the hung operation keeps the file
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
