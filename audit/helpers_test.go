package audit

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func testKeys() *keyring.Ring { return keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef")) }

func testConfig(dir string) Config {
	return Config{Dir: dir, SegmentBytes: 1 << 16, MaxBytes: 64 << 20, WriteDeadline: time.Minute}
}

// openTest opens a log that the test closes, or that is closed at its end.
func openTest(t testing.TB, cfg Config, db *gorm.DB, sink Sink, fsys durable.Files) *Log {
	t.Helper()
	l, err := open(cfg.withDefaults(), db, testKeys(), sink, discard(), newMetrics(nil), fsys, durable.OS{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func appendN(t testing.TB, l *Log, from, n int) []Receipt {
	t.Helper()
	out := make([]Receipt, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r, err := l.Append(context.Background(), recordtest.Sample(from+i))
			if err != nil {
				t.Errorf("append: %v", err)
			}
			out[i] = r
		})
	}
	wg.Wait()
	return out
}

func flush(t testing.TB, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func verifyLog(t testing.TB, l *Log, db *gorm.DB) verify.Report {
	t.Helper()
	r, err := verify.Run(context.Background(), verify.Source{Dir: l.cfg.Dir, DB: db, VerifierKey: l.VerifierKey()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustVerify(t testing.TB, l *Log, db *gorm.DB) verify.Report {
	t.Helper()
	r := verifyLog(t, l, db)
	if !r.OK {
		t.Fatalf("verify failed: %+v", r)
	}
	return r
}

// openMigrated opens the SQLite database at path, and makes it first if it is not there.
func openMigrated(t testing.TB, path string) *gorm.DB {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		dbtest.SQLiteFile(t, path)
	}
	db, err := database.Open(context.Background(), database.Config{URL: keyring.Inline("sqlite:" + path)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close(db) })
	return db
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func otherKeys() *keyring.Ring { return keyring.FromBytes([]byte("another master key of 32 bytes!!")) }
