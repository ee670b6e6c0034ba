package rag

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/index"
)

// TestOneDocument: it is answered as the list has it, and costs the same however many others there are.
func TestOneDocument(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
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
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	few := testing.AllocsPerRun(10, func() { one() })
	ci.mu.Lock()
	for i := range 5000 {
		b := *ci.docs[in.ID]
		b.ID = fmt.Sprint(i)
		ci.docs[b.ID] = &b
	}
	ci.mu.Unlock()
	if many := testing.AllocsPerRun(10, func() { one() }); many > few {
		t.Errorf("%v allocations beside 5,000 others, %v alone", many, few)
	}
}

// TestAccessIsAnsweredWithoutTheRest: whoever changes access is answered out of memory, also while a version of the document is there that memory does not
// have yet and a database that fails from then on; and the answer has no sections of what has ended, unless the rule names them.
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
		if _, err := b.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: rule}); err != nil {
			t.Fatal(err)
		}
		faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
		defer faults.Set(nil)
		is, err := b.AccessAfterChange("acme", "kb", in.ID)
		if err != nil || is.Rule.Restricted != rule.Restricted {
			t.Fatalf("%+v, %v", is, err)
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
	ci, err := b.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	ci.vectors = &insertion{Index: ci.vectors, then: func() error { return errInjected }}
	if got := fmt.Sprint(sections(Rule{Restricted: true})); got != "[v2]" { // the third is indexed in its turn
		t.Errorf("sections of %s", got)
	}
}

// TestDeletedWhileADocumentComesIn: a collection may be deleted while a document comes in; the race detector judges.
func TestDeletedWhileADocumentComesIn(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	cleared := make(chan error, 1)
	ci.vectors = &insertion{Index: ci.vectors, then: func() error {
		go func() { cleared <- ci.clear() }() // as a deletion does, here or on another replica
		return nil
	}}
	if _, err := s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("words")}); err != nil && !fault.Is(err, fault.CodeRetrievalFailed) {
		t.Error(err)
	}
	if err := <-cleared; err != nil {
		t.Error(err)
	}
}

// insertion is an index that does something else after an insertion.
type insertion struct {
	index.Index

	then func() error
}

func (x *insertion) Upsert(ctx context.Context, entries []index.Entry) error {
	if err := x.Index.Upsert(ctx, entries); err != nil {
		return err
	}
	return x.then()
}

// TestListsShowWhatMayBeSeen: lists have what the reader may see, and for whoever writes what he brought; he brings no version of anything else. Those who
// say who sees what see all.
func TestListsShowWhatMayBeSeen(t *testing.T) {
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
		everything := "before board mine old ruled open parts planned ruled"
		for who, c := range map[string]struct {
			reader *Reader
			sees   string
		}{
			"who says who sees what":     {nil, everything},
			"wang":                       {writer(wang), "before mine open"},
			"the robot":                  {writer(robot), "before board parts planned ruled"},
			"wang, who no longer writes": {&wang, "before open"},
			"another developer":          {writer(Reader{Principals: []string{"user:li"}, Labels: []string{"staff"}}), "before open"},
			"one of the board":           {&Reader{Labels: []string{"staff", "board"}, Roles: []string{"board"}}, "before board open ruled"},
			"without a label":            {writer(Reader{Principals: []string{"user:li"}}), "before"},
		} {
			for _, s := range []*library{s, service(t, db, newHashed())} {
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
		for name, shown := range map[string]bool{"open": true, "before": true, "board": false, "ruled": false, "mine": false, "planned": false, "parts": false, "old ruled": false} {
			li := Reader{Principals: []string{"user:li"}, Labels: []string{"staff"}}
			for _, text := range []string{"# One\n\nwords " + name, "# One\n\nother words " + name} { // the first says what is there already
				if _, err := put(li, Document{Name: name + ".md", Body: []byte(text)}); (err == nil) != shown || err != nil && (!fault.Is(err, fault.CodeConflict) || !strings.Contains(fault.Public(err).Message(fault.English), "may not see")) {
					t.Errorf("somebody else brings %s: %v", name, err)
				}
			}
		}
		// What another replica has restricted since is found out by the tables.
		other := service(t, db, newHashed())
		if _, err := s.SetAccess(t.Context(), "acme", "kb", ids["open"], Access{Rule: Rule{Restricted: true}}); err != nil {
			t.Fatal(err)
		}
		draft, err := other.Read(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "open.md", Body: []byte("words"), By: Reader{Principals: []string{"user:li"}, Labels: []string{"staff"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Store(t.Context(), draft, other.from.Embed)
		wantCode(t, err, fault.CodeConflict)
	})
}

// TestPlansAreForWriters: who does not write is shown a document as if what has not begun were not there.
func TestPlansAreForWriters(t *testing.T) {
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
