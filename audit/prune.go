package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
)

const (
	retainEvery = 24 * time.Hour
	retainRetry = 10 * time.Minute
	// unseenWarning is how many records a witness may be behind before the daily pruning says so; it is a few seconds behind always.
	unseenWarning = 10 * retention.Unit
	// recordTimeout is how long a pruning waits until its record is sealed.
	recordTimeout = 2 * time.Minute
)

// Pruning says what was removed, or would be: the records of the positions from First to Until, but for Kept of them.
type Pruning struct {
	First   int64
	Until   int64 // exclusive
	Kept    int64 // in the long-term store
	Oldest  int64 // unix microseconds
	Newest  int64
	Archive string // file name of the evidence bundle; "" before it is written
	Digest  string // hex SHA-256 of that file
	Record  string // id of the audit record
	// Unseen says how many sealed records were not looked at, since a witness of the configuration has not cosigned them.
	Unseen int64
}

// Due says what could be pruned now: nothing if First equals Until. It changes nothing.
func (l *Log) Due(ctx context.Context) (Pruning, error) {
	_, t, err := l.Tree.NewestByAll(ctx)
	if err != nil {
		return Pruning{}, fmt.Errorf("look for prunable records: %w", err)
	}
	now, err := retention.EarlierClock(ctx, l.store.DB, l.now())
	if err != nil {
		return Pruning{}, fmt.Errorf("look for prunable records: %w", err)
	}
	p, err := l.Keeper.Plan(ctx, l.cfg.Retention, now, t.Size, t.Size)
	if err != nil {
		return Pruning{}, fmt.Errorf("look for prunable records: %w", err)
	}
	out := Pruning{First: p.First, Until: p.Until, Kept: int64(len(p.Keep))}
	if p.Capped && len(l.witnesses.Names()) > 0 {
		_, newest, err := l.Tree.Newest(ctx)
		if err != nil {
			return Pruning{}, fmt.Errorf("look for prunable records: %w", err)
		}
		out.Unseen = max(0, newest.Size-t.Size)
	}
	if p.Until > p.First {
		out.Oldest, out.Newest = p.Oldest, p.Newest
	}
	return out, nil
}

// Prune removes the records whose time is over, oldest position first, in steps. Of each step it first copies the records that stay into the
// long-term store, writes an evidence bundle into the archive, verifies it from the disk, and makes a record of it durable; only then it removes, in
// one transaction. Cut off at any point it loses nothing and goes on when it is called again. What it returns was removed, also beside an
// error. It then removes the records of the long-term store whose time is over. by names who asked for it.
func (l *Log) Prune(ctx context.Context, by string) (done []Pruning, err error) {
	if l.cfg.Retention.ArchiveDir == "" {
		return nil, errors.New("prune audit records: there is no archive: set audit.retention.archive_dir")
	}
	if r := l.rewritten.Load(); r != nil {
		return nil, fmt.Errorf("prune audit records: %s", *r)
	}
	db, lease := l.store.DB.WithContext(ctx), retention.Lease()
	if err := lease.Take(db, l.wal.Writer, l.now()); err != nil {
		return nil, fmt.Errorf("prune audit records: %w", err)
	}
	defer func() {
		err = errors.Join(err, lease.Release(db.WithContext(context.WithoutCancel(ctx)), l.wal.Writer))
	}()
	if err := l.sweepArchive(); err != nil {
		return nil, fmt.Errorf("prune audit records: %w", err)
	}
	for {
		p, err := l.pruneStep(ctx, by)
		if err != nil {
			return done, fmt.Errorf("prune audit records: %w", err)
		}
		if p.First == p.Until {
			break
		}
		l.metrics.pruned.Add(float64(p.Until - p.First - p.Kept))
		l.log.Info("audit records were pruned", slog.Int64("first", p.First), slog.Int64("until", p.Until), slog.Int64("kept", p.Kept), slog.String("archive", p.Archive))
		done = append(done, p)
		if err := lease.Take(db, l.wal.Writer, l.now()); err != nil { // for another hour
			return done, fmt.Errorf("prune audit records: %w", err)
		}
	}
	if err := l.expireLongTerm(ctx, by); err != nil {
		return done, fmt.Errorf("prune audit records: %w", err)
	}
	return done, nil
}

// pruneStep does one step; it returns an empty range when nothing is due.
func (l *Log) pruneStep(ctx context.Context, by string) (Pruning, error) {
	note, tree, err := l.Tree.NewestByAll(ctx)
	if err != nil {
		return Pruning{}, err
	}
	now, err := retention.EarlierClock(ctx, l.store.DB, l.now())
	if err != nil {
		return Pruning{}, err
	}
	plan, err := l.Keeper.Plan(ctx, l.cfg.Retention, now, tree.Size, l.portion)
	if err != nil || plan.First == plan.Until {
		return Pruning{}, err
	}
	if err := retention.CopyToLongTerm(ctx, l.store.DB, plan.Keep, note, tree, l.key); err != nil {
		return Pruning{}, err
	}
	kept, err := retention.InLongTerm(l.store.DB.WithContext(ctx), plan.First, plan.Until)
	if err != nil {
		return Pruning{}, err
	}
	root, err := l.Tree.RootAt(ctx, plan.Until)
	if err != nil {
		return Pruning{}, err
	}
	p := Pruning{First: plan.First, Until: plan.Until, Kept: kept, Oldest: plan.Oldest, Newest: plan.Newest, Archive: archiveName(plan.First, plan.Until)}
	size, err := l.archive(ctx, &p, note, tree, by)
	if err != nil {
		return Pruning{}, err
	}
	row := store.PruningRow{
		FirstIndex: p.First, UntilIndex: p.Until, Kept: p.Kept, Root: hex.EncodeToString(root[:]), Oldest: p.Oldest, Newest: p.Newest, Size: size,
		Archive: p.Archive, Digest: p.Digest, Time: l.now().UnixMicro(), Actor: database.Text(by),
	}
	stays, err := retention.LongTermDigest(l.store.DB.WithContext(ctx), p.First, p.Until)
	if err != nil {
		return Pruning{}, err
	}
	if row.Record, err = l.recordPruning(ctx, fmt.Sprintf("%d-%d", p.First, p.Until), by, row.Detail(stays)); err != nil {
		return Pruning{}, err
	}
	p.Record = row.Record
	err = retention.Remove(ctx, l.store.DB, l.wal.Writer, row, stays, plan.Holds, l.cfg.Beside)
	l.store.Months.Forget()
	return p, err
}

// recordPruning makes the record durable and waits until it is sealed: nothing is removed before.
func (l *Log) recordPruning(ctx context.Context, resource, by string, detail map[string]string) (string, error) {
	e := Event{
		Stage: StageAction, Actor: Actor{Kind: "system", ID: "retention", Name: by}, Action: retention.ActionPrune, Resource: resource,
		Decision: "allow", Outcome: "ok", Detail: detail,
	}
	var err error
	if e.Detail[retention.AttestationKey], err = retention.Attest(l.signer, e); err != nil {
		return "", err
	}
	receipt, err := l.Append(ctx, e)
	if err != nil {
		return "", fmt.Errorf("record the pruning: %w", err)
	}
	if receipt.Seq == 0 {
		return "", errors.New("record the pruning: the record was lost, and nothing is pruned without one")
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		return "", fmt.Errorf("record the pruning: %w", err)
	}
	return receipt.ID, nil
}

// expireLongTerm removes the records of the long-term store whose longer time is over.
func (l *Log) expireLongTerm(ctx context.Context, by string) error {
	for at := int64(-1); ; {
		now, err := retention.EarlierClock(ctx, l.store.DB, l.now())
		if err != nil {
			return err
		}
		due, last, holds, err := l.Keeper.Overdue(ctx, l.cfg.Retention, now, at)
		if err != nil {
			return err
		}
		if len(due) > 0 {
			var indexes []string
			for _, r := range due {
				indexes = append(indexes, strconv.FormatInt(r.Idx, 10))
			}
			detail := map[string]string{"records": strconv.Itoa(len(due)), "indexes": strings.Join(indexes, " "), "before": strconv.FormatInt(now.UnixMicro(), 10)}
			if _, err := l.recordPruning(ctx, retention.LongTermResource, by, detail); err != nil {
				return err
			}
			if err := retention.Expire(ctx, l.store.DB, l.wal.Writer, due, holds, l.cfg.Beside); err != nil {
				return err
			}
			l.metrics.pruned.Add(float64(len(due)))
			l.log.Info("audit records were removed from the long-term store", slog.Int("records", len(due)))
		}
		if last < 0 {
			return nil
		}
		at = last
	}
}

// Retain prunes once a day, if there is an archive, until ctx ends; without one it says what is due. It makes the partition of the coming
// month, too.
func (l *Log) Retain(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := retainEvery
		now := l.now()
		err := l.store.Months.Ensure(ctx, l.store.DB, now.UnixMicro(), now.AddDate(0, 0, 7).UnixMicro())
		if err == nil {
			err = l.retainOnce(ctx)
		}
		switch {
		case ctx.Err() != nil:
			wait = 0
		case errors.Is(err, retention.ErrNotPruner), errors.Is(err, retention.ErrChanged):
			wait = retainRetry
		case err != nil:
			wait = retainRetry
			l.metrics.pruneErrors.Inc()
			l.log.Error("audit records whose time is over could not be pruned; nothing is lost, it is tried again", slog.String("error", err.Error()), slog.Duration("retry_in", wait))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

func (l *Log) retainOnce(ctx context.Context) error {
	if l.cfg.Retention.ArchiveDir != "" {
		if _, err := l.Prune(ctx, "schedule"); err != nil {
			return err
		}
	}
	due, err := l.Due(ctx)
	if err == nil && due.Unseen >= unseenWarning {
		l.log.Warn("audit records are pruned only when every witness of the configuration has cosigned them; a witness is behind, or gone: see audit.witnesses",
			slog.Int64("not_cosigned", due.Unseen))
	}
	if err == nil && due.Until > due.First && l.cfg.Retention.ArchiveDir == "" {
		l.log.Warn("audit records are past their time; set audit.retention.archive_dir to have them archived and pruned",
			slog.Int64("records", due.Until-due.First-due.Kept), slog.Int64("first", due.First), slog.Int64("until", due.Until))
	}
	return err
}

func archiveName(first, until int64) string {
	return fmt.Sprintf("audit-%012d-%012d.zip", first, until)
}

const archiveTemp = ".audit-*.tmp"

// archiveFile is a bundle being written.
type archiveFile interface {
	export.BundleFile
	io.Closer
	Sync() error
}

// archiveDisk is where archives are written; tests let it fail.
type archiveDisk struct {
	create  func(path string) (archiveFile, error)
	publish func(from, to string) error // durably, under the final name
}

func newArchiveDisk() archiveDisk {
	return archiveDisk{
		create: func(path string) (archiveFile, error) {
			return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		},
		publish: func(from, to string) error {
			if err := os.Rename(from, to); err != nil {
				return err
			}
			dir, err := os.Open(filepath.Dir(to))
			if err != nil {
				return err
			}
			return errors.Join(dir.Sync(), dir.Close())
		},
	}
}

// sweepArchive makes the directory and removes what a pruning that was cut off left half written. Only one prunes at a time.
func (l *Log) sweepArchive() error {
	dir := l.cfg.Retention.ArchiveDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, archiveTemp))
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("archive: %w", err)
		}
	}
	return nil
}

// archive writes the bundle of a range, unless an earlier attempt did, and verifies it from the disk; it fills the digest and returns the size of
// the tree that the bundle proves its records under.
func (l *Log) archive(ctx context.Context, p *Pruning, note string, tree checkpoint.Tree, by string) (int64, error) {
	path := filepath.Join(l.cfg.Retention.ArchiveDir, p.Archive)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := l.writeArchive(ctx, path, *p, note, tree, by); err != nil {
			return 0, fmt.Errorf("archive %s: %w", path, err)
		}
	} else if err != nil {
		return 0, fmt.Errorf("archive: %w", err)
	}
	m, digest, err := l.checkArchive(ctx, path, *p)
	if err != nil {
		return 0, fmt.Errorf("archive %s does not hold what is to be pruned: %w; nothing was removed: move the file away, find out why, and prune again", path, err)
	}
	p.Digest = digest
	return m.Size, nil
}

func (l *Log) writeArchive(ctx context.Context, path string, p Pruning, note string, tree checkpoint.Tree, by string) (err error) {
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".audit-%d.tmp", p.First))
	f, err := l.disk.create(temp)
	if err != nil {
		return err
	}
	_, err = l.Under(ctx, f, export.Selection{By: by, First: p.First, Until: p.Until}, note, tree)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = l.disk.publish(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// checkArchive verifies an archive as an outsider would, reading it from the disk, and that it is of this range, of this log, and cosigned by
// every witness.
func (l *Log) checkArchive(ctx context.Context, path string, p Pruning) (m evidence.Manifest, digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return m, "", err
	}
	r, err := evidence.VerifyBundle(ctx, f, size, l.reads, l.witnesses, nil)
	if err != nil {
		return m, "", err
	}
	for _, x := range r.Problems {
		return m, "", fmt.Errorf("%s of record %q: %s", x.Kind, x.Record, x.Cause)
	}
	m = r.Manifest
	if m.Tenant != "" || m.From != 0 || m.To != 0 || m.Least != p.First || m.Until != p.Until || r.Proven != p.Until-p.First {
		return m, "", fmt.Errorf("it is about the records from %d to %d", m.Least, m.Until)
	}
	root, err := l.Tree.RootAt(ctx, m.Size)
	if err != nil {
		return m, "", err
	}
	if hex.EncodeToString(root[:]) != m.Root {
		return m, "", errors.New("it belongs to another state of the log")
	}
	return m, hex.EncodeToString(sum.Sum(nil)), nil
}
