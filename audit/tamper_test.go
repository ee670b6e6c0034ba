package audit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// scene is a log with sealed, unsealed and unshipped records under several checkpoints, whose database lets itself be tampered
// with.
type scene struct {
	t   *testing.T
	l   *Log
	db  *gorm.DB
	ids []string // sealed, by position
	raw []string // unsealed
}

func newScene(t *testing.T, db *gorm.DB) *scene {
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	s := &scene{t: t, l: l, db: db}
	for i := range 4 {
		for n := range 5 {
			s.ids = append(s.ids, appendN(t, l, 5*i+n, 1)[0].ID)
		}
		flush(t, l)
	}
	for n := range 3 {
		s.raw = append(s.raw, appendN(t, l, 100+n, 1)[0].ID)
	}
	l.work.Lock()
	err := l.ship(context.Background())
	l.work.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 200, 2)
	r := mustVerify(t, l, db)
	if r.Sealed != 20 || r.Unsealed != 3 || r.WALRecords != 25 || r.Records != 23 {
		t.Fatalf("scene: %+v", r)
	}
	dropTriggers(t, db)
	return s
}

func dropTriggers(t *testing.T, db *gorm.DB) {
	t.Helper()
	query, drop := "SELECT t.tgname || ' ON ' || c.relname FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND t.tgparentid = 0", "DROP TRIGGER "
	if database.IsSQLite(db) {
		query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
	}
	var names []string
	if err := db.Raw(query).Scan(&names).Error; err != nil {
		t.Fatal(err)
	}
	if len(names) < 4 {
		t.Fatalf("only %d triggers guard the evidence", len(names))
	}
	for _, n := range names {
		must(t, db.Exec(drop+n).Error)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wants verifies and wants a problem of one of the kinds that names record (or index, if record is "").
func (s *scene) wants(what, record string, index int64, kinds ...string) {
	s.t.Helper()
	r := verifyLog(s.t, s.l, s.db)
	for _, p := range r.Problems {
		if slices.Contains(kinds, p.Kind) && (record != "" && p.Record == record || record == "" && p.Index == index) {
			return
		}
	}
	s.t.Errorf("%s: no %v problem names record %q index %d: %+v", what, kinds, record, index, r.Problems)
}

// swap sets a column for one row, runs check, and sets it back.
func (s *scene) swap(table, where string, args []any, name string, value any, check func()) {
	s.t.Helper()
	var old any
	must(s.t, s.db.Raw("SELECT "+name+" FROM "+table+" WHERE "+where, args...).Row().Scan(&old))
	set := func(v any, where string, args ...any) {
		res := s.db.Exec("UPDATE "+table+" SET "+name+" = ? WHERE "+where, append([]any{v}, args...)...)
		if res.Error != nil || res.RowsAffected != 1 {
			s.t.Fatalf("tamper %s.%s: %d rows, %v", table, name, res.RowsAffected, res.Error)
		}
	}
	set(value, where, args...)
	check()
	if strings.HasPrefix(where, name+" ") { // the row is found by the changed value now
		where, args = name+" = ?", []any{value}
	}
	set(old, where, args...)
}

func (s *scene) row(id string) store.EventRow {
	s.t.Helper()
	var r store.EventRow
	must(s.t, s.db.Select(store.Columns()).Where("id = ?", id).Take(&r).Error)
	return r
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// TestEveryColumnIsCovered changes each column of a sealed and of an unsealed record.
func TestEveryColumnIsCovered(t *testing.T) {
	skipShort(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := newScene(t, db)
		for _, id := range []string{s.ids[7], s.raw[1]} {
			row := s.row(id)
			for _, name := range store.Columns() {
				var value any = "x"
				switch name {
				case "payload":
					value = flipped(row.Payload, bytes.Index(row.Payload, []byte("demo")))
				case "leaf_hash":
					value = flipped(row.LeafHash, 3)
				case "facet":
					value = flipped(row.Facet, 3)
				case "seq", "time", "status", "prompt_tokens", "completion_tokens", "cost", "first_token", "total":
					value = int64(4242)
				}
				// By writer and sequence, since the id is changed too; by id when those are.
				where, args := "writer = ? AND seq = ?", []any{row.Writer, row.Seq}
				if name == "writer" || name == "seq" {
					where, args = "id = ?", []any{id}
				}
				s.swap("audit_events", where, args, name, value, func() {
					s.wants("audit_events."+name, id, -2, "column", "leaf", "missing", "wal", "sequence")
				})
			}
		}
		mustVerify(t, s.l, db)
	})
}

func TestTreeTablesAreCovered(t *testing.T) {
	skipShort(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := newScene(t, db)
		for _, at := range []int64{0, 7, 19} {
			var leaf seal.LeafRow
			must(t, db.Where("idx = ?", at).Take(&leaf).Error)
			args := []any{at}
			s.swap("audit_leaves", "idx = ?", args, "leaf_hash", flipped(leaf.LeafHash, 0), func() {
				s.wants("audit_leaves.leaf_hash", s.ids[at], at, "leaf")
			})
			s.swap("audit_leaves", "idx = ?", args, "seq", int64(99), func() {
				s.wants("audit_leaves.seq", "", at, "missing", "sequence")
			})
			s.swap("audit_leaves", "idx = ?", args, "writer", "x", func() {
				s.wants("audit_leaves.writer", "", at, "missing", "sequence")
			})
			s.swap("audit_leaves", "idx = ?", args, "time", leaf.Time+1, func() { s.wants("audit_leaves.time", s.ids[at], at, "column") })
			s.swap("audit_leaves", "idx = ?", args, "idx", int64(99), func() { s.wants("audit_leaves.idx", "", at, "gap") })
		}
		var hashes []seal.HashRow
		must(t, db.Order("idx").Find(&hashes).Error)
		for _, h := range hashes {
			s.swap("audit_hashes", "idx = ?", []any{h.Idx}, "hash", flipped(h.Hash, 31), func() {
				if r := verifyLog(t, s.l, db); r.OK || r.Problems[0].Kind != "tree" {
					t.Errorf("tree hash %d: %+v", h.Idx, r.Problems)
				}
			})
			if h.Idx%7 != 0 {
				continue
			}
			s.swap("audit_hashes", "idx = ?", []any{h.Idx}, "idx", int64(9999), func() {
				if r := verifyLog(t, s.l, db); r.OK || r.Problems[0].Kind != "tree" {
					t.Errorf("tree hash %d: %+v", h.Idx, r.Problems)
				}
			})
		}
		var notes []seal.CheckpointRow
		must(t, db.Order("size").Find(&notes).Error)
		for _, c := range notes {
			for at := len(c.Note) - 3; at >= 0; at -= 29 { // the last digit of the signature has unused bits
				s.swap("audit_checkpoints", "size = ?", []any{c.Size}, "note", string(flipped([]byte(c.Note), at)), func() {
					if r := verifyLog(t, s.l, db); r.OK || r.Problems[0].Kind != "checkpoint" {
						t.Errorf("checkpoint %d, byte %d: %+v", c.Size, at, r.Problems)
					}
				})
			}
			s.swap("audit_checkpoints", "size = ?", []any{c.Size}, "size", c.Size-1, func() {
				if r := verifyLog(t, s.l, db); r.OK {
					t.Errorf("checkpoint %d was moved unnoticed", c.Size)
				}
			})
		}
		mustVerify(t, s.l, db)
	})
}

// TestRewrites covers what someone with full write access to the database would try.
func TestRewrites(t *testing.T) {
	for name, tamper := range map[string]func(*scene){
		"delete a record": func(s *scene) {
			must(s.t, s.db.Exec("DELETE FROM audit_events WHERE id = ?", s.ids[7]).Error)
			s.wants("deleted", s.ids[7], 7, "missing") // the write-ahead log still knows its name
		},
		"delete a record and its position": func(s *scene) {
			must(s.t, s.db.Exec("DELETE FROM audit_leaves WHERE idx = 7").Error)
			must(s.t, s.db.Exec("DELETE FROM audit_events WHERE id = ?", s.ids[7]).Error)
			s.wants("position", "", 7, "gap")
		},
		"delete an unsealed record": func(s *scene) {
			must(s.t, s.db.Exec("DELETE FROM audit_events WHERE id = ?", s.raw[1]).Error)
			s.wants("unsealed", s.raw[1], -1, "missing")
		},
		"delete the last unsealed record": func(s *scene) {
			// Until more is shipped, this looks like a record on its way; then the gap shows.
			must(s.t, s.db.Exec("DELETE FROM audit_events WHERE id = ?", s.raw[2]).Error)
			flush(s.t, s.l)
			s.wants("sealed without it", s.raw[2], -1, "missing")
		},
		"swap two records": func(s *scene) {
			a, b := s.row(s.ids[3]), s.row(s.ids[4])
			move := func(id string, seq int64) {
				must(s.t, s.db.Exec("UPDATE audit_events SET seq = ? WHERE id = ?", seq, id).Error)
			}
			move(a.ID, 4000)
			move(b.ID, a.Seq)
			move(a.ID, b.Seq)
			s.wants("first", b.ID, 3, "leaf")
			s.wants("second", a.ID, 4, "leaf")
		},
		"swap two positions with their hashes": func(s *scene) {
			must(s.t, s.db.Exec("UPDATE audit_leaves SET idx = 400 WHERE idx = 3").Error)
			must(s.t, s.db.Exec("UPDATE audit_leaves SET idx = 3 WHERE idx = 4").Error)
			must(s.t, s.db.Exec("UPDATE audit_leaves SET idx = 4 WHERE idx = 400").Error)
			s.wants("tree", s.ids[4], 3, "tree", "sequence")
		},
		"change a record and all its hashes": func(s *scene) {
			r := s.row(s.ids[7])
			payload := bytes.Replace(r.Payload, []byte("demo"), []byte("DEMO"), 1)
			forged, err := store.Arrive(r.Writer, uint64(r.Seq), payload)
			must(s.t, err)
			must(s.t, s.db.Exec("UPDATE audit_events SET payload = ?, leaf_hash = ?, tenant = ? WHERE id = ?", payload, forged.Row.LeafHash, "DEMO", r.ID).Error)
			must(s.t, s.db.Exec("UPDATE audit_leaves SET leaf_hash = ? WHERE idx = 7", forged.Row.LeafHash).Error)
			recomputeHashes(s)
			s.wants("every hash recomputed: the signed root does not move", "", 10, "root")
			s.wants("and the write-ahead log remembers", r.ID, 7, "wal")
		},
		"insert a record among sealed ones": func(s *scene) {
			r := s.row(s.ids[7])
			forged, err := store.Arrive("0000", 1, bytes.Replace(r.Payload, []byte(r.ID), []byte("01890000-0000-7000-8000-000000000009"), 1))
			must(s.t, err)
			forged.Row.Writer, forged.Row.Seq = r.Writer, -5
			must(s.t, s.db.Create(&forged.Row).Error)
			s.wants("extra", forged.Row.ID, -1, "extra")
		},
		"truncate the end": func(s *scene) {
			cut(s, 15)
			r := verifyLog(s.t, s.l, s.db)
			if r.OK || !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Kind == "truncated" }) {
				s.t.Errorf("%+v", r.Problems)
			}
			if err := s.l.Flush(s.t.Context()); err == nil {
				s.t.Error("the sealer signed over a truncated database")
			}
			if s.l.Ready() == nil {
				s.t.Error("ready with a truncated database")
			}
		},
		"replace the checkpoint by one of another key": func(s *scene) {
			sg, err := newSigner(s.l.cfg, otherKeys(), 1)
			must(s.t, err)
			_, top, err := s.l.Tree.Newest(s.t.Context())
			must(s.t, err)
			text, err := sg.Sign(top)
			must(s.t, err)
			must(s.t, s.db.Exec("UPDATE audit_checkpoints SET note = ? WHERE size = ?", text, top.Size).Error)
			s.wants("foreign key", "", -1, "checkpoint")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db *gorm.DB) { tamper(newScene(t, db)) })
		})
	}
}

// recomputeHashes stores the tree over what audit_leaves says.
func recomputeHashes(s *scene) {
	s.t.Helper()
	var leaves []seal.LeafRow
	must(s.t, s.db.Order("idx").Find(&leaves).Error)
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, at := range indexes {
			out[i] = stored[at]
		}
		return out, nil
	})
	for n, l := range leaves {
		added, err := tlog.StoredHashesForRecordHash(int64(n), tlog.Hash(l.LeafHash), read)
		must(s.t, err)
		stored = append(stored, added...)
	}
	for at, h := range stored {
		must(s.t, s.db.Exec("UPDATE audit_hashes SET hash = ? WHERE idx = ?", h[:], at).Error)
	}
}

// cut makes the database look as if only size records had ever been sealed, as an older copy would.
func cut(s *scene, size int64) {
	s.t.Helper()
	for _, q := range []string{
		"DELETE FROM audit_events WHERE seq > ?", "DELETE FROM audit_leaves WHERE idx >= ?", "DELETE FROM audit_checkpoints WHERE size > ?",
	} {
		must(s.t, s.db.Exec(q, size).Error)
	}
	must(s.t, s.db.Exec("UPDATE audit_writers SET shipped = ?, sealed = ?", size, size).Error)
}

// TestForkIsRefused shows the replica a second history of the same log, correctly signed: it neither caches nor extends it.
func TestForkIsRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		mine := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		appendN(t, mine, 0, 10)
		flush(t, mine)
		path := t.TempDir() + "/fork.db"
		fork := openMigrated(t, path)
		other := openTest(t, testConfig(t.TempDir()), fork, nil, durable.OS{})
		appendN(t, other, 50, 17)
		flush(t, other)
		must(t, mine.Close())
		mine = openTest(t, mine.cfg, fork, nil, durable.OS{})
		appendN(t, mine, 90, 1)
		if err := mine.Flush(t.Context()); err == nil {
			t.Error("a forked history was accepted")
		}
		r := verifyLog(t, mine, fork)
		if r.OK || !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Kind == "fork" }) {
			t.Errorf("%+v", r.Problems)
		}
	})
}

// TestFilesAreCovered flips bytes of the write-ahead log and of the checkpoint files.
func TestFilesAreCovered(t *testing.T) {
	skipShort(t)
	s := newScene(t, dbtest.SQLite(t))
	segs := s.l.wal.Segments()
	seg := segs[len(segs)-1]
	check := func(path string, step int, limit int, wants ...string) {
		whole, err := os.ReadFile(path)
		must(t, err)
		for at := 0; at < min(len(whole), limit); at += step {
			must(t, os.WriteFile(path, flipped(whole, at), 0o600))
			r := verifyLog(t, s.l, s.db)
			if r.OK || !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return slices.Contains(wants, p.Kind) }) {
				t.Fatalf("%s, byte %d: %+v", path, at, r)
			}
		}
		must(t, os.WriteFile(path, whole, 0o600))
	}
	check(seg.Path, 1511, int(seg.Size), "wal", "missing")
	check(filepath.Join(seal.CacheDir(s.l.cfg.Dir), "latest"), 29, 1<<20, "checkpoint")
	check(filepath.Join(seal.CacheDir(s.l.cfg.Dir), "checkpoints.log"), 137, 1<<20, "checkpoint")
	mustVerify(t, s.l, s.db)
}

// TestLastShippedWALRecordIsNamed flips one byte of the last record of a stopped directory.
func TestLastShippedWALRecordIsNamed(t *testing.T) {
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	var last Receipt
	for i := range 4 {
		last = appendN(t, l, i, 1)[0]
	}
	flush(t, l)
	seg := l.wal.Segments()[0]
	must(t, l.Close())
	b, err := os.ReadFile(seg.Path)
	must(t, err)
	must(t, os.WriteFile(seg.Path, flipped(b, len(b)-5), 0o600))
	r := verifyLog(t, l, db)
	if r.OK || r.Problems[0].Kind != "wal" || r.Problems[0].Record != last.ID {
		t.Errorf("%+v", r.Problems)
	}
}

// TestTriggersGuardEvidence holds that plain SQL can neither change nor remove evidence.
func TestTriggersGuardEvidence(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		appendN(t, l, 0, 3)
		flush(t, l)
		queries := []string{
			"UPDATE audit_events SET tenant = 'x'", "DELETE FROM audit_events",
			"UPDATE audit_leaves SET writer = 'x'", "DELETE FROM audit_leaves",
			"UPDATE audit_hashes SET idx = idx + 100", "DELETE FROM audit_hashes",
			"UPDATE audit_checkpoints SET note = 'x'", "DELETE FROM audit_checkpoints",
		}
		if !database.IsSQLite(db) {
			queries = append(queries, "TRUNCATE audit_events", "TRUNCATE audit_leaves, audit_hashes, audit_checkpoints")
		}
		for _, q := range queries {
			if err := db.Exec(q).Error; err == nil {
				t.Errorf("allowed: %s", q)
			}
		}
		mustVerify(t, l, db)
	})
}

// skipShort leaves out in the race run what has one goroutine and verifies hundreds of times.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("single goroutine, long under the race detector")
	}
}
