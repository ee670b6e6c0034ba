// Package rank is a leaf: it merges candidates of several searches and orders them by features of question and passage.
//
// [Fuse] chooses candidates by reciprocal ranks, which needs no scores that can be compared. [Model.Score] gives each its final score: the
// logistic function of a weighted sum of what is known about the pair. The weights are what bench/ragquality has learned and written:
// weights.json says from which sets and embedders, when and by which command, and bench/README.md how well they do on others.
//
// A cosine says something only if the model understands the language, and whether it does is seen in each answer: then passages that share
// words with the question are nearer than others ([Agreement]). A model that finds everything equally near changes nothing in the order,
// one that finds passages near at random little of it.
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
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/rag/lexical"
)

// fuseK is the constant of reciprocal rank fusion.
const fuseK = 60

// Fuse returns n ids of lists that have the best first: the first of each list, n/2 in all, so that a list that means nothing crowds
// out the best of no other, and of the rest those with the highest sums of reciprocal ranks. They come by that sum, equal ones as order has them.
func Fuse(n int, order func(a, b uint32) int, lists ...[]uint32) []uint32 {
	sum, first := map[uint32]float64{}, map[uint32]bool{}
	for _, l := range lists {
		for i, id := range l {
			sum[id] += 1 / float64(fuseK+i+1)
			if i < n/(2*len(lists)) {
				first[id] = true
			}
		}
	}
	bySum := func(a, b uint32) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), order(a, b)) }
	rest := slices.Collect(maps.Keys(sum))
	rest = slices.DeleteFunc(rest, func(id uint32) bool { return first[id] })
	slices.SortFunc(rest, bySum)
	out := append(slices.Collect(maps.Keys(first)), rest[:min(n-len(first), len(rest))]...)
	slices.SortFunc(out, bySum)
	return out
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

	heading, text *content // of Prepare
}

// Prepare reads the texts of a candidate, so that holding it against several questions reads them once.
func (c *Candidate) Prepare() {
	c.heading, c.text = read(c.Heading), read(start(c.Text, MaxText))
}

// content is what a text has.
type content struct {
	terms  []string // that differ
	folded string
}

func read(text string) *content {
	c := &content{folded: lexical.Fold(text)}
	have := map[string]bool{}
	lexical.EachTerm(text, func(term []byte) {
		if !have[string(term)] {
			have[string(term)] = true
			c.terms = append(c.terms, string(term))
		}
	})
	return c
}

// Agreement returns how much the vectors' order may be trusted, 0…1, from the cosines of the passages that BM25 found, best first. It is
// how much likelier than by chance the best tenth is nearer to the question than another passage. With few passages to tell from, it stays
// near a half.
func Agreement(cosines []float64) float64 {
	n := len(cosines)
	head := max(1, min(10, n/4))
	trust := 0.5
	if n > head {
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
		trust = max(0, 2*nearer/float64(head*(n-head))-1)
	}
	const prior = 10 // passages that say nothing either way
	return (float64(n)*trust + prior*0.5) / (float64(n) + prior)
}

// The features, in the order of the weights.
const (
	featureBM25     = iota // as a share of the highest
	featureNear            // where the cosine lies between one that is not near and the highest, times the agreement
	featureCosine          // the cosine itself, 0 if negative
	featureCoverage        // share of the question's words, by what they are worth, that the passage has
	featureHeading         // the same of its heading
	featurePhrase          // the longest run of the question's letters that the passage has, as a share of the question; 0 if they share no word
	featureExact           // 1 if the passage or its heading has the whole question
	featureNumbers         // share of the question's numbers and codes that the passage lacks, negative
	features
)

// names are those of weights.json.
func names() [features]string {
	return [features]string{"bm25", "near", "cosine", "coverage", "heading", "phrase", "exact", "numbers"}
}

// Features are what is known about a question and a passage, each 0…1 except the last, which is -1…0.
type Features [features]float64

// maxPhrase bounds how much of a question is sought as a run, in characters.
const maxPhrase = 96

// stretch is the difference of cosines up to which all passages are equally near.
const stretch = 0.01

// MaxText is how much of a passage's text its features are taken from, in bytes; BM25 and cosine are of all of it.
const MaxText = 8 << 10

// FeaturesOf returns the features of each candidate. What it costs goes with the text of all candidates, up to [MaxText] of each.
func FeaturesOf(q Question, candidates []Candidate) []Features {
	out := make([]Features, len(candidates))
	cosines := neutral(candidates)
	best, low, high := 0.0, q.low, math.Inf(-1)
	for i, c := range candidates {
		best, high = max(best, c.BM25), max(high, cosines[i])
	}
	asked := newAsked(q)
	heading, all := make([]bool, len(q.Terms)), make([]bool, len(q.Terms))
	for i, c := range candidates {
		f, text := &out[i], start(c.Text, MaxText)
		if best > 0 {
			f[featureBM25] = c.BM25 / best
		}
		f[featureCosine] = max(0, min(1, cosines[i]))
		if high-low >= stretch {
			f[featureNear] = q.agreement * max(0, cosines[i]-low) / (high - low)
		}
		clear(heading)
		asked.mark(heading, c.Heading, c.heading)
		f[featureHeading] = asked.share(heading)
		copy(all, heading)
		asked.mark(all, text, c.text)
		f[featureCoverage] = asked.share(all)
		if n := len(asked.letters); n > 0 && slices.Contains(all, true) {
			run := max(asked.longestRun(folded(text, c.text)), asked.longestRun(folded(c.Heading, c.heading)))
			f[featurePhrase] = float64(run) / float64(n)
			if run == n {
				f[featureExact] = 1
			}
		}
		lacks := 0
		for _, t := range asked.codes {
			if !all[t] {
				lacks++
			}
		}
		if len(asked.codes) > 0 {
			f[featureNumbers] = -float64(lacks) / float64(len(asked.codes))
		}
	}
	return out
}

// start returns the first bytes of a text, whole characters only.
func start(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// asked is a question as passages are held against it.
type asked struct {
	terms   []lexical.Term
	numbers map[string]int // of terms
	worth   float64        // of all terms
	codes   []int          // terms that are codes
	letters []rune         // of the question, at most maxPhrase
	places  map[rune][]int // of letters, from 1
	before  []int          // scratch of longestRun: by place, the run that ends there; 0 between calls
	now     []int
}

func newAsked(q Question) *asked {
	a := &asked{terms: q.Terms, numbers: map[string]int{}, letters: []rune(lexical.Fold(q.Text)), places: map[rune][]int{}}
	a.letters = a.letters[:min(maxPhrase, len(a.letters))]
	for i, r := range a.letters {
		a.places[r] = append(a.places[r], i+1)
	}
	a.before, a.now = make([]int, len(a.letters)+1), make([]int, len(a.letters)+1)
	han := strings.ContainsFunc(q.Text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	for i, t := range q.Terms {
		a.numbers[t.Text] = i
		a.worth += t.Weight
		if code(t.Text, han) {
			a.codes = append(a.codes, i)
		}
	}
	return a
}

// folded returns a text folded, as it was read if it was.
func folded(text string, was *content) string {
	if was != nil {
		return was.folded
	}
	return lexical.Fold(text)
}

// mark notes which terms a text has, as it was read if it was.
func (a *asked) mark(have []bool, text string, was *content) {
	if was != nil {
		for _, term := range was.terms {
			if i, ok := a.numbers[term]; ok {
				have[i] = true
			}
		}
		return
	}
	lexical.EachTerm(text, func(term []byte) {
		if i, ok := a.numbers[string(term)]; ok {
			have[i] = true
		}
	})
}

// share returns what the terms that are there are worth, as a share of all.
func (a *asked) share(have []bool) float64 {
	if a.worth == 0 {
		return 0
	}
	sum := 0.0
	for i, t := range a.terms {
		if have[i] {
			sum += t.Weight
		}
	}
	return sum / a.worth
}

// longestRun returns the length of the longest run of the question's letters that a folded text has.
func (a *asked) longestRun(text string) int {
	longest := 0
	var last []int
	for _, r := range text {
		places := a.places[r]
		for _, i := range places {
			a.now[i] = a.before[i-1] + 1
			longest = max(longest, a.now[i])
		}
		for _, i := range last {
			a.before[i] = 0
		}
		a.before, a.now, last = a.now, a.before, places
	}
	for _, i := range last {
		a.before[i] = 0
	}
	return longest
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

// Score returns the score of a candidate with these features, 0…1: higher answers better. Scores can be compared within one question.
func (m Model) Score(f Features) float64 {
	sum := m.bias
	for i, w := range m.weights {
		sum += w * f[i]
	}
	return 1 / (1 + math.Exp(-sum))
}
