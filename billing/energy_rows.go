package billing

import (
	"errors"

	"github.com/sluice-project/sluice/billing/energy/carbon"
	"github.com/sluice-project/sluice/billing/statement"
)

// EnergyRow is the work of a model whose energy is known in one way. Method "" is not known.
type EnergyRow struct {
	Model       string `json:"model"`
	Method      string `json:"method"`
	Requests    int64  `json:"requests"`
	Prompt      int64  `json:"prompt_tokens"`
	Tokens      int64  `json:"output_tokens"`
	Cost        int64  `json:"cost_nano"`
	Microjoules int64  `json:"energy_uj"`
	carbon.Rates
	Location *int64 `json:"location_ug,omitempty"` // micrograms of carbon dioxide; nil without a factor
	Market   *int64 `json:"market_ug,omitempty"`
}

// EnergyRows adds usage of a statement up by model and method, in the order in which they come, with what it emitted by the factors, which may be nil.
func EnergyRows(usage []statement.Usage, location, market *carbon.Factor, puePermille int64) ([]EnergyRow, error) {
	type group struct{ model, method string }
	at := map[group]int{}
	rows := []EnergyRow{}
	for _, u := range usage {
		g := group{u.Model, u.EnergyMethod}
		i, there := at[g]
		if !there {
			i = len(rows)
			at[g] = i
			rows = append(rows, EnergyRow{Model: u.Model, Method: u.EnergyMethod})
		}
		if err := rows[i].add(u); err != nil {
			return nil, err
		}
	}
	for i := range rows {
		if err := rows[i].emit(location, market, puePermille); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (r *EnergyRow) add(u statement.Usage) error {
	return addUp(part{&r.Requests, u.Requests}, part{&r.Prompt, u.Prompt}, part{&r.Tokens, u.Completion}, part{&r.Cost, u.Cost}, part{&r.Microjoules, u.Energy})
}

// part is what is added to a sum; it is not negative.
type part struct {
	sum  *int64
	part int64
}

// addUp adds each part to its sum, and refuses to go beyond 62 bits.
func addUp(parts ...part) error {
	for _, p := range parts {
		if *p.sum > 1<<62-p.part {
			return errors.New("a total exceeds 62 bits")
		}
		*p.sum += p.part
	}
	return nil
}

// emit fills in rates and emissions. Of an energy that is not known there are none, which is not 0.
func (r *EnergyRow) emit(location, market *carbon.Factor, puePermille int64) error {
	if r.Method == "" {
		return nil
	}
	r.Rates = carbon.Work{Requests: r.Requests, Tokens: r.Tokens, Microjoules: r.Microjoules}.Rates()
	for _, c := range []struct {
		factor *carbon.Factor
		to     **int64
	}{{location, &r.Location}, {market, &r.Market}} {
		if c.factor == nil {
			continue
		}
		ug, err := c.factor.Micrograms(r.Microjoules, puePermille)
		if err != nil {
			return err
		}
		*c.to = &ug
	}
	return nil
}

// SCI is the intensity by location, nil where the energy of a row is not known or there is no factor: a part is no intensity of the whole.
func SCI(rows []EnergyRow, embodiedGrams float64) *float64 {
	var ug, tokens int64
	for _, r := range rows {
		if r.Location == nil {
			return nil
		}
		ug, tokens = ug+*r.Location, tokens+r.Tokens
	}
	return carbon.SCI(ug, int64(embodiedGrams*1e6), tokens)
}
