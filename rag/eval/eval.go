// Package eval is a leaf: it measures how well a collection answers a set of questions, some of which it cannot answer, and compares two measurements.
//
// A set is a file of lines of JSON: a head that names the set and its version, then one question a line. Who asks the questions, and how, is not its concern: see
// the command sluice rag eval.
package eval

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/rag/lexical"
)

// Head is the first line of a set.
type Head struct {
	Set     string `json:"set"`
	Version string `json:"version"`
	Licence string `json:"licence,omitempty"`
	Source  string `json:"source,omitempty"`
}

// Question is one of a set. It has documents or answers, or neither and is unanswerable.
type Question struct {
	ID           string   `json:"id"`
	Question     string   `json:"question"`
	Documents    []string `json:"documents,omitempty"` // names or ids of documents that answer
	Answers      []string `json:"answers,omitempty"`   // texts, one of which an answer has, and a passage that answers
	Unanswerable bool     `json:"unanswerable,omitempty"`
}

// Set is a set of questions.
type Set struct {
	Head

	SHA256    string
	Questions []Question
}

const (
	maxLine      = 64 << 10
	maxQuestions = 100_000
)

// Read reads a set strictly. An error names the line.
func Read(from io.Reader) (*Set, error) {
	h := sha256.New()
	lines := bufio.NewScanner(io.TeeReader(from, h))
	lines.Buffer(nil, maxLine)
	s := &Set{}
	known := map[string]bool{}
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if s.Set == "" {
			head, err := strictjson.Decode[Head](line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			if head.Set == "" || head.Version == "" {
				return nil, fmt.Errorf("line %d: the head needs set and version", n)
			}
			if strings.ContainsFunc(head.Set+head.Version, func(r rune) bool { return !unicode.IsPrint(r) }) { // they are shown on terminals
				return nil, fmt.Errorf("line %d: set and version have characters that cannot be printed", n)
			}
			s.Head = head
			continue
		}
		q, err := strictjson.Decode[Question](line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch gold := len(q.Documents)+len(q.Answers) > 0; {
		case q.ID == "" || strings.TrimSpace(q.Question) == "":
			return nil, fmt.Errorf("line %d: id and question are needed", n)
		case known[q.ID]:
			return nil, fmt.Errorf("line %d: the id was there before", n)
		case gold == q.Unanswerable:
			return nil, fmt.Errorf("line %d: needs documents or answers, or unanswerable, and not both", n)
		case slices.ContainsFunc(q.Answers, func(a string) bool { return lexical.Fold(a) == "" }) || slices.Contains(q.Documents, ""):
			return nil, fmt.Errorf("line %d: an answer has no letters or digits, or a document no name", n) // every text would have it
		case len(s.Questions) == maxQuestions:
			return nil, fmt.Errorf("line %d: more than %d questions", n, maxQuestions)
		}
		known[q.ID] = true
		s.Questions = append(s.Questions, q)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if len(s.Questions) == 0 {
		return nil, errors.New("the set has no questions")
	}
	s.SHA256 = hex.EncodeToString(h.Sum(nil))
	return s, nil
}

// Passage is one that was found for a question, or cited.
type Passage struct{ Document, DocumentID, Text string }

// Reply is what came of a question.
type Reply struct {
	Passages []Passage     // that a search finds, best first: also of a question that is refused
	Refusal  string        // the reason; "" if it was answered
	Score    float64       // how likely the passages answer
	Answer   *string       // of the model; nil if none was asked
	Took     time.Duration // until all of it was there

	Supported, Unsupported int // sentences of the answer that were checked
}

// Result is how a question came out. It has no texts.
type Result struct {
	ID           string  `json:"id"`
	Unanswerable bool    `json:"unanswerable,omitempty"`
	Rank         int     `json:"rank"` // of the first passage that answers, from 1; 0: none
	NDCG         float64 `json:"ndcg"`
	Refusal      string  `json:"refusal,omitempty"`
	Right        bool    `json:"right"` // answered rightly, or rightly not
	Score        float64 `json:"score"`
	Milliseconds float64 `json:"milliseconds"`
	Supported    int     `json:"supported"`
	Unsupported  int     `json:"unsupported"`
}

// Judge says how a question came out, for which topK passages were asked for. Without an answer of a model, or texts to hold it against, a question counts as
// answered rightly if it was not refused and a passage that was found answers.
func Judge(q Question, r Reply, topK int) Result {
	out := Result{ID: q.ID, Unanswerable: q.Unanswerable, Refusal: r.Refusal, Score: r.Score, Milliseconds: float64(r.Took.Microseconds()) / 1000, Supported: r.Supported, Unsupported: r.Unsupported}
	seen, gain, ideal := map[string]bool{}, 0.0, 0.0
	for i, p := range r.Passages {
		if !q.answeredBy(p) {
			continue
		}
		if out.Rank == 0 {
			out.Rank = i + 1
		}
		if !seen[p.DocumentID] { // another part of the same document is no other answer
			seen[p.DocumentID] = true
			gain += 1 / math.Log2(float64(i)+2)
		}
	}
	for i := range min(max(1, len(q.Documents)), max(1, topK)) { // however few came
		ideal += 1 / math.Log2(float64(i)+2)
	}
	out.NDCG = min(1, gain/ideal)
	switch {
	case q.Unanswerable:
		out.Right = r.Refusal != ""
	case r.Refusal != "":
	case r.Answer != nil && len(q.Answers) > 0:
		out.Right = has(*r.Answer, q.Answers)
	default:
		out.Right = out.Rank > 0
	}
	return out
}

// answeredBy reports whether a passage answers: it is of a document that does, and has one of the texts, as far as the question names them.
func (q Question) answeredBy(p Passage) bool {
	if q.Unanswerable || len(q.Documents) > 0 && !slices.Contains(q.Documents, p.Document) && !slices.Contains(q.Documents, p.DocumentID) {
		return false
	}
	return len(q.Answers) == 0 || has(p.Text, q.Answers)
}

// has reports whether a text has one of the answers, but for case, width, script and punctuation.
func has(text string, answers []string) bool {
	text = lexical.Fold(text)
	return slices.ContainsFunc(answers, func(a string) bool { return strings.Contains(text, lexical.Fold(a)) })
}

// Report is a measurement.
type Report struct {
	Head

	SHA256     string    `json:"sha256"` // of the set
	At         time.Time `json:"at"`
	Collection string    `json:"collection"`
	Model      string    `json:"model,omitempty"` // "": passages were searched for, and no model asked
	TopK       int       `json:"top_k"`
	Incomplete bool      `json:"incomplete,omitempty"` // it was broken off
	Figures    Figures   `json:"figures"`
	Results    []Result  `json:"results"`
}

// Share is how many of how many, with its 95 % interval (Wilson).
type Share struct {
	Count int     `json:"count"`
	Of    int     `json:"of"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// NewShare returns a share; of nothing it is 0, and says so by its interval.
func NewShare(count, of int) Share {
	s := Share{Count: count, Of: of, High: 1}
	if of == 0 {
		return s
	}
	const z = 1.96
	p, n := float64(count)/float64(of), float64(of)
	middle, half := (p+z*z/(2*n))/(1+z*z/n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))/(1+z*z/n)
	s.Value, s.Low, s.High = p, max(0, middle-half), min(1, middle+half)
	return s
}

// Figures sum up the results. Hit rate, MRR and nDCG are of questions with an answer.
type Figures struct {
	HitRate Share   `json:"hit_rate"` // a passage that answers was among those that were found
	MRR     float64 `json:"mrr"`
	NDCG    float64 `json:"ndcg"`

	// The four cells.
	AnsweredRight int `json:"answered_right"`
	AnsweredWrong int `json:"answered_wrong"`
	RefusedRight  int `json:"refused_right"`
	RefusedWrong  int `json:"refused_wrong"`

	FalseAnswers  Share `json:"false_answers"`  // of unanswerable questions, those that were answered
	FalseRefusals Share `json:"false_refusals"` // of answerable ones, those that were refused
	Grounded      Share `json:"grounded"`       // of sentences that were checked, those that a passage bears out

	P50 float64 `json:"p50_milliseconds"`
	P95 float64 `json:"p95_milliseconds"`
	// Curve is the share of wrong ones among the questions with the highest scores, by how many of all are answered.
	Curve []Point `json:"curve"`
}

// Point is one of a curve.
type Point struct {
	Coverage float64 `json:"coverage"`
	Risk     float64 `json:"risk"`
	Score    float64 `json:"score"` // that is answered from
}

// Sum sums results up.
func Sum(results []Result) Figures {
	var f Figures
	hits, answerable, supported, checked := 0, 0, 0, 0
	times := make([]float64, 0, len(results))
	for _, r := range results {
		times = append(times, r.Milliseconds)
		supported, checked = supported+r.Supported, checked+r.Supported+r.Unsupported
		if !r.Unanswerable {
			answerable++
			f.NDCG += r.NDCG
			if r.Rank > 0 {
				hits++
				f.MRR += 1 / float64(r.Rank)
			}
		}
		switch refused := r.Refusal != ""; {
		case refused && r.Unanswerable:
			f.RefusedRight++
		case refused:
			f.RefusedWrong++
		case r.Right:
			f.AnsweredRight++
		default:
			f.AnsweredWrong++
		}
	}
	falseAnswers := len(results) - answerable - f.RefusedRight
	f.MRR, f.NDCG = f.MRR/float64(max(1, answerable)), f.NDCG/float64(max(1, answerable))
	f.HitRate, f.Grounded = NewShare(hits, answerable), NewShare(supported, checked)
	f.FalseAnswers, f.FalseRefusals = NewShare(falseAnswers, len(results)-answerable), NewShare(f.RefusedWrong, answerable)
	slices.Sort(times)
	f.P50, f.P95 = quantile(times, 0.5), quantile(times, 0.95)
	f.Curve = curve(results)
	return f
}

func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// curve goes by scores alone, whatever the thresholds were: of a question that was refused, what was found says whether an answer would have been right.
func curve(results []Result) (out []Point) {
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b Result) int { return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID)) })
	for tenth := 1; tenth <= 10; tenth++ {
		n, wrong := len(sorted)*tenth/10, 0
		if n == 0 {
			continue
		}
		for _, r := range sorted[:n] {
			if r.Unanswerable || r.Refusal == "" && !r.Right || r.Refusal != "" && r.Rank == 0 { // ranks are those of a search
				wrong++
			}
		}
		out = append(out, Point{float64(tenth) / 10, float64(wrong) / float64(n), sorted[n-1].Score})
	}
	return out
}

// Difference is what changed between two measurements of one set, with the 95 % interval of a paired bootstrap over questions. Times are not compared: they say
// more about the machine.
type Difference struct {
	Name   string  `json:"name"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// P is how likely at least so many of the questions that changed would have got worse if as many should get better (exact sign test).
	P float64 `json:"p"`
	// Worse: it got worse beyond chance. Of all measures together at most one in twenty comparisons says so for nothing (Holm).
	Worse bool `json:"worse"`
}

// ErrOtherSet says that two measurements are not of the same questions, or were not made in the same way.
var ErrOtherSet = errors.New("the measurements are of other sets, or made otherwise")

// Comparable returns ErrOtherSet unless both measure one set with as many passages, both with a model or both without. Collections and models may differ: these
// are what is compared.
func Comparable(before, after *Report) error {
	if before.SHA256 != after.SHA256 || before.TopK != after.TopK || (before.Model == "") != (after.Model == "") || before.Incomplete {
		return ErrOtherSet
	}
	return nil
}

const resamples = 2000

// Compare compares two measurements of the same questions. The same measurements give the same intervals.
func Compare(before, after *Report) ([]Difference, error) {
	if err := Comparable(before, after); err != nil || len(before.Results) != len(after.Results) || len(after.Results) == 0 {
		return nil, ErrOtherSet
	}
	for i := range after.Results {
		if before.Results[i].ID != after.Results[i].ID {
			return nil, ErrOtherSet
		}
	}
	type measure struct {
		name string
		of   func(Result) (value, weight float64)
		less bool // less is better
	}
	answerable := func(f func(Result) float64) func(Result) (float64, float64) {
		return func(r Result) (float64, float64) {
			if r.Unanswerable {
				return 0, 0
			}
			return f(r), 1
		}
	}
	one := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	measures := []measure{
		{"hit_rate", answerable(func(r Result) float64 { return one(r.Rank > 0) }), false},
		{"mrr", answerable(func(r Result) float64 {
			if r.Rank == 0 {
				return 0
			}
			return 1 / float64(r.Rank)
		}), false},
		{"ndcg", answerable(func(r Result) float64 { return r.NDCG }), false},
		{"false_refusals", answerable(func(r Result) float64 { return one(r.Refusal != "") }), true},
		{"false_answers", func(r Result) (float64, float64) { return one(r.Unanswerable && r.Refusal == ""), one(r.Unanswerable) }, true},
		{"right", func(r Result) (float64, float64) { return one(r.Right), 1 }, false},
		{"grounded", func(r Result) (float64, float64) { return float64(r.Supported), float64(r.Supported + r.Unsupported) }, false},
	}
	var out []Difference
	for k, m := range measures {
		var pairs []pair
		for i := range after.Results {
			var p pair
			p.before, p.weightBefore = m.of(before.Results[i])
			p.after, p.weightAfter = m.of(after.Results[i])
			if p.weightBefore+p.weightAfter > 0 {
				pairs = append(pairs, p)
			}
		}
		d := Difference{Name: m.name}
		d.Before, d.After = means(len(pairs), func(i int) pair { return pairs[i] })
		if len(pairs) == 0 || math.IsNaN(d.Before) || math.IsNaN(d.After) { // one of them measures nothing of it
			continue
		}
		rng := rand.New(rand.NewPCG(1, uint64(k))) //nolint:gosec // resampling, not secrecy
		var changes []float64
		for range resamples {
			x, y := means(len(pairs), func(int) pair { return pairs[rng.IntN(len(pairs))] })
			if !math.IsNaN(y - x) {
				changes = append(changes, y-x)
			}
		}
		slices.Sort(changes)
		d.Low, d.High = changes[len(changes)*25/1000], changes[max(0, len(changes)*975/1000-1)]
		worse, better := 0, 0
		for _, p := range pairs {
			change := p.change()
			if m.less {
				change = -change
			}
			switch {
			case change < 0:
				worse++
			case change > 0:
				better++
			}
		}
		d.P = signTest(worse, better)
		if d.Worse = d.After < d.Before; m.less { // on the bad side; see below
			d.Worse = d.After > d.Before
		}
		out = append(out, d)
	}
	markWorse(out)
	return out, nil
}

// pair is a question in two measurements: sums, and of how many.
type pair struct{ before, weightBefore, after, weightAfter float64 }

// change is by how much the question's own figure changed; 0 where one of them has none.
func (p pair) change() float64 {
	if p.weightBefore == 0 || p.weightAfter == 0 {
		return 0
	}
	return p.after/p.weightAfter - p.before/p.weightBefore
}

// means returns both means over n pairs; NaN of nothing.
func means(n int, at func(int) pair) (before, after float64) {
	var sum pair
	for i := range n {
		p := at(i)
		sum.before, sum.after = sum.before+p.before, sum.after+p.after
		sum.weightBefore, sum.weightAfter = sum.weightBefore+p.weightBefore, sum.weightAfter+p.weightAfter
	}
	return sum.before / sum.weightBefore, sum.after / sum.weightAfter
}

// signTest returns how likely so many or more of the changes are worse ones if worse and better are equally likely.
func signTest(worse, better int) float64 {
	n := worse + better
	choose := func(k int) float64 {
		a, _ := math.Lgamma(float64(n) + 1)
		b, _ := math.Lgamma(float64(k) + 1)
		c, _ := math.Lgamma(float64(n-k) + 1)
		return a - b - c
	}
	p := 0.0
	for k := worse; k <= n; k++ {
		p += math.Exp(choose(k) - float64(n)*math.Ln2)
	}
	return min(1, p)
}

// markWorse leaves Worse where it is beyond chance, however many measures there are (Holm).
func markWorse(of []Difference) {
	order := make([]int, len(of))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(of[a].P, of[b].P) })
	beyond := true
	for k, i := range order {
		beyond = beyond && of[i].P <= 0.05/float64(len(of)-k)
		of[i].Worse = of[i].Worse && beyond
	}
}

// ReadReport reads a measurement that was kept.
func ReadReport(data []byte) (*Report, error) {
	r, err := strictjson.Decode[Report](data)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return &r, nil
}

// Encode returns what [ReadReport] reads.
func (r *Report) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}
