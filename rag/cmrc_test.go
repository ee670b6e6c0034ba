package rag

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/index"
)

// cmrc names files of CMRC 2018 in the format of SQuAD, with commas between: `squad-style-data/` of ymcui/cmrc2018, CC BY-SA 4.0. They are not
// shipped.
const cmrc = "SLUICE_TEST_CMRC"

// TestCMRC asks real Chinese questions with the default embedder: vectors alone find most passages, and fused with BM25 no fewer than BM25 does
// alone, but for half a point. The pool is that of the files named, so figures of other files are others.
func TestCMRC(t *testing.T) {
	if os.Getenv(cmrc) == "" || os.Getenv("SLUICE_TEST_LONG") != "1" {
		t.Skipf("set SLUICE_TEST_LONG=1, and %s to files of CMRC 2018", cmrc)
	}
	s := service(t, dbtest.SQLite(t), e5(t))
	s.cfg.ChunkSize = 4096 // one passage each
	create(t, s, "acme", "cmrc")
	type asked struct{ text, document string }
	var questions []asked
	seen := map[string]string{}
	for path := range strings.SplitSeq(os.Getenv(cmrc), ",") {
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
					ingest(t, s, "cmrc", name, p.Context)
				}
				for _, q := range p.QAs {
					questions = append(questions, asked{q.Question, name})
				}
			}
		}
	}
	ci, err := s.collection("acme", "cmrc")
	if err != nil {
		t.Fatal(err)
	}
	everything := roaring.New()
	everything.AddRange(0, uint64(len(ci.chunks)))
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
		near, err := ci.vectors.Search(t.Context(), index.Query{Vector: v[0], Allowed: everything, TopK: 10})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, h := range near {
			names = append(names, ci.chunks[h.ID].document.Name)
		}
		vectors += reciprocal(names, q.document)
		names = nil
		for _, h := range ci.keywords.Rank(q.text, everything).Best(10) {
			names = append(names, ci.chunks[h.ID].document.Name)
		}
		words += reciprocal(names, q.document)
		found, err := ci.search(t.Context(), q.text, v[0], nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		names = nil
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
