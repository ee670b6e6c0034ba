package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

const (
	retryAfter = time.Second // what a refused caller is told
	maxBackoff = 10 * time.Second
)

// Log is the audit log of one process. Its methods are safe for concurrent use.
type Log struct {
	cfg     Config
	store   *store
	wal     *wal
	signer  signer
	key     string
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time
	lock    *os.File

	work sync.Mutex // one pass of shipping or sealing at a time; guards pins
	pins *pins
	// rewritten holds the reason once the database was found not to extend the pinned checkpoint.
	rewritten atomic.Pointer[string]
}

// Append makes e durable in the local write-ahead log and returns its receipt. It fills Schema and ID, and Time if zero. Every
// error has the code audit_unavailable, except an event too large to record: the caller must refuse the request. A cancelled
// context ends the wait, not necessarily the write.
func (l *Log) Append(ctx context.Context, e Event) (Receipt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Receipt{}, fault.Wrap(err, fault.CodeAuditUnavailable)
	}
	e.Schema, e.ID = schemaV1, id.String()
	if e.Time == 0 {
		e.Time = l.now().UnixMicro()
	}
	payload, err := encode(e)
	if err != nil {
		return Receipt{}, fault.Wrap(err, fault.CodeInternal)
	}
	share := int64(10)
	if e.Stage == StageAdmitted {
		share = admittedShare
	}
	seq, err := l.wal.append(ctx, payload, share)
	if err != nil {
		return Receipt{}, fault.Wrap(err, fault.CodeAuditUnavailable).WithRetryAfter(retryAfter)
	}
	return Receipt{ID: e.ID, Writer: l.wal.writer, Seq: seq}, nil
}

// Ready reports why the log would refuse records now, or that the database was found rewritten. A database that is merely away
// is no reason while the write-ahead log has room.
func (l *Log) Ready() error {
	if r := l.rewritten.Load(); r != nil {
		return fault.Wrap(errors.New(*r), fault.CodeAuditUnavailable)
	}
	if err := l.wal.ready(); err != nil {
		return fault.Wrap(err, fault.CodeAuditUnavailable).WithRetryAfter(retryAfter)
	}
	return nil
}

// VerifierKey returns the public key of the checkpoints as text, in the signed-note format.
func (l *Log) VerifierKey() string { return l.key }

// VerifierKey returns the public key that a log of this origin ("" for the default) and master key signs with, without opening it.
func VerifierKey(origin string, keys *keyring.Ring) (string, error) {
	_, key, err := newSigner(Config{Origin: origin}.withDefaults().Origin, keys)
	return key, err
}

// Checkpoint returns the newest signed checkpoint, "" if nothing was sealed yet.
func (l *Log) Checkpoint(ctx context.Context) (string, error) {
	text, _, err := l.store.checkpoint(ctx, l.signer.verifier)
	return text, err
}

// Run ships, seals and signs until ctx ends. It survives every failure of the database and tries again with growing pauses.
// Before the process ends, call Flush and Close.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.ShipEvery)
	defer tick.Stop()
	var pause time.Duration
	var resume, seal time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		l.wal.probe()
		now := l.now()
		if now.Before(resume) {
			continue
		}
		err := l.pass(ctx, !now.Before(seal))
		if !now.Before(seal) {
			seal = now.Add(l.cfg.CheckpointEvery)
		}
		if err == nil || errors.Is(err, errNotSealer) {
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
	for _, s := range l.wal.snapshot() {
		target[s.writer] = max(target[s.writer], s.last)
	}
	wait := time.NewTicker(20 * time.Millisecond)
	defer wait.Stop()
	for {
		err := l.pass(ctx, true)
		if err != nil && !errors.Is(err, errNotSealer) {
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
	sealed, err := l.store.sealedUpTo(ctx, writers, math.MaxInt64)
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
	err := l.wal.close(ctx)
	if rerr := l.store.releaseLease(ctx, l.wal.writer); rerr != nil {
		l.log.Warn("the sealing lease stays until it expires", slog.String("error", rerr.Error()))
	}
	return errors.Join(err, l.lock.Close())
}
