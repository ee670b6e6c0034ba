// Package audittest opens audit logs for tests of the packages below audit.
package audittest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Log is a log with what it was opened with.
type Log struct {
	*audit.Log

	Config audit.Config
	DB     *gorm.DB
	t      testing.TB
}

// Keys is the master key of the logs that [Open] opens.
func Keys() *keyring.Ring { return keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef")) }

// Open opens a log in a directory of its own, and closes it at the end of the test. change, which may be nil, changes its configuration.
func Open(t testing.TB, db *gorm.DB, change func(*audit.Config)) *Log {
	t.Helper()
	cfg := audit.Config{Dir: t.TempDir(), SegmentBytes: 1 << 16, MaxBytes: 64 << 20, WriteDeadline: time.Minute}
	if change != nil {
		change(&cfg)
	}
	l, err := audit.Open(cfg, db, Keys(), nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &Log{Log: l, Config: cfg, DB: db, t: t}
}

// Append appends n sample records at once, from a number on.
func (l *Log) Append(from, n int) []audit.Receipt {
	l.t.Helper()
	out, errs := make([]audit.Receipt, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i], errs[i] = l.Log.Append(context.Background(), recordtest.Sample(from+i)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		l.t.Fatal(err)
	}
	return out
}

// AppendEvent appends a record and returns its id.
func (l *Log) AppendEvent(e audit.Event) string {
	l.t.Helper()
	r, err := l.Log.Append(context.Background(), e)
	if err != nil {
		l.t.Fatal(err)
	}
	return r.ID
}

// Flush moves everything into the database and seals it.
func (l *Log) Flush() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := l.Log.Flush(ctx); err != nil {
		l.t.Fatal(err)
	}
}

// Verify verifies the whole log.
func (l *Log) Verify() verify.Report {
	l.t.Helper()
	r, err := verify.Run(context.Background(), verify.Source{Dir: l.Config.Dir, DB: l.DB, VerifierKey: l.VerifierKey()}, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// MustVerify fails the test if the log has problems.
func (l *Log) MustVerify() {
	l.t.Helper()
	if r := l.Verify(); !r.OK {
		l.t.Fatalf("verify failed: %+v", r)
	}
}
