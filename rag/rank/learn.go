package rank

import (
	"encoding/json"
	"errors"
	"math"
)

// Example is a question with its candidates: their features and whether each answers.
type Example struct {
	Features []Features
	Answers  []bool
}

// Learn fits a model: the weights maximise the likelihood that an answer is chosen among the candidates of its question (conditional
// logistic regression), less a penalty of the squared weights; the bias then makes scores probabilities of being an answer. Examples without
// an answer among their candidates teach nothing; if no other is there, that is an error. The same examples give the same model.
func Learn(examples []Example, penalty float64) (Model, error) {
	const rounds = 200
	w, speed := Expected(), Features{}
	for round := range rounds {
		gradient, n := Features{}, 0
		for _, e := range examples {
			n += e.pull(w, &gradient)
		}
		if n == 0 {
			return Model{}, errors.New("no example has an answer")
		}
		rate := 2 / (1 + float64(round)/100)
		for i := range w {
			g := gradient[i]/float64(n) - penalty*(w[i]-Expected()[i])
			speed[i] = 0.9*speed[i] + rate*g
			if w[i] += speed[i]; w[i] < 0 {
				w[i], speed[i] = 0, 0
			}
		}
	}
	return NewModel(w, fitBias(examples, w))
}

// Expected are the weights that learning begins with: BM25 leads, the vectors add about as much where they agree with it, and the other
// features decide among passages that both like equally.
func Expected() Features {
	return Features{featureBM25: 8, featureNear: 4, featureCosine: 4, featureCoverage: 1, featureHeading: 0.5, featurePhrase: 1, featureExact: 1, featureNumbers: 1}
}

// pull adds the gradient of an example's likelihood and returns how many answers it has.
func (e Example) pull(w Features, gradient *Features) int {
	sums, total := make([]float64, len(e.Features)), 0.0
	high := math.Inf(-1)
	for i, f := range e.Features {
		sums[i] = dot(w, f)
		high = max(high, sums[i])
	}
	var mean Features
	for i, f := range e.Features {
		p := math.Exp(sums[i] - high)
		total += p
		for j := range mean {
			mean[j] += p * f[j]
		}
	}
	n := 0
	for i, f := range e.Features {
		if !e.Answers[i] {
			continue
		}
		n++
		for j := range gradient {
			gradient[j] += f[j] - mean[j]/total
		}
	}
	return n
}

// fitBias finds the bias under which the mean score is the share of answers.
func fitBias(examples []Example, w Features) float64 {
	low, high := -100.0, 100.0
	for range 60 {
		middle, excess := (low+high)/2, 0.0
		for _, e := range examples {
			for i, f := range e.Features {
				excess += Model{w, middle}.Score(f)
				if e.Answers[i] {
					excess--
				}
			}
		}
		if excess > 0 {
			high = middle
		} else {
			low = middle
		}
	}
	return (low + high) / 2
}

func dot(w, f Features) float64 {
	sum := 0.0
	for i := range w {
		sum += w[i] * f[i]
	}
	return sum
}

// Provenance is where weights come from.
type Provenance struct {
	Command   string   `json:"command"`
	Date      string   `json:"date"`
	Sets      []Source `json:"sets"`
	Embedders []Source `json:"embedders"`
}

// Source is a set or an embedder that weights were learned with.
type Source struct {
	Name      string `json:"name"`
	Licence   string `json:"licence,omitempty"`
	SHA256    string `json:"sha256"`
	Questions int    `json:"questions,omitempty"`
}

// file is weights.json.
type file struct {
	Weights map[string]float64 `json:"weights"`
	Bias    float64            `json:"bias"`
	Provenance
}

// Encode returns what [Learned] reads. Weights are rounded to three decimals.
func Encode(m Model, from Provenance) ([]byte, error) {
	out := file{Weights: map[string]float64{}, Bias: math.Round(m.bias*1000) / 1000, Provenance: from}
	for i, name := range names() {
		out.Weights[name] = math.Round(m.weights[i]*1000) / 1000
	}
	data, err := json.MarshalIndent(out, "", "  ")
	return append(data, '\n'), err
}
