package rank_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
)

func TestFuse(t *testing.T) {
	t.Parallel()
	if got := rank.Fuse(3, []uint32{7, 5, 9}, []uint32{5, 8}); !slices.Equal(got, []uint32{5, 7, 8}) {
		t.Errorf("got %v", got)
	}
	if got := rank.Fuse(9, []uint32{4, 2}, []uint32{2, 4}); !slices.Equal(got, []uint32{2, 4}) {
		t.Errorf("equal sums came as %v", got)
	}
	if got := rank.Fuse(3, nil, nil); len(got) != 0 {
		t.Errorf("nothing became %v", got)
	}
}

func learned(t *testing.T) rank.Model {
	t.Helper()
	m, err := rank.Learned()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFlatCosinesChangeNothing: vectors that find everything equally near leave the order to the words.
func TestFlatCosinesChangeNothing(t *testing.T) {
	t.Parallel()
	m, rng := learned(t), rand.New(rand.NewPCG(3, 3))
	terms := []lexical.Term{{Text: "red", Weight: 2}, {Text: "fox", Weight: 3}}
	for _, level := range []float64{0, 0.3, 0.9} {
		candidates, words, cosines := make([]rank.Candidate, 50), make([]lexical.Hit, 50), map[uint32]float64{}
		for i := range candidates {
			candidates[i] = rank.Candidate{Text: "red fox", BM25: 5 - float64(i)/20, Cosine: level + 0.002*rng.Float64()}
			words[i] = lexical.Hit{ID: uint32(i), Score: candidates[i].BM25}
			cosines[uint32(i)] = candidates[i].Cosine
		}
		scores := m.Scores(rank.NewQuestion("red fox", terms, words, 200, cosines, level), candidates)
		if slices.ContainsFunc(scores, func(s float64) bool { return !(s >= 0 && s <= 1) }) || !slices.IsSortedFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) }) {
			t.Errorf("cosines of about %v changed the order: %v", level, scores)
		}
	}
}

// TestAgreement: vectors that order as the words do are trusted, random ones little.
func TestAgreement(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	good, random := make([]float64, 200), make([]float64, 200)
	for i := range good {
		good[i], random[i] = 0.9-float64(i)/400, rng.Float64()
	}
	if a := rank.Agreement(good); a < 0.95 {
		t.Errorf("the same order is trusted %v", a)
	}
	sum := 0.0
	for range 200 {
		rng.Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
		sum += rank.Agreement(random)
	}
	if sum/200 > 0.15 {
		t.Errorf("a random order is trusted %v", sum/200)
	}
	for _, few := range [][]float64{nil, {0.3}, {0.3, 0.2}} {
		if a := rank.Agreement(few); a < 0.4 || a > 0.6 {
			t.Errorf("%v says %v", few, a)
		}
	}
}

// TestQuestionDoesNotDependOnIDs: equal hits may come in any order, and the last equals of a full list may be any of them.
func TestQuestionDoesNotDependOnIDs(t *testing.T) {
	t.Parallel()
	cosines := map[uint32]float64{0: 0.9, 1: 0.7, 2: 0.2, 3: 0.4, 4: 0.6}
	m := learned(t)
	scores := func(ids ...uint32) []float64 {
		var words []lexical.Hit
		for i, id := range ids {
			words = append(words, lexical.Hit{ID: id, Score: []float64{5, 3, 3, 1}[i]})
		}
		return m.Scores(rank.NewQuestion("x", nil, words, 4, cosines, 0.1), []rank.Candidate{{Text: "a", BM25: 5, Cosine: 0.9}, {Text: "b", BM25: 3, Cosine: 0.5}})
	}
	if a, b := scores(0, 1, 2, 3), scores(0, 2, 1, 4); !slices.Equal(a, b) {
		t.Errorf("%v, with other ids %v", a, b)
	}
}

func TestFeaturesRaiseScores(t *testing.T) {
	t.Parallel()
	m := learned(t)
	terms := []lexical.Term{{Text: "q235b", Weight: 4}, {Text: "钢", Weight: 2}, {Text: "钢", Weight: 2}}[:2]
	q := rank.NewQuestion("Q235B 鋼", terms, nil, 200, nil, 0)
	scores := m.Scores(q, []rank.Candidate{
		{Text: "Q235B钢", BM25: 3, Cosine: 0.5},
		{Text: "Q345钢", BM25: 1, Cosine: 0.5},
		{Heading: "Q235B钢", Text: "other words", BM25: 3, Cosine: 0.5},
	})
	if scores[0] <= scores[1] || scores[2] <= scores[1] {
		t.Errorf("scores %v", scores)
	}
	for _, s := range append(scores, m.Scores(rank.Question{}, []rank.Candidate{{}, {Text: "\xff", Cosine: -1}})...) {
		if !(s >= 0 && s <= 1) {
			t.Errorf("the score %v is not within 0…1", s)
		}
	}
}

// TestLearnFindsWhatMatters: of two features that tell answers apart, one always and one at random, the first gets the weight.
func TestLearnFindsWhatMatters(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 9))
	var examples []rank.Example
	for range 200 {
		e := rank.Example{Features: make([]rank.Features, 5), Answers: make([]bool, 5)}
		answer := rng.IntN(5)
		for i := range e.Features {
			e.Features[i][0], e.Features[i][2] = rng.Float64()/2, rng.Float64()
			if e.Answers[i] = i == answer; e.Answers[i] {
				e.Features[i][0] += 0.5
			}
		}
		examples = append(examples, e)
	}
	m, err := rank.Learn(examples, 1e-4)
	if err != nil {
		t.Fatal(err)
	}
	right, mean := 0, 0.0
	for _, e := range examples {
		best := 0
		for i, f := range e.Features {
			mean += m.Score(f) / 1000
			if m.Score(f) > m.Score(e.Features[best]) {
				best = i
			}
		}
		if e.Answers[best] {
			right++
		}
	}
	if right < 195 || math.Abs(mean-0.2) > 0.01 {
		t.Errorf("%d of 200 first, mean score %v", right, mean)
	}
	if _, err := rank.Learn(nil, 1); err != nil {
		t.Error(err)
	}
	if _, err := rank.NewModel(rank.Features{-1}, 0); err == nil {
		t.Error("a negative weight is allowed")
	}
}
