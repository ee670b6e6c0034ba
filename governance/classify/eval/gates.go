package eval

import (
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/governance/classify/corpus"
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
	atLeast := func(gate, english, chinese string, got, want float64) {
		if got < want {
			out = append(out, Failure{
				gate, want, got, fmt.Sprintf("%s is %.2f %% and must be at least %.2f %%", english, 100*got, 100*want),
				fmt.Sprintf("%s为 %.2f %%，至少应为 %.2f %%", chinese, 100*got, 100*want),
			})
		}
	}
	many := func(gate, english, chinese string, got, want int) {
		if got < want {
			out = append(out, Failure{
				gate, float64(want), float64(got), fmt.Sprintf("the set holds %d %s and must hold at least %d", got, english, want),
				fmt.Sprintf("评测集含 %d %s，至少应有 %d", got, chinese, want),
			})
		}
	}
	many("spans", "values", "个敏感值", r.Overall.Spans, g.Size.Spans)
	many("hard_negatives", "hard negatives", "篇难负例", r.Negatives.Documents, g.Size.Negatives)
	for _, class := range corpus.DefaultClasses() {
		many("spans."+class, "values of "+class, "个 "+class+" 值", r.Class(class).Spans, g.Size.PerClass)
	}
	atLeast("recall", "Overall recall", "总召回率", r.Overall.Recall, g.Recall)
	atLeast("recall_low", "The lower bound of the overall recall", "总召回率下界", r.Overall.Low, g.RecallLow)
	atLeast("precision", "Overall precision", "总精确率", r.Overall.Precision, g.Precision)
	for _, class := range corpus.DefaultClasses() {
		if want, ok := g.Classes[class]; ok {
			atLeast("recall."+class, "Recall of "+class, class+" 召回率", r.Class(class).Recall, want)
		}
	}
	for _, class := range g.WellFormed {
		if c := r.Class(class); c.WellFormedHits < c.WellFormed {
			out = append(out, Failure{
				"wellformed." + class, float64(c.WellFormed), float64(c.WellFormedHits),
				fmt.Sprintf("%d of %d well-formed values of %s were missed; none may be", c.WellFormed-c.WellFormedHits, c.WellFormed, class),
				fmt.Sprintf("%s 的 %d 个完好值漏检 %d 个，不允许漏检", class, c.WellFormed, c.WellFormed-c.WellFormedHits),
			})
		}
	}
	if r.Negatives.Rate > g.Touched {
		out = append(out, Failure{
			"touched", g.Touched, r.Negatives.Rate,
			fmt.Sprintf("%.2f %% of the hard negatives were touched; at most %.2f %% may be", 100*r.Negatives.Rate, 100*g.Touched),
			fmt.Sprintf("难负例误遮盖 %.2f %%，最多允许 %.2f %%", 100*r.Negatives.Rate, 100*g.Touched),
		})
	}
	return out
}
