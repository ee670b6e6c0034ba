package audit

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

var officer = Actor{Kind: "user", ID: "u1", Name: "officer"}

// files returns every byte that an installation has on its disks: the audit directory and the files of the database.
func disks(t *testing.T, l *Log, db *gorm.DB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	read := func(dir string) {
		must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			out[path] = b
			return err
		}))
	}
	read(l.cfg.Dir)
	if database.IsSQLite(db) {
		var path string
		must(t, db.Raw("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path).Error)
		read(filepath.Dir(path))
		return out
	}
	must(t, db.Exec("CHECKPOINT").Error)
	var relations []struct {
		Name string
		B    []byte
	}
	must(t, db.Raw(`SELECT relname AS name, pg_read_binary_file(pg_relation_filepath(oid)) AS b FROM pg_class
		WHERE relkind IN ('r', 'i', 't') AND relname LIKE 'audit%' OR relname LIKE 'pg_toast%' AND relkind = 't'`).Scan(&relations).Error)
	for _, r := range relations {
		out["relation "+r.Name] = r.B
	}
	return out
}

// holders names the files that hold b.
func holders(files map[string][]byte, b []byte) (names []string) {
	for name, content := range files {
		if bytes.Contains(content, b) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func wrappedKeys(t *testing.T, db *gorm.DB, subject string) (out [][]byte) {
	t.Helper()
	must(t, db.Model(&store.KeyRow{}).Where("subject = ?", subject).Pluck("wrapped", &out).Error)
	return out
}

// TestEraseReachesEveryCopy reads all files before and after an erasure: no text is ever there in clear, and afterwards no copy of the key
// is, except in the backup that was taken before. Every proof, old or new, holds.
func TestEraseReachesEveryCopy(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		var mine, others []string
		for n := range 40 { // enough keys that rows move between pages, and that pages become free
			others = append(others, say(t, l, 100+n, Subject(testKeys(), "demo", string(rune('a'+n)))).ID)
			mine = append(mine, say(t, l, n, alice).ID)
			l.contents.forget()
			if n%10 == 0 {
				flush(t, l)
			}
		}
		flush(t, l)
		mine = append(mine, say(t, l, 60, alice).ID) // not shipped yet
		old := map[string]evidence.Proof{}
		for _, id := range mine[:4] {
			p, err := l.Prove(t.Context(), id)
			must(t, err)
			old[id] = p
		}
		var bundle bytes.Buffer
		_, err := l.Export(t.Context(), &bundle, export.Selection{By: "auditor"})
		must(t, err)

		keys := wrappedKeys(t, db, alice)
		if len(keys) != 40 {
			t.Fatalf("%d keys", len(keys))
		}
		backup := disks(t, l, db)
		for _, k := range keys {
			if len(holders(backup, k)) == 0 {
				t.Fatalf("the test cannot see what it looks for in %d files", len(backup))
			}
		}
		if len(holders(backup, logged(t, keys[39]))) == 0 {
			t.Fatal("the test cannot see the last key in the write-ahead log")
		}

		done, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
		if err != nil || done.Keys != 41 || done.Contents != 82 || done.Record == "" {
			t.Fatalf("%+v, %v", done, err)
		}
		after := disks(t, l, db)
		for n, k := range keys {
			if names := slices.Concat(holders(after, k), holders(after, logged(t, k))); len(names) != 0 {
				t.Errorf("key %d is still in %v", n, names)
			}
		}
		if names := holders(after, []byte("merger-closes")); len(names) != 0 {
			t.Errorf("texts are in clear in %v", names)
		}
		if names := holders(backup, []byte("merger-closes")); len(names) != 0 {
			t.Errorf("texts were in clear in %v", names)
		}

		for _, id := range mine {
			if got := texts(t, l, id); !slices.Equal(got, []string{"", ""}) {
				t.Errorf("%q", got)
			}
			if _, err := l.Prove(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		for id, p := range old {
			if _, err := evidence.VerifyProof(l.VerifierKey(), p); err != nil {
				t.Errorf("old proof of %s: %v", id, err)
			}
		}
		for n, id := range others {
			if got := texts(t, l, id); !slices.Equal(got, said(100+n)) {
				t.Errorf("%q", got)
			}
		}
		r, err := evidence.VerifyBundle(t.Context(), bytes.NewReader(bundle.Bytes()), int64(bundle.Len()), l.reads, checkpoint.Witnesses{}, nil)
		if err != nil || !r.OK {
			t.Errorf("old bundle: %+v, %v", r, err)
		}
		mustVerify(t, l, db)
		theErasureIsRecorded(t, l, done)

		again := say(t, l, 70, alice) // whoever comes back is kept under a new key
		flush(t, l)
		if got := texts(t, l, again.ID); !slices.Equal(got, said(70)) {
			t.Errorf("%q", got)
		}
		mustVerify(t, l, db)
	})
}

// logged is a wrapped key as it is in the write-ahead log.
func logged(t *testing.T, key []byte) []byte {
	t.Helper()
	b, err := json.Marshal(key)
	must(t, err)
	return bytes.Trim(b, `"`)
}

func theErasureIsRecorded(t *testing.T, l *Log, done retention.Erasure) {
	t.Helper()
	e, err := l.Get(t.Context(), done.Record)
	if err != nil || e.Action != retention.ActionErase || e.Resource != alice || e.Actor != officer || e.Detail["keys"] != "41" || e.Detail["contents"] != "82" || e.Index < 0 {
		t.Errorf("%+v, %v", e, err)
	}
	list, err := l.Erasures(t.Context(), "demo")
	if err != nil || len(list) != 1 || list[0].Record != done.Record || list[0].Subject != alice || list[0].Time != done.Time {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := l.Erasures(t.Context(), "other"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestEraseIsRepeatable erases again what an old copy of the database brought back.
func TestEraseIsRepeatable(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		r := say(t, l, 1, alice)
		flush(t, l)
		var key store.KeyRow
		must(t, db.Where("subject = ?", alice).Take(&key).Error)
		var kept []store.ContentRow
		must(t, db.Find(&kept).Error)
		_, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
		must(t, err)
		must(t, db.Create(&key).Error)
		must(t, db.Create(&kept).Error)
		if got := texts(t, l, r.ID); !slices.Equal(got, said(1)) {
			t.Fatalf("%q", got)
		}
		if rep := verifyLog(t, l, db); rep.OK || rep.Problems[0].Kind != "content" {
			t.Errorf("%+v", rep)
		}
		done, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
		if err != nil || done.Keys != 1 || done.Contents != 2 {
			t.Errorf("%+v, %v", done, err)
		}
		if done, err = l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer}); err != nil || done.Keys != 0 || done.Contents != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		mustVerify(t, l, db)
		if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: "", By: officer}); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%v", err)
		}
	})
}

// TestErasureReachesOtherReplicas erases while another replica holds the key in memory and in records that it has not shipped: they arrive
// without it, and what it keeps from then on is under a new key.
func TestErasureReachesOtherReplicas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		here := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		there := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		shipped := say(t, there, 1, alice)
		turnTo(t, there, here)
		late, bobs := say(t, there, 2, alice), say(t, there, 3, bob)
		key := wrappedKeys(t, db, alice)[0]
		if _, err := here.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer}); err != nil {
			t.Fatal(err)
		}
		turnTo(t, here, there)
		flush(t, there)
		for _, r := range []Receipt{shipped, late} {
			if got := texts(t, here, r.ID); !slices.Equal(got, []string{"", ""}) {
				t.Errorf("%q", got)
			}
		}
		if got := texts(t, here, bobs.ID); !slices.Equal(got, said(3)) {
			t.Errorf("%q", got)
		}
		mustVerify(t, here, db)
		mustVerify(t, there, db)
		later := say(t, there, 4, alice)
		flush(t, there)
		if got := texts(t, here, later.ID); !slices.Equal(got, said(4)) {
			t.Errorf("%q", got)
		}
		waitFor(t, func() bool { // the segment with the old key goes when the next one was begun
			flush(t, there)
			return len(holders(disks(t, there, db), logged(t, key))) == 0
		})
		mustVerify(t, there, db)
	})
}

// turnTo lets the other replica seal, which would have to wait until the lease of the first expires.
func turnTo(t *testing.T, from, to *Log) {
	t.Helper()
	flush(t, from)
	must(t, seal.Release(t.Context(), from.store.DB, from.wal.Writer))
	if to != nil {
		flush(t, to)
	}
}

// TestErasureOfALostReplica erases a subject whose texts lie in the directory of a replica that is gone, and recovers that directory after.
func TestErasureOfALostReplica(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		here := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		lost := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		r, kept := say(t, lost, 1, alice), say(t, lost, 2, bob)
		for _, lock := range lost.locks {
			_ = lock.Close()
		}
		if _, err := here.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer}); err != nil {
			t.Fatal(err)
		}
		turnTo(t, here, nil)
		if _, err := Recover(t.Context(), testConfig(""), lost.cfg.Dir, db, testKeys(), nil, discard()); err != nil {
			t.Fatal(err)
		}
		if got := texts(t, here, r.ID); !slices.Equal(got, []string{"", ""}) {
			t.Errorf("%q", got)
		}
		if got := texts(t, here, kept.ID); !slices.Equal(got, said(2)) {
			t.Errorf("%q", got)
		}
		mustVerify(t, here, db)
	})
}

// TestErasureThatFails breaks off at every step: either nothing happened, or repeating it finishes it.
func TestErasureThatFails(t *testing.T) {
	for _, m := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter} {
		db, disk := dbtest.SQLite(t), &durabletest.Files{}
		l := openTest(t, testConfig(t.TempDir()), db, nil, disk)
		r := say(t, l, 1, alice)
		flush(t, l)
		disk.Set(always(m))
		if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer}); !fault.Is(err, fault.CodeAuditUnavailable) {
			t.Errorf("an erasure without a record: %v", err)
		}
		if got := texts(t, l, r.ID); !slices.Equal(got, said(1)) {
			t.Errorf("%q", got)
		}
		disk.Set(nil)
		say(t, l, 2, alice)
		flush(t, l)
		disk.Set(func(op string) durabletest.Mode {
			if op == "remove" {
				return m
			}
			return durabletest.Healthy
		})
		if done, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer}); err == nil || done.Keys != 2 {
			t.Errorf("the segment could not be removed: %+v, %v", done, err)
		}
		disk.Set(nil)
		if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer}); err != nil {
			t.Error(err)
		}
		mustVerify(t, l, db)
	}
}

// TestCertifiedOnce: another server finishes an erasure of ours while we clean, and one of its own is not clean yet. Ours has the certificate that the
// other made, and its own has none.
func TestCertifiedOnce(t *testing.T) {
	t.Parallel()
	db, faulty := dbtest.SQLite(t), &dbtest.Faults{}
	l := openTest(t, testConfig(t.TempDir()), faulty.Over(db), nil, durable.OS{})
	other := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	say(t, l, 1, alice)
	flush(t, l)
	came, theirs := false, retention.Erasure{}
	faulty.Set(func(op string) durabletest.Mode {
		if came || !strings.Contains(op, "wal_checkpoint") {
			return durabletest.Healthy
		}
		came = true
		must(t, seal.Release(t.Context(), l.store.DB, l.wal.Writer))
		var found bool
		var err error
		if theirs, found, err = other.Finish(t.Context(), "demo", alice, "", officer); err != nil || !found {
			t.Errorf("%t, %v", found, err)
		}
		must(t, seal.Release(t.Context(), other.store.DB, other.wal.Writer))
		must(t, db.Create(&retention.ResultRow{Record: "late", Tenant: "demo", Subject: alice, Detail: `{"keys":"0","contents":"0","time":"1"}`}).Error)
		return durabletest.Healthy
	})
	done, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
	faulty.Set(nil)
	if err != nil || !came || done.Certificate == "" || done.Certificate != theirs.Certificate {
		t.Errorf("%+v, %v, want the certificate %s", done, err, theirs.Certificate)
	}
	open, err := retention.Uncertified(t.Context(), l.store.DB, "demo", alice)
	if err != nil || len(open) != 1 || open[0].Record != "late" {
		t.Errorf("%+v, %v", open, err)
	}
}

// TestCutRecordsAreErased removes what recovery kept for inspection when it may hold a key.
func TestCutRecordsAreErased(t *testing.T) {
	l := openTest(t, testConfig(t.TempDir()), dbtest.SQLite(t), nil, durable.OS{})
	for name, b := range map[string]string{"a.log.cut": "..SLWK..", "b.log.cut": "..SLWF..", "c.log.cut": "..SLWM.."} {
		must(t, os.WriteFile(filepath.Join(l.wal.Dir, name), []byte(b), 0o600))
	}
	if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(l.wal.Dir, "*.cut"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "b.log.cut" {
		t.Errorf("%v, %v", left, err)
	}
}

// TestContentsAreCovered changes everything that is kept, one thing at a time: each shows, and names the record.
func TestContentsAreCovered(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		id, other := say(t, l, 1, alice).ID, say(t, l, 2, bob).ID
		say(t, l, 3, Subject(testKeys(), "demo", "carol"))
		_, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: Subject(testKeys(), "demo", "carol"), By: officer})
		must(t, err)
		var keys []store.KeyRow
		must(t, db.Order("created").Find(&keys).Error)
		forge := store.ErasedKeyRow{ID: keys[0].ID, Nonce: keys[0].Nonce, Tenant: keys[0].Tenant, Subject: keys[0].Subject, Created: keys[0].Created}
		carols := forge
		carols.Subject = Subject(testKeys(), "demo", "carol")
		s := &scene{t: t, l: l, db: db}
		dropTriggers(t, db)
		for what, change := range map[string]func(tx *gorm.DB) error{
			"delete a text": func(tx *gorm.DB) error {
				return tx.Exec("DELETE FROM audit_contents WHERE record = ? AND direction = 'answer'", id).Error
			},
			"delete all of a": func(tx *gorm.DB) error { return tx.Exec("DELETE FROM audit_contents WHERE record = ?", id).Error },
			"delete a key":    func(tx *gorm.DB) error { return tx.Delete(&store.KeyRow{}, "id = ?", keys[0].ID).Error },
			"hide a deletion behind a row that no erasure stands for": func(tx *gorm.DB) error {
				return firstError(tx.Exec("DELETE FROM audit_contents WHERE record = ?", id).Error, tx.Create(&forge).Error)
			},
			"hide a deletion behind another subject's erasure": func(tx *gorm.DB) error {
				return firstError(tx.Exec("DELETE FROM audit_contents WHERE record = ?", id).Error, tx.Create(&carols).Error)
			},
			"hide a deletion behind an erasure that no record stands for": func(tx *gorm.DB) error {
				return firstError(tx.Exec("DELETE FROM audit_contents WHERE record = ?", id).Error, tx.Create(&forge).Error,
					tx.Create(&store.ErasureRow{Record: id, Tenant: forge.Tenant, Subject: forge.Subject, Time: 1 << 60}).Error)
			},
			"change a ciphertext": func(tx *gorm.DB) error {
				return tx.Exec("UPDATE audit_contents SET ciphertext = ? WHERE record = ? AND direction = 'request'", []byte("else"), id).Error
			},
			"change a digest": func(tx *gorm.DB) error {
				return tx.Exec("UPDATE audit_contents SET digest = 'x' WHERE record = ? AND direction = 'request'", id).Error
			},
			"change a key's name": func(tx *gorm.DB) error {
				return tx.Exec("UPDATE audit_contents SET key_id = ? WHERE record = ? AND direction = 'request'", keys[1].ID, id).Error
			},
			"change whose a key is": func(tx *gorm.DB) error {
				return tx.Model(&store.KeyRow{}).Where("id = ?", keys[0].ID).Update("subject", bob).Error
			},
			"add a text": func(tx *gorm.DB) error {
				return tx.Create(&store.ContentRow{Record: id, Direction: "draft", KeyID: keys[0].ID, Digest: "d", Ciphertext: []byte("x")}).Error
			},
		} {
			s.inside(what, change, id)
		}
		s.inside("a text of nobody", func(tx *gorm.DB) error {
			return tx.Create(&store.ContentRow{Record: "no-such-record", Direction: "answer", KeyID: keys[0].ID, Digest: "d", Ciphertext: []byte("x")}).Error
		}, "no-such-record")
		s.inside("swapped texts", func(tx *gorm.DB) error {
			return firstError(tx.Exec("UPDATE audit_contents SET record = 'x' WHERE record = ?", id).Error,
				tx.Exec("UPDATE audit_contents SET record = ? WHERE record = ?", id, other).Error, tx.Exec("UPDATE audit_contents SET record = ? WHERE record = 'x'", other).Error)
		}, id)
		mustVerify(t, l, db)
	})
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// inside makes a change, wants the verification to name record, and takes the change back.
func (s *scene) inside(what string, change func(*gorm.DB) error, record string) {
	s.t.Helper()
	tx := s.db.Begin()
	defer tx.Rollback()
	if err := change(tx); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	r, err := verify.Run(s.t.Context(), verify.Source{Dir: s.l.cfg.Dir, DB: tx, VerifierKey: s.l.VerifierKey()}, nil)
	if err != nil || r.OK || !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Kind == "content" && p.Record == record }) {
		s.t.Errorf("%s: %+v, %v", what, r, err)
	}
}

// TestContentsOfAnotherKey reports texts that this installation's master key does not open, instead of showing nothing.
func TestContentsOfAnotherKey(t *testing.T) {
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	r := say(t, l, 1, alice)
	flush(t, l)
	var err error
	if l.contents.cipher, err = content.NewCipher(otherKeys(), content.Intl); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Contents(t.Context(), r.ID); err == nil {
		t.Error("read with another key")
	}
}
