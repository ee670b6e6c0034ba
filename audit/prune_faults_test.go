package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestPruneEveryDatabaseFailure fails each operation of a pruning in turn, in both flavours. Nothing is lost, the log verifies, and the next
// pruning goes on.
func TestPruneEveryDatabaseFailure(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		stride := 2 // every operation is for the long run
		if db.Name() != "sqlite" {
			stride = 6
		}
		if os.Getenv("SLUICE_TEST_LONG") != "" {
			stride = 1
		}
		if testing.Short() {
			stride *= 8
		}
		faulty := &dbtest.Faults{}
		cfg := testConfig(t.TempDir())
		cfg.SegmentBytes, cfg.Retention.ArchiveDir = 1<<20, t.TempDir()
		g := growOn(t, openTest(t, cfg, faulty.Over(db), nil, durable.OS{}), db, 300)
		hold, err := g.l.Hold(t.Context(), retention.Hold{Tenant: "other", Reason: "r"})
		must(t, err)
		least := int64(0)
		for _, m := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter} {
			for n := 1; ; n += stride {
				failed, at := "", n
				faulty.Set(func(op string) durabletest.Mode {
					if at--; at == 0 {
						failed = op
						return m
					}
					return durabletest.Healthy
				})
				_, err := g.l.Prune(t.Context(), "tester")
				faulty.Set(nil)
				if failed == "" {
					must(t, err)
					break
				}
				r := g.mustVerify()
				if err == nil && !strings.Contains(failed, "lease") && m == durabletest.FailsBefore && r.Least == least {
					t.Fatalf("%s (%d): no error and nothing pruned", failed, n)
				}
				if r.Least > least { // it was carried out: something new is due
					least = r.Least
					must(t, db.Exec("UPDATE audit_lease SET expires = 0 WHERE name = 'prune'").Error)
					g.prune()
					g.old(300)
				}
				must(t, db.Exec("UPDATE audit_lease SET expires = 0 WHERE name = 'prune'").Error)
			}
			g.old(300)
		}
		must(t, db.Exec("UPDATE audit_lease SET expires = 0 WHERE name = 'prune'").Error)
		_, err = g.l.ReleaseHold(t.Context(), "other", hold.ID, Actor{Kind: "system", ID: "other"})
		must(t, err)
		g.prune()
		r := g.mustVerify()
		if r.Least < 256 {
			t.Errorf("%+v", r)
		}
		archived := r.Least
		for _, id := range g.ids { // what is not there is in an archive
			if _, err := g.l.Get(t.Context(), id); err != nil {
				archived--
			}
		}
		if archived < 0 {
			t.Errorf("%d records are gone without an archive", -archived)
		}
	})
}

// failingArchive fails one operation on an archive.
type failingArchive struct {
	archiveFile
	fails string
}

func (f failingArchive) Write(b []byte) (int, error) {
	if f.fails == "write" {
		n, _ := f.archiveFile.Write(b[:len(b)/2])
		return n, durabletest.ErrInjected
	}
	return f.archiveFile.Write(b)
}

func (f failingArchive) Sync() error {
	if f.fails == "sync" {
		return errors.Join(durabletest.ErrInjected, f.archiveFile.Sync())
	}
	return f.archiveFile.Sync()
}

func (f failingArchive) Close() error {
	err := f.archiveFile.Close()
	if f.fails == "close" {
		return durabletest.ErrInjected
	}
	return err
}

// TestPruneArchiveFails: a disk that is full, or loses what it took, costs nothing but time; an archive that is not what it should be is
// never taken for one.
func TestPruneArchiveFails(t *testing.T) {
	g := newGrown(t, dbtest.SQLite(t), 300)
	healthyDisk, dir := newArchiveDisk(), g.l.cfg.Retention.ArchiveDir
	publish := map[string]func(from, to string) error{
		"not published": func(string, string) error { return durabletest.ErrInjected },
		"published without a say": func(from, to string) error {
			return errors.Join(durabletest.ErrInjected, healthyDisk.publish(from, to))
		},
	}
	for _, fails := range []string{"create", "write", "sync", "close", "not published", "published without a say"} {
		g.l.disk.create = func(path string) (archiveFile, error) {
			if fails == "create" {
				return nil, durabletest.ErrInjected
			}
			f, err := healthyDisk.create(path)
			return failingArchive{f, fails}, err
		}
		g.l.disk.publish = healthyDisk.publish
		if p := publish[fails]; p != nil {
			g.l.disk.publish = p
		}
		if _, err := g.l.Prune(t.Context(), "tester"); !errors.Is(err, durabletest.ErrInjected) {
			t.Fatalf("%s: %v", fails, err)
		}
		if r := g.mustVerify(); r.Least != 0 || count(t, g.db, "audit_events") != 300 {
			t.Fatalf("%s: %+v", fails, r)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, archiveTemp)); len(left) > 0 {
			t.Errorf("%s: %v stays", fails, left)
		}
	}
	// The last attempt left a whole archive. Changed, it is not taken; as it was, it is.
	path := filepath.Join(dir, archiveName(0, 256))
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, flipped(b, len(b)/3), 0o600))
	if _, err := g.l.Prune(t.Context(), "tester"); err == nil || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("a changed archive: %v", err)
	}
	must(t, os.WriteFile(path, b, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".audit-0.tmp"), []byte("cut off"), 0o600))
	if done := g.prune(); len(done) != 1 {
		t.Errorf("%+v", done)
	}
	g.mustVerify()
	if left, _ := filepath.Glob(filepath.Join(dir, archiveTemp)); len(left) > 0 {
		t.Errorf("%v stays", left)
	}
}

// A bundle of another log, or another range, under the name of the archive is not taken.
func TestPruneForeignArchive(t *testing.T) {
	g := newGrown(t, dbtest.SQLite(t), 300)
	path := filepath.Join(g.l.cfg.Retention.ArchiveDir, archiveName(0, 256))
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	for name, x := range map[string]export.Selection{"all": {}, "another range": {First: 0, Until: 255}, "a tenant": {Tenant: "demo"}} {
		f, err := os.Create(path)
		must(t, err)
		text, tree, err := g.l.Tree.Newest(t.Context())
		must(t, err)
		_, err = g.l.Under(t.Context(), f, x, text, tree)
		must(t, errors.Join(err, f.Close()))
		if _, err := g.l.Prune(t.Context(), "tester"); err == nil || !strings.Contains(err.Error(), "it is about") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := count(t, g.db, "audit_events"); n != 300 {
		t.Errorf("%d records are left", n)
	}
}

// Only one prunes at a time, and a hold that comes in between stops a pruning before anything goes.
func TestPruneHeldMeanwhile(t *testing.T) {
	g := newGrown(t, dbtest.SQLite(t), 300)
	must(t, retention.Lease().Take(g.db, "somebody else", time.Now()))
	if _, err := g.l.Prune(t.Context(), "tester"); !errors.Is(err, retention.ErrNotPruner) {
		t.Errorf("two prune at once: %v", err)
	}
	must(t, retention.Lease().Release(g.db, "somebody else"))
	disk := newArchiveDisk()
	g.l.disk.publish = func(from, to string) error {
		_, err := g.l.Hold(t.Context(), retention.Hold{Request: "req-11", Reason: "late"})
		return errors.Join(err, disk.publish(from, to))
	}
	if _, err := g.l.Prune(t.Context(), "tester"); !errors.Is(err, retention.ErrChanged) {
		t.Errorf("a hold in between: %v", err)
	}
	g.l.disk = disk
	g.prune()
	g.mustVerify()
	if _, err := g.l.Get(t.Context(), g.ids[11]); err != nil {
		t.Errorf("the held record: %v", err)
	}
	if _, err := g.l.Get(t.Context(), g.ids[12]); err == nil {
		t.Error("a hold blocks its neighbours")
	}
}
