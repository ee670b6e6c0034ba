package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/bench/ragsets"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// TestBM25ReachesItsGates holds BM25 to what is published of public sets, or was measured before. They lie in the folder
// SLUICE_TEST_RAG_SETS (bench/README.md says where they are had from): licences keep them out of the repository.
func TestBM25ReachesItsGates(t *testing.T) {
	dir := os.Getenv("SLUICE_TEST_RAG_SETS")
	if dir == "" {
		if testmodel.Required("ragsets") {
			t.Fatal("the sets are required (SLUICE_REQUIRE): name their folder in SLUICE_TEST_RAG_SETS")
		}
		t.Skip("no sets: name their folder in SLUICE_TEST_RAG_SETS (bench/README.md)")
	}
	for _, gate := range []struct {
		set       string
		ndcg, mrr float64
	}{
		{"scifact", 0.669, 0}, {"nfcorpus", 0.312, 0}, {"arguana", 0.387, 0}, {"cmrc", 0, 0.975}, {"xquad-zh", 0, 0.95}, {"xquad-en", 0, 0.95},
	} {
		if _, err := os.Stat(filepath.Join(dir, gate.set)); err != nil {
			t.Logf("%s is not there: %v", gate.set, err)
			continue
		}
		set, err := ragsets.LoadSet(filepath.Join(dir, gate.set))
		if err != nil {
			t.Fatal(err)
		}
		tr, err := newTrial(set)
		if err != nil {
			t.Fatal(err)
		}
		q := ragsets.Measure(set.Questions, func(i int) []int { return numbers(tr.words[i]) })
		t.Logf("%s: %+v", gate.set, q)
		if q.NDCG < gate.ndcg || q.MRR < gate.mrr {
			t.Errorf("%s: nDCG@10 %.4f, want %.3f; MRR@10 %.4f, want %.3f", gate.set, q.NDCG, gate.ndcg, q.MRR, gate.mrr)
		}
	}
}
