package rag

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// flat embeds all texts alike, so that words alone decide.
type flat struct{}

func (flat) Model() Model { return Model{ID: "flat", Dim: 4} }

func (flat) Embed(_ context.Context, texts []string, _ bool) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i := range out {
		out[i] = []float32{1, 0, 0, 0}
	}
	return out, nil
}

func putTerm(t *testing.T, s *library, collection, term string, synonyms ...string) {
	t.Helper()
	if err := s.PutGlossary(t.Context(), "acme", collection, []GlossaryTerm{{Term: term, Synonyms: synonyms}}); err != nil {
		t.Fatal(err)
	}
}

// TestSynonymsFindWhatTermsFind: whichever name of a term a question has, in whichever script, it finds the same passages in the same order; without the term, or in
// another collection, it does not. What a reader may not see is not found by any name, and changes no score.
func TestSynonymsFindWhatTermsFind(t *testing.T) {
	alone(t)
	s := service(t, dbtest.SQLite(t), flat{})
	for _, c := range []string{"kb", "other"} {
		create(t, s, "acme", c)
		ingest(t, s, c, "a.txt", "住房公积金的提取需要身份证。")
		ingest(t, s, c, "b.txt", "The housing fund pays for homes.")
		ingest(t, s, c, "c.txt", "居住证每年签注一次。")
		ingest(t, s, c, "d.txt", "公交卡在地铁站办理。")
	}
	before, other := find(t, s, "kb", "HPF"), find(t, s, "other", "HPF")
	putTerm(t, s, "kb", "住房公积金", "HPF", "housing fund", "安居金")
	names := []string{"住房公积金", "住房公積金", "HPF", "hpf", "housing fund", "Housing Funds", "安居金"}
	want := find(t, s, "kb", names[0]+"怎么提取")
	if len(want) < 2 || want[0].Document != "a.txt" || want[1].Document != "b.txt" {
		t.Fatalf("the term finds %+v", want)
	}
	for _, name := range names {
		trace := Trace{}
		got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: name + "怎么提取", TopK: 50, Trace: &trace})
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s finds %d, %v", name, len(got), err)
		}
		for i := range got {
			if got[i].Document != want[i].Document || got[i].Score != want[i].Score {
				t.Errorf("%s: passage %d is %s with %g, want %s with %g", name, i, got[i].Document, got[i].Score, want[i].Document, want[i].Score)
			}
		}
		if len(trace.Expanded) != 1 || trace.Expanded[0].Term != "住房公积金" || len(trace.Expanded[0].Added) != 3 {
			t.Errorf("%s: the trace says %+v", name, trace.Expanded)
		}
	}
	// Another collection is as before.
	for i, p := range find(t, s, "other", "HPF") {
		if p.Score != other[i].Score || p.Document != other[i].Document {
			t.Errorf("a glossary of another collection changes passage %d", i)
		}
	}
	// A hidden document is not found by any name, and its words count for nothing.
	open := find(t, s, "kb", "HPF")
	ingest(t, s, "kb", "hidden.txt", "安居金 housing fund HPF 住房公积金", "secret")
	for i, p := range find(t, s, "kb", "HPF") {
		if p.Document == "hidden.txt" || p.Score != open[i].Score {
			t.Errorf("passage %d is %s with %g, want %g", i, p.Document, p.Score, open[i].Score)
		}
	}
	// Without the term nothing is left of it.
	terms, err := s.Glossary(t.Context(), "acme", "kb")
	if err != nil || len(terms) != 1 {
		t.Fatal(terms, err)
	}
	if err := s.DeleteGlossaryTerm(t.Context(), "acme", "kb", terms[0].ID); err != nil {
		t.Fatal(err)
	}
	trace := Trace{}
	got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "HPF", TopK: 50, Trace: &trace})
	if err != nil || len(trace.Expanded) > 0 {
		t.Errorf("a deleted term expands %v, %v", trace.Expanded, err)
	}
	for i, p := range got {
		if p.Score != before[i].Score || p.Document != before[i].Document {
			t.Errorf("after the deletion passage %d is %s with %g, want %s with %g", i, p.Document, p.Score, before[i].Document, before[i].Score)
		}
	}
	wantCode(t, s.DeleteGlossaryTerm(t.Context(), "acme", "kb", terms[0].ID), fault.CodeNotFound)
}

// TestGlossariesReachReplicas: what one replica changes another goes by as soon as it has followed, and one that starts; no term stands in clear in the tables, and
// deleting the collection deletes it. A term that cannot be read is said to be so, and the others hold.
func TestGlossariesReachReplicas(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := service(t, db, flat{}), service(t, db, flat{})
		create(t, a, "acme", "kb")
		ingest(t, a, "kb", "a.txt", "住房公积金的提取需要身份证。")
		follow(t, b)
		expands := func(s *library, question string) bool {
			t.Helper()
			trace := Trace{}
			if _, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: question, TopK: 5, Trace: &trace}); err != nil {
				t.Fatal(err)
			}
			return len(trace.Expanded) > 0
		}
		putTerm(t, a, "kb", "住房公积金", "安居金")
		ingest(t, b, "kb", "b.txt", "公交卡在地铁站办理。") // a change of its own must not hide the other's
		follow(t, b)
		if !expands(a, "安居金") || !expands(b, "安居金") || !expands(service(t, db, flat{}), "安居金") {
			t.Error("a replica does not know a new term")
		}
		putTerm(t, b, "kb", "住房公積金", "安心金") // the same term
		follow(t, a)
		if expands(a, "安居金") || !expands(a, "安心金") {
			t.Error("a replaced term is not replaced on another replica")
		}
		putTerm(t, b, "kb", "公交卡", "乘车卡")
		var rows []glossaryRow
		if err := db.Find(&rows).Error; err != nil || len(rows) != 2 {
			t.Fatal(rows, err)
		}
		for _, r := range rows {
			if bytes.Contains(r.Sealed, []byte("卡")) || bytes.Contains(r.Sealed, []byte("金")) {
				t.Error("a term stands in clear")
			}
		}
		// Keys are rotated, and terms outlive it.
		ring := keyring.FromBytes(bytes.Repeat([]byte{7}, 32))
		wrapkeytest.Begin(t, db, ring, WrappedGlossaries(ring))()
		if !expands(service(t, db, flat{}), "乘车卡") {
			t.Error("a term is gone after a rotation")
		}
		id := a.termID(rows[0].Collection, "公交卡")
		if err := db.Model(&glossaryRow{}).Where("id = ?", id).Update("sealed", []byte("no ciphertext")).Error; err != nil {
			t.Fatal(err)
		}
		c := service(t, db, flat{})
		if terms, err := c.Glossary(t.Context(), "acme", "kb"); err != nil || len(terms) != 2 || terms[0].Damaged || !terms[1].Damaged {
			t.Errorf("the glossary is %+v, %v", terms, err)
		}
		if expands(c, "乘车卡") || !expands(c, "安心金") {
			t.Error("a damaged term expands, or keeps others from it")
		}
		if err := c.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
			t.Fatal(err)
		}
		if err := db.Find(&rows).Error; err != nil || len(rows) > 0 {
			t.Errorf("%d terms outlive their collection, %v", len(rows), err)
		}
	})
}

// TestGlossaryTermsAreChecked: a term has another name that can be found, and sizes are bounded; what is refused changes nothing.
func TestGlossaryTermsAreChecked(t *testing.T) {
	alone(t)
	s := service(t, dbtest.SQLite(t), flat{})
	create(t, s, "acme", "kb")
	many := make([]string, 16)
	for i := range many {
		many[i] = fmt.Sprintf("name %d", i)
	}
	for name, terms := range map[string][]GlossaryTerm{
		"none": nil, "no synonym": {{Term: "a"}}, "only itself": {{Term: "公积金", Synonyms: []string{"公積金"}}}, "no letters": {{Term: "…", Synonyms: []string{"a"}}},
		"two sentences": {{Term: "a, b", Synonyms: []string{"c"}}}, "too long": {{Term: strings.Repeat("a", 129), Synonyms: []string{"c"}}}, "two lines": {{Term: "a\nb", Synonyms: []string{"c"}}},
		"twice": {{Term: "A", Synonyms: []string{"c"}}, {Term: "a", Synonyms: []string{"d"}}}, "too many": {{Term: "a", Synonyms: many}},
		"too many terms": slices.Repeat([]GlossaryTerm{{Term: "a", Synonyms: []string{"b"}}}, 501),
	} {
		if err := s.PutGlossary(t.Context(), "acme", "kb", terms); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// 1 MiB is reached before 5,000 terms are; the change that would go beyond is refused as a whole.
	stored := 0
	for n := range 5 {
		var terms []GlossaryTerm
		for i := range MaxGlossaryChange {
			term := GlossaryTerm{Term: fmt.Sprintf("term %d of %d", i, n)}
			for j := range 5 {
				term.Synonyms = append(term.Synonyms, fmt.Sprintf("%d %s", j, strings.Repeat("x", 100)))
			}
			terms = append(terms, term)
		}
		if err := s.PutGlossary(t.Context(), "acme", "kb", terms); err == nil {
			stored += len(terms)
		} else if !fault.Is(err, fault.CodeInvalidValue) {
			t.Fatal(err)
		}
	}
	if terms, err := s.Glossary(t.Context(), "acme", "kb"); err != nil || len(terms) != stored || stored == 0 || stored == 2500 {
		t.Errorf("%d of %d terms are there, %v", len(terms), stored, err)
	}
	if err := s.store.db.Where("1 = 1").Delete(&glossaryRow{}).Error; err != nil {
		t.Fatal(err)
	}
	if terms, err := s.Glossary(t.Context(), "acme", "kb"); err != nil || len(terms) > 0 {
		t.Errorf("refused terms are there: %v, %v", terms, err)
	}
	wantCode(t, s.PutGlossary(t.Context(), "acme", "none", nil), fault.CodeCollectionNotFound)
	wantCode(t, s.PutGlossary(t.Context(), "beta", "kb", nil), fault.CodeCollectionNotFound)
}
