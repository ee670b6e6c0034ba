// Command ragquality measures how well passages are found, on public sets: by BM25, by vectors, by both fused, and after ordering by features.
//
//	go run ./bench/ragquality -sets DIR                          BM25 alone
//	go run ./bench/ragquality -sets DIR -models NAME=PATH,...    with vectors of these models
//	go run ./bench/ragquality -sets DIR -models ... -learn FILE -learn-from SET,...
//
// Vectors of a model for which the product has a map (rag/reduce) are made shorter by it, as they are in the product.
//
// Every folder of DIR is a set, see ragsets.Load.
//
//	go run ./bench/ragquality -sets DIR -export DIR                         sets for sluice rag eval, a third of the questions without an answer
//	go run ./bench/ragquality -sets DIR -models ... -evidence              whether what is found answers, and the curve of risk by coverage
//	go run ./bench/ragquality -sets DIR -models ... -learn-evidence FILE -learn-from SET,...
//
// The form with -learn learns the weights again and writes them with where they come from. It learns only from sets whose licence lets what was
// learned be shipped (see trainable), and from no set that it reports: the table "learned from" has these in folds of their documents, each
// question ordered by weights that were learned without its document in any language or model; the table "not learned from" has
// the others, ordered by the weights that ship.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/bench/ragsets"
	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
	"github.com/sluice-project/sluice/rag/reduce"
)

const (
	listed = 200 // candidates of each search
	kept   = 50  // after fusion
	folds  = 5
	// penalty is what weights cost that differ from what is expected.
	penalty = 0.003
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
		learn  = flag.String("learn", "", "file for weights that are learned from the sets of -learn-from")
		from   = flag.String("learn-from", "", "names of sets to learn from, with commas")
		judges = flag.Bool("evidence", false, "judge whether what is found answers, each question with and without its passages")
		export = flag.String("export", "", "folder that gets the documents and questions of each set, for sluice rag eval; nothing else is done")
		judged = flag.String("learn-evidence", "", "file for a judge that is learned from the sets of -learn-from; implies -evidence")
	)
	flag.Parse()
	sets, err := ragsets.Load(*dir)
	if err != nil {
		return err
	}
	if *only != "" {
		sets = slices.DeleteFunc(sets, func(s ragsets.Set) bool { return !slices.Contains(strings.Split(*only, ","), s.Name) })
	}
	if *export != "" {
		return exportSets(*export, sets, *sample)
	}
	model, shipped, err := rank.Learned()
	if err != nil {
		return err
	}
	// A set is known by what it holds, not by its name.
	taught := map[string]bool{}
	if *learn == "" && *judged == "" {
		for _, s := range shipped.Sets {
			taught[s.SHA256] = true
		}
	} else {
		for _, name := range strings.Split(*from, ",") {
			i := slices.IndexFunc(sets, func(s ragsets.Set) bool { return s.Name == name })
			if i < 0 {
				return fmt.Errorf("-learn-from: there is no set %q", name)
			}
			if _, ok := trainable()[sets[i].SHA256]; !ok {
				return fmt.Errorf("-learn-from: what is learned from %s may not be shipped, or it is not known (SHA-256 %s)", name, sets[i].SHA256)
			}
			taught[sets[i].SHA256] = true
		}
	}
	var all []*trial
	embedders := map[string]rank.Source{}
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
			sum, err := digest(path)
			if err != nil {
				return err
			}
			embedders[name] = rank.Source{Name: name, SHA256: sum}
			shorter, err := reduce.For("sha256:" + sum)
			if err != nil {
				return err
			}
			if shorter != nil { // as the product stores them
				if v, err = v.shorter(shorter); err != nil {
					return fmt.Errorf("%s with %s: %w", set.Name, name, err)
				}
				embedders[name] = rank.Source{Name: name + "+" + shorter.ID(), SHA256: sum}
			}
			all = append(all, t.with(name, v, *sample))
		}
	}
	var pupils, others []*trial
	for _, t := range all {
		if taught[t.SHA256] {
			pupils = append(pupils, t)
		} else {
			others = append(others, t)
		}
	}
	if *judges || *judged != "" {
		return judge(model, pupils, others, embedders, *judged, fmt.Sprintf("go run ./bench/ragquality -sets DIR -questions %d -models %s -learn-evidence rag/rank/evidence.json -learn-from %s", *sample, withoutPaths(*models), *from))
	}
	if len(pupils) > 0 {
		var without [folds]rank.Model
		for f := range without {
			if without[f], err = rank.Learn(examples(pupils, func(t *trial, i int) bool { return t.fold(i) != f }), penalty); err != nil {
				return err
			}
		}
		table("learned from", "by features, folds", pupils, func(t *trial, i int) []int { return t.order(without[t.fold(i)], i) })
	}
	if *learn != "" {
		if model, err = rank.Learn(examples(pupils, func(*trial, int) bool { return true }), penalty); err != nil {
			return err
		}
		command := fmt.Sprintf("go run ./bench/ragquality -sets DIR -questions %d -models %s -learn rag/rank/weights.json -learn-from %s", *sample, withoutPaths(*models), *from)
		if err := write(*learn, command, model, pupils, embedders); err != nil {
			return err
		}
	}
	if len(others) > 0 {
		table("not learned from", "by features", others, func(t *trial, i int) []int { return t.order(model, i) })
	}
	return nil
}

// withoutPaths returns the models of a command as they are written beside what was learned: paths are of this machine.
func withoutPaths(models string) string {
	var named []string
	for _, m := range strings.Split(models, ",") {
		name, path, _ := strings.Cut(m, "=")
		named = append(named, name+"="+filepath.Base(path))
	}
	return strings.Join(named, ",")
}

// trainable has the sets that weights may be learned from, by the SHA-256 of their files: their licence lets results be shipped, and they are
// no test sets of what is reported. Other sets are measured only.
func trainable() map[string]string {
	const shareAlike = "CC BY-SA 4.0"
	return map[string]string{
		"e4c57d1c9143aaa1c5d265ba5987a65f4e69528d2a98f29d6e75019b10344f29": shareAlike, // XQuAD, English
		"691d0b3359bc6b8faa8de931dfdfe21d50a65861ae348e32a0d1a0190b0c8835": shareAlike, // XQuAD, Chinese
	}
}

// digest returns the SHA-256 of a model: of its file, or of the files of its folder one after the other.
func digest(path string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(name) //nolint:gosec // the folder is the one that the caller names, and nobody else's
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = io.Copy(h, f)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// trial is a set as one embedder sees it.
type trial struct {
	ragsets.Set

	embedder string
	segment  *lexical.Segment
	vectors  vectors
	asked    []int           // by question, its number among those of the set
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
	t := &trial{Set: set, segment: s}
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
	out := &trial{Set: t.Set, embedder: embedder, segment: t.segment, vectors: v}
	out.Questions = nil
	step := 1
	if sample > 0 {
		step = max(1, len(t.Questions)/sample)
	}
	for i := 0; i < len(t.Questions); i += step {
		q := t.Questions[i]
		out.Questions, out.words, out.asked = append(out.Questions, q), append(out.words, t.words[i]), append(out.asked, i)
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
		fused := rank.Fuse(kept, cmp.Compare[uint32], ids(words), ids(nearest))
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
			candidates[j] = rank.Candidate{Heading: t.Passages[p].Title, Text: t.Passages[p].Text, BM25: bm25[j], Cosine: cosines[p], HasCosine: true}
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

// fold returns the fold of a question, which is that of the document that answers it.
func (t *trial) fold(question int) int {
	return t.Passages[slices.Min(slices.Collect(maps.Keys(t.Questions[question].Grades)))].Document % folds
}

// table prints two rows for each trial, the last column ordered by last.
func table(title, column string, trials []*trial, last func(t *trial, i int) []int) {
	fmt.Printf("\n%s:\n\n| set | embedder | questions | measure | BM25 | vectors | RRF | %s |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n", title, column)
	for _, t := range trials {
		columns := []ragsets.Quality{
			ragsets.Measure(t.Questions, func(i int) []int { return numbers(t.words[i]) }),
			ragsets.Measure(t.Questions, func(i int) []int { return t.near[i] }),
			ragsets.Measure(t.Questions, func(i int) []int { return t.fused[i] }),
			ragsets.Measure(t.Questions, func(i int) []int { return last(t, i) }),
		}
		for _, m := range []struct {
			name string
			of   func(ragsets.Quality) float64
		}{{"nDCG@10", func(q ragsets.Quality) float64 { return q.NDCG }}, {"MRR@10", func(q ragsets.Quality) float64 { return q.MRR }}} {
			fmt.Printf("| %s | %s | %d | %s |", t.Name, t.embedder, len(t.Questions), m.name)
			for _, c := range columns {
				fmt.Printf(" %.4f |", m.of(c))
			}
			fmt.Println()
		}
	}
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
				e.Features, e.Answers = append(e.Features, t.features[i][j]), append(e.Answers, q.Grades[p] > 0)
			}
			out = append(out, e)
		}
	}
	return out
}

// write writes weights with where they come from.
func write(file, command string, m rank.Model, pupils []*trial, embedders map[string]rank.Source) error {
	data, err := rank.Encode(m, provenance(command, pupils, embedders))
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func provenance(command string, pupils []*trial, embedders map[string]rank.Source) rank.Provenance {
	from := rank.Provenance{Date: time.Now().UTC().Format(time.DateOnly), Command: command}
	for _, t := range pupils {
		if s := (rank.Source{Name: t.Name, Licence: trainable()[t.SHA256], SHA256: t.SHA256, Questions: len(t.Questions)}); !slices.Contains(from.Sets, s) {
			from.Sets = append(from.Sets, s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(embedders)) {
		from.Embedders = append(from.Embedders, embedders[name])
	}
	return from
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
