// Package cost is a leaf: it says what the machines of an engine cost in a month, and what a token and an answer cost of that.
//
// What machines cost is declared in a cost book: a YAML document of which every figure says where it comes from and of when it is. What they did is
// measured: requests, tokens and energy of the books of billing. Figures are exact rationals until the end, where each is rounded once, half up,
// to 10⁻⁹ currency unit.
//
// Unknown is never zero: a figure that is not declared or not measured makes its line unknown, and with it the total and all that follows from it.
// What is known is then a least amount. Who means zero declares zero. Energy that nobody meters can be declared for a request, and is not asked for in hours
// whose power costs nothing.
package cost

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/currency"
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/internal/fault"
)

// The limits of a document.
const (
	maxEngines = 64
	maxModels  = 64
	maxTariffs = 24
	maxText    = 500
)

// Book is what engines cost, from an instant on. Nobody changes it after [Parse].
type Book struct {
	Currency      string
	EffectiveFrom time.Time
	Zone          *time.Location // whose hours the prices of power are of
	Engines       []Engine
}

// Figure is a declared number, and who says so.
type Figure struct {
	Value  Decimal `yaml:"value"`
	Source string  `yaml:"source"`
	Date   string  `yaml:"date"` // 2026-09-30
}

// Engine is what the machines cost that serve some models. A nil figure is not known.
type Engine struct {
	Name   string   `yaml:"name"`
	Models []string `yaml:"models"` // names, or patterns with *; the first engine that a model fits has it

	Machines      *Figure  `yaml:"machines"`
	PurchasePrice *Figure  `yaml:"purchase_price"`      // of one machine
	Depreciation  *Figure  `yaml:"depreciation_months"` // in equal parts. It has no end: who has written a machine off declares a price of 0
	MachineHour   *Figure  `yaml:"machine_hour"`        // of one rented machine, for an hour, in the place of the price of a purchase
	PUE           *Figure  `yaml:"pue"`
	IdleWatts     *Figure  `yaml:"idle_watts"`           // of one machine, without requests
	RequestWh     *Figure  `yaml:"request_watt_hours"`   // of a request whose energy nobody knows, as of one on another machine
	Space         *Figure  `yaml:"space_month"`          // of all machines
	Staff         *Figure  `yaml:"staff_month"`          // of the people who run them
	StaffPercent  *Figure  `yaml:"staff_percent"`        // of their time
	PromptRate    *Figure  `yaml:"prompt_tokens_second"` // that one machine reads when it does nothing else, cached ones included
	OutputRate    *Figure  `yaml:"output_tokens_second"` // that one machine writes when it does nothing else
	FirstTokenMS  *Figure  `yaml:"slo_first_token_ms"`
	TotalMS       *Figure  `yaml:"slo_total_ms"`
	Power         []Tariff `yaml:"power"`
}

// Tariff is the price of a kilowatt-hour in some hours of the day; without hours in all others.
type Tariff struct {
	Hours  []int   `yaml:"hours"` // 0 to 23
	Value  Decimal `yaml:"value"`
	Source string  `yaml:"source"`
	Date   string  `yaml:"date"`
}

// Decimal is an exact number of at most 12 digits before the point and 9 behind it, not negative.
type Decimal struct{ *big.Rat }

var decimalText = regexp.MustCompile(`^\d{1,12}(\.\d{1,9})?$`)

// UnmarshalYAML implements yaml.Unmarshaler. It reads the text, since a float has not what is written.
func (d *Decimal) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || !decimalText.MatchString(n.Value) {
		return fmt.Errorf("line %d: %q is no decimal that is not negative, such as 1.25", n.Line, n.Value)
	}
	d.Rat, _ = new(big.Rat).SetString(n.Value)
	return nil
}

// String writes the decimal exactly, without trailing zeros.
func (d Decimal) String() string {
	text := strings.TrimRight(d.FloatString(9), "0")
	return strings.TrimSuffix(text, ".")
}

type document struct {
	Schema        int      `yaml:"schema"`
	Currency      string   `yaml:"currency"`
	EffectiveFrom string   `yaml:"effective_from"`
	Zone          string   `yaml:"zone"`
	Engines       []Engine `yaml:"engines"`
}

// invalid is CodeInvalidValue of a place in the document.
func invalid(place string, why fault.Phrase) error {
	return fault.New(fault.CodeInvalidValue, place, why).WithParam("yaml")
}

// Parse reads a cost book strictly: unknown keys, figures without source or date, and a model that is named twice are CodeInvalidValue, which names the
// place.
func Parse(doc []byte) (*Book, error) {
	var d document
	if err := price.Decode(doc, &d); err != nil {
		var e *price.Error
		if errors.As(err, &e) {
			return nil, invalid(e.Path, e.Reason)
		}
		return nil, err
	}
	return d.book()
}

func (d document) book() (*Book, error) {
	if d.Schema != 1 {
		return nil, invalid("schema", fault.Say("price.schema"))
	}
	if _, err := currency.ParseISO(d.Currency); err != nil || strings.ToUpper(d.Currency) != d.Currency {
		return nil, invalid("currency", fault.Say("price.currency"))
	}
	from, err := time.Parse(time.RFC3339, d.EffectiveFrom)
	if err != nil || from.Year() < 1970 {
		return nil, invalid("effective_from", fault.Say("price.effective_zone"))
	}
	zone, err := time.LoadLocation(d.Zone)
	if err != nil || d.Zone == "" || d.Zone == "Local" {
		return nil, invalid("zone", fault.Say("cost.zone"))
	}
	if len(d.Engines) == 0 || len(d.Engines) > maxEngines {
		return nil, invalid("engines", fault.Say("cost.count", maxEngines))
	}
	names, models := map[string]bool{}, map[string]bool{}
	for i, e := range d.Engines {
		if err := e.check(fmt.Sprintf("engines[%d]", i), names, models); err != nil {
			return nil, err
		}
	}
	return &Book{Currency: d.Currency, EffectiveFrom: from.UTC(), Zone: zone, Engines: d.Engines}, nil
}

// named is a figure by its name in the document, with what it may be.
type named struct {
	name        string
	figure      *Figure
	least, most int64 // most 0: as much as can be written
}

func (e Engine) figures() []named {
	return []named{
		{"machines", e.Machines, 0, 1_000_000},
		{"purchase_price", e.PurchasePrice, 0, 0},
		{"depreciation_months", e.Depreciation, 1, 600},
		{"machine_hour", e.MachineHour, 0, 0},
		{"pue", e.PUE, 1, 10},
		{"idle_watts", e.IdleWatts, 0, 1_000_000},
		{"request_watt_hours", e.RequestWh, 0, 1_000_000},
		{"space_month", e.Space, 0, 0},
		{"staff_month", e.Staff, 0, 0},
		{"staff_percent", e.StaffPercent, 0, 100},
		{"prompt_tokens_second", e.PromptRate, 0, 1_000_000_000},
		{"output_tokens_second", e.OutputRate, 0, 1_000_000_000},
		{"slo_first_token_ms", e.FirstTokenMS, 1, 86_400_000},
		{"slo_total_ms", e.TotalMS, 1, 86_400_000},
	}
}

func (e Engine) check(place string, names, models map[string]bool) error {
	if e.Name == "" || len(e.Name) > maxText || names[e.Name] {
		return invalid(place+".name", fault.Say("cost.name"))
	}
	names[e.Name] = true
	if len(e.Models) == 0 || len(e.Models) > maxModels {
		return invalid(place+".models", fault.Say("cost.count", maxModels))
	}
	for _, m := range e.Models {
		if m == "" || len(m) > maxText || models[m] {
			return invalid(place+".models", fault.Say("cost.name"))
		}
		models[m] = true
	}
	for _, f := range e.figures() {
		if f.figure == nil {
			continue
		}
		if err := stated(place+"."+f.name, f.figure.Value, f.figure.Source, f.figure.Date); err != nil {
			return err
		}
		if f.figure.Value.Cmp(big.NewRat(f.least, 1)) < 0 || f.most > 0 && f.figure.Value.Cmp(big.NewRat(f.most, 1)) > 0 {
			return invalid(place+"."+f.name, fault.Say("value.whole_range", f.least, f.most))
		}
	}
	if e.PurchasePrice != nil && e.MachineHour != nil {
		return invalid(place+".machine_hour", fault.Say("cost.bought_or_rented"))
	}
	return e.checkPower(place + ".power")
}

// checkPower refuses hours that have two prices or, where any has one, none.
func (e Engine) checkPower(place string) error {
	if len(e.Power) > maxTariffs {
		return invalid(place, fault.Say("cost.count", maxTariffs))
	}
	priced := map[int]bool{}
	other := false
	for i, t := range e.Power {
		if err := stated(fmt.Sprintf("%s[%d]", place, i), t.Value, t.Source, t.Date); err != nil {
			return err
		}
		if len(t.Hours) == 0 && other {
			return invalid(place, fault.Say("cost.hours"))
		}
		other = other || len(t.Hours) == 0
		for _, h := range t.Hours {
			if h < 0 || h > 23 || priced[h] {
				return invalid(place, fault.Say("cost.hours"))
			}
			priced[h] = true
		}
	}
	if len(e.Power) > 0 && !other && len(priced) < 24 {
		return invalid(place, fault.Say("cost.hours"))
	}
	return nil
}

// stated refuses a figure that does not say where it comes from.
func stated(place string, value Decimal, source, date string) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil || value.Rat == nil || strings.TrimSpace(source) == "" || len(source) > maxText {
		return invalid(place, fault.Say("cost.stated"))
	}
	return nil
}

// EngineOf returns the index of the engine that has a model, -1 if none has: one that spells it out, then the first whose pattern it fits.
func (b *Book) EngineOf(model string) int {
	fits := -1
	for i, e := range b.Engines {
		for _, m := range e.Models {
			if m == model {
				return i
			}
			if fits < 0 && price.Match(m, model) {
				fits = i
			}
		}
	}
	return fits
}

// tariffAt returns the price of power at an instant; nil: it is not known.
func (e Engine) tariffAt(at time.Time, zone *time.Location) *Tariff {
	hour := at.In(zone).Hour()
	var other *Tariff
	for i := range e.Power {
		t := &e.Power[i]
		if len(t.Hours) == 0 {
			other = t
		}
		for _, h := range t.Hours {
			if h == hour {
				return t
			}
		}
	}
	return other
}

// Assumption is a declared figure as a report prints it.
type Assumption struct{ Name, Value, Source, Date string }

// Assumptions returns all that is declared of an engine, in the order of the document's description.
func (e Engine) Assumptions() []Assumption {
	var out []Assumption
	for _, f := range e.figures() {
		if f.figure != nil {
			out = append(out, Assumption{f.name, f.figure.Value.String(), f.figure.Source, f.figure.Date})
		}
	}
	for _, t := range e.Power {
		name := "power"
		for i, h := range t.Hours {
			name += [...]string{" ", ","}[min(i, 1)] + strconv.Itoa(h)
		}
		out = append(out, Assumption{name, t.Value.String(), t.Source, t.Date})
	}
	return out
}
