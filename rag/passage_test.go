package rag

import (
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestPassages: a quoted passage is opened with its neighbours by whom a search would show it to, in the version that was quoted or not at
// all.
func TestPassages(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		if err := s.CreateCollection(t.Context(), Collection{Tenant: "acme", Name: "kb", Labels: []string{"staff"}}); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for i := range 12 {
			fmt.Fprintf(&text, "## Section %d\n\n%s\n\n", i, strings.Repeat(fmt.Sprintf("Desk %d handles permits. ", i), 12))
		}
		d := Document{Tenant: "acme", Collection: "kb", Name: "desks.md", Labels: []string{"clerks"}, Body: []byte("# Desks\n\n" + text.String())}
		in, err := s.Ingest(t.Context(), d)
		if err != nil || in.Chunks < 6 {
			t.Fatalf("%+v, %v", in, err)
		}
		quote := PassageRef{Tenant: "acme", Collection: "kb", Labels: []string{"staff", "clerks"}, DocumentID: in.ID, Version: "v1", Chunk: 3, Context: 1}
		found, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Labels: quote.Labels, Text: "Desk 3 handles", TopK: 50})
		if err != nil {
			t.Fatal(err)
		}
		want := map[int]Passage{}
		for _, p := range found {
			p.Score = 0
			want[p.Chunk] = p
		}
		numbers := func(q PassageRef) string {
			got, err := s.Passages(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			out := ""
			for _, p := range got {
				if w := want[p.Chunk]; p.Text != w.Text || p.Title != "Desks" || p.Section != w.Section || p.Start != w.Start || p.End != w.End || p.DocumentID != in.ID || p.Version != "v1" {
					t.Errorf("passage %+v, a search finds %+v", p, w)
				}
				out += fmt.Sprint(p.Chunk, " ")
			}
			return out
		}
		at := func(chunk, around int) PassageRef {
			q := quote
			q.Chunk, q.Context = chunk, around
			return q
		}
		last := in.Chunks - 1
		for q, numbered := range map[[2]int]string{
			{3, 1}: "2 3 4 ", {3, 0}: "3 ", {0, 2}: "0 1 2 ", {last, 1}: fmt.Sprint(last-1, " ", last, " "), {5, 99}: "2 3 4 5 6 7 8 ",
		} {
			if got := numbers(at(q[0], q[1])); got != numbered && (q[1] != 99 || in.Chunks > 8) {
				t.Errorf("chunk %d with %d around: %s, want %s", q[0], q[1], got, numbered)
			}
		}
		for name, c := range map[string]struct {
			change func(*PassageRef)
			code   fault.Code
			param  string
		}{
			"another tenant":             {func(q *PassageRef) { q.Tenant = "other" }, fault.CodeCollectionNotFound, "collection"},
			"no label of the collection": {func(q *PassageRef) { q.Labels = []string{"clerks"} }, fault.CodeCollectionNotFound, "collection"},
			"no label of the document":   {func(q *PassageRef) { q.Labels = []string{"staff"} }, fault.CodeNotFound, "document_id"},
			"another document":           {func(q *PassageRef) { q.DocumentID = "none" }, fault.CodeNotFound, "document_id"},
			"a version to come":          {func(q *PassageRef) { q.Version = "v2" }, fault.CodeNotFound, "version"},
			"no version":                 {func(q *PassageRef) { q.Version = "v01" }, fault.CodeNotFound, "version"},
			"a chunk too far":            {func(q *PassageRef) { q.Chunk = in.Chunks }, fault.CodeNotFound, "chunk"},
			"a chunk before":             {func(q *PassageRef) { q.Chunk = -1 }, fault.CodeNotFound, "chunk"},
		} {
			q := quote
			c.change(&q)
			got, err := s.Passages(t.Context(), q)
			if !fault.Is(err, c.code) || fault.Public(err).Param() != c.param || got != nil {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		d.Body = []byte("# Desks\n\nAll desks are closed.")
		if _, err := s.Ingest(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Passages(t.Context(), at(0, 0)); !fault.Is(err, fault.CodePassageReplaced) || got != nil || !strings.Contains(err.Error(), "version v2") {
			t.Errorf("of a version that was replaced: %+v, %v", got, err)
		}
		unseen := at(0, 0)
		unseen.Labels = []string{"staff"}
		if _, err := s.Passages(t.Context(), unseen); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("whoever may not see the document learnt that it was replaced: %v", err)
		}
		if err := s.DeleteDocument(t.Context(), "acme", "kb", "desks.md"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Passages(t.Context(), at(0, 0)); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("of a document that was deleted: %v", err)
		}
	})
}
