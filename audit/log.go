package audit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	retryAfter = time.Second // what a refused caller is told
	maxBackoff = 10 * time.Second
)

// Log is the audit log of one process. Its methods are safe for concurrent use.
type Log struct {
	*search.Reader    // what was recorded
	*seal.Tree        // what was sealed
	*retention.Keeper // what must stay
	*export.Exporter  // what others get

	cfg         Config
	store       *store.Store
	wal         *wal.Log // takes the records
	spool       *wal.Log // takes them when wal does not, if the tenant's mode says so; nil without one
	lost        losses
	contents    *contents
	signer      checkpoint.Signer
	reads       checkpoint.Verifier  // what any key of this log signed
	key         string               // these keys as text
	witnesses   checkpoint.Witnesses // of the configuration
	log         *slog.Logger
	metrics     *metrics
	now         func() time.Time
	portion     int64 // records in one pruning, at most
	disk        archiveDisk
	stepTimeout time.Duration // with the database, in one step
	locks       []*os.File    // of the directories

	work     sync.Mutex // one pass of shipping or sealing at a time; guards the checkpoint cache and room
	room     wal.Room   // for the records that are being shipped
	cache    *seal.Cache
	erasures map[string]int64    // that were heeded, by tenant
	erased   func(tenant string) // is told of them; nil for nobody
	// rewritten holds the reason once the database was found not to extend the cached checkpoint.
	rewritten atomic.Pointer[string]
}

// Text is a prompt or an answer to keep beside its record. A record keeps at most one of each direction.
type Text struct {
	Direction string // "request" or "answer", or DirectionMark
	Form      string // "masked" or "clear"
	Text      string
}

// DirectionMark is that of a text that is none: what [Config.Beside] keeps with the record, as it is. Its subject may be nobody; with a
// subject it is not stored once what was kept of that person up to then is erased.
const DirectionMark = "mark"

// Append makes e durable in the local write-ahead log and returns its receipt. It fills Schema and ID, and Time if zero. Every
// error has the code audit_unavailable, except an event too large to record: the caller must refuse the request. A cancelled
// context ends the wait, not necessarily the write.
func (l *Log) Append(ctx context.Context, e Event) (Receipt, error) {
	return l.AppendWith(ctx, e, "")
}

// AppendWith is Append for a record with a prompt or an answer to keep: each text is encrypted under a key of its subject before it
// touches a disk, and becomes durable with the record or not at all. It fills Contents. Empty texts are left out. subject is what
// [Subject] returned for the person the texts are of; [Log.Erase] destroys that person's keys.
func (l *Log) AppendWith(ctx context.Context, e Event, subject string, texts ...Text) (Receipt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Receipt{}, fault.Wrap(err, fault.CodeAuditUnavailable)
	}
	e.Schema, e.ID, e.Salt = record.Schema, id.String(), newSalt()
	if e.Region == "" {
		e.Region = l.cfg.Region
	}
	if e.Time == 0 {
		e.Time = l.now().UnixMicro()
	}
	payload, attached, err := l.encode(e, subject, texts)
	if err != nil {
		return Receipt{}, fault.Wrap(err, fault.CodeInternal)
	}
	share := int64(wal.FullShare)
	if e.Stage == StageAdmitted {
		share = wal.ShareOfAdmitted
	}
	mode := l.cfg.modeOf(e.Tenant)
	w := l.wal
	seq, err := w.Append(ctx, payload, share, attached...)
	if err != nil && mode == ModeSpool {
		var second error
		if e.ID, seq, second = l.appendSpool(ctx, e, share, subject, texts); second == nil {
			w, err = l.spool, nil
		} else {
			err = errors.Join(err, fmt.Errorf("and the spool: %w", second))
		}
	}
	if err == nil {
		return Receipt{ID: e.ID, Writer: w.Writer, Seq: seq}, nil
	}
	if mode == ModeBestEffort {
		l.lost.add(e.Tenant)
		l.metrics.lost.Inc()
		return Receipt{ID: e.ID}, nil
	}
	return Receipt{}, fault.Wrap(err, fault.CodeAuditUnavailable).WithRetryAfter(retryAfter)
}

// encode returns the payload of e and what stands before it in the write-ahead log.
func (l *Log) encode(e Event, subject string, texts []Text) ([]byte, []wal.Attachment, error) {
	attached, err := l.contents.seal(&e, subject, texts, l.now())
	if err != nil {
		return nil, nil, err
	}
	payload, err := record.Encode(e)
	return payload, attached, err
}

// appendSpool makes a record durable in the spool. It has an id of its own there: what the first device did not acknowledge may still be
// found in it.
func (l *Log) appendSpool(ctx context.Context, e Event, share int64, subject string, texts []Text) (string, uint64, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", 0, err
	}
	e.ID = id.String()
	payload, attached, err := l.encode(e, subject, texts)
	if err != nil {
		return "", 0, err
	}
	seq, err := l.spool.Append(ctx, payload, share, attached...)
	if err != nil {
		return "", 0, err
	}
	l.metrics.spooled.Inc()
	return e.ID, seq, nil
}

func newSalt() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// logs are the write-ahead logs, first the one that is written to first.
func (l *Log) logs() []*wal.Log {
	if l.spool == nil {
		return []*wal.Log{l.wal}
	}
	return []*wal.Log{l.wal, l.spool}
}

// Ready reports why the log would refuse records of tenants without a mode of their own now, or that the database was found rewritten.
// A database that is merely away is no reason while the write-ahead log has room.
func (l *Log) Ready() error {
	if r := l.rewritten.Load(); r != nil {
		return fault.Wrap(errors.New(*r), fault.CodeAuditUnavailable)
	}
	err := l.wal.Ready()
	if err != nil && l.cfg.Mode == ModeSpool {
		err = l.spool.Ready()
	}
	if err != nil && l.cfg.Mode != ModeBestEffort {
		return fault.Wrap(err, fault.CodeAuditUnavailable).WithRetryAfter(retryAfter)
	}
	return nil
}

// Run ships, seals and signs until ctx ends. It survives every failure of the database and tries again with growing pauses.
// Before the process ends, call Flush and Close.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.ShipEvery)
	defer tick.Stop()
	var pause time.Duration
	var resume, sealAt time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, w := range l.logs() {
			w.Probe()
		}
		now := l.now()
		if now.Before(resume) {
			continue
		}
		err := l.pass(ctx, !now.Before(sealAt))
		if !now.Before(sealAt) {
			sealAt = now.Add(l.cfg.CheckpointEvery)
		}
		if err == nil || errors.Is(err, seal.ErrNotSealer) {
			pause = 0
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		pause = min(max(2*pause, l.cfg.ShipEvery), maxBackoff)
		resume = now.Add(pause)
		l.log.Error("audit records wait in the write-ahead log", slog.String("error", err.Error()), slog.Duration("retry_in", pause))
	}
}

// Flush ships, seals and signs everything appended before the call. It waits while another replica seals.
func (l *Log) Flush(ctx context.Context) error {
	target := map[string]uint64{}
	for _, w := range l.logs() {
		for _, s := range w.Segments() {
			target[s.Writer] = max(target[s.Writer], s.Last)
		}
	}
	wait := time.NewTicker(20 * time.Millisecond)
	defer wait.Stop()
	for {
		err := l.pass(ctx, true)
		if err != nil && !errors.Is(err, seal.ErrNotSealer) {
			return fmt.Errorf("flush audit log: %w", err)
		}
		done, err := l.reached(ctx, target)
		if err != nil {
			return fmt.Errorf("flush audit log: %w", err)
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("flush audit log: %w", ctx.Err())
		case <-wait.C:
		}
	}
}

func (l *Log) reached(ctx context.Context, target map[string]uint64) (bool, error) {
	writers := make([]string, 0, len(target))
	for w := range target {
		writers = append(writers, w)
	}
	sealed, err := l.Tree.SealedUpTo(ctx, writers, math.MaxInt64)
	if err != nil {
		return false, err
	}
	for w, last := range target {
		if sealed[w] < last {
			return false, nil
		}
	}
	return true, nil
}

// Close gives up the sealing lease and the directory. Append fails afterwards. It does not flush: what is not shipped yet waits
// in the write-ahead log for the next start.
func (l *Log) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.WriteDeadline)
	defer cancel()
	var err error
	for _, w := range l.logs() {
		err = errors.Join(err, w.Close(ctx))
	}
	if rerr := seal.Release(ctx, l.store.DB, l.wal.Writer); rerr != nil {
		l.log.Warn("the sealing lease stays until it expires", slog.String("error", rerr.Error()))
	}
	for _, lock := range l.locks {
		err = errors.Join(err, lock.Close())
	}
	return err
}
