package audit

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestEveryDatabaseFailure fails each operation of shipping, sealing, pinning and retiring in turn, in both flavours, on both databases.
// The next pass goes on: every record is there once, was billed once, and the log verifies.
func TestEveryDatabaseFailure(t *testing.T) {
	skipShort(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		faulty := &dbtest.Faults{}
		l := openTest(t, testConfig(t.TempDir()), faulty.Over(db), countingSink, durable.OS{})
		appendN(t, l, 0, 3)
		var ops []string
		faulty.Set(func(op string) durabletest.Mode { ops = append(ops, op); return durabletest.Healthy })
		flush(t, l)
		faulty.Set(nil)
		if n := len(ops); n < 20 || !slices.Contains(ops, "commit") {
			t.Fatalf("a pass is %d operations: %q", n, ops)
		}
		total := 3
		for _, m := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter} {
			for n := 1; ; n++ {
				appendN(t, l, 10*total, 2)
				total += 2
				failed, at := "", n
				faulty.Set(func(op string) durabletest.Mode {
					if at--; at == 0 {
						failed = op
						return m
					}
					return durabletest.Healthy
				})
				err := l.Flush(t.Context())
				faulty.Set(nil)
				if failed == "" {
					if err != nil {
						t.Fatal(err)
					}
					break
				}
				if err != nil && !errors.Is(err, dbtest.ErrInjected) {
					t.Errorf("%s (%d) mode %d: %v", failed, n, m, err)
				}
				flush(t, l)
				if e, b := count(t, db, "audit_events"), count(t, db, "installation_settings"); e != int64(total) || b != e {
					t.Fatalf("%s (%d) mode %d: %d events, %d billed, want %d", failed, n, m, e, b, total)
				}
				if r := mustVerify(t, l, db); r.Sealed != int64(total) {
					t.Fatalf("%s (%d) mode %d: %d sealed", failed, n, m, r.Sealed)
				}
			}
		}
		must(t, l.Close())
		again := openTest(t, l.cfg, db, countingSink, durable.OS{})
		flush(t, again)
		if r := mustVerify(t, again, db); r.Records != int64(total) {
			t.Errorf("%d records after reopening", r.Records)
		}
		t.Logf("%d operations of a pass failed in turn", len(ops))
	})
}

// TestEveryCacheFailure fails each file operation of caching a checkpoint and of retiring segments, in each way. Nothing is lost, nothing
// looks tampered with, and the files are whole once the disk is.
func TestEveryCacheFailure(t *testing.T) {
	skipShort(t)
	t.Parallel()
	db := dbtest.SQLite(t)
	cfg := testConfig(t.TempDir())
	cfg.SegmentBytes = 100 // every append starts a segment, so every pass retires some
	l := openTest(t, cfg, db, nil, durable.OS{})
	disk := &durabletest.Files{}
	l.cache.Files, l.wal.Files = disk, durable.OS{}
	total := 0
	for _, m := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter, durabletest.FailsShort, durabletest.FailsHalf} {
		for _, op := range []string{"open", "write", "sync", "close", "rename", "syncdir", "truncate", "remove"} {
			if m >= durabletest.FailsShort && op != "write" {
				continue
			}
			for n := 1; n <= 2; n++ {
				for _, dirty := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s mode %d at %d dirty %v", op, m, n, dirty), func(t *testing.T) {
						appendN(t, l, total, 1)
						appendN(t, l, total+1, 1)
						total += 2
						l.wal.Files = disk // appends are for another test
						disk.Set(durabletest.Once(op, n, m, dirty))
						for range 2 {
							if err := l.Flush(t.Context()); err != nil && !errors.Is(err, durabletest.ErrInjected) && !errors.Is(err, io.ErrShortWrite) && !errors.Is(err, syscall.ENOSPC) {
								t.Errorf("flush: %v", err)
							}
							mustVerify(t, l, db)
						}
						disk.Set(nil)
						l.wal.Files = durable.OS{}
						flush(t, l)
						if r := mustVerify(t, l, db); r.Sealed != int64(total) || len(r.Findings) > 0 {
							t.Errorf("%+v", r)
						}
						if segs := l.wal.Segments(); len(segs) > 1 {
							t.Errorf("%d segments stay", len(segs))
						}
					})
				}
			}
		}
	}
	must(t, l.Close())
	l = openTest(t, cfg, db, nil, durable.OS{}) // the files say the same to a fresh process
	if l.cache.Latest.Size != int64(total) {
		t.Errorf("cached %d of %d", l.cache.Latest.Size, total)
	}
	mustVerify(t, l, db)
}
