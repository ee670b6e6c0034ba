package rag

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/segment"
)

// TestOneDocument: it is answered as the list has it, and costs the same however many others there are.
func TestOneDocument(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.txt", "words")
	all, err := s.Documents(t.Context(), "acme", "kb", nil)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	one := func() DocumentInfo {
		out, err := s.Document(t.Context(), "acme", "kb", in.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := one(); fmt.Sprint(got) != fmt.Sprint(all[0]) {
		t.Errorf("%+v, want %+v", got, all[0])
	}
	_, err = s.Document(t.Context(), "acme", "kb", "none", nil)
	wantCode(t, err, fault.CodeNotFound)
	_, err = s.Document(t.Context(), "acme", "none", in.ID, nil)
	wantCode(t, err, fault.CodeCollectionNotFound)
	few := testing.AllocsPerRun(10, func() { one() })
	d, _, err := s.store.state(t.Context(), in.ID)
	if err != nil {
		t.Fatal(err)
	}
	documents, versions := make([]documentRow, 1000), make([]versionRow, 1000)
	for i := range documents {
		documents[i], versions[i] = d.documentRow, d.versions[0]
		documents[i].ID, documents[i].Name = fmt.Sprint(i), fmt.Sprint(i)
		versions[i].Document, versions[i].ID, versions[i].Suite = documents[i].ID, versionID(documents[i].ID, 1), "x"
	}
	if err := errors.Join(db.CreateInBatches(documents, 100).Error, db.CreateInBatches(versions, 100).Error); err != nil {
		t.Fatal(err)
	}
	if many := testing.AllocsPerRun(10, func() { one() }); many > few+100 { // a list takes some for each
		t.Errorf("%v allocations beside 1,000 others, %v alone", many, few)
	}
}

// TestAccessIsAnsweredWithoutTheRest: whoever changes access is answered out of the store, also while a version of the document is there that it does not
// have yet, and with a database that fails from then on; and the answer has no sections of what has ended, unless the rule names them.
func TestAccessIsAnsweredWithoutTheRest(t *testing.T) {
	var faults dbtest.Faults
	db := dbtest.SQLite(t)
	a, b := service(t, db, newHashed()), service(t, faults.Over(db), newHashed())
	create(t, a, "acme", "kb")
	in := ingest(t, a, "kb", "a.md", "# One\n\nfirst words")
	ingest(t, a, "kb", "a.md", "# Two\n\nsecond words")
	follow(t, b)
	sections := func(rule Rule) (versions []string) {
		t.Helper()
		change, err := b.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: rule})
		if err != nil {
			t.Fatal(err)
		}
		if is, err := b.DocumentAccess(t.Context(), "acme", "kb", in.ID); err != nil || !reflect.DeepEqual(is, b.AccessAfterChange("acme", "kb", change)) {
			t.Errorf("%+v, %v, want what the change is answered with: %+v", is, err, b.AccessAfterChange("acme", "kb", change))
		}
		faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
		defer faults.Set(nil)
		is := b.AccessAfterChange("acme", "kb", change)
		if is.Rule.Restricted != rule.Restricted || is.Revision != change.Revision {
			t.Fatalf("%+v", is)
		}
		for _, s := range is.Sections {
			versions = append(versions, s.Version)
		}
		return versions
	}
	if got := fmt.Sprint(sections(Rule{Restricted: true})); got != "[v2]" {
		t.Errorf("sections of %s", got)
	}
	if got := fmt.Sprint(sections(Rule{Parts: []PartRule{{Version: "v1", Chunks: []int{0}}}})); got != "[v2 v1]" {
		t.Errorf("sections of %s", got)
	}
	ingest(t, a, "kb", "a.md", "# Two\n\nthird words")
	f := failStore(t, b, "kb")
	f.set(&f.prepare, true)
	if got := fmt.Sprint(sections(Rule{Restricted: true})); got != "[v2]" { // the third is indexed in its turn
		t.Errorf("sections of %s", got)
	}
}

// TestDeletedWhileADocumentComesIn: a collection may be deleted while a document comes in, here or on another replica: it is not stored, and nothing is left.
func TestDeletedWhileADocumentComesIn(t *testing.T) {
	db := dbtest.SQLite(t)
	s, other := service(t, db, newHashed()), service(t, db, newHashed())
	for name, deletes := range map[string]*library{"here": s, "there": other} {
		create(t, s, "acme", name)
		ci, err := s.collection("acme", name)
		if err != nil {
			t.Fatal(err)
		}
		ci.passages = &prepared{ci.passages, func() error {
			err := deletes.DeleteCollection(t.Context(), "acme", name)
			if err == nil {
				err = s.follow(t.Context())
			}
			return err
		}}
		_, err = s.Ingest(t.Context(), Document{Tenant: "acme", Collection: name, Name: "a.txt", Body: []byte("words")})
		wantCode(t, err, fault.CodeConflict)
	}
	var left int64
	if err := db.Raw("SELECT (SELECT COUNT(*) FROM rag_documents) + (SELECT COUNT(*) FROM rag_versions) + (SELECT COUNT(*) FROM rag_journal)").Row().Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

// prepared is a store that does something else after it has prepared a document.
type prepared struct {
	passageStore

	then func() error
}

func (x *prepared) IndexWords(ctx context.Context, d *segment.Document) error {
	if err := x.passageStore.IndexWords(ctx, d); err != nil {
		return err
	}
	return x.then()
}

// TestListsShowWhatMayBeSeen: lists have what the reader may see, and for whoever writes what he brought; he brings no version of anything else. Those who
// say who sees what see all.
func TestListsShowWhatMayBeSeen(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb", "staff")
		wang := Reader{Principals: []string{"key:k", "user:wang"}, Labels: []string{"staff"}, Roles: []string{"developer"}}
		robot := Reader{Principals: []string{"service:robot"}}
		put := func(by Reader, d Document) (IngestResult, error) {
			t.Helper()
			d.Tenant, d.Collection, d.By = "acme", "kb", by
			draft, err := s.Read(t.Context(), d)
			if err != nil {
				return IngestResult{}, err
			}
			return s.Store(t.Context(), draft, s.from.Embed)
		}
		ids := map[string]string{}
		for _, c := range []struct {
			by   Reader
			name string
			d    Document
		}{
			{wang, "open", Document{}},
			{robot, "board", Document{Labels: []string{"board"}}},
			{robot, "ruled", Document{Rule: &Rule{Restricted: true, Allow: []Allow{{Roles: []string{"board"}}}}}},
			{wang, "mine", Document{Rule: &Rule{Restricted: true}}},
			{wang, "shared", Document{Rule: &Rule{Restricted: true, Allow: []Allow{{Roles: []string{"developer"}}}}}}, // his, and he may see it, too
			{robot, "planned", Document{ValidFrom: time.Now().Add(time.Hour)}},
			{robot, "parts", Document{Rule: &Rule{Parts: []PartRule{{Section: "One"}}}}},
			{Reader{}, "before", Document{}}, // of a release before
			{Reader{}, "old ruled", Document{Rule: &Rule{Restricted: true}}},
		} {
			c.d.Name, c.d.Body = c.name+".md", []byte("# One\n\nwords "+c.name)
			in, err := put(c.by, c.d)
			if err != nil {
				t.Fatal(c.name, err)
			}
			ids[c.name] = in.ID
		}
		writer := func(r Reader) *Reader { r.Writes = true; return &r }
		everything := "before board mine old ruled open parts planned ruled shared"
		restarted := service(t, db, newHashed())
		for who, c := range map[string]struct {
			reader *Reader
			sees   string
		}{
			"who says who sees what":     {nil, everything},
			"wang":                       {writer(wang), "before mine open shared"},
			"the robot":                  {writer(robot), "before board parts planned ruled"},
			"wang, who no longer writes": {&wang, "before open shared"},
			"another developer":          {writer(Reader{Principals: []string{"user:li"}, Labels: []string{"staff"}}), "before open"},
			"one of the board":           {&Reader{Labels: []string{"staff", "board"}, Roles: []string{"board"}}, "before board open ruled"},
			"without a label":            {writer(Reader{Principals: []string{"user:li"}}), "before"},
		} {
			for _, s := range []*library{s, restarted} {
				all, err := s.Documents(t.Context(), "acme", "kb", c.reader)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, d := range all {
					got = append(got, strings.TrimSuffix(d.Name, ".md"))
				}
				if strings.Join(got, " ") != c.sees {
					t.Errorf("%s sees %q, want %q", who, got, c.sees)
				}
				collections, err := s.Collections(t.Context(), "acme", c.reader)
				if err != nil || len(collections) != 1 || collections[0].Documents != len(got) {
					t.Errorf("%s: %+v, %v", who, collections, err)
				}
				for name, id := range ids {
					shown := slices.Contains(got, name)
					_, err := s.Document(t.Context(), "acme", "kb", id, c.reader)
					if may := s.Manages(t.Context(), "acme", "kb", id, c.reader); (err == nil) != shown || (may == nil) != shown || !shown && !fault.Is(err, fault.CodeNotFound) {
						t.Errorf("%s, %s: %v, %v", who, name, err, may)
					}
				}
			}
		}
		for name, shown := range map[string]bool{"open": true, "before": true, "board": false, "ruled": false, "mine": false, "planned": false, "parts": false, "shared": false, "old ruled": false} {
			li := Reader{Principals: []string{"user:li"}, Labels: []string{"staff"}}
			for _, text := range []string{"# One\n\nwords " + name, "# One\n\nother words " + name} { // the first says what is there already
				if _, err := put(li, Document{Name: name + ".md", Body: []byte(text)}); (err == nil) != shown || err != nil && (!fault.Is(err, fault.CodeConflict) || !strings.Contains(fault.Public(err).Message(fault.English), "may not see")) {
					t.Errorf("somebody else brings %s: %v", name, err)
				}
			}
		}
		// What another replica has restricted since is found out by the tables, also where that was after a version was read.
		other := service(t, db, newHashed())
		late := Document{Tenant: "acme", Collection: "kb", Name: "open.md", Body: []byte("words"), By: Reader{Principals: []string{"user:li"}, Labels: []string{"staff"}}}
		draft, err := other.Read(t.Context(), late)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SetAccess(t.Context(), "acme", "kb", ids["open"], Access{Rule: Rule{Restricted: true}}); err != nil {
			t.Fatal(err)
		}
		_, err = other.Read(t.Context(), late)
		wantCode(t, err, fault.CodeConflict)
		_, err = other.Store(t.Context(), draft, other.from.Embed)
		wantCode(t, err, fault.CodeConflict)
	})
}

// TestPlansAreForWriters: who does not write is shown a document as if what has not begun were not there.
func TestPlansAreForWriters(t *testing.T) {
	alone(t)
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.txt", "words")
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	if _, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("planned words"), ValidFrom: later}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reader   *Reader
		versions int
		until    time.Time
	}{{nil, 2, later}, {&Reader{Writes: true}, 2, later}, {&Reader{}, 1, time.Time{}}} {
		if d, err := s.Document(t.Context(), "acme", "kb", in.ID, c.reader); err != nil || d.Versions != c.versions || !d.ValidUntil.Equal(c.until) || d.Version != "v1" {
			t.Errorf("%+v: %+v, %v", c.reader, d, err)
		}
	}
}

// TestNothingIsToldOfOtherVersions: whoever asks for a version that has been replaced is told which one is in effect only if he sees something of that.
func TestNothingIsToldOfOtherVersions(t *testing.T) {
	alone(t)
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.md", "# One\n\nwords")
	ingest(t, s, "kb", "a.md", "# Two\n\nother words")
	told := func() string {
		t.Helper()
		_, err := s.Passages(t.Context(), PassageRef{Tenant: "acme", Collection: "kb", DocumentID: in.ID, Version: "v1"})
		wantCode(t, err, fault.CodePassageReplaced)
		return fault.Public(err).Message(fault.English)
	}
	if got := told(); !strings.Contains(got, "v2 is in effect") {
		t.Error(got)
	}
	if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Parts: []PartRule{{Section: "Two"}}}}); err != nil {
		t.Fatal(err)
	}
	if got := told(); strings.Contains(got, "v2") {
		t.Errorf("a version of which he sees nothing is named: %s", got)
	}
}

// TestUnreadableIsNotTold: what cannot be read is answered like what is not there, and like what is not the reader's.
func TestUnreadableIsNotTold(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	board, damaged := ingest(t, s, "kb", "a.txt", "words", "board"), ingest(t, s, "kb", "b.txt", "words", "board")
	if err := db.Exec("UPDATE rag_documents SET labels = 'x' WHERE id = ?", damaged.ID).Error; err != nil {
		t.Fatal(err)
	}
	again := service(t, db, newHashed())
	for _, id := range []string{board.ID, damaged.ID, "none"} {
		_, err := again.Passages(t.Context(), PassageRef{Tenant: "acme", Collection: "kb", DocumentID: id, Version: "v1"})
		wantCode(t, err, fault.CodeRetrievalFailed)
	}
	if got, err := again.Passages(t.Context(), PassageRef{Tenant: "acme", Collection: "kb", DocumentID: board.ID, Version: "v1", Labels: []string{"board"}}); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
