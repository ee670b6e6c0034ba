package rag

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/segment"
)

// sameAnswers holds a service to one that has read everything from the tables a moment ago.
func sameAnswers(t *testing.T, s *library, db *gorm.DB, why string) {
	t.Helper()
	fresh := service(t, db, s.from)
	fresh.now = s.now
	for _, q := range []string{"fee desk", "library hours", "户口迁移", "board words", "number 7"} {
		for _, r := range []Reader{{}, {Labels: []string{"staff"}}, {Roles: []string{"board"}}} {
			for _, asOf := range []time.Time{{}, s.now().Add(-time.Minute)} {
				var got [2][]Passage
				for i, s := range []*library{s, fresh} {
					var err error
					got[i], err = s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Labels: r.Labels, Roles: r.Roles, Text: q, TopK: 50, AsOf: asOf})
					if err != nil {
						t.Fatalf("%s: %v", why, err)
					}
				}
				if !reflect.DeepEqual(got[0], got[1]) {
					t.Fatalf("%s: %q with %+v at %s finds\n%+v\na replica that has read everything\n%+v", why, q, r, asOf, got[0], got[1])
				}
			}
		}
	}
}

// filled has documents with versions, labels, rules and parts.
func filled(t *testing.T, s *library, documents int) (ids []string) {
	t.Helper()
	create(t, s, "acme", "kb")
	for i := range documents {
		name, labels := fmt.Sprintf("d%d.md", i), []string(nil)
		if i%3 == 0 {
			labels = []string{"staff"}
		}
		in := ingest(t, s, "kb", name, fmt.Sprintf("# Fees\n\nfee desk number %d\n\n# Board\n\nboard words, library hours 户口迁移 %d", i, i), labels...)
		ids = append(ids, in.ID)
		if i%4 == 0 {
			ingest(t, s, "kb", name, fmt.Sprintf("# Fees\n\nnew fee desk number %d\n\n# Board\n\nnew board words %d", i, i))
		}
		if i%5 == 0 {
			rule := Rule{Parts: []PartRule{{Section: "Board", Allow: []Allow{{Roles: []string{"board"}}}}}}
			if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Labels: labels, Rule: rule}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ids
}

// contentReads counts the versions of which what they say is read from the tables.
func contentReads(t *testing.T, db *gorm.DB) *int {
	t.Helper()
	n := 0
	if err := db.Callback().Query().After("gorm:query").Register("test:contents", func(tx *gorm.DB) {
		if tx.Statement.Table == "rag_versions" && slices.Contains(tx.Statement.Selects, "sealed") {
			n += int(tx.RowsAffected)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Callback().Query().Remove("test:contents") })
	return &n
}

// TestRestartReadsWhatChanged: a service that is closed and opened again reads nothing that it has, and what changed meanwhile, once: versions, rules, dates
// and deletions; it finds what a replica finds that reads everything.
func TestRestartReadsWhatChanged(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		dir := t.TempDir()
		s := serviceIn(t, dir, db, newHashed())
		ids := filled(t, s, 30)
		sameAnswers(t, s, db, "as it came in")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		reads := contentReads(t, db)
		s = serviceIn(t, dir, db, newHashed())
		if *reads != 0 {
			t.Errorf("%d versions were read again", *reads)
		}
		sameAnswers(t, s, db, "opened again")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		other := service(t, db, newHashed())
		ingest(t, other, "kb", "d1.md", "# Fees\n\nlatest fee desk")
		ingest(t, other, "kb", "new.md", "# Fees\n\nanother fee desk")
		if err := other.DeleteDocument(t.Context(), "acme", "kb", "d2.md"); err != nil {
			t.Fatal(err)
		}
		if err := other.DeleteVersion(t.Context(), "acme", "kb", ids[4], "v1"); err != nil {
			t.Fatal(err)
		}
		if _, err := other.SetAccess(t.Context(), "acme", "kb", ids[7], Access{Rule: Rule{Restricted: true, Allow: []Allow{{Roles: []string{"board"}}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.SetValidity(t.Context(), "acme", "kb", ids[8], "v2", 0, Validity{Until: time.Now()}); err != nil {
			t.Fatal(err)
		}
		*reads = 0
		s = serviceIn(t, dir, db, newHashed())
		if *reads != 2 {
			t.Errorf("%d versions were read, two are new", *reads)
		}
		sameAnswers(t, s, db, "after changes elsewhere")
	})
}

// TestUnusableStoresAreMadeAgain: what is damaged, of another model or key, newer than the tables, or of another history is not used: it is made again,
// and nothing is answered wrongly.
func TestUnusableStoresAreMadeAgain(t *testing.T) {
	db, dir := dbtest.SQLite(t), t.TempDir()
	s := serviceIn(t, dir, db, newHashed())
	filled(t, s, 8)
	store := func() string {
		all, err := filepath.Glob(filepath.Join(dir, "*", "manifest"))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0]
	}
	exec := func(sql string) {
		t.Helper()
		if err := db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		do   func()
		from *hashed
	}{
		{"a flipped byte", func() {
			b, err := os.ReadFile(store())
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(store(), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}, newHashed()},
		{"another model", func() {}, other()},
		{"the model before", func() {}, newHashed()},
		{"tables of before", func() { // put back from a copy
			exec("UPDATE rag_collections SET revision = revision - 1")
			exec("DELETE FROM rag_journal WHERE revision = (SELECT MAX(revision) FROM rag_journal)")
			exec("DELETE FROM rag_documents WHERE name = 'd7.md'")
		}, newHashed()},
		{"another history", func() { // put back, and changed since
			exec("UPDATE rag_journal SET mark = 'x'")
			exec("DELETE FROM rag_documents WHERE name = 'd6.md'")
		}, newHashed()},
		{"a journal that does not go back far enough", func() {
			exec("DELETE FROM rag_journal WHERE revision < (SELECT MAX(revision) FROM rag_journal)")
			exec("DELETE FROM rag_documents WHERE name = 'd5.md'")
			exec("UPDATE rag_collections SET revision = revision + 1")
			exec("UPDATE rag_changes SET version = version + 1 WHERE name = 'rag'")
			exec("UPDATE rag_journal SET revision = revision + 1")
		}, newHashed()},
	} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		c.do()
		var log bytes.Buffer
		again, err := New(Config{Dir: dir}, db, keyring.FromBytes(bytes.Repeat([]byte{7}, 32)), c.from.Model(), slog.New(slog.NewTextHandler(&log, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = again.Close() })
		if err := again.Load(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !strings.Contains(log.String(), "made again from the tables") {
			t.Errorf("%s: nobody was told: %s", c.name, log.String())
		}
		s = &library{again, c.from}
		sameAnswers(t, s, db, c.name)
	}
}

// TestHistoryThatEndsWhileItIsFollowed: tables that are put back under a replica that runs are read again as a whole.
func TestHistoryThatEndsWhileItIsFollowed(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	filled(t, s, 4)
	follow(t, s)
	for _, sql := range []string{
		"DELETE FROM rag_documents WHERE name = 'd3.md'", "UPDATE rag_journal SET mark = 'x'", "UPDATE rag_changes SET version = version - 1 WHERE name = 'rag'",
		"UPDATE rag_collections SET revision = revision - 1",
	} {
		if err := db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
	}
	_ = s.follow(t.Context()) // it finds out, and searches fail at worst
	follow(t, s)
	for _, p := range find(t, s, "kb", "fee desk", "staff") {
		if p.Document == "d3.md" {
			t.Errorf("found %+v", p)
		}
	}
}

// TestOneProcessHasADirectory: the second process is told so.
func TestOneProcessHasADirectory(t *testing.T) {
	db, dir := dbtest.SQLite(t), t.TempDir()
	serviceIn(t, dir, db, newHashed())
	second := newService(t, Config{Dir: dir}, db, newHashed())
	if err := second.Load(t.Context()); !errors.Is(err, segment.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

// onDisk returns what the files of a service's stores say in clear to who has the key, and fails if one says it to everybody.
func onDisk(t *testing.T, s *library, secret string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(s.cfg.Dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s has it in clear", path)
		}
		dir := filepath.Dir(path)
		manifest, err := os.ReadFile(filepath.Join(dir, "manifest"))
		if err != nil || e.Name() == "lock" {
			return nil //nolint:nilerr // the directory of all stores
		}
		key, err := s.key(filepath.Base(dir))
		if err != nil {
			return err
		}
		open := func(b []byte, position string, more ...string) []byte {
			label := append([]string{"rag/segment", hex.EncodeToString(manifest[8:24]), e.Name(), position}, more...)
			plain, err := key.Open(b, seal.Label(label...))
			if err != nil {
				t.Errorf("%s at %s: %v", path, position, err)
			}
			return plain
		}
		switch {
		case e.Name() == "manifest":
			out.Write(open(b[24:], "0"))
		case strings.HasPrefix(e.Name(), "seg-"):
			const page = 16<<10 + seal.Overhead
			for n := 0; n*page < len(b); n++ {
				out.Write(open(b[n*page:min(len(b), (n+1)*page)], fmt.Sprint(n)))
			}
		case strings.HasPrefix(e.Name(), "wal-"):
			if len(b) > 8+8+seal.Overhead { // it has changes
				fmt.Fprintf(&out, "(a log of %d bytes)", len(b))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestErasedPassagesLeaveTheDisk: what is deleted, by whomever, is in no file any more after the next purge, nor was anything ever there in clear.
func TestErasedPassagesLeaveTheDisk(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	create(t, s, "acme", "gone")
	kept := ingest(t, s, "kb", "kept.txt", "wombat words")
	for _, name := range []string{"a.txt", "b.txt"} {
		ingest(t, s, "kb", name, "quokka words of "+name)
	}
	in := ingest(t, s, "kb", "c.txt", "quokka words one")
	ingest(t, s, "kb", "c.txt", "wombat words two")
	ingest(t, s, "kb", "d.txt", "quokka words three")
	ingest(t, s, "kb", "d.txt", "wombat words four")
	ingest(t, s, "gone", "e.txt", "quokka words")
	for _, ci := range s.all() {
		if err := ci.passages.Purge(t.Context()); err != nil { // writes segments
			t.Fatal(err)
		}
	}
	if before := onDisk(t, s, "quokka"); strings.Count(before, "quokka") < 5 || !strings.Contains(before, "wombat") {
		t.Fatalf("the test does not see what it deletes: %q", before)
	}
	ingest(t, s, "kb", "f.txt", "quokka words in the log")

	if err := s.DeleteDocument(t.Context(), "acme", "kb", "a.txt"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteVersion(t.Context(), "acme", "kb", in.ID, "v1"); err != nil {
		t.Fatal(err)
	}
	other := service(t, db, newHashed()) // another replica deletes
	if err := errors.Join(other.DeleteDocument(t.Context(), "acme", "kb", "b.txt"), other.DeleteDocument(t.Context(), "acme", "kb", "f.txt")); err != nil {
		t.Fatal(err)
	}
	clock := time.Now().AddDate(0, 0, 9)
	s.now = func() time.Time { return clock }
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	ci.now = s.now
	if err := s.SetRetention(t.Context(), "acme", "kb", Retention{KeepDays: 1, Revision: 1}); err != nil { // takes the first version of d.txt
		t.Fatal(err)
	}
	s.prune(t.Context(), ci) // as it does in the background
	// Offboarding deletes rows, and moves the counter on.
	for _, sql := range []string{"DELETE FROM rag_collections WHERE name = 'gone'", "UPDATE rag_changes SET version = version + 1 WHERE name = 'rag'"} {
		if err := db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
	}
	if err := s.freshness.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.purge(t.Context())
	after := onDisk(t, s, "quokka")
	if strings.Contains(after, "quokka") || strings.Contains(after, "a log of") || !strings.Contains(after, "wombat") {
		t.Errorf("the files still say %q", after)
	}
	dirs, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*", "manifest"))
	if err != nil || len(dirs) != 1 {
		t.Errorf("stores %v, %v", dirs, err)
	}
	if got, err := s.Passages(t.Context(), PassageRef{Tenant: "acme", Collection: "kb", DocumentID: kept.ID, Version: "v1"}); err != nil || got[0].Text != "wombat words" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestDamagedTextsAreNotAnswered: a page that does not open ends searches of the collection until it was made again from the tables.
func TestDamagedTextsAreNotAnswered(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	filled(t, s, 6)
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	if err := ci.passages.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(filepath.Join(ci.dir, "seg-*.texts"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	f, err := os.OpenFile(all[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("xxxxxxxx"), 100); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "fee desk", TopK: 5})
		wantCode(t, err, fault.CodeRetrievalFailed)
	}
	follow(t, s)
	sameAnswers(t, s, db, "made again")
}

const childVariable = "SLUICE_TEST_RAG_CHILD"

// childService opens tables and stores under a directory.
func childService(t *testing.T, dir string) (*library, *gorm.DB) {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline("sqlite:" + filepath.Join(dir, "test.db")), MaxConnections: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close(db) })
	if _, err := migrations.Apply(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return serviceIn(t, filepath.Join(dir, "rag"), db, newHashed()), db
}

// TestChild is no test: it ingests until it is killed.
func TestChild(t *testing.T) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		t.Skip("it runs as the child of TestKilledWhileIngesting")
	}
	s, _ := childService(t, dir)
	if _, err := s.collection("acme", "kb"); err != nil {
		create(t, s, "acme", "kb")
	}
	for i := 0; ; i++ {
		ingest(t, s, "kb", fmt.Sprintf("d%d.md", i%7), fmt.Sprintf("# One\n\nlibrary hours %d\n\n# Two\n\nfee desk %d\n\n# Three\n\nboard words %d", i, i, i))
		if i%5 == 4 {
			if err := s.DeleteDocument(t.Context(), "acme", "kb", fmt.Sprintf("d%d.md", i%7)); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Printf("did %d\n", i)
	}
}

// TestKilledWhileIngesting: a process that is killed while it takes in documents finds each as a whole or not at all when it starts again, as the tables say.
func TestKilledWhileIngesting(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	for round := range 3 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.v")
		child.Env = append(os.Environ(), childVariable+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		did := -1
		for lines := bufio.NewScanner(out); did < 8+5*round && lines.Scan(); {
			_, _ = fmt.Sscanf(lines.Text(), "did %d", &did)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = child.Wait()
		if did < 8 {
			t.Fatalf("the child ended after %d", did)
		}
		s, db := childService(t, dir)
		whole := map[string]int{}
		for _, p := range find(t, s, "kb", "library hours fee desk board words") {
			whole[p.Document+p.Version]++
		}
		for name, n := range whole {
			if n != 3 {
				t.Errorf("%s has %d of 3 passages", name, n)
			}
		}
		sameAnswers(t, s, db, "after it was killed")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCreatingKeepsNobody: while a collection is being created, others are followed and written, and it is there afterwards.
func TestCreatingKeepsNobody(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	held, let, open := make(chan struct{}), make(chan struct{}), s.openStore
	s.openStore = func(ctx context.Context, cfg segment.Config) (passageStore, error) {
		close(held)
		<-let
		return open(ctx, cfg)
	}
	done := make(chan error, 1)
	go func() { done <- s.CreateCollection(t.Context(), Collection{Tenant: "acme", Name: "slow"}) }()
	<-held
	follow(t, s)
	ingest(t, s, "kb", "a.txt", "some words")
	_, err := s.Documents(t.Context(), "acme", "slow", nil)
	wantCode(t, err, fault.CodeCollectionNotFound)
	close(let)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ingest(t, s, "slow", "b.txt", "other words")
	follow(t, s)
	wantTexts(t, find(t, s, "slow", "words"), "other words")
}

// TestNamesakesAreNotFoundTogether: a document that was deleted a moment ago, which the store was not told yet, is not found beside a new one of its name.
func TestNamesakesAreNotFoundTogether(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	ingest(t, s, "kb", "a.txt", "old words")
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.store.deleteDocument(t.Context(), ci.id, "a.txt", ""); err != nil {
		t.Fatal(err)
	}
	ingest(t, s, "kb", "a.txt", "new words")
	wantTexts(t, find(t, s, "kb", "words"), "new words")
}
