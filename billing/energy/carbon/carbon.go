// Package carbon is a leaf: it makes emissions and rates of work of energy, by factors that say where they come from.
//
// There is no default factor: without one there is no figure. Amounts are integers, rounded down.
package carbon

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"time"
)

// Factor is the carbon dioxide of a kilowatt-hour.
type Factor struct {
	ID       string `json:"id"`
	Region   string `json:"region"`
	RegionZH string `json:"region_zh"`
	// Scope: average of what the region's grid delivers, residual of it without what was sold under contracts, fossil power alone, or contract.
	Scope      string `json:"scope"`
	Milligrams int64  `json:"milligrams_per_kwh"`
	Year       int    `json:"year"`      // that it describes
	Source     string `json:"source"`    // who has published it, and where
	Published  string `json:"published"` // 2025-12-31
}

//go:embed factors.json
var shipped []byte

// Factors returns those that are shipped, and then own ones, which have the form of the shipped file; nil: none. An own factor may not have the id
// of another.
func Factors(own []byte) ([]Factor, error) {
	out, err := parse(shipped)
	if err != nil {
		return nil, fmt.Errorf("shipped factors: %w", err)
	}
	if own == nil {
		return out, nil
	}
	more, err := parse(own)
	if err != nil {
		return nil, err
	}
	for _, f := range more {
		if _, err := Find(out, f.ID); err == nil {
			return nil, fmt.Errorf("factor %s: there is one of this id", f.ID)
		}
		out = append(out, f)
	}
	return out, nil
}

// maxFactor is ten kilograms: above any power, below overflow.
const maxFactor = 10_000_000

func parse(b []byte) ([]Factor, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var out []Factor
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the list")
	}
	for _, f := range out {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("factor %q: %w", f.ID, err)
		}
	}
	return out, nil
}

// check refuses a factor that does not say where it comes from.
func (f Factor) check() error {
	_, err := time.Parse(time.DateOnly, f.Published)
	switch {
	case f.ID == "" || f.Region == "" || f.Source == "":
		return errors.New("id, region and source must not be empty")
	case f.Milligrams < 0 || f.Milligrams > maxFactor:
		return fmt.Errorf("milligrams_per_kwh: must lie between 0 and %d", maxFactor)
	case f.Year < 1990 || f.Year > 2100 || err != nil:
		return errors.New("year and published: must be a year and a date")
	case !slices.Contains([]string{"average", "residual", "fossil", "contract"}, f.Scope):
		return errors.New("scope: must be average, residual, fossil or contract")
	}
	return nil
}

// Find returns the factor of an id.
func Find(list []Factor, id string) (Factor, error) {
	i := slices.IndexFunc(list, func(f Factor) bool { return f.ID == id })
	if i < 0 {
		return Factor{}, fmt.Errorf("there is no factor %q", id)
	}
	return list[i], nil
}

// microjoulesPerKWh is what a kilowatt-hour has.
const microjoulesPerKWh = 3_600_000_000_000

// Micrograms returns the carbon dioxide of energy in a building that takes puePermille ÷ 1000 times the energy of its machines (PUE, ISO/IEC
// 30134-2), in millionths of a gram. An energy below 0, a PUE below 1 or above 10, and a sum beyond 2⁶³ are errors.
func (f Factor) Micrograms(microjoules, puePermille int64) (int64, error) {
	if microjoules < 0 || puePermille < 1000 || puePermille > 10_000 {
		return 0, errors.New("the energy must not be negative, and the PUE must lie between 1 and 10")
	}
	hi, lo := bits.Mul64(uint64(microjoules), uint64(f.Milligrams)*uint64(puePermille))
	if hi >= microjoulesPerKWh/2 {
		return 0, errors.New("too much energy")
	}
	q, _ := bits.Div64(hi, lo, microjoulesPerKWh)
	if q>>63 != 0 {
		return 0, errors.New("too much energy")
	}
	return int64(q), nil
}

// Work is what was done with some energy.
type Work struct{ Requests, Tokens, Microjoules int64 }

// Rates are how much work a joule does. A rate whose energy or work is 0 is nil: it is not known.
type Rates struct {
	JoulesPerRequest *float64 `json:"joules_per_request"`
	JoulesPer1000    *float64 `json:"joules_per_1000_tokens"`      // output tokens
	TokensPerJoule   *float64 `json:"eops_per_watt_tokens"`        // output tokens per second and watt, which is per joule
	RequestsPerKJ    *float64 `json:"eops_per_watt_kilo_requests"` // requests per second and kilowatt, which is per kilojoule
}

// Rates returns the rates of the work.
func (w Work) Rates() Rates {
	joules := float64(w.Microjoules) / 1e6
	rate := func(a, b float64) *float64 {
		if a <= 0 || b <= 0 {
			return nil
		}
		q := a / b
		return &q
	}
	return Rates{
		JoulesPerRequest: rate(joules, float64(w.Requests)), JoulesPer1000: rate(joules*1000, float64(w.Tokens)),
		TokensPerJoule: rate(float64(w.Tokens), joules), RequestsPerKJ: rate(float64(w.Requests)*1000, joules),
	}
}

// SCI is the Software Carbon Intensity (ISO/IEC 21031): emissions of operation plus those embodied in the machines' share of the time, in grams
// per 1,000 output tokens. Offsets do not lower it. It is nil without tokens.
func SCI(micrograms, embodiedMicrograms, tokens int64) *float64 {
	if tokens <= 0 {
		return nil
	}
	g := (float64(micrograms) + float64(embodiedMicrograms)) / 1e6 / (float64(tokens) / 1000)
	return &g
}
