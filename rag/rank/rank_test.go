package rank_test

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
)

func TestFuse(t *testing.T) {
	t.Parallel()
	if got := rank.Fuse(3, cmp.Compare[uint32], []uint32{7, 5, 9}, []uint32{5, 8}); !slices.Equal(got, []uint32{5, 7, 8}) {
		t.Errorf("got %v", got)
	}
	if got := rank.Fuse(9, cmp.Compare[uint32], []uint32{4, 2}, []uint32{2, 4}); !slices.Equal(got, []uint32{2, 4}) {
		t.Errorf("equal sums came as %v", got)
	}
	if got := rank.Fuse(3, cmp.Compare[uint32], nil, nil); len(got) != 0 {
		t.Errorf("nothing became %v", got)
	}
}

// TestFuseKeepsTheBest: a list in random order does not crowd out the best of the other.
func TestFuseKeepsTheBest(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 6))
	words, random := make([]uint32, 200), make([]uint32, 200)
	for i := range words {
		words[i], random[i] = uint32(i), uint32(i)
	}
	for range 50 {
		rng.Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
		got := rank.Fuse(50, cmp.Compare[uint32], words, random)
		for _, id := range slices.Concat(words[:12], random[:12]) {
			if !slices.Contains(got, id) || len(got) != 50 {
				t.Fatalf("%d is not among %d: %v", id, len(got), got)
			}
		}
	}
}

func learned(t *testing.T) rank.Model {
	t.Helper()
	m, _, err := rank.Learned()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func scoresOf(m rank.Model, q rank.Question, candidates []rank.Candidate) []float64 {
	var out []float64
	for _, f := range rank.FeaturesOf(q, candidates) {
		out = append(out, m.Score(f))
	}
	return out
}

// TestFlatCosinesChangeNothing: vectors that find everything equally near leave the order to the words.
func TestFlatCosinesChangeNothing(t *testing.T) {
	t.Parallel()
	m, rng := learned(t), rand.New(rand.NewPCG(3, 3))
	terms := []lexical.Term{{Text: "red", Weight: 2}, {Text: "fox", Weight: 3}}
	for _, level := range []float64{0, 0.3, 0.9} {
		candidates, words, cosines := make([]rank.Candidate, 50), make([]lexical.Hit, 50), map[uint32]float64{}
		for i := range candidates {
			candidates[i] = rank.Candidate{Text: "red fox", BM25: 5 - float64(i)/20, Cosine: level + 0.002*rng.Float64(), HasCosine: true}
			words[i] = lexical.Hit{ID: uint32(i), Score: candidates[i].BM25}
			cosines[uint32(i)] = candidates[i].Cosine
		}
		scores := scoresOf(m, rank.NewQuestion("red fox", terms, words, 200, cosines, level), candidates)
		if slices.ContainsFunc(scores, func(s float64) bool { return !(s >= 0 && s <= 1) }) || !slices.IsSortedFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) }) {
			t.Errorf("cosines of about %v changed the order: %v", level, scores)
		}
	}
}

// TestPreparedIsTheSame: a candidate that was read before has the features that it has otherwise.
func TestPreparedIsTheSame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "The fee is 10.5 yuan, 住房公积金 § 12", strings.Repeat("公积金 fee ", 2000), "\xff"} {
		plain := []rank.Candidate{{Heading: "Fees 住房", Text: text, BM25: 1}, {Text: "other"}}
		prepared := slices.Clone(plain)
		for i := range prepared {
			prepared[i].Prepare()
		}
		for _, question := range []string{"公积金 fee 10.5", "fees", ""} {
			q := rank.Question{Text: question}
			for _, term := range lexical.Tokens(question) {
				q.Terms = append(q.Terms, lexical.Term{Text: term, Weight: 1})
			}
			if a, b := rank.FeaturesOf(q, plain), rank.FeaturesOf(q, prepared); !slices.Equal(a, b) {
				t.Errorf("%q: %v, prepared %v", question, a, b)
			}
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

// TestRandomVectorsLeaveTheOrder: vectors that mean nothing do not take the first place from what BM25 clearly finds best, however few passages
// there are, as long as they are spread no wider than those of real embedders in a language that they do not know.
func TestRandomVectorsLeaveTheOrder(t *testing.T) {
	t.Parallel()
	m, rng := learned(t), rand.New(rand.NewPCG(7, 7))
	terms := []lexical.Term{{Text: "fox", Weight: 3}, {Text: "red", Weight: 2}}
	for _, n := range []int{2, 3, 5, 10, 20, 50, 200} {
		for _, spread := range []float64{0.01, 0.1} {
			const rounds = 200
			lost := 0
			for range rounds {
				candidates, words, cosines := make([]rank.Candidate, n), make([]lexical.Hit, n), map[uint32]float64{}
				for i := range candidates {
					bm25 := 4.0
					if i > 0 {
						bm25 = 3 - float64(i)/float64(n)
					}
					cosine := 1 - spread*rng.Float64()
					candidates[i] = rank.Candidate{Text: "red fox", BM25: bm25, Cosine: cosine, HasCosine: true}
					words[i], cosines[uint32(i)] = lexical.Hit{ID: uint32(i), Score: bm25}, cosine
				}
				scores := scoresOf(m, rank.NewQuestion("red fox", terms, words, 1000, cosines, 1-spread), candidates[:min(50, n)])
				if slices.Max(scores) > scores[0] {
					lost++
				}
			}
			if lost > rounds/20 {
				t.Errorf("%d passages, spread %v: the first lost its place %d of %d times", n, spread, lost, rounds)
			}
		}
	}
}

// TestPassagesWithoutVectorsAreNeutral: half the passages have no vector yet. The best of them keeps its place by its words, what the
// vectors say of the others does not change, and with no vectors at all the words decide.
func TestPassagesWithoutVectorsAreNeutral(t *testing.T) {
	t.Parallel()
	m := learned(t)
	terms := []lexical.Term{{Text: "fox", Weight: 3}}
	candidates, words, cosines := make([]rank.Candidate, 40), make([]lexical.Hit, 40), map[uint32]float64{}
	for i := range candidates {
		candidates[i] = rank.Candidate{Text: "fox", BM25: 9 - float64(i)/5}
		words[i] = lexical.Hit{ID: uint32(i), Score: candidates[i].BM25}
		if i%2 == 1 {
			candidates[i].Cosine, candidates[i].HasCosine = 0.95-float64(i)/1000, true
			cosines[uint32(i)] = candidates[i].Cosine
		}
	}
	half := rank.NewQuestion("fox", terms, words, 200, cosines, 0.9)
	scores := scoresOf(m, half, candidates)
	for _, i := range []int{0, 30} { // one of each half of the known ones: neither above all of them nor below
		one := slices.Clone(candidates)
		one[i].Cosine, one[i].HasCosine = 0.95, true
		if high := scoresOf(m, half, one)[i]; high <= scores[i] {
			t.Errorf("passage %d scores %v without a vector, %v with the nearest", i, scores[i], high)
		}
		one[i].Cosine = 0.9
		if low := scoresOf(m, half, one)[i]; low >= scores[i] {
			t.Errorf("passage %d scores %v without a vector, %v with the farthest", i, scores[i], low)
		}
	}
	var seenWords []lexical.Hit
	for i := 1; i < len(words); i += 2 {
		seenWords = append(seenWords, words[i])
	}
	if seen := scoresOf(m, rank.NewQuestion("fox", terms, seenWords, 200, cosines, 0.9), candidates); !slices.Equal(seen, scores) {
		t.Error("what the vectors are trusted depends on passages without one")
	}
	for i := range candidates {
		candidates[i].Cosine, candidates[i].HasCosine = 0, false
	}
	scores = scoresOf(m, rank.NewQuestion("fox", terms, words, 200, nil, 0), candidates)
	if !slices.IsSortedFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) }) {
		t.Errorf("without vectors the words do not decide: %v", scores)
	}
}

// TestWeightsAreWhatTheProgramWrote: weights.json has its sets with licences and digests, embedders, date and command, and is byte for
// byte what Encode writes.
func TestWeightsAreWhatTheProgramWrote(t *testing.T) {
	t.Parallel()
	m, from, err := rank.Learned()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("weights.json")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := rank.Encode(m, from); err != nil || !bytes.Equal(data, want) {
		t.Errorf("%v; weights.json was not written by Encode:\n%s", err, want)
	}
	if from.Command == "" || len(from.Sets) == 0 || len(from.Embedders) == 0 {
		t.Errorf("weights.json does not say where it comes from: %+v", from)
	}
	if _, err := time.Parse(time.DateOnly, from.Date); err != nil {
		t.Error(err)
	}
	for _, s := range from.Sets {
		if s.Name == "" || !strings.HasPrefix(s.Licence, "CC BY") || strings.Contains(s.Licence, "NC") || len(s.SHA256) != 64 || s.Questions == 0 {
			t.Errorf("a set that weights may not be learned from, or that is not told of: %+v", s)
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
		return scoresOf(m, rank.NewQuestion("x", nil, words, 4, cosines, 0.1), []rank.Candidate{{Text: "a", BM25: 5, Cosine: 0.9, HasCosine: true}, {Text: "b", BM25: 3, Cosine: 0.5, HasCosine: true}})
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
	scores := scoresOf(m, q, []rank.Candidate{
		{Text: "Q235B钢", BM25: 3, Cosine: 0.5},
		{Text: "Q345钢", BM25: 1, Cosine: 0.5},
		{Heading: "Q235B钢", Text: "other words", BM25: 3, Cosine: 0.5},
	})
	if scores[0] <= scores[1] || scores[2] <= scores[1] {
		t.Errorf("scores %v", scores)
	}
	for _, s := range append(scores, scoresOf(m, rank.Question{}, []rank.Candidate{{}, {Text: "\xff", Cosine: -1}})...) {
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
	if _, err := rank.Learn(nil, 1); err == nil {
		t.Error("something was learned from nothing")
	}
	if _, err := rank.NewModel(rank.Features{-1}, 0); err == nil {
		t.Error("a negative weight is allowed")
	}
}

// TestLongestRun: the share of a question that a passage has in one piece is what comparing everything with everything finds, up to the
// bytes of a passage that are read.
func TestLongestRun(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	text := func(n int) string {
		var out strings.Builder
		for range n {
			out.WriteRune([]rune("abc钢铁网 ")[rng.IntN(7)])
		}
		return out.String()
	}
	const phrase = 5 // its place among the features
	for range 300 {
		asked, candidates := text(1+rng.IntN(30)), []rank.Candidate{{Text: text(rng.IntN(40))}, {Text: text(rng.IntN(40)), Heading: text(rng.IntN(9))}}
		var terms []lexical.Term
		for _, term := range lexical.Tokens(asked) {
			terms = append(terms, lexical.Term{Text: term, Weight: 1})
		}
		for i, f := range rank.FeaturesOf(rank.Question{Text: asked, Terms: terms}, candidates) {
			folded, longest := []rune(lexical.Fold(asked)), 0
			for from := range folded {
				for to := from + 1; to <= len(folded); to++ {
					if part := string(folded[from:to]); strings.Contains(lexical.Fold(candidates[i].Text), part) || strings.Contains(lexical.Fold(candidates[i].Heading), part) {
						longest = max(longest, to-from)
					}
				}
			}
			want := float64(longest) / float64(max(1, len(folded)))
			if got := f[phrase]; got != want && got != 0 || got == 0 && f[3] > 0 && want != 0 {
				t.Fatalf("%q in %+v: %v, want %v", asked, candidates[i], got, want)
			}
		}
	}
	q := rank.Question{Text: "red", Terms: []lexical.Term{{Text: "red", Weight: 1}}}
	within, beyond := strings.Repeat("钢 ", rank.MaxText/4-1)+"red", strings.Repeat("钢 ", rank.MaxText/4)+"red"
	if f := rank.FeaturesOf(q, []rank.Candidate{{Text: within}, {Text: beyond}}); f[0][phrase] != 1 || f[1] != (rank.Features{}) {
		t.Errorf("at the end of what is read: %v, after it: %v", f[0], f[1])
	}
}

// BenchmarkScores orders 50 passages of the longest text that is read.
func BenchmarkScores(b *testing.B) {
	m, _, err := rank.Learned()
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	candidates := make([]rank.Candidate, 50)
	for i := range candidates {
		var out strings.Builder
		for out.Len() < rank.MaxText {
			out.WriteRune(0x4e00 + rng.Int32N(2000))
		}
		candidates[i] = rank.Candidate{Text: out.String(), BM25: rng.Float64(), Cosine: rng.Float64(), HasCosine: true}
	}
	asked := candidates[0].Text[:90]
	var terms []lexical.Term
	for _, term := range lexical.Tokens(asked) {
		terms = append(terms, lexical.Term{Text: term, Weight: 1})
	}
	for b.Loop() {
		scoresOf(m, rank.Question{Text: asked, Terms: terms}, candidates)
	}
}

// TestEvidence: a passage that has all of what is asked is likelier to answer than one that has little of it; more evidence never makes an answer less likely; and
// nothing found is no evidence.
func TestEvidence(t *testing.T) {
	t.Parallel()
	j, from, err := rank.LearnedJudge()
	if err != nil || len(from.Sets) == 0 || from.Date == "" || from.Command == "" {
		t.Fatalf("%+v, %v", from, err)
	}
	q := rank.Question{Text: "where to renew permit 77", Terms: []lexical.Term{{Text: "77", Weight: 5}, {Text: "permit", Weight: 3}, {Text: "renew", Weight: 4}, {Text: "where", Weight: 1}}}
	probability := func(texts ...string) float64 {
		c := make([]rank.Candidate, len(texts))
		for i, text := range texts {
			c[i] = rank.Candidate{Text: text, BM25: float64(5 - i)}
		}
		return j.Probability(rank.EvidenceOf(q, c, rank.FeaturesOf(q, c), 4))
	}
	all, some, none := probability("Where to renew permit 77: at the desk.", "Bins."), probability("A permit.", "Bins."), probability()
	if !(all > some && some > none && none >= 0 && none < 0.05 && all < 1) {
		t.Errorf("all of it %v, some %v, nothing %v", all, some, none)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		var e rank.Evidence
		for i := range e {
			e[i] = rng.Float64()
		}
		more, i := e, rng.IntN(len(e))
		more[i] += rng.Float64()
		if a, b := j.Probability(e), j.Probability(more); !(a >= 0 && a <= b && b <= 1) {
			t.Fatalf("%v: %v, with more %v", e, a, b)
		}
	}
}

// TestLearnJudge: what the judge says comes true as often as it says, on questions that it has not seen, and one class alone teaches nothing.
func TestLearnJudge(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	draw := func(n int) (out []rank.Judged) {
		for range n {
			var e rank.Evidence
			e[0], e[3] = rng.Float64(), rng.Float64()
			out = append(out, rank.Judged{Evidence: e, Answers: rng.Float64() < 1/(1+math.Exp(5-6*e[0]-4*e[3]))})
		}
		return out
	}
	j, err := rank.LearnJudge(draw(400), draw(400), 0.0001)
	if err != nil {
		t.Fatal(err)
	}
	said, came, miss := 0.0, 0.0, 0.0
	test := draw(4000)
	for _, x := range test {
		p := j.Probability(x.Evidence)
		said += p
		if x.Answers {
			came++
		}
		miss += math.Abs(p - 1/(1+math.Exp(5-6*x.Evidence[0]-4*x.Evidence[3])))
	}
	if math.Abs(said-came) > 0.05*float64(len(test)) || miss > 0.1*float64(len(test)) {
		t.Errorf("said %.0f, came true %.0f, missed by %.3f", said, came, miss/float64(len(test)))
	}
	if _, err := rank.LearnJudge(draw(0), draw(9), 0); err == nil {
		t.Error("nothing teaches something")
	}
	data, err := rank.EncodeJudge(j, rank.Provenance{})
	if err != nil || !bytes.Contains(data, []byte(`"scale"`)) {
		t.Errorf("%s, %v", data, err)
	}
}
