package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/migrations/dbtest"
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
		l := openTest(t, cfg, db, countingSink, durable.OS{})
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
		segs := l.wal.Segments()
		seg := segs[len(segs)-1]
		must(t, l.Close())
		b, err := os.ReadFile(seg.Path)
		must(t, err)
		last := b[len(b)-800:]
		switch tail {
		case "torn":
			b = append(b, last[:300]...)
		case "spoiled":
			payload := slices.Repeat([]byte("x"), 100)
			bad := wal.AppendRecord(nil, wal.Record{Seq: seg.Last + 1, Payload: payload})
			bad[len(bad)-1] ^= 1
			b = append(b, bad...)
		case "nothing":
			must(t, os.WriteFile(wal.Path(wal.Dir(cfg.Dir), seg.Writer, seg.Number+1), nil, 0o600))
		}
		must(t, os.WriteFile(seg.Path, b, 0o600))
	}
	cached, err := os.OpenFile(filepath.Join(seal.CacheDir(cfg.Dir), "checkpoints.log"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = io.WriteString(cached, `"half a li`)
	must(t, errors.Join(err, cached.Close()))
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

// TestEveryRecoveryFailure starts over such a directory, and has another machine recover it, while each file operation fails in turn, in
// each way. The start or the recovery may fail; the next one, on a disk that works, finds everything that was acknowledged, once.
func TestEveryRecoveryFailure(t *testing.T) {
	skipShort(t)
	w := newWreck(t)
	must(t, openMigrated(t, w.db).Exec("PRAGMA wal_checkpoint(TRUNCATE)").Error)
	for _, how := range []string{"start", "recover"} {
		for _, op := range []string{"open", "create", "write", "sync", "truncate", "close", "rename", "syncdir", "remove"} {
			for _, m := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter, durabletest.FailsShort, durabletest.FailsHalf} {
				if m >= durabletest.FailsShort && op != "write" {
					continue
				}
				for n := 1; n <= 3; n++ {
					t.Run(fmt.Sprintf("%s %s mode %d at %d", how, op, m, n), func(t *testing.T) {
						t.Parallel()
						disk := &durabletest.Files{}
						disk.Set(durabletest.Once(op, n, m, false))
						w.recover(t, how, disk)
					})
				}
			}
		}
	}
}

func (w wreck) recover(t *testing.T, how string, disk durable.Files) {
	dir, path := w.lay(t)
	db := openMigrated(t, path)
	cfg := testConfig(dir)
	allowed := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, durabletest.ErrInjected) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
			t.Error(err)
		}
	}
	if how == "recover" {
		_, err := recoverFrom(t.Context(), testConfig(""), dir, db, testKeys(), countingSink, discard(), disk)
		allowed(err)
		_, err = recoverFrom(t.Context(), testConfig(""), dir, db, testKeys(), countingSink, discard(), durable.OS{})
		must(t, err)
	} else {
		l, err := open(cfg.withDefaults(), db, testKeys(), countingSink, discard(), newMetrics(nil), disk, durable.OS{})
		allowed(err)
		if err == nil {
			l.cache.Files = disk
			allowed(l.Flush(t.Context()))
			must(t, errors.Join(seal.Release(t.Context(), l.store.DB, l.wal.Writer), l.locks[0].Close())) // it dies
		}
	}
	again := openTest(t, cfg, db, countingSink, durable.OS{})
	r, err := again.Append(t.Context(), recordtest.Sample(99))
	must(t, err)
	flush(t, again)
	report := mustVerify(t, again, db)
	want := append(slices.Clone(w.ids), r.ID)
	if got := searchIDs(t, again, search.Query{Limit: 100}); len(got) != len(want) || report.Sealed != int64(len(want)) || count(t, db, "installation_settings") != int64(len(want)) {
		t.Errorf("%d records, want %d: %+v", len(got), len(want), report)
	}
	for _, id := range want {
		if _, err := again.Get(t.Context(), id); err != nil {
			t.Errorf("record %s: %v", id, err)
		}
	}
}

// TestAlteredInTheLog changes a shipped record in the write-ahead log together with its checksum, as someone with the directory but not the
// database would: the two no longer agree, and the record is named.
func TestAlteredInTheLog(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		var receipts []Receipt
		for n := range 5 {
			receipts = append(receipts, appendN(t, l, n, 1)...)
		}
		flush(t, l)
		seg := l.wal.Segments()[0]
		whole, err := os.ReadFile(seg.Path)
		must(t, err)
		img := wal.Parse(filepath.Base(seg.Path), whole)
		for at, altered := range receipts {
			b := wal.AppendHeader(nil, filepath.Base(seg.Path), img.First)
			for n, f := range img.Records {
				if n == at {
					f.Payload = bytes.Replace(f.Payload, []byte("10.0.0.1"), []byte("10.0.0.2"), 1)
				}
				b = wal.AppendRecord(b, f)
			}
			must(t, os.WriteFile(seg.Path, b, 0o600))
			r := verifyLog(t, l, db)
			if r.OK || r.Problems[0].Kind != "wal" || r.Problems[0].Record != altered.ID {
				t.Errorf("record %d: %+v", at, r.Problems)
			}
		}
		must(t, os.WriteFile(seg.Path, whole, 0o600))
		mustVerify(t, l, db)
	})
}

// TestEveryCheckpointSignedAnew replaces the key: every checkpoint in the database and beside it is signed with another one. Whoever has the
// old public key sees it at each of them, and the server with the old key does not go on.
func TestEveryCheckpointSignedAnew(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := newScene(t, db)
		other, err := newSigner(s.l.cfg, otherKeys(), 1)
		must(t, err)
		var notes []seal.CheckpointRow
		must(t, db.Select("size", "note").Order("size").Find(&notes).Error)
		var log []byte
		for _, c := range notes {
			tree, err := s.l.reads.Open(c.Note)
			must(t, err)
			text, err := other.Sign(tree)
			must(t, err)
			must(t, db.Exec("UPDATE audit_checkpoints SET note = ? WHERE size = ?", text, c.Size).Error)
			log = append(log, strconv.Quote(text)+"\n"...)
			must(t, os.WriteFile(s.l.cache.LatestPath(), []byte(text), 0o600))
		}
		must(t, os.WriteFile(s.l.cache.LogPath(), log, 0o600))
		r := verifyLog(t, s.l, db)
		at := map[int64]bool{}
		for _, p := range r.Problems {
			if p.Kind == "checkpoint" {
				at[p.Index] = true
			}
		}
		if r.OK || len(at) < len(notes) {
			t.Errorf("%d of %d checkpoints are named: %+v", len(at), len(notes), r.Problems)
		}
		if err := s.l.Flush(t.Context()); !errors.Is(err, seal.ErrRewritten) {
			t.Errorf("the server went on: %v", err)
		}
		must(t, s.l.Close())
		if _, err := open(s.l.cfg, db, testKeys(), nil, discard(), newMetrics(nil), durable.OS{}, durable.OS{}); err == nil {
			t.Error("a start with the old key takes checkpoints of another one")
		}
	})
}
