package rag

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/lexical"
)

// squads names files in the format of SQuAD, with commas between, such as cmrc2018_trial.json of CMRC 2018 and xquad.zh.json: see bench/README.md. They
// are not shipped.
const squads = "SLUICE_TEST_SQUADS"

// TestQuestionsOfPublicSets asks real questions of each file with the default embedder, as the service does: vectors alone find most passages, and fused
// with BM25 no fewer than BM25 does alone, but for half a point. The pool is that of one file, so figures of others are others.
func TestQuestionsOfPublicSets(t *testing.T) {
	if os.Getenv(squads) == "" || os.Getenv("SLUICE_TEST_LONG") != "1" {
		t.Skipf("set SLUICE_TEST_LONG=1, and %s to files in the format of SQuAD", squads)
	}
	for path := range strings.SplitSeq(os.Getenv(squads), ",") {
		t.Run(filepath.Base(path), func(t *testing.T) { askSet(t, path) })
	}
}

func askSet(t *testing.T, path string) {
	s := service(t, dbtest.SQLite(t), e5(t))
	s.cfg.ChunkSize = 4096 // one passage each
	create(t, s, "acme", "set")
	type asked struct{ text, document string }
	var questions []asked
	seen := map[string]string{}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Data []struct {
			Paragraphs []struct {
				Context string
				QAs     []struct{ Question string }
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Data {
		for _, p := range d.Paragraphs {
			name, ok := seen[p.Context]
			if !ok {
				name = fmt.Sprintf("%d.txt", len(seen))
				seen[p.Context] = name
				ingest(t, s, "set", name, p.Context)
			}
			for _, q := range p.QAs {
				questions = append(questions, asked{q.Question, name})
			}
		}
	}
	ci, err := s.collection("acme", "set")
	if err != nil {
		t.Fatal(err)
	}
	everything, err := ci.allowed(viewer{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	named := func(ids []uint32) (names []string) {
		texts, err := everything.passages.Passages(ids)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range texts {
			d, err := readDetail(f.Detail)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, d.Name)
		}
		return names
	}
	var words, vectors, fused float64
	reciprocal := func(names []string, want string) float64 {
		if i := slices.Index(names, want); i >= 0 && i < 10 {
			return 1 / float64(i+1)
		}
		return 0
	}
	for _, q := range questions {
		v, err := s.embed(t.Context(), s.from.Embed, []string{q.text}, true)
		if err != nil {
			t.Fatal(err)
		}
		near, err := everything.withVectors.Near(t.Context(), v[0], 10)
		if err != nil {
			t.Fatal(err)
		}
		var ids []uint32
		for _, h := range near {
			ids = append(ids, h.ID)
		}
		vectors += reciprocal(named(ids), q.document)
		ranking, err := lexical.Rank(lexical.Parse(q.text), everything.passages.Words())
		if err != nil {
			t.Fatal(err)
		}
		best, err := ranking.Best(10)
		if err != nil {
			t.Fatal(err)
		}
		ids = nil
		for _, h := range best {
			ids = append(ids, h.ID)
		}
		words += reciprocal(named(ids), q.document)
		found, _, err := ci.search(t.Context(), s.weights, []string{q.text}, v[0], viewer{}, 0, 10, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range found {
			names = append(names, p.Document)
		}
		fused += reciprocal(names, q.document)
	}
	n := float64(len(questions))
	t.Logf("%d passages, %d questions, MRR@10: BM25 %.4f, vectors of %d components %.4f, fused %.4f", len(seen), len(questions), words/n, s.model.Dim, vectors/n, fused/n)
	if vectors/n < 0.8 {
		t.Errorf("vectors alone reach %.4f", vectors/n)
	}
	if fused < words-0.005*n {
		t.Errorf("fused %.4f, BM25 alone %.4f", fused/n, words/n)
	}
}
