package rag

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const secretText = "# Wang Fang's case\n\nThe heating of flat 1301 costs 4711 yuan.\n\n## Neighbours\n\nMs Li heats with coal.\n"

// inClear lists what of a document the tables tell whoever reads them.
func inClear(t *testing.T, db *gorm.DB) string {
	t.Helper()
	var docs []versionRow
	var chunks []chunkRow
	if err := db.Find(&docs).Error; err != nil {
		t.Fatal(err)
	}
	if err := db.Find(&chunks).Error; err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, d := range docs {
		out.WriteString(d.Title + d.Digest + d.Content + d.Known + string(d.Sealed))
	}
	for _, c := range chunks {
		out.WriteString(c.Section)
	}
	return out.String()
}

// TestTablesTellNothingOfDocuments: under either suite, neither text, title, headings, known values nor the digest of the file can be read from the
// tables, and another replica and a server of the other suite find the same passages. Under another key, or in the row of another document, the
// text does not open.
func TestTablesTellNothingOfDocuments(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		e := newHashed()
		keys := func(b byte) *keyring.Ring { return keyring.FromBytes(bytes.Repeat([]byte{b}, 32)) }
		under := func(ring *keyring.Ring, suite seal.Suite) (*library, error) {
			s, err := New(Config{Suite: suite, Dir: t.TempDir()}, db, ring, e.Model(), slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return &library{s, e}, s.Load(t.Context())
		}
		var ids []string
		for _, suite := range []seal.Suite{seal.Intl, seal.GM} {
			s, err := under(keys(1), suite)
			if err != nil {
				t.Fatal(err)
			}
			create(t, s, "acme", "kb-"+string(suite))
			in, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb-" + string(suite), Name: "case.md", Body: []byte(secretText), Known: []Known{{Class: "person_name", Value: "Wang Fang"}}})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, in.ID)
		}
		told := inClear(t, db)
		for _, text := range []string{"Wang", "heating", "4711", "Neighbours", "coal", "person_name", "content"} {
			if strings.Contains(told, text) {
				t.Errorf("the tables tell %q", text)
			}
		}
		for _, suite := range []seal.Suite{seal.Intl, seal.GM} {
			s, err := under(keys(1), suite)
			if err != nil {
				t.Fatal(err)
			}
			for _, of := range []seal.Suite{seal.Intl, seal.GM} {
				got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb-" + string(of), Text: "heating of flat 1301", TopK: 5})
				if err != nil || len(got) == 0 || !strings.Contains(got[0].Text, "4711") || got[0].Title != "Wang Fang's case" || len(got[0].Known) != 1 {
					t.Errorf("%s reads %s: %+v, %v", suite, of, got, err)
				}
			}
		}

		refused := func(why string, ring *keyring.Ring) {
			t.Helper()
			s, err := under(ring, seal.Intl)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb-intl", Text: "heating", TopK: 5})
			wantCode(t, err, fault.CodeRetrievalFailed)
			if strings.Contains(err.Error(), "Wang") {
				t.Errorf("%s: what went wrong tells what the document says", why)
			}
		}
		refused("another master key", keys(2))
		if err := db.Exec("UPDATE rag_versions SET sealed = (SELECT d.sealed FROM rag_versions d WHERE d.document = ?), suite = 'gm' WHERE document = ?", ids[1], ids[0]).Error; err != nil {
			t.Fatal(err)
		}
		refused("the text of another document", keys(1))
	})
}

// TestDocumentsOfBeforeAreSealed: what a release before has stored in clear is found as it is, is encrypted one document at a time, also after a
// failure in between, and is the same afterwards.
func TestDocumentsOfBeforeAreSealed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		e := newHashed()
		f := &dbtest.Faults{}
		s := service(t, f.Over(db), e)
		create(t, s, "acme", "kb")
		for _, name := range []string{"a.md", "b.md", "c.md"} {
			ingest(t, s, "kb", name, secretText+name)
		}
		var ids []string
		if err := db.Model(&versionRow{}).Order("id").Pluck("id", &ids).Error; err != nil {
			t.Fatal(err)
		}
		for _, id := range ids { // as that release had it
			b, err := s.store.content(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Model(&versionRow{}).Where("id = ?", id).Updates(map[string]any{
				"title": b.Title, "digest": b.Digest, "content": b.Content, "known": b.Known, "sealed": nil, "suite": "",
			}).Error
			for _, c := range b.chunks {
				if err == nil {
					err = db.Model(&chunkRow{}).Where("document = ? AND chunk = ?", b.Document, c.Chunk).Update("section", c.Section).Error
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		find := func() string {
			t.Helper()
			got, err := service(t, db, e).Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "heating of flat 1301", TopK: 9})
			if err != nil || len(got) == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			var out strings.Builder
			for _, p := range got {
				out.WriteString(p.Title + p.Section + p.Text + p.Document + "\n")
			}
			return out.String()
		}
		before := find()

		if found, err := s.store.sealOne(t.Context()); !found || err != nil {
			t.Fatal(found, err)
		}
		for _, op := range []string{"commit", "UPDATE"} {
			f.Set(func(got string) dbtest.Outcome {
				if strings.HasPrefix(got, op) {
					return dbtest.FailsBefore
				}
				return dbtest.Healthy
			})
			if _, err := s.store.sealOne(t.Context()); err == nil {
				t.Errorf("%s failed, and nobody was told", op)
			}
			f.Set(nil)
			if got := find(); got != before {
				t.Errorf("after a failed %s:\n%s", op, got)
			}
		}
		s.sealStored(t.Context())
		if told := inClear(t, db); strings.Contains(told, "heating") || strings.Contains(told, "Neighbours") {
			t.Error("a document is still in clear")
		}
		if got := find(); got != before {
			t.Errorf("found before:\n%s\nnow:\n%s", before, got)
		}
		if again := ingest(t, s, "kb", "a.md", secretText+"a.md"); again.Version != "v1" {
			t.Errorf("an unchanged document became %s", again.Version)
		}
	})
}
