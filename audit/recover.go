package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Recover moves what another replica left in its directory into the database and waits until it is sealed: for a replica that never comes
// back. It may run beside the others, on a copy of the directory too, and again after it was cut off: a record that is there already is
// left alone. It returns how many records it found. A replica that still runs holds its directory, and Recover fails.
func Recover(ctx context.Context, cfg Config, dir string, db *gorm.DB, keys *keyring.Ring, sink Sink, log *slog.Logger) (records int64, err error) {
	return recoverFrom(ctx, cfg, dir, db, keys, sink, log, durable.OS{})
}

func recoverFrom(ctx context.Context, cfg Config, dir string, db *gorm.DB, keys *keyring.Ring, sink Sink, log *slog.Logger, fsys durable.Files) (records int64, err error) {
	if _, err := os.Stat(wal.Dir(dir)); err != nil {
		return 0, fmt.Errorf("recover %s: there is no write-ahead log: give the audit directory of the lost replica, or its spool: %w", dir, err)
	}
	cfg.Dir, cfg.SpoolDir, cfg.Mode, cfg.Modes = dir, "", ModeStrict, nil
	if err := cfg.Validate(); err != nil {
		return 0, fmt.Errorf("recover: open audit log: %w", err)
	}
	l, err := open(cfg.withDefaults(), db, keys, sink, log.With(slog.String("component", "audit")), newMetrics(nil), fsys, fsys)
	if err != nil {
		return 0, fmt.Errorf("recover: open audit log: %w", err)
	}
	l.cache.Files = fsys
	defer func() { err = errors.Join(err, l.Close()) }() //nolint:contextcheck // closing goes on when the context has ended
	for _, s := range l.wal.Segments() {
		records += int64(s.Last - s.First + 1)
	}
	if err := l.Flush(ctx); err != nil {
		return records, fmt.Errorf("recover %s: %w", dir, err)
	}
	if err := l.Drain(ctx); err != nil { // whoever missed an outcome of the lost replica need not wait for it any more
		return records, fmt.Errorf("recover %s: %w", dir, err)
	}
	return records, nil
}
