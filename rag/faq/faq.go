// Package faq is a leaf: it says how likely a question asks the same as an entry of questions with their answer.
//
// Questions are held against questions by their words (terms of rag/lexical): what both have, and what speaks against it although nearly all words are the same: a denial
// that only one has, and another kind of question (where, when, how much, who, why). The weights and the scale that makes a probability of them were learned on questions
// made by hand (testdata/README.md). Other figures or signs (1.5 and 15, C and C++), what is named on other sides of a word such as "to", and one word where the other has
// its opposite (before, after) make a question at most as likely as not to be the same, whatever else it has. A paraphrase that shares no word with the entry is not
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
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-project/sluice/internal/hanfold"
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

// Key is equal for questions that differ in nothing but case, width, script, blanks and the punctuation of sentences; "" for one without letters and digits. Signs that
// make another question of it stay: those of numbers (1.5, -5, 3%, <10), and behind letters (C++, A-).
func Key(question string) string {
	folds, in, meant := hanfold.Folding(), []rune(norm.NFKC.String(strings.ToValidUTF8(question, " "))), false
	at := func(i int) rune {
		if i < 0 || i >= len(in) {
			return ' '
		}
		return in[i]
	}
	out := make([]rune, 0, len(in))
	blank := false
	for i, r := range in {
		word := unicode.IsLetter(r) || unicode.IsDigit(r)
		switch {
		case word || unicode.Is(unicode.M, r):
			meant = meant || word
		case unicode.Is(unicode.Cf, r):
			continue
		default:
			if r = sign(at(i-1), r, at(i+1)); r == ' ' {
				blank = true
				continue
			}
		}
		if r = folds.Fold(r); blank && len(out) > 0 && r != '%' && !ideograph(r) && !ideograph(out[len(out)-1]) {
			out = append(out, ' ')
		}
		blank = false
		out = append(out, r)
	}
	if !meant {
		return ""
	}
	return string(out)
}

// sign returns what a character between two others is to a question, if it is no letter or digit: a blank if it parts words or sentences.
func sign(before, r, next rune) rune {
	switch r {
	case '’', '‘', '＇':
		r = '\''
	case '–', '−', '‐', '‑':
		r = '-'
	}
	keep := true
	switch {
	case strings.ContainsRune("?!;。、؟،…\"—", r), unicode.IsSpace(r), unicode.IsControl(r), unicode.In(r, unicode.Ps, unicode.Pe, unicode.Pi, unicode.Pf):
		keep = false
	case r == '.':
		keep = unicode.IsLetter(next) || unicode.IsDigit(next)
	case r == ',', r == ':':
		keep = unicode.IsDigit(before) && unicode.IsDigit(next)
	case r == '~':
		keep = unicode.IsDigit(next)
	case r == '\'':
		keep = unicode.IsLetter(before) && unicode.IsLetter(next)
	case r == '-':
		keep = !(unicode.IsLetter(before) && unicode.IsLetter(next)) && (!unicode.IsSpace(before) || unicode.IsLetter(next) || unicode.IsDigit(next))
	}
	if !keep {
		return ' '
	}
	return r
}

func ideograph(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

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

// Matcher returns what compares a question, the first of forms, in its other wordings, of which the next three count. A question of more than 500 characters says more than
// an entry asks: it asks none. Nor do longer wordings count.
func (m *Model) Matcher(forms []string) Matcher {
	out := Matcher{model: m}
	for i, f := range forms[:min(maxForms, len(forms))] {
		switch short := utf8.RuneCountInString(f) <= maxRunes; {
		case short:
			out.forms = append(out.forms, read(f))
		case i == 0:
			return out
		}
	}
	return out
}

// Questions are those of an entry, as they are compared. They are immutable.
type Questions struct{ asked, negative []text }

// Read reads the questions of an entry, which takes far longer than to compare them.
func Read(e Entry) *Questions {
	out := &Questions{}
	for _, q := range e.Asked() {
		out.asked = append(out.asked, read(q))
	}
	for _, q := range e.Negative {
		out.negative = append(out.negative, read(q))
	}
	return out
}

// Match compares the question with those of an entry.
func (m Matcher) Match(e *Questions) Match {
	asks, denied := math.Inf(-1), math.Inf(-1)
	for _, q := range e.asked {
		asks = max(asks, m.nearest(q, true))
	}
	for _, q := range e.negative {
		denied = max(denied, m.nearest(q, false))
	}
	return Match{Score: m.model.probability(asks), Vetoed: len(e.negative) > 0 && denied >= asks}
}

// nearest is how near the nearest wording is to a question: infinite if they are the same. With doubt, another question of the same words is no nearer than one that is as
// likely the same as not.
func (m Matcher) nearest(q text, doubt bool) float64 {
	best := math.Inf(-1)
	for _, f := range m.forms {
		if f.key != "" && f.key == q.key {
			return math.Inf(1)
		}
		sum := m.model.sum(compare(f, q))
		if doubt && other(f, q) {
			sum = min(sum, -m.model.shift/m.model.scale)
		}
		best = max(best, sum)
	}
	return best
}

// The features of two questions, in the order of the weights: each 0…1, those that speak against it -1…0.
const (
	featureShared   = iota // what both have, as a share of what both have together
	featureLess            // the same, of the one of which less is shared
	featureKind            // -1: one asks where and the other when; -0.5: only one says
	featureDenial          // -1: only one denies
	featureNumbers         // -1: they have other figures
	featureSubjects        // 1: neither has a word with meaning that the other lacks
	features
)

func names() [features]string {
	return [features]string{"shared", "less", "kind", "denial", "numbers", "subjects"}
}

// Features are what is known about two questions.
type Features [features]float64

// text is a question as it is compared.
type text struct {
	key     string
	terms   map[string]float64 // by what they are worth
	worth   float64            // of all
	figures []string           // with their signs, in order
	sides   map[string]sides   // of words that something stands on both sides of
	kinds   map[string]bool
	denies  bool
}

// sides are the terms with meaning before and behind a word.
type sides struct{ before, behind map[string]bool }

// maxRunes is how long a question may be that is compared, in characters; of an entry that much is read.
const maxRunes = 500

func read(s string) text {
	if r := []rune(s); len(r) > maxRunes {
		s = string(r[:maxRunes])
	}
	t := text{key: Key(s), terms: map[string]float64{}, kinds: map[string]bool{}, sides: map[string]sides{}}
	lexical.EachTerm(s, func(b []byte) {
		term := string(b)
		if _, seen := t.terms[term]; seen {
			return
		}
		t.terms[term] = weight(term)
		t.worth += t.terms[term]
	})
	t.figures = figures([]rune(t.key))
	for _, word := range []string{"to", "from", "before", "after", "than", "over", "到", "转", "换", "改", "比", "对", "给", "为", "前", "后"} {
		if i := t.find(word); i >= 0 {
			t.sides[word] = sides{subjects(t.key[:i]), subjects(t.key[i+len(word):])}
		}
	}
	for _, k := range kinds() {
		if slices.ContainsFunc(k.words, t.says) {
			t.kinds[k.name] = true
		}
	}
	asks := t.key
	for _, w := range []string{"能不能", "可不可以", "是不是", "要不要", "会不会", "有没有", "需不需要", "用不用", "不好意思", "对不起"} { // which ask, and deny nothing
		asks = strings.ReplaceAll(asks, w, "")
	}
	t.denies = strings.ContainsAny(asks, "不没未无别勿") || slices.ContainsFunc([]string{"not", "no", "never", "without", "cannot"}, t.says) || strings.Contains(t.key, "n't")
	return t
}

// subjects are the terms with meaning of a part of a question.
func subjects(part string) map[string]bool {
	out := map[string]bool{}
	lexical.EachTerm(part, func(b []byte) {
		if term := string(b); weight(term) >= 0.5 {
			out[term] = true
		}
	})
	return out
}

// figures are the numbers and signs of a key, in order. Chinese numerals count where something is counted or numbered.
func figures(key []rune) (out []string) {
	run := func(from int, in func(rune) bool) int {
		for from < len(key) && in(key[from]) {
			from++
		}
		return from
	}
	isNumeral := func(r rune) bool { return strings.ContainsRune(numerals, r) }
	isFigure := func(r rune) bool { return r != ' ' && r != '\'' && !unicode.IsLetter(r) && !unicode.Is(unicode.M, r) }
	for i := 0; i < len(key); {
		end := i + 1
		switch {
		case isNumeral(key[i]):
			end = run(i, isNumeral)
			before, next := ' ', ' '
			if i > 0 {
				before = key[i-1]
			}
			if end < len(key) {
				next = key[end]
			}
			one := end == i+1 && key[i] == '一' // often says "a"
			if strings.ContainsRune("第期周", before) || strings.ContainsRune("号日月年楼层级期条章款项类档科", next) || !one && strings.ContainsRune("天周个次元块岁人时分秒小份张套点倍米公斤吨折成线路环口间门万", next) {
				out = append(out, strconv.Itoa(number(key[i:end])))
			}
		case isFigure(key[i]):
			end = run(i, isFigure)
			if f := string(key[i:end]); strings.ContainsFunc(f, unicode.IsDigit) || strings.ContainsAny(f, "+-#%<>=≤≥≠$€£¥°") {
				out = append(out, f)
			}
		}
		i = end
	}
	return out
}

const numerals = "零〇一二三四五六七八九十百千两"

// number reads a Chinese numeral: by places, or digit by digit.
func number(n []rune) (sum int) {
	digit, places := 0, false
	for _, r := range n {
		scale := map[rune]int{'十': 10, '百': 100, '千': 1000}[r]
		switch {
		case scale > 0:
			sum, digit, places = sum+max(digit, 1)*scale, 0, true
		case r == '两':
			digit = 2
		default:
			value := map[rune]int{'一': 1, '二': 2, '三': 3, '四': 4, '五': 5, '六': 6, '七': 7, '八': 8, '九': 9}[r]
			if !places {
				value += 10 * min(digit, 1e6)
			}
			digit = value
		}
	}
	return sum + digit
}

// says reports whether a question has a word: letters as whole words, Chinese characters wherever they stand.
func (t text) says(word string) bool { return t.find(word) >= 0 }

// find returns where a word first stands in the key; -1 for nowhere.
func (t text) find(word string) int {
	for at := 0; ; {
		i := strings.Index(t.key[at:], word)
		if i < 0 {
			return -1
		}
		from, to := at+i, at+i+len(word)
		if word[0] >= 0x80 || (from == 0 || !letter(t.key[from-1])) && (to == len(t.key) || !letter(t.key[to])) {
			return from
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
	if !slices.Equal(a.figures, b.figures) {
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

// other reports whether two questions ask something else even if they have the same words.
func other(a, b text) bool {
	if !slices.Equal(a.figures, b.figures) {
		return true
	}
	for _, pair := range [][2]string{{"before", "after"}, {"前", "后"}} {
		one, two := [2]bool{a.says(pair[0]), a.says(pair[1])}, [2]bool{b.says(pair[0]), b.says(pair[1])}
		if one[0] != one[1] && one[0] == two[1] && one[1] == two[0] {
			return true
		}
	}
	for word, s := range a.sides {
		if t, ok := b.sides[word]; ok && moved(s.before, t.before, t.behind) && moved(s.behind, t.behind, t.before) {
			return true
		}
	}
	return false
}

// moved reports whether one of some terms stands there, and not here.
func moved(terms, here, there map[string]bool) bool {
	for t := range terms {
		if there[t] && !here[t] {
			return true
		}
	}
	return false
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
