package audit

import (
	"path/filepath"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// A replica dies with records that it never shipped and does not come back: another one's machine recovers its directory, while it goes on.
func TestRecover(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		mine := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		appendN(t, mine, 0, 5)
		flush(t, mine)
		must(t, seal.Release(t.Context(), mine.store.DB, mine.wal.Writer)) // a replica that runs would seal what is recovered; this one has no loop
		lost := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		receipts := appendN(t, lost, 100, 7)
		if _, err := Recover(t.Context(), testConfig(""), lost.cfg.Dir, db, testKeys(), nil, discard()); err == nil {
			t.Fatal("a replica that runs was recovered")
		}
		for _, lock := range lost.locks { // it dies
			_ = lock.Close()
		}
		for again := range 2 {
			n, err := Recover(t.Context(), testConfig(""), lost.cfg.Dir, db, testKeys(), nil, discard())
			if want := int64(7 * (1 - again)); err != nil || n != want {
				t.Fatalf("%d records recovered, want %d: %v", n, want, err)
			}
		}
		appendN(t, mine, 200, 2)
		flush(t, mine)
		for _, r := range receipts {
			if e, err := mine.Get(t.Context(), r.ID); err != nil || e.Index < 0 {
				t.Errorf("%+v: %v", e, err)
			}
		}
		mustVerify(t, mine, db)
		if _, err := Recover(t.Context(), testConfig(""), filepath.Join(lost.cfg.Dir, "wal"), db, testKeys(), nil, discard()); err == nil {
			t.Error("a directory without a write-ahead log was recovered")
		}
	})
}
