package lexical_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/sluice-project/sluice/internal/testpython"
	"github.com/sluice-project/sluice/rag/lexical"
)

// bm25sScript scores tokens with bm25s, in the form of BM25 that Lucene has: without the constant factor k1 + 1.
const bm25sScript = `
import sys, json, bm25s, numpy
job = json.load(sys.stdin)
model = bm25s.BM25(k1=0.9, b=0.4, method="lucene", dtype="float64")
model.index(job["documents"], show_progress=False)
print(json.dumps([[float(x) for x in model.get_scores(q)] for q in job["queries"]]))
`

// TestScoresEqualBM25S compares every score of random queries with those of another implementation, bm25s.
func TestScoresEqualBM25S(t *testing.T) {
	t.Parallel()
	python := testpython.Python(t, "bm25s", "bm25s")
	rng := rand.New(rand.NewPCG(20, 25))
	var job struct {
		Documents [][]string `json:"documents"`
		Queries   [][]string `json:"queries"`
	}
	docs, ids := map[uint32]string{}, []uint32{}
	for id := range uint32(500) {
		docs[id] = writeText(rng) + "end"
		ids = append(ids, id)
		job.Documents = append(job.Documents, lexical.Tokens(docs[id]))
	}
	known := map[string]bool{}
	for _, d := range job.Documents {
		for _, term := range d {
			known[term] = true
		}
	}
	var queries []string
	for range 40 {
		queries = append(queries, "end "+writeText(rng))
		tokens := []string{}
		for _, term := range lexical.Tokens(queries[len(queries)-1]) {
			if known[term] {
				tokens = append(tokens, term)
			}
		}
		job.Queries = append(job.Queries, tokens)
	}
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", bm25sScript)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bm25s: %v\n%s", err, said.String())
	}
	var want [][]float64
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	s := open(t, build(t, docs))
	for i, q := range queries {
		ranking, err := lexical.Rank(lexical.Parse(q), []lexical.Part{{Segment: s, Allowed: s.Docs()}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ranking.Scores(ids)
		if err != nil {
			t.Fatal(err)
		}
		for id := range got {
			if theirs := want[i][id] * 1.9; math.Abs(got[id]-theirs) > 1e-5*max(1, theirs) {
				t.Fatalf("query %d, document %d: %v, bm25s has %v", i, id, got[id], theirs)
			}
		}
	}
}
