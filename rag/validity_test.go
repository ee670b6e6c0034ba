package rag

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestVersionsInTime: a version is found from its beginning until its end, on every replica and without any change of the tables; the others with a time
// alone. What comes later is nobody's to read before.
func TestVersionsInTime(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		clock := start
		a, b := service(t, db, newHashed()), service(t, db, newHashed())
		a.now, b.now = func() time.Time { return clock }, func() time.Time { return clock }
		create(t, a, "acme", "kb")
		put := func(body string, from, until time.Time) IngestResult {
			t.Helper()
			in, err := a.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "rule.txt", Body: []byte(body), ValidFrom: from, ValidUntil: until})
			if err != nil {
				t.Fatal(err)
			}
			follow(t, b)
			return in
		}
		at := func(asOf time.Time, want ...string) {
			t.Helper()
			for _, s := range []*library{a, b} {
				got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "rule words", TopK: 5, AsOf: asOf})
				if err != nil {
					t.Fatal(err)
				}
				wantTexts(t, got, want...)
			}
		}
		in := put("rule words one", time.Time{}, time.Time{})
		at(time.Time{}, "rule words one")
		next := start.Add(24 * time.Hour)
		put("rule words two", next, next.Add(time.Hour))
		at(time.Time{}, "rule words one")
		clock = start.Add(time.Hour)
		put("rule words one, mended", time.Time{}, time.Time{}) // until the next one that is dated
		at(time.Time{}, "rule words one, mended")
		at(start, "rule words one")
		_, err := a.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "rule", TopK: 5, AsOf: next})
		wantCode(t, err, fault.CodeInvalidValue)
		clock = next.Add(-time.Microsecond)
		at(time.Time{}, "rule words one, mended")
		open := func(version string, asOf time.Time) error {
			_, err := b.Passages(t.Context(), PassageRef{Tenant: "acme", Collection: "kb", DocumentID: in.ID, Version: version, AsOf: asOf})
			return err
		}
		wantCode(t, open("v2", time.Time{}), fault.CodeNotFound) // not yet: as if it were not there
		clock = next                                             // and nothing else
		at(time.Time{}, "rule words two")
		at(start, "rule words one")
		at(next.Add(-time.Microsecond), "rule words one, mended")
		if err := open("v2", time.Time{}); err != nil {
			t.Error(err)
		}
		wantCode(t, open("v1", time.Time{}), fault.CodePassageReplaced)
		if err := open("v1", start); err != nil {
			t.Error(err)
		}
		wantCode(t, open("v2", start), fault.CodePassageReplaced)
		clock = next.Add(time.Hour)
		at(time.Time{}) // repealed: the one before does not come back
		if err := open("v2", time.Time{}); !fault.Is(err, fault.CodePassageReplaced) || !strings.Contains(err.Error(), "no version is in effect") {
			t.Error(err)
		}
		clock = clock.Add(-time.Second) // a clock that is set back a little
		at(time.Time{})
		clock = clock.Add(time.Minute)
		put("rule words three", time.Time{}, time.Time{})
		at(time.Time{}, "rule words three")
		at(next, "rule words two")
		if err := a.DeleteVersion(t.Context(), "acme", "kb", in.ID, "v4"); err != nil {
			t.Fatal(err)
		}
		follow(t, b)
		at(time.Time{})
		wantCode(t, a.DeleteVersion(t.Context(), "acme", "kb", in.ID, "v4"), fault.CodeNotFound)
		if in := put("rule words five", time.Time{}, time.Time{}); in.Version != "v5" { // no number is given twice
			t.Errorf("%+v", in)
		}
		if err := a.DeleteDocument(t.Context(), "acme", "kb", "rule.txt"); err != nil {
			t.Fatal(err)
		}
		follow(t, b)
		at(next)
		at(time.Time{})
		var rows int64
		if err := db.Raw("SELECT (SELECT COUNT(*) FROM rag_versions) + (SELECT COUNT(*) FROM rag_chunks)").Row().Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d rows of an erased document are left, %v", rows, err)
		}
	})
}

// TestDates: versions never overlap, whoever dates them, and two editors do not overwrite each other.
func TestDates(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	day := func(n int) time.Time { return time.Date(2020, 1, n, 0, 0, 0, 0, time.UTC) }
	put := func(n int, from, until time.Time) (string, error) {
		in, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: fmt.Appendf(nil, "words %d", n), ValidFrom: from, ValidUntil: until})
		return in.ID, err
	}
	id, err := put(1, day(10), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put(2, day(1), time.Time{}); err != nil { // older, until the one that is there
		t.Fatal(err)
	}
	_, err = put(3, day(5), day(12))
	wantCode(t, err, fault.CodeInvalidValue)
	_, err = put(3, day(5), day(5))
	wantCode(t, err, fault.CodeInvalidValue)
	show := func() string {
		all, err := s.Versions(t.Context(), "acme", "kb", id)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range all {
			until := "-"
			if !v.ValidUntil.IsZero() {
				until = v.ValidUntil.Format("02")
			}
			out = append(out, v.Version+" "+v.ValidFrom.Format("02")+" "+until)
		}
		return strings.Join(out, ", ")
	}
	if got := show(); got != "v2 01 10, v1 10 -" {
		t.Error(got)
	}
	all, err := s.Versions(t.Context(), "acme", "kb", id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.SetValidity(t.Context(), "acme", "kb", id, "v2", all[0].Revision, Validity{Until: day(11)})
	wantCode(t, err, fault.CodeInvalidValue)
	_, err = s.SetValidity(t.Context(), "acme", "kb", id, "v2", all[0].Revision, Validity{NoEnd: true})
	wantCode(t, err, fault.CodeInvalidValue)
	if _, err = s.SetValidity(t.Context(), "acme", "kb", id, "v2", all[0].Revision, Validity{Until: day(8)}); err != nil {
		t.Fatal(err)
	}
	_, err = s.SetValidity(t.Context(), "acme", "kb", id, "v2", all[0].Revision, Validity{Until: day(9)}) // of what was read before
	wantCode(t, err, fault.CodeConflict)
	_, err = s.SetValidity(t.Context(), "acme", "kb", id, "v9", 0, Validity{Until: day(9)})
	wantCode(t, err, fault.CodeNotFound)
	if got := show(); got != "v2 01 08, v1 10 -" {
		t.Error(got)
	}
}

// TestRetention: a collection keeps as many versions, and as long, as it says; what is in effect or comes later stays.
func TestRetention(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	clock := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return clock }
	create(t, s, "acme", "kb")
	put := func(n int) string {
		clock = clock.Add(time.Hour)
		return ingest(t, s, "kb", "a.txt", fmt.Sprintf("words %d", n)).ID
	}
	var id string
	for n := range 5 {
		id = put(n)
	}
	versions := func(want string) {
		t.Helper()
		for _, s := range []*library{s, service(t, s.store.db, newHashed())} {
			all, err := s.Versions(t.Context(), "acme", "kb", id)
			var got []string
			for _, v := range all {
				got = append(got, v.Version)
			}
			if strings.Join(got, " ") != want || err != nil && want != "" {
				t.Errorf("%v, want %s, %v", got, want, err)
			}
		}
	}
	versions("v5 v4 v3 v2 v1")
	if err := s.SetRetention(t.Context(), "acme", "kb", Retention{KeepVersions: 2, Revision: 1}); err != nil {
		t.Fatal(err)
	}
	versions("v5 v4 v3 v2 v1") // whoever sets it does not wait for what it deletes
	select {
	case <-s.pruneNow:
	default:
		t.Error("nobody is told that there is something to delete")
	}
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	s.prune(t.Context(), ci)
	versions("v5 v4 v3")
	wantCode(t, s.SetRetention(t.Context(), "acme", "kb", Retention{Revision: 1}), fault.CodeConflict)
	wantCode(t, s.SetRetention(t.Context(), "acme", "kb", Retention{KeepDays: -1, Revision: 2}), fault.CodeInvalidValue)
	put(5)
	versions("v6 v5 v4")
	if err := s.SetRetention(t.Context(), "acme", "kb", Retention{KeepDays: 7, Revision: 2}); err != nil {
		t.Fatal(err)
	}
	versions("v6 v5 v4")
	clock = clock.AddDate(0, 0, 8)
	s.prune(t.Context(), ci)
	versions("v6")
	all, err := s.Versions(t.Context(), "acme", "kb", id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetValidity(t.Context(), "acme", "kb", id, "v6", all[0].Revision, Validity{Until: clock}); err != nil {
		t.Fatal(err)
	}
	clock = clock.AddDate(0, 0, 8)
	s.prune(t.Context(), ci)
	if docs, err := s.Documents(t.Context(), "acme", "kb", nil); err != nil || len(docs) != 0 { // nothing of it was left
		t.Errorf("%+v, %v", docs, err)
	}
}

// TestRetentionFindsSurplusOnly: the documents that retention changes are those of which a version is kept no longer, and no others: each change waits for
// all others.
func TestRetentionFindsSurplusOnly(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := rand.New(rand.NewPCG(1, 2))
		s := service(t, db, newHashed())
		all := map[string][]versionRow{}
		for d := range 60 {
			id := fmt.Sprintf("d%02d", d)
			for v := range 1 + r.IntN(5) {
				row := versionRow{ID: fmt.Sprintf("%s.v%d", id, v+1), Collection: "c", Document: id, Version: int64(v + 1), Suite: "x"}
				if r.IntN(3) > 0 {
					row.ValidUntil = now.Add(time.Duration(r.IntN(20)-15) * 12 * time.Hour).UnixMicro()
				}
				all[id] = append(all[id], row)
				if err := db.Create(&row).Error; err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, settings := range []collectionRow{{}, {KeepVersions: 1}, {KeepVersions: 3}, {KeepDays: 1}, {KeepDays: 4}, {KeepVersions: 2, KeepDays: 3}, {KeepVersions: 100, KeepDays: 100}} {
			settings.ID = "c"
			var want []string
			for id, versions := range all {
				if len(settings.surplus(versions, now)) > 0 {
					want = append(want, id)
				}
			}
			slices.Sort(want)
			got, err := s.store.withSurplus(t.Context(), settings, now)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%+v: %v, want %v, %v", settings, got, want, err)
			}
		}
	})
}

// TestRetentionSparesWhatComesIn: a version that another replica stores after retention has looked for documents is not deleted with those that have ended,
// and a document of which there is nothing to delete stays at its revision.
func TestRetentionSparesWhatComesIn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := service(t, db, newHashed()), service(t, db, newHashed())
		clock := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		a.now, b.now = func() time.Time { return clock }, func() time.Time { return clock }
		create(t, a, "acme", "kb")
		if err := a.SetRetention(t.Context(), "acme", "kb", Retention{KeepDays: 7, Revision: 1}); err != nil {
			t.Fatal(err)
		}
		in, err := a.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("words one"), ValidUntil: clock.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		follow(t, b)
		clock = clock.AddDate(0, 0, 9)
		ci, err := a.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		cb, err := b.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		row := *cb.settings.Load()
		row.KeepDays = 0 // b has not followed the settings: it leaves the deletion to a
		cb.settings.Store(&row)
		ids, err := a.store.withSurplus(t.Context(), *ci.settings.Load(), clock) // a has looked, and is about to delete
		if err != nil || len(ids) != 1 {
			t.Fatal(ids, err)
		}
		if in, err := b.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("words two")}); err != nil || in.Version != "v2" {
			t.Fatalf("%+v, %v", in, err)
		}
		for range 2 {
			a.pruneDocument(t.Context(), ci, in.ID)
			follow(t, a)
			follow(t, b)
			for _, s := range []*library{a, b} {
				wantTexts(t, find(t, s, "kb", "words"), "words two")
				all, err := s.Versions(t.Context(), "acme", "kb", in.ID)
				if err != nil || len(all) != 1 || all[0].Version != "v2" {
					t.Errorf("%+v, %v", all, err)
				}
			}
		}
		before, err := a.DocumentAccess(t.Context(), "acme", "kb", in.ID)
		if err != nil {
			t.Fatal(err)
		}
		a.prune(t.Context(), ci)
		if after, err := a.DocumentAccess(t.Context(), "acme", "kb", in.ID); err != nil || after.Revision != before.Revision {
			t.Errorf("%+v became %+v, %v", before, after, err)
		}
	})
}

// TestFailedChanges lets each operation of each change fail, before it is carried out and after: nothing is half done, this replica is never more open than
// the tables, and both agree as soon as the tables are followed.
func TestFailedChanges(t *testing.T) {
	for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
		var faults dbtest.Faults
		db := dbtest.SQLite(t)
		s := service(t, faults.Over(db), newHashed())
		create(t, s, "acme", "kb")
		in := ingest(t, s, "kb", "a.md", "# One\n\nprivate words\n\n# Two\n\nmore words")
		view := func(s *library) string {
			t.Helper()
			var out []string
			for _, role := range []string{"", "board"} {
				got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 9, Roles: []string{role}})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range got {
					out = append(out, role+p.Version+p.Text)
				}
			}
			slices.Sort(out)
			return strings.Join(out, "|")
		}
		n := 0
		for name, act := range map[string]func() error{
			"access": func() error {
				n++
				_, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Restricted: n%2 == 0, Allow: map[bool][]Allow{true: {{Roles: []string{"board"}}}}[n%2 == 0]}})
				return err
			},
			"version": func() error {
				n++
				_, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.md", Body: fmt.Appendf(nil, "# One\n\nprivate words %d\n\n# Two\n\nmore words", n)})
				return err
			},
			"dates": func() error {
				n++
				all, err := s.Versions(t.Context(), "acme", "kb", in.ID)
				if err != nil {
					return err
				}
				_, err = s.SetValidity(t.Context(), "acme", "kb", in.ID, all[0].Version, 0, Validity{Until: time.Now().Add(time.Duration(n) * time.Hour)})
				return err
			},
			"one version": func() error {
				all, err := s.Versions(t.Context(), "acme", "kb", in.ID)
				if err != nil {
					return err
				}
				if len(all) < 3 {
					faults.Set(nil)
					ingest(t, s, "kb", "a.md", fmt.Sprintf("# One\n\nprivate words %d-%d", n, len(all)))
					return dbtest.ErrInjected
				}
				return s.DeleteVersion(t.Context(), "acme", "kb", in.ID, all[len(all)-1].Version)
			},
			"retention": func() error {
				return s.SetRetention(t.Context(), "acme", "kb", Retention{KeepVersions: 1000, Revision: settings(t, db)})
			},
		} {
			if name == "one version" {
				for i := range 4 {
					ingest(t, s, "kb", "a.md", fmt.Sprintf("# One\n\nprivate words\n\n# Two\n\nkept %d", i))
				}
			}
			faults.Each(t, how, func() error {
				err := act()
				faults.Set(nil)
				fresh := view(service(t, db, newHashed()))
				if err == nil {
					if got := view(s); got != fresh {
						t.Errorf("%s: this replica finds %s, another %s", name, got, fresh)
					}
				}
				follow(t, s)
				if got := view(s); got != fresh {
					t.Errorf("%s, after a failure: this replica finds %s, another %s", name, got, fresh)
				}
				return err
			})
		}
	}
}

func settings(t *testing.T, db *gorm.DB) (n int64) {
	t.Helper()
	if err := db.Raw("SELECT settings FROM rag_collections").Row().Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDocumentsOutliveTheUpgrade: documents of the release before are found as they were, each with one version that is in effect since it came in.
func TestDocumentsOutliveTheUpgrade(t *testing.T) {
	alone(t)
	for dialect, url := range map[string]func() string{
		"sqlite": func() string { return "sqlite:" + t.TempDir() + "/test.db" }, "postgres": func() string { return dbtest.PostgresURL(t) },
	} {
		db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(url()), MaxConnections: 4})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = database.Close(db) })
		kind := goose.DialectSQLite3
		if dialect == "postgres" {
			kind = goose.DialectPostgres
		}
		p, err := goose.NewProvider(kind, pool, os.DirFS("../migrations/"+dialect))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.UpTo(t.Context(), 49); err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			"UPDATE rag_changes SET version = 3",
			"INSERT INTO rag_collections (id, tenant, name, title, labels, revision, created_at) VALUES ('7b0c3f7e-3b0a-4e0f-9a57-6b8f5d1f0a11', 'acme', 'kb', 'T', '[]', 3, 1000000)",
			"INSERT INTO rag_documents (id, collection, name, mime, title, labels, version, revision, digest, embedder, content, chunks, created_at, updated_at) VALUES " +
				"('d', '7b0c3f7e-3b0a-4e0f-9a57-6b8f5d1f0a11', 'a.txt', 'text/plain', '', '[]', 4, 3, 'x', 'hashed-128', 'old words', 1, 1000000, 5000000)",
			"INSERT INTO rag_documents (id, collection, name, mime, title, labels, version, revision, digest, embedder, content, chunks, created_at, updated_at) VALUES " +
				"('e', '7b0c3f7e-3b0a-4e0f-9a57-6b8f5d1f0a11', 'b.txt', 'text/plain', '', '[\"board\"]', 1, 3, 'y', 'hashed-128', 'board words', 1, 2000000, 2000000)",
		} {
			if err := db.Exec(sql).Error; err != nil {
				t.Fatal(err)
			}
		}
		vector := encodeVector(make([]float32, 128))
		for _, row := range []chunkRow{{Document: "d", Version: 4, End: 9, Vector: vector}, {Document: "e", Version: 1, End: 11, Vector: vector}} {
			if err := db.Create(&row).Error; err != nil {
				t.Fatal(err)
			}
		}
		// One as the release before has stored them: encrypted, and bound to its place by names that must not change.
		plain := `{"title":"","digest":"z","content":"sealed words","known":"","sections":[""]}`
		e, err := documentKeys(keyring.FromBytes(bytes.Repeat([]byte{7}, 32))).Seal(db, seal.Intl, []byte(plain), seal.Label("rag document", "00000000-0000-4000-8000-0000000000c2", "f", "3"))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			sql  string
			args []any
		}{
			{"INSERT INTO rag_collections (id, tenant, name, title, labels, revision, created_at) VALUES ('00000000-0000-4000-8000-0000000000c2', 'acme', 'sealed', 'T', '[]', 3, 1000000)", nil},
			{"INSERT INTO rag_documents (id, collection, name, mime, title, labels, version, revision, digest, embedder, content, chunks, created_at, updated_at, sealed, suite, epoch) VALUES " +
				"('f', '00000000-0000-4000-8000-0000000000c2', 'c.txt', 'text/plain', '', '[]', 3, 3, '', 'hashed-128', '', 1, 1000000, 5000000, ?, ?, ?)", []any{e.Sealed, string(e.Suite), e.Epoch}},
		} {
			if err := db.Exec(x.sql, x.args...).Error; err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Create(&chunkRow{Document: "f", Version: 3, End: 12, Vector: vector}).Error; err != nil {
			t.Fatal(err)
		}
		if _, err := migrations.Apply(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		s := service(t, db, newHashed())
		wantTexts(t, find(t, s, "sealed", "words"), "sealed words")
		wantTexts(t, find(t, s, "kb", "words"), "old words")
		wantTexts(t, find(t, s, "kb", "words board", "board"), "board words", "old words")
		all, err := s.Versions(t.Context(), "acme", "kb", "d")
		if err != nil || len(all) != 1 || all[0].Version != "v4" || !all[0].InEffect || all[0].ValidFrom.UnixMicro() != 5_000_000 || !all[0].ValidUntil.IsZero() {
			t.Errorf("%+v, %v", all, err)
		}
		s.sealStored(t.Context())
		if told := inClear(t, db); strings.Contains(told, "words") {
			t.Error("a document is still in clear")
		}
		if in := ingest(t, s, "kb", "a.txt", "new words"); in.ID != "d" || in.Version != "v5" {
			t.Errorf("%+v", in)
		}
		wantTexts(t, find(t, s, "kb", "words"), "new words")
	}
}

// TestPlannedVersionsAreCancelled: a version that is deleted before it begins ends nothing.
func TestPlannedVersionsAreCancelled(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.txt", "words one")
	if _, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("words two"), ValidFrom: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Versions(t.Context(), "acme", "kb", in.ID); err != nil || all[1].ValidUntil.IsZero() {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := s.DeleteVersion(t.Context(), "acme", "kb", in.ID, "v2"); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Versions(t.Context(), "acme", "kb", in.ID); err != nil || len(all) != 1 || !all[0].ValidUntil.IsZero() || !all[0].InEffect {
		t.Errorf("%+v, %v", all, err)
	}
}
