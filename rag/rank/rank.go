// Package rank is a leaf: it merges candidates of several searches and orders them by features of question and passage.
//
// [Fuse] chooses candidates by reciprocal ranks, which needs no scores that can be compared. [Model.Scores] gives each its final score: the
// logistic function of a weighted sum of what is known about the pair. The weights are what bench/ragquality has learned and written:
// weights.json says from which sets and embedders, when and by which command, and bench/README.md how well they do on others.
//
// A cosine says something only if the model understands the language, and whether it does is seen in each answer: then the passages that
// BM25 finds best are nearer than those it finds next ([Agreement]). Vectors count only as far as that is beyond chance. A model that finds
// everything equally near, or near at random, breaks ties and no more; so does any model where BM25 finds too few passages to tell.
// Only where a cosine lies among those of the question counts, so that embedders of any range of cosines are treated alike.
package rank

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/rag/lexical"
)

// fuseK is the constant of reciprocal rank fusion.
const fuseK = 60

// Fuse returns the n ids with the highest sum of reciprocal ranks over the lists, which have the best first; equal sums by id.
func Fuse(n int, lists ...[]uint32) []uint32 {
	sum := map[uint32]float64{}
	for _, l := range lists {
		for i, id := range l {
			sum[id] += 1 / float64(fuseK+i+1)
		}
	}
	ids := slices.Collect(maps.Keys(sum))
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(a, b)) })
	return ids[:min(n, len(ids))]
}

// Question is what was asked.
type Question struct {
	Text  string
	Terms []lexical.Term // with what each is worth among the visible passages

	agreement float64 // see Agreement
	low       float64 // the cosine of a passage that is not near
}

// NewQuestion returns a question with what its answer says about the vectors. Words are the hits of BM25, at most limit of them; cosines
// has theirs, and what it lacks has no vector that can be compared and says nothing; farthest is the lowest cosine among the hits of the
// vectors. What it finds does not depend on the ids of equal hits.
func NewQuestion(text string, terms []lexical.Term, words []lexical.Hit, limit int, cosines map[uint32]float64, farthest float64) Question {
	q := Question{Text: text, Terms: terms, low: farthest}
	if len(words) == limit { // which of the last equals are there depends on their ids
		last := words[len(words)-1].Score
		if first := slices.IndexFunc(words, func(h lexical.Hit) bool { return h.Score == last }); first > 0 {
			words = words[:first]
		}
	}
	var seen []float64
	for i := 0; i < len(words); {
		score := words[i].Score
		var equals []float64
		for ; i < len(words) && words[i].Score == score; i++ {
			if c, ok := cosines[words[i].ID]; ok {
				equals = append(equals, c)
			}
		}
		slices.Sort(equals)
		sum := 0.0
		for _, c := range equals {
			sum += c
		}
		for range equals { // equals count with their mean
			seen = append(seen, sum/float64(len(equals)))
		}
	}
	if len(seen) > 0 {
		q.low = slices.Min(seen)
	}
	q.agreement = Agreement(seen)
	return q
}

// Candidate is a passage that may answer.
type Candidate struct {
	Heading string  // title and section
	Text    string  // without them
	BM25    float64 // of heading and text together
	Cosine  float64
	// HasCosine says that the passage has a vector that can be compared with the question's. One that has none, as while another model's
	// are made again, is taken to be as near as the median of the other candidates: it neither gains nor loses.
	HasCosine bool
}

// leastTrust is how far vectors are trusted if nothing speaks for them: enough to order what is equal otherwise.
const leastTrust = 0.001

// Agreement returns how much the vectors' order may be trusted, 0…1, from the cosines of the passages that BM25 found, best first: how much
// likelier than by chance the best tenth is nearer to the question than another passage, less two standard errors of what chance does. A
// random order of any spread is hardly trusted, and no order of fewer than ten passages is.
func Agreement(cosines []float64) float64 {
	n := len(cosines)
	head := max(1, min(10, n/4))
	if n <= head {
		return leastTrust
	}
	nearer := 0.0
	for _, h := range cosines[:head] {
		for _, o := range cosines[head:] {
			switch {
			case h > o:
				nearer++
			case h == o:
				nearer += 0.5
			}
		}
	}
	pairs := float64(head * (n - head))
	chance := math.Sqrt(float64(n+1) / (12 * pairs)) // the standard error of nearer/pairs in a random order
	return max(leastTrust, 2*(nearer/pairs-2*chance)-1)
}

// The features, in the order of the weights.
const (
	featureBM25     = iota // as a share of the highest
	featureNear            // where the cosine lies between one that is not near and the highest, times the agreement
	featureCoverage        // share of the question's words, by what they are worth, that the passage has
	featureHeading         // the same of its heading
	featurePhrase          // the longest run of the question's letters that the passage has, as a share of the question; 0 if they share no word
	featureExact           // 1 if the passage or its heading has the whole question
	featureNumbers         // share of the question's numbers and codes that the passage lacks, negative
	features
)

// names are those of weights.json.
func names() [features]string {
	return [features]string{"bm25", "near", "coverage", "heading", "phrase", "exact", "numbers"}
}

// Features are what is known about a question and a passage, each 0…1 except the last, which is -1…0.
type Features [features]float64

// maxPhrase bounds how much of a question is sought as a run, in characters.
const maxPhrase = 96

// FeaturesOf returns the features of each candidate.
func FeaturesOf(q Question, candidates []Candidate) []Features {
	out := make([]Features, len(candidates))
	cosines := neutral(candidates)
	best, low, high := 0.0, q.low, math.Inf(-1)
	for i, c := range candidates {
		best, high = max(best, c.BM25), max(high, cosines[i])
	}
	question := []rune(lexical.Fold(q.Text))
	question = question[:min(maxPhrase, len(question))]
	terms, worth, codes := map[string]bool{}, 0.0, map[string]bool{}
	han := strings.ContainsFunc(q.Text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	for _, t := range q.Terms {
		terms[t.Text] = true
		worth += t.Weight
		if code(t.Text, han) {
			codes[t.Text] = true
		}
	}
	share := func(have map[string]bool) float64 {
		sum := 0.0
		for _, t := range q.Terms { // in order: sums of floating-point numbers depend on it
			if have[t.Text] {
				sum += t.Weight
			}
		}
		if worth == 0 {
			return 0
		}
		return sum / worth
	}
	for i, c := range candidates {
		f := &out[i]
		if best > 0 {
			f[featureBM25] = c.BM25 / best
		}
		if high > low {
			f[featureNear] = q.agreement * max(0, cosines[i]-low) / (high - low)
		}
		heading := shared(terms, c.Heading)
		f[featureHeading] = share(heading)
		all := shared(terms, c.Text)
		maps.Copy(all, heading)
		f[featureCoverage] = share(all)
		if len(question) > 0 && len(all) > 0 {
			run := max(longestRun(question, []rune(lexical.Fold(c.Text))), longestRun(question, []rune(lexical.Fold(c.Heading))))
			f[featurePhrase] = float64(run) / float64(len(question))
			if run == len(question) {
				f[featureExact] = 1
			}
		}
		lacks := 0
		for t := range codes {
			if !all[t] {
				lacks++
			}
		}
		if len(codes) > 0 {
			f[featureNumbers] = -float64(lacks) / float64(len(codes))
		}
	}
	return out
}

// neutral returns the cosine of each candidate, the median of the others for those that have none.
func neutral(candidates []Candidate) []float64 {
	var known []float64
	for _, c := range candidates {
		if c.HasCosine {
			known = append(known, c.Cosine)
		}
	}
	slices.Sort(known)
	out := make([]float64, len(candidates))
	for i, c := range candidates {
		switch {
		case c.HasCosine:
			out[i] = c.Cosine
		case len(known) > 0:
			out[i] = known[len(known)/2]
		}
	}
	return out
}

// code reports whether a term is a number, a code such as q235b, or a Latin name in a question that is written in Chinese.
func code(term string, han bool) bool {
	letter := false
	for _, r := range term {
		if unicode.IsDigit(r) {
			return true
		}
		letter = letter || r < 0x250 && unicode.IsLetter(r)
	}
	return han && letter
}

// shared returns which terms of a question a text has.
func shared(terms map[string]bool, text string) map[string]bool {
	have := map[string]bool{}
	for _, t := range lexical.Tokens(text) {
		if terms[t] {
			have[t] = true
		}
	}
	return have
}

// longestRun returns the length of the longest run of a that b has.
func longestRun(a, b []rune) int {
	before, now, longest := make([]int, len(a)+1), make([]int, len(a)+1), 0
	for _, r := range b {
		for i, x := range a {
			now[i+1] = 0
			if x == r {
				now[i+1] = before[i] + 1
				longest = max(longest, now[i+1])
			}
		}
		before, now = now, before
	}
	return longest
}

// Model is what features are worth. It is immutable.
type Model struct {
	weights Features
	bias    float64
}

// NewModel returns a model. Weights are finite and not negative, so that no feature counts against a passage that has more of it.
func NewModel(weights Features, bias float64) (Model, error) {
	for i, w := range weights {
		if !(w >= 0 && w <= 1e6) {
			return Model{}, fmt.Errorf("the weight of %s is %v", names()[i], w)
		}
	}
	if math.IsNaN(bias) || math.IsInf(bias, 0) {
		return Model{}, errors.New("the bias is not finite")
	}
	return Model{weights, bias}, nil
}

//go:embed weights.json
var learned []byte

// Learned returns the model that comes with the product, and where it comes from.
func Learned() (Model, Provenance, error) {
	in, err := strictjson.Decode[file](learned)
	if err != nil {
		return Model{}, Provenance{}, fmt.Errorf("read weights: %w", err)
	}
	var w Features
	for i, name := range names() {
		v, ok := in.Weights[name]
		if !ok || len(in.Weights) != len(w) {
			return Model{}, Provenance{}, fmt.Errorf("read weights: not one for each feature, or none for %s", name)
		}
		w[i] = v
	}
	m, err := NewModel(w, in.Bias)
	return m, in.Provenance, err
}

// Scores returns the score of each candidate, 0…1: higher answers better. Scores can be compared within one question.
func (m Model) Scores(q Question, candidates []Candidate) []float64 {
	out := make([]float64, len(candidates))
	for i, f := range FeaturesOf(q, candidates) {
		out[i] = m.Score(f)
	}
	return out
}

// Score returns the score of a candidate with these features.
func (m Model) Score(f Features) float64 {
	sum := m.bias
	for i, w := range m.weights {
		sum += w * f[i]
	}
	return 1 / (1 + math.Exp(-sum))
}
