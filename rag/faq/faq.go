// Package faq is a leaf: it says how likely a question asks the same as an entry of questions with their answer.
//
// Questions are held against questions by their words (terms of rag/lexical): what both have, the longest run of letters that both have, and what speaks against it
// although nearly all words are the same: another number, a denial that only one has, and another kind of question (where, when, how much, who, why). The weights and
// the scale that makes a probability of them were learned on questions made by hand (testdata/README.md). A paraphrase that shares no word with the entry is not
// recognised: it may be added as a similar question.
//
// A question that is nearer to a negative question of an entry than to each of its questions does not ask the entry, whatever its probability is.
package faq

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/rag/lexical"
)

// Entry is a question that people ask, how else they ask it, what looks alike and asks something else, and the answer.
type Entry struct {
	Question string   `json:"question"`
	Similar  []string `json:"similar,omitempty"`
	Negative []string `json:"negative,omitempty"`
	Answer   string   `json:"answer"`
}

// Asked returns the question of the entry and those that are similar.
func (e Entry) Asked() []string { return append([]string{e.Question}, e.Similar...) }

// Key is equal for questions that are written alike; "" for one without letters and digits.
func Key(question string) string { return lexical.Fold(question) }

// Match says how a question matches an entry.
type Match struct {
	Score  float64 // how likely it asks the entry, 0…1; 1 if it is one of its questions, written in whichever way
	Vetoed bool    // it is as near to a negative question: it does not ask the entry
}

// maxForms is how many wordings of a question are compared, the first ones.
const maxForms = 4

// Matcher compares one question, in its wordings, with entries.
type Matcher struct {
	model *Model
	forms []text
}

// Matcher returns what compares a question that has other wordings. The first four count, and none of more than 500 characters: it says more than an entry asks.
func (m *Model) Matcher(forms []string) Matcher {
	out := Matcher{model: m}
	for _, f := range forms[:min(maxForms, len(forms))] {
		if utf8.RuneCountInString(f) <= maxRunes {
			out.forms = append(out.forms, read(f))
		}
	}
	return out
}

// Match compares the question with an entry.
func (m Matcher) Match(e Entry) Match {
	asks, denied := math.Inf(-1), math.Inf(-1)
	for _, q := range e.Asked() {
		asks = max(asks, m.nearest(q))
	}
	for _, q := range e.Negative {
		denied = max(denied, m.nearest(q))
	}
	return Match{Score: m.model.probability(asks), Vetoed: len(e.Negative) > 0 && denied >= asks}
}

// nearest is how near the nearest wording is to a question: infinite if they are the same.
func (m Matcher) nearest(question string) float64 {
	q, best := read(question), math.Inf(-1)
	for _, f := range m.forms {
		if f.folded != "" && f.folded == q.folded {
			return math.Inf(1)
		}
		best = max(best, m.model.sum(compare(f, q)))
	}
	return best
}

// The features of two questions, in the order of the weights: each 0…1, those that speak against it -1…0.
const (
	featureShared   = iota // what both have, as a share of what both have together
	featureLess            // the same, of the one of which less is shared
	featureRun             // the longest run of letters that both have, as a share of the longer one
	featureKind            // -1: one asks where and the other when; -0.5: only one says
	featureDenial          // -1: only one denies
	featureNumbers         // -1: they have other numbers
	featureSubjects        // 1: neither has a word with meaning that the other lacks
	features
)

func names() [features]string {
	return [features]string{"shared", "less", "run", "kind", "denial", "numbers", "subjects"}
}

// Features are what is known about two questions.
type Features [features]float64

// text is a question as it is compared.
type text struct {
	folded  string
	letters []rune
	terms   map[string]float64 // by what they are worth
	worth   float64            // of all
	numbers map[string]bool
	kinds   map[string]bool
	denies  bool
}

// maxRunes is how long a question may be that is compared, in characters; of an entry that much is read.
const maxRunes = 500

func read(s string) text {
	if r := []rune(s); len(r) > maxRunes {
		s = string(r[:maxRunes])
	}
	t := text{folded: lexical.Fold(s), terms: map[string]float64{}, numbers: map[string]bool{}, kinds: map[string]bool{}}
	t.letters = []rune(t.folded)
	lexical.EachTerm(s, func(b []byte) {
		term := string(b)
		if _, seen := t.terms[term]; seen {
			return
		}
		if strings.ContainsFunc(term, unicode.IsDigit) {
			t.numbers[term] = true
		}
		t.terms[term] = weight(term)
		t.worth += t.terms[term]
	})
	plain := strings.ToLower(s)
	for _, k := range kinds() {
		if slices.ContainsFunc(k.words, func(w string) bool { return t.says(plain, w) }) {
			t.kinds[k.name] = true
		}
	}
	asks := t.folded
	for _, w := range []string{"能不能", "可不可以", "是不是", "要不要", "会不会", "有没有", "需不需要", "用不用", "不好意思", "对不起"} { // which ask, and deny nothing
		asks = strings.ReplaceAll(asks, w, "")
	}
	t.denies = strings.ContainsAny(asks, "不没未无别勿") || slices.ContainsFunc([]string{"not", "no", "never", "without", "cannot"}, func(w string) bool { return t.says(plain, w) }) || strings.Contains(plain, "n't") || strings.Contains(plain, "n’t")
	return t
}

// says reports whether a question has a word: letters as whole words, Chinese characters wherever they stand.
func (t text) says(plain, word string) bool {
	if word[0] >= 0x80 {
		return strings.Contains(t.folded, word)
	}
	for at := 0; ; {
		i := strings.Index(plain[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		if (from == 0 || !letter(plain[from-1])) && (to == len(plain) || !letter(plain[to])) {
			return true
		}
		at = to
	}
}

func letter(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b >= 0x80 || b == '\''
}

// kind is what a question asks for, by words of which it has one.
type kind struct {
	name  string
	words []string
}

func kinds() []kind {
	return []kind{
		{"where", []string{"where", "address", "location", "哪里", "哪儿", "何处", "地址", "在哪", "什么地方", "去哪"}},
		{"when", []string{"when", "what time", "hours", "date", "什么时候", "何时", "几点", "几号", "哪天", "营业时间", "上班时间"}},
		{"long", []string{"how long", "how many days", "how soon", "多久", "多长时间", "几天", "多少天", "几个工作日"}},
		{"cost", []string{"how much", "cost", "costs", "price", "fee", "fees", "charge", "多少钱", "费用", "收费", "价格", "要钱", "免费"}},
		{"who", []string{"who", "whom", "which office", "谁", "哪个部门", "什么人", "哪些人"}},
		{"why", []string{"why", "reason", "为什么", "为何", "原因"}},
	}
}

// weight is what a term is worth: little if it says nothing of what is asked for.
func weight(term string) float64 {
	const functionHan = "的了吗呢么请问我你您他她它们想要怎样如何什哪里儿有是在可以能吧啊呀和与及就都该需才这那个到去给让被把从会得着过做下上一办"
	r := []rune(term)
	meaning := 0
	for _, c := range r {
		if !strings.ContainsRune(functionHan, c) {
			meaning++
		}
	}
	switch {
	case r[0] < 0x1100 && function(term):
		return 0.1
	case r[0] < 0x1100:
		return 1.5
	case len(r) == 1 && meaning == 0, len(r) > 1 && meaning == 0:
		return 0.1
	case len(r) == 1:
		return 0.5
	case meaning == 1:
		return 0.4
	default:
		return 1
	}
}

// function reports whether an English stem says nothing of what is asked for.
func function(stem string) bool {
	switch stem {
	case "a", "an", "the", "i", "me", "my", "you", "your", "we", "our", "it", "it's", "is", "are", "am", "be", "was", "do", "doe", "does", "did", "can", "could", "would", "will", "should", "may", "must", "have", "has", "had",
		"to", "of", "for", "in", "on", "at", "by", "with", "from", "and", "or", "if", "how", "what", "which", "where", "when", "who", "why", "there", "this", "that", "get", "need", "want", "pleas", "tell", "know", "like", "s", "i'm", "id", "so", "as", "hi", "hello", "much", "mani", "about", "go", "make", "use":
		return true
	}
	return false
}

func compare(a, b text) Features {
	var f Features
	shared := 0.0
	for term, w := range a.terms {
		if _, ok := b.terms[term]; ok {
			shared += w
		}
	}
	if a.worth > 0 && b.worth > 0 {
		f[featureShared] = 2 * shared / (a.worth + b.worth)
		f[featureLess] = shared / max(a.worth, b.worth)
	}
	if n := max(len(a.letters), len(b.letters)); n > 0 {
		f[featureRun] = float64(longestRun(a.letters, b.letters)) / float64(n)
	}
	switch same := overlap(a.kinds, b.kinds); {
	case len(a.kinds) == 0 && len(b.kinds) == 0, same:
	case len(a.kinds) == 0, len(b.kinds) == 0:
		f[featureKind] = -0.5
	default:
		f[featureKind] = -1
	}
	if a.denies != b.denies {
		f[featureDenial] = -1
	}
	if !equal(a.numbers, b.numbers) {
		f[featureNumbers] = -1
	}
	if shared > 0 && !lacks(a, b) && !lacks(b, a) {
		f[featureSubjects] = 1
	}
	return f
}

// lacks reports whether a question has a term with meaning that the other lacks.
func lacks(a, b text) bool {
	for term, w := range a.terms {
		if _, ok := b.terms[term]; !ok && w >= 0.5 {
			return true
		}
	}
	return false
}

func overlap(a, b map[string]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

func equal(a, b map[string]bool) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

// longestRun returns the length of the longest run that two texts have.
func longestRun(a, b []rune) (longest int) {
	before := make([]int, len(b)+1)
	for _, x := range a {
		last := 0
		for j, y := range b {
			was := before[j+1]
			if before[j+1] = 0; x == y {
				before[j+1] = last + 1
				longest = max(longest, last+1)
			}
			last = was
		}
	}
	return longest
}

// Model is what the features are worth. It is immutable.
type Model struct {
	weights            Features
	bias, scale, shift float64
}

func (m *Model) sum(f Features) float64 {
	sum := m.bias
	for i, w := range m.weights {
		sum += w * f[i]
	}
	return sum
}

func (m *Model) probability(sum float64) float64 {
	if math.IsInf(sum, 1) {
		return 1
	}
	return 1 / (1 + math.Exp(-(m.scale*sum + m.shift)))
}

//go:embed learned.json
var learned []byte

// file is learned.json.
type file struct {
	Weights map[string]float64 `json:"weights"`
	Bias    float64            `json:"bias"`
	Scale   float64            `json:"scale"`
	Shift   float64            `json:"shift"`
	From    string             `json:"from"` // what it was learned from, and how
}

// Learned returns the model that comes with the product.
func Learned() (*Model, error) {
	in, err := strictjson.Decode[file](learned)
	if err != nil {
		return nil, fmt.Errorf("read weights: %w", err)
	}
	m := &Model{bias: in.Bias, scale: in.Scale, shift: in.Shift}
	for i, name := range names() {
		w, ok := in.Weights[name]
		if !ok || len(in.Weights) != len(m.weights) || !(w >= 0 && w <= 1e6) { // more that both have never counts against it
			return nil, fmt.Errorf("read weights: not one for each feature, or none for %s", name)
		}
		m.weights[i] = w
	}
	for _, v := range []float64{m.bias, m.scale, m.shift} {
		if math.IsNaN(v) || math.IsInf(v, 0) || m.scale <= 0 {
			return nil, errors.New("read weights: a number is not finite, or the scale not positive")
		}
	}
	return m, nil
}
