package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
)

// Status says how far this replica's records are on their way, without asking the database: it also answers while that is away.
type Status struct {
	Waiting int64 // records that are durable here and not in the database yet
	Oldest  int64 // when the first of them was written, in unix microseconds; 0 when all are shipped
	// Checkpoint is the newest checkpoint this replica has seen, an empty tree before the first; Seen is when it saw it.
	Checkpoint checkpoint.Tree
	Seen       time.Time
	// Rewritten says why the database is not trusted any more, "" while it is.
	Rewritten string
}

// Status returns how far this replica's records are on their way.
func (l *Log) Status() (Status, error) {
	var out Status
	for _, w := range l.logs() {
		waiting, oldest := w.Backlog()
		out.Waiting += waiting
		if oldest != 0 && (out.Oldest == 0 || oldest < out.Oldest) {
			out.Oldest = oldest
		}
	}
	if r := l.rewritten.Load(); r != nil {
		out.Rewritten = *r
	}
	path := (&seal.Cache{Dir: seal.CacheDir(l.cfg.Dir)}).LatestPath()
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

// Mode says what happens to requests of the tenant whose record cannot be made durable.
func (l *Log) Mode(tenant string) Mode { return l.cfg.modeOf(tenant) }

// Retention says how long records are kept.
func (l *Log) Retention() retention.Config { return l.cfg.Retention }

// Writer names this run of the process in its records. A second directory has a writer of its own.
func (l *Log) Writer() string { return l.wal.Writer }

// Drain ships what is durable here, and notes in the database up to when everything is there that this run wrote, and that nothing of the
// runs before it is left in its directories. Who misses a record of theirs then knows that it never comes.
func (l *Log) Drain(ctx context.Context) error {
	before := l.now().UnixMicro()
	if err := l.pass(ctx, false); err != nil {
		return fmt.Errorf("drain audit log: %w", err)
	}
	through := map[string]int64{}
	for _, w := range l.logs() {
		through[w.Writer] = before
		for _, writer := range w.Drained() {
			through[writer] = store.Forever
		}
	}
	return l.store.MarkDrained(ctx, through)
}
