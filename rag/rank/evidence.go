package rank

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-project/sluice/internal/strictjson"
)

// The features of evidence, in the order of the weights. Those of vectors are times the agreement, so that a model that does not understand the language
// is not listened to.
const (
	evidenceCoverage = iota // the highest coverage of a passage that is shown
	evidenceTogether        // what all passages that are shown cover together
	evidenceRare            // as coverage, with rare words counting more: weights are squared
	evidenceBM25            // the highest BM25 of them, as a share of what the question's words could bring
	evidenceLead            // how far the highest BM25 lies above the next, as a share of it
	evidencePhrase          // the longest run of the question's letters in one of them
	evidenceNumbers         // 1 if the question has a number or a code that none of them has, negative
	evidenceLift            // how far the nearest lies above the one that is not near
	evidenceAhead           // how far the nearest lies above the next
	evidenceSame            // 1 if the first by words is the nearest, too
	evidenceFeatures
)

func evidenceNames() [evidenceFeatures]string {
	return [evidenceFeatures]string{"coverage", "together", "rare", "bm25", "lead", "phrase", "numbers", "lift", "ahead", "same"}
}

// Evidence is what is known about whether passages answer a question: each 0…1, except for numbers, which is 0 or -1.
type Evidence [evidenceFeatures]float64

// bestOccurrence is what the occurrences of a word can bring at most, of its weight: the k1 of BM25, and one.
const bestOccurrence = 1.9

// EvidenceOf returns the evidence that the first shown candidates answer the question; see [EvidenceUpTo]. Without any it is zero.
func EvidenceOf(q Question, candidates []Candidate, features []Features, shown int) Evidence {
	each := EvidenceUpTo(q, candidates, features, shown)
	if len(each) == 0 {
		return Evidence{}
	}
	return each[len(each)-1]
}

// EvidenceUpTo returns the evidence that the first candidate answers the question, that the first two do, and so on up to shown. Candidates are all that were
// compared, in their final order, with their features as [FeaturesOf] has them.
func EvidenceUpTo(q Question, candidates []Candidate, features []Features, shown int) []Evidence {
	shown = min(shown, len(candidates))
	a := newAsked(q)
	total, squares := 0.0, 0.0
	for _, t := range a.terms {
		total += t.Weight
		squares += t.Weight * t.Weight
	}
	cosines := neutral(candidates)
	together := make([]bool, len(a.terms))
	byWords, byVectors := 0, 0
	out := make([]Evidence, shown)
	var most Evidence // of what each of them has
	for i, c := range candidates[:shown] {
		have := make([]bool, len(a.terms))
		a.mark(have, c.Heading, c.heading)
		a.mark(have, start(c.Text, MaxText), c.text)
		rare := 0.0
		for t, ok := range have {
			if ok {
				together[t] = true
				rare += a.terms[t].Weight * a.terms[t].Weight
			}
		}
		most[evidenceCoverage] = max(most[evidenceCoverage], features[i][featureCoverage])
		most[evidencePhrase] = max(most[evidencePhrase], features[i][featurePhrase])
		if squares > 0 {
			most[evidenceRare] = max(most[evidenceRare], rare/squares)
		}
		if c.BM25 > candidates[byWords].BM25 {
			byWords = i
		}
		if cosines[i] > cosines[byVectors] {
			byVectors = i
		}
		e := &out[i]
		*e = most
		e[evidenceTogether] = a.share(together)
		for _, t := range a.codes {
			if !together[t] {
				e[evidenceNumbers] = -1
			}
		}
		if best := candidates[byWords].BM25; best > 0 && total > 0 {
			e[evidenceBM25] = min(1, best/(bestOccurrence*total))
			e[evidenceLead] = (best - next(candidates, byWords, func(i int) float64 { return candidates[i].BM25 }, 0)) / best
		}
		nearest := cosines[byVectors]
		e[evidenceLift] = q.agreement * max(0, min(1, nearest-q.low))
		e[evidenceAhead] = q.agreement * max(0, min(1, nearest-next(candidates, byVectors, func(i int) float64 { return cosines[i] }, q.low)))
		e[evidenceLead] = max(0, min(1, e[evidenceLead]))
		if byWords == byVectors && candidates[byVectors].HasCosine {
			e[evidenceSame] = q.agreement
		}
	}
	return out
}

// next returns the highest value of the others, at least otherwise.
func next(candidates []Candidate, than int, value func(int) float64, otherwise float64) float64 {
	for i := range candidates {
		if i != than {
			otherwise = max(otherwise, value(i))
		}
	}
	return otherwise
}

// Judge says how likely passages answer a question. It is immutable; the zero value says one half of everything.
type Judge struct {
	weights Evidence
	bias    float64
	// scale and shift make what the weights give a probability. They were fitted on other questions than the weights (Platt scaling).
	scale, shift float64
}

// Probability returns how likely passages with this evidence answer, 0…1, on questions like those that the judge was fitted with, of which half had no answer.
func (j Judge) Probability(e Evidence) float64 { return logistic(j.scale*j.sum(e) + j.shift) }

func (j Judge) sum(e Evidence) float64 {
	sum := j.bias
	for i, w := range j.weights {
		sum += w * e[i]
	}
	return sum
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Judged is a question with the evidence of what was found for it, and whether that answers it.
type Judged struct {
	Evidence Evidence
	Answers  bool
}

// LearnJudge fits the weights on some questions (logistic regression, less a penalty of squared weights), and the scale on others. A weight is never negative:
// more evidence is never a reason to refuse. Both need questions with and without an answer.
func LearnJudge(fit, calibrate []Judged, penalty float64) (Judge, error) {
	for _, set := range [][]Judged{fit, calibrate} {
		yes := slices.ContainsFunc(set, func(x Judged) bool { return x.Answers })
		if no := slices.ContainsFunc(set, func(x Judged) bool { return !x.Answers }); !yes || !no {
			return Judge{}, errors.New("questions with and without an answer are needed, to fit and to calibrate")
		}
	}
	j := Judge{scale: 1}
	// Features lie within 0…1, so plain steps of this length do not diverge.
	for range 6000 {
		var gradient Evidence
		bias := 0.0
		for _, x := range fit {
			miss := logistic(j.sum(x.Evidence))
			if x.Answers {
				miss--
			}
			for i, v := range x.Evidence {
				gradient[i] += miss * v
			}
			bias += miss
		}
		n := float64(len(fit))
		for i := range j.weights {
			j.weights[i] = max(0, j.weights[i]-(gradient[i]/n+penalty*j.weights[i]))
		}
		j.bias -= bias / n
	}
	for range 20000 {
		var scale, shift float64
		for _, x := range calibrate {
			s := j.sum(x.Evidence)
			miss := logistic(j.scale*s + j.shift)
			if x.Answers {
				miss--
			}
			scale += miss * s
			shift += miss
		}
		n := float64(len(calibrate))
		j.scale = max(0, j.scale-0.05*scale/n)
		j.shift -= 0.05 * shift / n
	}
	return j, nil
}

// judgeFile is evidence.json.
type judgeFile struct {
	Weights map[string]float64 `json:"weights"`
	Bias    float64            `json:"bias"`
	Scale   float64            `json:"scale"`
	Shift   float64            `json:"shift"`
	Provenance
}

//go:embed evidence.json
var learnedJudge []byte

// LearnedJudge returns the judge that comes with the product, and where it comes from.
func LearnedJudge() (Judge, Provenance, error) {
	in, err := strictjson.Decode[judgeFile](learnedJudge)
	if err != nil {
		return Judge{}, Provenance{}, fmt.Errorf("read evidence: %w", err)
	}
	j := Judge{bias: in.Bias, scale: in.Scale, shift: in.Shift}
	for i, name := range evidenceNames() {
		v, ok := in.Weights[name]
		if !ok || len(in.Weights) != len(j.weights) || !(v >= 0 && v <= 1e6) {
			return Judge{}, Provenance{}, fmt.Errorf("read evidence: not one weight for each feature, or none for %s", name)
		}
		j.weights[i] = v
	}
	for _, v := range []float64{j.bias, j.scale, j.shift} {
		if math.IsNaN(v) || math.IsInf(v, 0) || j.scale < 0 {
			return Judge{}, Provenance{}, errors.New("read evidence: a number is not finite, or the scale negative")
		}
	}
	return j, in.Provenance, nil
}

// EncodeJudge returns what [LearnedJudge] reads. Numbers are rounded to three decimals.
func EncodeJudge(j Judge, from Provenance) ([]byte, error) {
	round := func(v float64) float64 { return math.Round(v*1000) / 1000 }
	out := judgeFile{Weights: map[string]float64{}, Bias: round(j.bias), Scale: round(j.scale), Shift: round(j.shift), Provenance: from}
	for i, name := range evidenceNames() {
		out.Weights[name] = round(j.weights[i])
	}
	data, err := json.MarshalIndent(out, "", "  ")
	return append(data, '\n'), err
}
