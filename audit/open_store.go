package audit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
)

// Open takes the audit directory for this process, recovers the write-ahead log and returns the log. It needs no answer from the
// database: records wait in the write-ahead log until the database is there. sink may be nil. It starts no loop: see [Log.Run].
// It fails with a clear message if another process holds the directory, or if acknowledged records cannot be read.
func Open(cfg Config, db *gorm.DB, keys *keyring.Ring, sink Sink, log *slog.Logger, reg prometheus.Registerer) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	l, err := open(cfg.withDefaults(), db, keys, sink, log.With(slog.String("component", "audit")), newMetrics(reg), diskFiles{})
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	return l, nil
}

func open(cfg Config, db *gorm.DB, keys *keyring.Ring, sink Sink, log *slog.Logger, m *metrics, fsys files) (_ *Log, err error) {
	sg, key, err := newSigner(cfg.Origin, keys)
	if err != nil {
		return nil, err
	}
	dir := walDir(cfg.Dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	p, err := openPins(pinDir(cfg.Dir), sg.verifier)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	writer := hex.EncodeToString(id[:])
	if err := replaceFile(filepath.Join(cfg.Dir, "writer"), []byte(writer+"\n")); err != nil {
		log.Warn("the writer id could not be noted; it only serves people who look", slog.String("error", err.Error()))
	}
	w := &wal{
		dir: dir, writer: writer, segmentBytes: cfg.SegmentBytes, maxBytes: cfg.MaxBytes, deadline: cfg.WriteDeadline,
		files: fsys, now: time.Now, log: log, metrics: m, next: 1,
	}
	if err := w.recover(); err != nil {
		return nil, err
	}
	return &Log{
		cfg: cfg, store: &store{db: db, sink: sink}, wal: w, pins: p, signer: sg, key: key,
		log: log, metrics: m, now: time.Now, lock: lock,
	}, nil
}

func walDir(dir string) string { return filepath.Join(dir, "wal") }
func pinDir(dir string) string { return filepath.Join(dir, "checkpoints") }
