package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/audit/record/recordtest"
)

// wreck is the directory of a replica that died in the worst way: segments that end in half a write, in a frame with a wrong checksum, and
// in nothing, records that were shipped, and half a line of checkpoints. ids are the records that were acknowledged.
type wreck struct {
	db    string
	files map[string][]byte
	ids   []string
}

func newWreck(t *testing.T) wreck {
	t.Helper()
	w := wreck{db: t.TempDir() + "/a.db", files: map[string][]byte{}}
	db := openMigrated(t, w.db)
	cfg := testConfig(t.TempDir())
	for run, tail := range []string{"torn", "spoiled", "nothing"} {
		l := openTest(t, cfg, db, countingSink, diskFiles{})
		for n := range 3 {
			w.ids = append(w.ids, appendN(t, l, 10*run+n, 1)[0].ID)
		}
		if run == 0 {
			l.work.Lock()
			must(t, l.seal(t.Context())) // nothing is shipped yet
			must(t, l.ship(t.Context()))
			l.work.Unlock()
			must(t, l.pass(t.Context(), true))
		}
		segs := l.wal.snapshot()
		seg := segs[len(segs)-1]
		must(t, l.Close())
		b, err := os.ReadFile(seg.path)
		must(t, err)
		frame := b[len(b)-800:]
		switch tail {
		case "torn":
			b = append(b, frame[:300]...)
		case "spoiled":
			payload := slices.Repeat([]byte("x"), 100)
			bad := appendFrame(nil, seg.last+1, payload)
			bad[len(bad)-1] ^= 1
			b = append(b, bad...)
		case "nothing":
			must(t, os.WriteFile(segmentPath(walDir(cfg.Dir), seg.writer, seg.number+1), nil, 0o600))
		}
		must(t, os.WriteFile(seg.path, b, 0o600))
	}
	pin, err := os.OpenFile(filepath.Join(pinDir(cfg.Dir), "checkpoints.log"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = io.WriteString(pin, `"half a li`)
	must(t, errors.Join(err, pin.Close()))
	must(t, filepath.WalkDir(cfg.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(cfg.Dir, path)
		must(t, err)
		w.files[rel], err = os.ReadFile(path)
		return err
	}))
	return w
}

// lay puts the directory and a copy of the database somewhere else.
func (w wreck) lay(t *testing.T) (dir, db string) {
	t.Helper()
	dir, db = t.TempDir(), t.TempDir()+"/a.db"
	for name, b := range w.files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, b, 0o600))
	}
	b, err := os.ReadFile(w.db)
	must(t, err)
	must(t, os.WriteFile(db, b, 0o600))
	return dir, db
}

// TestEveryRecoveryFailure starts over such a directory, and has another machine adopt it, while each file operation fails in turn, in
// each way. The start or the adoption may fail; the next one, on a disk that works, finds everything that was acknowledged, once.
func TestEveryRecoveryFailure(t *testing.T) {
	w := newWreck(t)
	must(t, openMigrated(t, w.db).Exec("PRAGMA wal_checkpoint(TRUNCATE)").Error)
	for _, how := range []string{"start", "adopt"} {
		for _, op := range []string{"open", "create", "write", "sync", "truncate", "close", "rename", "syncdir", "remove"} {
			for _, m := range []mode{failsBefore, failsAfter, failsShort, failsHalf} {
				if m >= failsShort && op != "write" {
					continue
				}
				for n := 1; n <= 3; n++ {
					t.Run(fmt.Sprintf("%s %s mode %d at %d", how, op, m, n), func(t *testing.T) {
						t.Parallel()
						disk := &faultyFiles{plan: once(op, n, m, false)}
						w.recover(t, how, disk)
					})
				}
			}
		}
	}
}

func (w wreck) recover(t *testing.T, how string, disk files) {
	dir, path := w.lay(t)
	db := openMigrated(t, path)
	cfg := testConfig(dir)
	allowed := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, errInjected) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
			t.Error(err)
		}
	}
	if how == "adopt" {
		_, err := adopt(t.Context(), testConfig(""), dir, db, testKeys(), countingSink, discard(), disk)
		allowed(err)
		_, err = adopt(t.Context(), testConfig(""), dir, db, testKeys(), countingSink, discard(), diskFiles{})
		must(t, err)
	} else {
		l, err := open(cfg.withDefaults(), db, testKeys(), countingSink, discard(), newMetrics(nil), disk, diskFiles{})
		allowed(err)
		if err == nil {
			l.pins.files = disk
			allowed(l.Flush(t.Context()))
			must(t, errors.Join(l.store.releaseLease(t.Context(), l.wal.writer), l.locks[0].Close())) // it dies
		}
	}
	again := openTest(t, cfg, db, countingSink, diskFiles{})
	r, err := again.Append(t.Context(), recordtest.Sample(99))
	must(t, err)
	flush(t, again)
	report := mustVerify(t, again, db)
	want := append(slices.Clone(w.ids), r.ID)
	if got := searchIDs(t, again, Query{Limit: 100}); len(got) != len(want) || report.Sealed != int64(len(want)) || count(t, db, "installation_settings") != int64(len(want)) {
		t.Errorf("%d records, want %d: %+v", len(got), len(want), report)
	}
	for _, id := range want {
		if _, err := again.Get(t.Context(), id); err != nil {
			t.Errorf("record %s: %v", id, err)
		}
	}
}
