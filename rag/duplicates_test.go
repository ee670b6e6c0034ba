package rag

import (
	"testing"

	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestDuplicatesCollapse: a text that several documents have comes once, and says how often, with what any of its documents says is sensitive; it takes no place of
// another. Whoever may not see one of the documents is told nothing of it, and texts that differ in a number both come.
func TestDuplicatesCollapse(t *testing.T) {
	alone(t)
	s := service(t, dbtest.SQLite(t), flat{})
	create(t, s, "acme", "kb")
	for name, labels := range map[string][]string{"a.txt": nil, "b.txt": nil, "c.txt": {"secret"}} {
		d := Document{Tenant: "acme", Collection: "kb", Name: name, Labels: labels, Body: []byte("The fee for Wang Wu\nis 10.5 yuan.")}
		if name == "b.txt" {
			d.Body, d.Known = []byte("The fee for Wang Wu is 10.5  yuan."), []Known{{Class: "name", Value: "Wang Wu"}}
		}
		if _, err := s.Ingest(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	ingest(t, s, "kb", "d.txt", "The fee for Wang Wu is 105 yuan.")
	for labels, want := range map[string]int{"": 1, "secret": 2} {
		got := find(t, s, "kb", "fee for Wang Wu 10.5", labels)
		if len(got) != 2 || got[0].Duplicates != want || got[1].Duplicates != 0 || got[1].Document != "d.txt" {
			t.Errorf("with label %q: %+v", labels, got)
			continue
		}
		if len(got[0].Known) != 1 {
			t.Errorf("with label %q: %d values are known", labels, len(got[0].Known))
		}
	}
	two, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "fee for Wang Wu 10.5", TopK: 2})
	if err != nil || len(two) != 2 {
		t.Errorf("the best two are %+v, %v", two, err)
	}
}
