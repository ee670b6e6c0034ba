package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

// Standing says how far this replica's records are on their way, without asking the database: it also answers while that is away.
type Standing struct {
	Waiting int64 // records that are durable here and not in the database yet
	Oldest  int64 // when the first of them was written, in unix microseconds; 0 when all are shipped
	// Checkpoint is the newest checkpoint this replica has seen, an empty tree before the first; Seen is when it saw it.
	Checkpoint checkpoint.Tree
	Seen       time.Time
	// Rewritten says why the database is not trusted any more, "" while it is.
	Rewritten string
}

// Standing returns how far this replica's records are on their way.
func (l *Log) Standing() (Standing, error) {
	var out Standing
	for _, w := range l.logs() {
		waiting, oldest := w.backlog()
		out.Waiting += waiting
		if oldest != 0 && (out.Oldest == 0 || oldest < out.Oldest) {
			out.Oldest = oldest
		}
	}
	if r := l.rewritten.Load(); r != nil {
		out.Rewritten = *r
	}
	path := (&pins{dir: pinDir(l.cfg.Dir)}).latestPath()
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	info, serr := os.Stat(path)
	if err := errors.Join(err, serr); err != nil {
		return out, fmt.Errorf("read the newest checkpoint: %w", err)
	}
	if out.Checkpoint, err = l.reads.Open(string(text)); err != nil {
		return out, fmt.Errorf("read the newest checkpoint: %s: %w", path, err)
	}
	out.Seen = info.ModTime().UTC()
	return out, nil
}

// backlog counts the durable records that are not in the database, as far as this process knows, and says when the first was written.
func (w *wal) backlog() (records, oldest int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.segments {
		if s.waiting() {
			records += int64(s.last + 1 - max(s.first, s.landed+1))
		}
	}
	if records == 0 {
		return 0, 0
	}
	return records, w.oldest
}

// Mode says what happens to requests of the tenant whose record cannot be made durable.
func (l *Log) Mode(tenant string) Mode { return l.cfg.modeOf(tenant) }

// Retention says how long records are kept.
func (l *Log) Retention() Retention { return l.cfg.Retention }

// Writer names this run of the process in its records. A second directory has a writer of its own.
func (l *Log) Writer() string { return l.wal.writer }

// Drain ships what is durable here, and notes in the database up to when everything is there that this run wrote, and that nothing of the
// runs before it is left in its directories. Who misses a record of theirs then knows that it never comes.
func (l *Log) Drain(ctx context.Context) error {
	before := l.now().UnixMicro()
	if err := l.pass(ctx, false); err != nil {
		return fmt.Errorf("drain audit log: %w", err)
	}
	through := map[string]int64{}
	for _, w := range l.logs() {
		through[w.writer] = before
		for _, writer := range w.drained() {
			through[writer] = forever
		}
	}
	return l.store.drained(ctx, through)
}

// drained returns the writers of earlier runs of which nothing waits any more.
func (w *wal) drained() []string {
	waits := map[string]bool{}
	for _, s := range w.snapshot() {
		waits[s.writer] = waits[s.writer] || s.waiting()
	}
	var out []string
	for _, writer := range w.former {
		if !waits[writer] {
			out = append(out, writer)
		}
	}
	return out
}
