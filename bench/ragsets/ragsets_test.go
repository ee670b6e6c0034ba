package ragsets_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/bench/ragsets"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", "corpus.jsonl"), "{\"_id\":\"p\",\"title\":\"T\",\"text\":\"one\"}\n{\"_id\":\"q1\",\"text\":\"two\"}\n")
	write(t, filepath.Join(dir, "a", "queries.jsonl"), "{\"_id\":\"q1\",\"text\":\"ask\"}\n{\"_id\":\"q2\",\"text\":\"unjudged\"}\n")
	write(t, filepath.Join(dir, "a", "qrels", "test.tsv"), "query-id\tcorpus-id\tscore\nq1\tp\t2\nq1\tgone\t1\nq2\tp\t0\n")
	write(t, filepath.Join(dir, "b", "x.json"), `{"data":[{"paragraphs":[{"id":"1","context":"one","qas":[{"question":"?"},{"question":"!"}]},{"id":"2","context":"one","qas":[{"question":"again"}]}]}]}`)
	sets, err := ragsets.Load(dir)
	if err != nil || len(sets) != 2 {
		t.Fatalf("%+v, %v", sets, err)
	}
	if a := sets[0]; len(a.Passages) != 2 || len(a.Questions) != 1 || len(a.Questions[0].Grades) != 1 || a.Questions[0].Grades[0] != 2 || a.Questions[0].Self != 1 {
		t.Errorf("%+v", a)
	}
	if b := sets[1]; len(b.Passages) != 1 || len(b.Questions) != 3 || b.Questions[2].Grades[0] != 1 {
		t.Errorf("%+v", b)
	}
	if _, err := ragsets.LoadSet(t.TempDir()); err == nil {
		t.Error("an empty folder is a set")
	}
}

// TestMeasure compares with values worked out by hand.
func TestMeasure(t *testing.T) {
	t.Parallel()
	q := []ragsets.Question{{Grades: map[int]float64{1: 1, 2: 2}, Self: 9}}
	got := ragsets.Measure(q, func(int) []int { return []int{9, 5, 1, 2} })
	want := (1/math.Log2(3) + 2/math.Log2(4)) / (2 + 1/math.Log2(3))
	if math.Abs(got.NDCG-want) > 1e-12 || got.MRR != 0.5 || got.Recall != 1 {
		t.Errorf("%+v, want nDCG %v", got, want)
	}
}
