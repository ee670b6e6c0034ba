package eval

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/internal/message"
)

// Gates are what a release of the detectors has to reach on the gate set.
type Gates struct {
	Recall, RecallLow float64            // overall, and its lower bound
	Classes           map[string]float64 // recall of single classes
	WellFormed        []string           // classes with check characters, of which no well-formed value may be missed
	Precision         float64
	Touched           float64 // hard negatives at most
	Size              corpus.Minimums
}

// Published are the gates of the project.
func Published() Gates {
	return Gates{
		Recall: 0.994, RecallLow: 0.990, Precision: 0.97, Touched: 0.01,
		Classes: map[string]float64{"person": 0.97, "address": 0.93},
		WellFormed: strings.Fields(`cn_resident_id cn_foreign_permit cn_uscc cn_business_licence bank_card vin imei iccid hk_id tw_id
			crypto_address`),
		Size: corpus.Published(),
	}
}

// Failure is a gate that was not reached, said in both languages.
type Failure struct {
	Gate    string  `json:"gate"`
	Want    float64 `json:"want"`
	Got     float64 `json:"got"`
	English string  `json:"english"`
	Chinese string  `json:"chinese"`
}

// Check returns the gates that a report does not reach.
func (g Gates) Check(r Report) []Failure {
	var out []Failure
	fail := func(gate string, want, got float64, why message.Phrase) {
		out = append(out, Failure{gate, want, got, why.In(message.English), why.In(message.Chinese)})
	}
	atLeast := func(gate string, what message.Phrase, got, want float64) {
		if got < want {
			fail(gate, want, got, message.Say("eval.too_low", what, 100*got, 100*want))
		}
	}
	many := func(gate string, what message.Phrase, got, want int) {
		if got < want {
			fail(gate, float64(want), float64(got), message.Say("eval.too_few", got, what, want))
		}
	}
	many("spans", message.Say("eval.values"), r.Overall.Spans, g.Size.Spans)
	many("hard_negatives", message.Say("eval.hard_negatives"), r.Negatives.Documents, g.Size.Negatives)
	for _, class := range corpus.DefaultClasses() {
		many("spans."+class, message.Say("eval.values_of", class), r.Class(class).Spans, g.Size.PerClass)
	}
	atLeast("recall", message.Say("eval.recall"), r.Overall.Recall, g.Recall)
	atLeast("recall_low", message.Say("eval.recall_bound"), r.Overall.Low, g.RecallLow)
	atLeast("precision", message.Say("eval.precision"), r.Overall.Precision, g.Precision)
	for _, class := range corpus.DefaultClasses() {
		if want, ok := g.Classes[class]; ok {
			atLeast("recall."+class, message.Say("eval.recall_of", class), r.Class(class).Recall, want)
		}
	}
	for _, class := range g.WellFormed {
		if c := r.Class(class); c.WellFormedHits < c.WellFormed {
			fail("wellformed."+class, float64(c.WellFormed), float64(c.WellFormedHits),
				message.Say("eval.well_formed_missed", c.WellFormed-c.WellFormedHits, c.WellFormed, class))
		}
	}
	if r.Negatives.Rate > g.Touched {
		fail("touched", g.Touched, r.Negatives.Rate, message.Say("eval.negatives_touched", 100*r.Negatives.Rate, 100*g.Touched))
	}
	return out
}
