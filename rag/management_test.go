package rag

import (
	"context"
	"fmt"
	"testing"

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
	stored, let, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ci.vectors = &insertion{Index: ci.vectors, then: func() error {
		close(stored)
		<-let
		return nil
	}}
	go func() {
		_, err := s.Ingest(context.Background(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("words")})
		done <- err
	}()
	<-stored // it has the vectors, and goes on to the words
	close(let)
	if err := s.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil && !fault.Is(err, fault.CodeConflict) && !fault.Is(err, fault.CodeRetrievalFailed) {
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
