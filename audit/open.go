package audit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Open takes the audit directory for this process, recovers the write-ahead log and returns the log. It needs no answer from the
// database: records wait in the write-ahead log until the database is there. sink may be nil. It starts no loop: see [Log.Run].
// It fails with a clear message if another process holds the directory, or if acknowledged records cannot be read.
func Open(cfg Config, db *gorm.DB, keys *keyring.Ring, sink Sink, log *slog.Logger, reg prometheus.Registerer) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	cfg = cfg.withDefaults()
	l, err := open(cfg, db, keys, sink, log.With(slog.String("component", "audit")), newMetrics(reg), cfg.Files, durable.OS{})
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	return l, nil
}

func open(cfg Config, db *gorm.DB, keys *keyring.Ring, sink Sink, log *slog.Logger, m *metrics, fsys, spool durable.Files) (_ *Log, err error) {
	l := &Log{cfg: cfg, store: &store.Store{DB: db, Sink: sink, Beside: cfg.Beside, Rollup: cfg.Rollup}, log: log, metrics: m, now: time.Now, stepTimeout: stepTimeout, portion: retention.Step, disk: newArchiveDisk()}
	if database.IsSQLite(db) {
		l.portion = retention.StepSQLite
	}
	if l.signer, err = newSigner(cfg, keys, cfg.CheckpointKeys...); err != nil {
		return nil, err
	}
	if l.contents, err = newContents(keys, cfg.Suite, cfg.MaxContentBytes); err != nil {
		return nil, err
	}
	l.store.Wrap = l.contents.cipher.Renew
	subject := func(tenant, who string) string { return Subject(keys, tenant, who) }
	l.Reader = search.NewReader(db, subject)
	l.Keeper = retention.NewKeeper(db, func() time.Time { return l.now() }, subject)
	all, err := allKeys(cfg, keys)
	if err != nil {
		return nil, err
	}
	l.reads, l.key = all.Verifier(), all.Key()
	if l.witnesses, err = checkpoint.NewWitnesses(strings.Join(cfg.Witnesses, "\n")); err != nil {
		return nil, err
	}
	l.Tree = seal.NewTree(db, l.reads, l.witnesses, log)
	l.Exporter = export.New(export.Config{
		DB: db, Tree: l.Tree, Records: l.Reader, Keys: l.reads, Key: l.key, Signer: l.signer, Now: func() time.Time { return l.now() }, Every: cfg.CheckpointEvery,
	})
	defer func() {
		for _, lock := range l.locks {
			if err != nil {
				err = errors.Join(err, lock.Close())
			}
		}
	}()
	if l.wal, err = l.openWAL("log", cfg.Dir, fsys); err != nil {
		return nil, err
	}
	if cfg.SpoolDir != "" {
		if l.spool, err = l.openWAL("spool", cfg.SpoolDir, spool); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
	if l.cache, err = seal.OpenCache(seal.CacheDir(cfg.Dir), l.reads); err != nil {
		return nil, err
	}
	return l, nil
}

// openWAL takes a directory for this process and recovers what is in it.
func (l *Log) openWAL(device, dir string, fsys durable.Files) (*wal.Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := durable.Lock(dir)
	if err != nil {
		return nil, err
	}
	l.locks = append(l.locks, lock)
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	writer := hex.EncodeToString(id[:])
	if err := durable.Replace(durable.OS{}, filepath.Join(dir, "writer"), []byte(writer+"\n")); err != nil {
		l.log.Warn("the writer id could not be noted; it only serves people who look", slog.String("error", err.Error()))
	}
	return wal.Open(wal.Config{
		Dir: wal.Dir(dir), Writer: writer, SegmentBytes: l.cfg.SegmentBytes, MaxBytes: l.cfg.MaxBytes, Deadline: l.cfg.WriteDeadline,
		Files: fsys, Now: time.Now, Log: l.log.With(slog.String("device", device)), Metrics: l.metrics.wal, Device: device,
	})
}
