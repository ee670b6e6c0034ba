// Command ragquality measures how well passages are found, on public sets: by BM25, by vectors, by both fused, and after ordering by features.
//
//	go run ./bench/ragquality -sets DIR                          BM25 alone
//	go run ./bench/ragquality -sets DIR -models NAME=PATH,...    with vectors of these models
//	go run ./bench/ragquality -sets DIR -models ... -learn FILE  learns the weights again and writes them
//
// Every folder of DIR is a set, see ragsets.Load. The weights are cross-validated: "five folds" has each question ordered by weights that
// were learned without it and a fifth of the others, "other sets" by weights that never saw its set in any language or model.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/bench/ragsets"
	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
)

const (
	listed = 200 // candidates of each search
	kept   = 100 // after fusion
	learnt = 30  // candidates of each question to learn from, and the answers
	folds  = 5
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ragquality:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var (
		dir    = flag.String("sets", "", "folder of sets")
		only   = flag.String("only", "", "names of sets, with commas; empty: all")
		models = flag.String("models", "", "embedders as NAME=PATH, with commas")
		sample = flag.Int("questions", 0, "how many questions of each set to use with vectors; 0: all")
		cache  = flag.String("vectors", os.TempDir(), "folder where vectors are kept for the next run")
		weigh  = flag.Float64("penalty", 0.003, "how much weights that differ from what is expected cost")
		learn  = flag.String("learn", "", "file for weights that are learned of all sets")
	)
	flag.Parse()
	sets, err := ragsets.Load(*dir)
	if err != nil {
		return err
	}
	if *only != "" {
		sets = slices.DeleteFunc(sets, func(s ragsets.Set) bool { return !slices.Contains(strings.Split(*only, ","), s.Name) })
	}
	var all []*trial
	for _, set := range sets {
		t, err := newTrial(set)
		if err != nil {
			return fmt.Errorf("%s: %w", set.Name, err)
		}
		q := ragsets.Measure(set.Questions, func(i int) []int { return numbers(t.words[i]) })
		fmt.Printf("%s: %d passages, %d questions: BM25 nDCG@10 %.4f, MRR@10 %.4f, recall@100 %.4f\n", set.Name, len(set.Passages), q.Questions, q.NDCG, q.MRR, q.Recall)
		for _, m := range strings.FieldsFunc(*models, func(r rune) bool { return r == ',' }) {
			name, path, ok := strings.Cut(m, "=")
			if !ok {
				return fmt.Errorf("%s is not NAME=PATH", m)
			}
			v, err := embedSet(ctx, *cache, path, set)
			if err != nil {
				return fmt.Errorf("%s with %s: %w", set.Name, name, err)
			}
			all = append(all, t.with(name, v, *sample))
		}
	}
	if len(all) == 0 {
		return nil
	}
	shipped, err := rank.Learned()
	if err != nil {
		return err
	}
	fmt.Printf("\n| set | embedder | measure | BM25 | vectors | RRF | shipped weights | five folds | other sets |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, t := range all {
		if err := t.report(shipped, all, *weigh); err != nil {
			return err
		}
	}
	if *learn == "" {
		return nil
	}
	m, err := rank.Learn(examples(all, func(*trial, int) bool { return true }), *weigh)
	if err != nil {
		return err
	}
	return write(*learn, m, all)
}

// trial is a set as one embedder sees it.
type trial struct {
	ragsets.Set

	embedder string
	words    [][]lexical.Hit // by question
	rankings []lexical.Ranking
	near     [][]int
	fused    [][]int
	features [][]rank.Features // of the fused
}

// newTrial searches with BM25.
func newTrial(set ragsets.Set) (*trial, error) {
	var b lexical.Builder
	for i, p := range set.Passages {
		if err := b.Add(uint32(i), passageText(p)); err != nil {
			return nil, err
		}
	}
	s, err := lexical.Open(b.Build())
	if err != nil {
		return nil, err
	}
	t := &trial{Set: set}
	for _, q := range set.Questions {
		allowed := s.Docs()
		if q.Self >= 0 {
			allowed = roaring.AndNot(allowed, roaring.BitmapOf(uint32(q.Self)))
		}
		r, err := lexical.Rank(lexical.Parse(q.Text), []lexical.Part{{Segment: s, Allowed: allowed}})
		if err != nil {
			return nil, err
		}
		hits, err := r.Best(listed)
		if err != nil {
			return nil, err
		}
		t.words, t.rankings = append(t.words, hits), append(t.rankings, r)
	}
	return t, nil
}

// with searches the same set with vectors as well, and looks at what both found.
func (t *trial) with(embedder string, v vectors, sample int) *trial {
	out := &trial{Set: t.Set, embedder: embedder}
	out.Questions = nil
	step := 1
	if sample > 0 {
		step = max(1, len(t.Questions)/sample)
	}
	for i := 0; i < len(t.Questions); i += step {
		q := t.Questions[i]
		out.Questions, out.words = append(out.Questions, q), append(out.words, t.words[i])
		cosines := make([]float64, len(t.Passages))
		order := make([]int, 0, len(t.Passages))
		for p := range t.Passages {
			cosines[p] = cosine(v.Questions[i], v.Passages[p])
			if p != q.Self {
				order = append(order, p)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cosines[b], cosines[a]) })
		nearest := order[:min(listed, len(order))]
		words := numbers(t.words[i])
		fused := rank.Fuse(kept, ids(words), ids(nearest))
		bm25, err := t.rankings[i].Scores(fused)
		if err != nil {
			panic(err) // the segment is in memory and was checked
		}
		near := make(map[uint32]float64, len(order))
		for p, c := range cosines {
			near[uint32(p)] = c
		}
		question := rank.NewQuestion(q.Text, t.rankings[i].Terms(), t.words[i], listed, near, cosines[nearest[len(nearest)-1]])
		candidates := make([]rank.Candidate, len(fused))
		for j, p := range fused {
			candidates[j] = rank.Candidate{Heading: t.Passages[p].Title, Text: t.Passages[p].Text, BM25: bm25[j], Cosine: cosines[p]}
		}
		out.near, out.fused = append(out.near, nearest), append(out.fused, numbersOf(fused))
		out.features = append(out.features, rank.FeaturesOf(question, candidates))
	}
	return out
}

// order returns the fused candidates of a question as a model has them.
func (t *trial) order(m rank.Model, i int) []int {
	scores := make(map[int]float64, len(t.fused[i]))
	for j, p := range t.fused[i] {
		scores[p] = m.Score(t.features[i][j])
	}
	out := slices.Clone(t.fused[i])
	slices.SortFunc(out, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	return out
}

// topic is a set's name without what follows the first hyphen: translations of one set share it.
func (t *trial) topic() string {
	name, _, _ := strings.Cut(t.Name, "-")
	return name
}

// report prints a row for each measure.
func (t *trial) report(shipped rank.Model, all []*trial, penalty float64) error {
	without := make([]rank.Model, folds)
	for f := range without {
		var err error
		if without[f], err = rank.Learn(examples(all, func(o *trial, i int) bool { return o.topic() != t.topic() || i%folds != f }), penalty); err != nil {
			return err
		}
	}
	others := examples(all, func(o *trial, _ int) bool { return o.topic() != t.topic() })
	foreign, err := rank.Learn(others, penalty)
	if err != nil {
		return err
	}
	columns := []ragsets.Quality{
		ragsets.Measure(t.Questions, func(i int) []int { return numbers(t.words[i]) }),
		ragsets.Measure(t.Questions, func(i int) []int { return t.near[i] }),
		ragsets.Measure(t.Questions, func(i int) []int { return t.fused[i] }),
		ragsets.Measure(t.Questions, func(i int) []int { return t.order(shipped, i) }),
		ragsets.Measure(t.Questions, func(i int) []int { return t.order(without[i%folds], i) }),
	}
	if len(others) > 0 {
		columns = append(columns, ragsets.Measure(t.Questions, func(i int) []int { return t.order(foreign, i) }))
	}
	for _, m := range []struct {
		name string
		of   func(ragsets.Quality) float64
	}{{"nDCG@10", func(q ragsets.Quality) float64 { return q.NDCG }}, {"MRR@10", func(q ragsets.Quality) float64 { return q.MRR }}} {
		fmt.Printf("| %s | %s | %s |", t.Name, t.embedder, m.name)
		for _, c := range columns {
			fmt.Printf(" %.4f |", m.of(c))
		}
		fmt.Println()
	}
	return nil
}

// examples returns the questions that use takes, to learn from.
func examples(all []*trial, use func(t *trial, question int) bool) (out []rank.Example) {
	for _, t := range all {
		for i, q := range t.Questions {
			if !use(t, i) {
				continue
			}
			var e rank.Example
			for j, p := range t.fused[i] {
				if answers := q.Grades[p] > 0; answers || j < learnt {
					e.Features, e.Answers = append(e.Features, t.features[i][j]), append(e.Answers, answers)
				}
			}
			out = append(out, e)
		}
	}
	return out
}

// write writes weights with where they come from.
func write(file string, m rank.Model, all []*trial) error {
	inner, err := json.Marshal(m)
	if err != nil {
		return err
	}
	out := map[string]any{}
	if err := json.Unmarshal(inner, &out); err != nil {
		return err
	}
	var from []string
	for _, t := range all {
		from = append(from, fmt.Sprintf("%s with %s, %d questions", t.Name, t.embedder, len(t.Questions)))
	}
	out["learned_from"], out["command"] = from, "go run ./bench/ragquality -sets DIR -models NAME=PATH,... -learn rag/rank/weights.json"
	data, err := json.MarshalIndent(out, "", "  ")
	return errors.Join(err, os.WriteFile(file, append(data, '\n'), 0o600))
}

func numbers(hits []lexical.Hit) []int {
	out := make([]int, len(hits))
	for i, h := range hits {
		out[i] = int(h.ID)
	}
	return out
}

func numbersOf(ids []uint32) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}

func ids(numbers []int) []uint32 {
	out := make([]uint32, len(numbers))
	for i, n := range numbers {
		out[i] = uint32(n)
	}
	return out
}
