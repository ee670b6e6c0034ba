package cost

import (
	"errors"
	"math/big"
	"time"
)

// Slot is how long the energy of requests is summed together: hours begin and end at slots in every zone there is today.
const Slot = 15 * time.Minute

// Usage is what an engine did in a time, of the books.
type Usage struct {
	Requests, Answered int64
	// Repeated are requests whose answer was there already, and RepeatedTokens their prompts. No engine worked for them: of all others that follow, and of
	// Answered, they are no part.
	Repeated, RepeatedTokens int64
	// Good are answers within the declared times, and GoodTokens their prompts and answers. Untimed are answers whose times are not known.
	Good, GoodTokens, Untimed  int64
	Prompt, Cached, Completion int64  // tokens; cached ones are part of Prompt
	Billed                     *int64 // nano, without corrections, with what was repeated; nil: in another currency
	Energy                     []Energy
}

// Energy is that of the requests that began in a slot and whose energy is known in one way; Method "" is not known.
type Energy struct {
	Start       time.Time
	Method      string
	Requests    int64
	Microjoules int64
}

// The kinds of lines.
const (
	Depreciation  = "depreciation"
	Rent          = "rent"
	PowerRequests = "power_requests" // of requests, as metered
	PowerIdle     = "power_idle"     // of machines without requests, as declared
	Space         = "space"
	Operations    = "operations"
)

// The ways a figure is known. The energy of requests has more: see billing/energy.
const (
	Measured = "measured"
	Modelled = "modelled"
	Declared = "declared"
)

// Line is a part of what an engine cost.
type Line struct {
	Kind string
	// Nano is nil where the amount is not known; AtLeast is then what is known of it.
	Nano    *int64
	AtLeast int64
	Basis   string // how the quantity is known; prices are declared. "" of an amount that is not known
	Missing string // the figure that is not known, "" otherwise
}

// Costs is what an engine cost in a time, and what it did. Nil is not known.
type Costs struct {
	Engine       Engine
	Usage        Usage
	MachineHours *float64 // declared machines, at all hours
	Lines        []Line
	Total        *int64 // the sum of Lines
	AtLeast      int64

	PerMillion       *int64   // tokens, prompts and answers together
	PerMillionPrompt *int64   // by the time of the machine that prompts and answers take at the declared rates
	PerMillionOutput *int64   //
	PerAnswer        *int64   // requests that were answered
	PerGoodMillion   *int64   // tokens of answers under the SLO: all costs, these tokens alone
	PerGoodAnswer    *int64   //
	TokensPerUnit    *float64 // of currency
	Utilisation      *float64 // machine time that tokens take at the declared rates, of all
	Margin           *float64 // what was billed over Total, less 1
	EnergyMethod     string   // of requests
	Microjoules      int64    // of requests, where metered or modelled
}

// Of returns what an engine cost from one instant to another, of a month that ends at monthEnd: fixed costs of a month count by the share of it that has passed.
// The slots of usage must lie in it.
func (b *Book) Of(e Engine, u Usage, from, until, monthEnd time.Time) (Costs, error) {
	if !from.Before(until) || until.After(monthEnd) {
		return Costs{}, errors.New("a cost report of no time")
	}
	c := Costs{Engine: e, Usage: u}
	hours := new(big.Rat).SetFrac64(int64(until.Sub(from)), int64(time.Hour))
	share := new(big.Rat).SetFrac64(int64(until.Sub(from)), int64(monthEnd.Sub(from)))
	machineHours := times(e.Machines, hours)
	if machineHours != nil {
		h, _ := machineHours.Float64()
		c.MachineHours = &h
	}
	c.Lines = append(c.Lines, e.hardware(share, hours), b.powerOfRequests(e, u.Energy), b.powerOfIdle(e, from, until), fixed(Space, share, named{"space_month", e.Space, 0, 0}), staff(e, share))
	c.sum()
	c.rates(hours)
	for _, s := range u.Energy {
		c.Microjoules += s.Microjoules
		c.EnergyMethod = MergeMethods(c.EnergyMethod, s.Method)
	}
	return c, nil
}

// MergeMethods returns how a sum of two parts is known: as both are, or mixed. Of a part with "" nothing is known, and the other one counts.
func MergeMethods(a, b string) string {
	switch {
	case b == "" || a == b:
		return a
	case a == "":
		return b
	}
	return "mixed"
}

// hardware is what machines cost that are owned, or rented.
func (e Engine) hardware(share, hours *big.Rat) Line {
	machines := named{"machines", e.Machines, 0, 0}
	if e.MachineHour != nil {
		return fixed(Rent, hours, machines, named{"machine_hour", e.MachineHour, 0, 0})
	}
	return fixed(Depreciation, share, machines, named{"purchase_price", e.PurchasePrice, 0, 0}, named{"depreciation_months", e.Depreciation, 0, 0})
}

// fixed is the product of declared figures and a share; of depreciation_months it is the quotient.
func fixed(kind string, share *big.Rat, of ...named) Line {
	amount := new(big.Rat).Set(share)
	for _, f := range of {
		switch {
		case f.figure == nil:
			return Line{Kind: kind, Missing: f.name}
		case f.name == "depreciation_months":
			amount.Quo(amount, f.figure.Value.Rat)
		default:
			amount.Mul(amount, f.figure.Value.Rat)
		}
	}
	return known(kind, amount, Declared)
}

func staff(e Engine, share *big.Rat) Line {
	return fixed(Operations, new(big.Rat).Mul(share, big.NewRat(1, 100)), named{"staff_month", e.Staff, 0, 0}, named{"staff_percent", e.StaffPercent, 0, 0})
}

// known is a line with an amount of currency units. One beyond 63 bits of nano is not known.
func known(kind string, amount *big.Rat, basis string) Line {
	n := nano(amount)
	if n == nil {
		return Line{Kind: kind, Missing: "amount"}
	}
	return Line{Kind: kind, Nano: n, AtLeast: *n, Basis: basis}
}

// powerOfRequests is what the energy of requests cost at the hours when they began. Where it is not known it is what is declared for a request. If nothing
// is, the line is not known, but for hours whose power costs nothing.
func (b *Book) powerOfRequests(e Engine, energy []Energy) Line {
	sum, basis, missing := new(big.Rat), "", ""
	for _, s := range energy {
		tariff := e.tariffAt(s.Start, b.Zone)
		if tariff == nil {
			return Line{Kind: PowerRequests, Missing: "power"}
		}
		if e.PUE == nil {
			return Line{Kind: PowerRequests, Missing: "pue"}
		}
		kWh, method := new(big.Rat).SetFrac64(s.Microjoules, 3_600_000_000_000), s.Method
		if method == "" {
			method = Declared
			switch {
			case s.Requests == 0:
				continue
			case e.RequestWh != nil:
				kWh.Mul(e.RequestWh.Value.Rat, big.NewRat(s.Requests, 1000))
			case tariff.Value.Sign() > 0:
				missing = "energy"
				continue
			}
		}
		basis = MergeMethods(basis, method)
		sum.Add(sum, kWh.Mul(kWh, tariff.Value.Rat))
	}
	if e.PUE != nil {
		sum.Mul(sum, e.PUE.Value.Rat)
	}
	if basis == "" {
		basis = Measured // nothing was asked
	}
	l := known(PowerRequests, sum, basis)
	if missing != "" {
		l.Nano, l.Basis, l.Missing = nil, "", missing
	}
	return l
}

// powerOfIdle is what idle machines cost at all hours.
func (b *Book) powerOfIdle(e Engine, from, until time.Time) Line {
	for _, f := range []named{{"machines", e.Machines, 0, 0}, {"idle_watts", e.IdleWatts, 0, 0}, {"pue", e.PUE, 0, 0}} {
		if f.figure == nil {
			return Line{Kind: PowerIdle, Missing: f.name}
		}
	}
	long := map[*Tariff]time.Duration{}
	for at := from; at.Before(until); {
		next := at.Truncate(Slot).Add(Slot)
		if next.After(until) {
			next = until
		}
		t := e.tariffAt(at, b.Zone)
		if t == nil {
			return Line{Kind: PowerIdle, Missing: "power"}
		}
		long[t] += next.Sub(at)
		at = next
	}
	priced := new(big.Rat) // hours × price
	for t, d := range long {
		h := new(big.Rat).SetFrac64(int64(d), int64(time.Hour))
		priced.Add(priced, h.Mul(h, t.Value.Rat))
	}
	priced.Mul(priced, e.Machines.Value.Rat).Mul(priced, e.IdleWatts.Value.Rat).Mul(priced, e.PUE.Value.Rat)
	return known(PowerIdle, priced.Quo(priced, big.NewRat(1000, 1)), Modelled)
}

// sum adds the lines up.
func (c *Costs) sum() {
	total, whole := new(big.Rat), true
	for _, l := range c.Lines {
		total.Add(total, big.NewRat(l.AtLeast, 1_000_000_000))
		whole = whole && l.Nano != nil
	}
	n := nano(total)
	if n == nil {
		return
	}
	c.AtLeast = *n
	if whole {
		c.Total = n
	}
}

// rates divides the total, where it is known, by what was done.
func (c *Costs) rates(hours *big.Rat) {
	u, e := c.Usage, c.Engine
	var prompt, output *big.Rat // seconds of a machine
	if e.PromptRate != nil && e.OutputRate != nil && e.PromptRate.Value.Sign() > 0 && e.OutputRate.Value.Sign() > 0 {
		prompt = new(big.Rat).Quo(big.NewRat(u.Prompt, 1), e.PromptRate.Value.Rat)
		output = new(big.Rat).Quo(big.NewRat(u.Completion, 1), e.OutputRate.Value.Rat)
		if all := times(e.Machines, new(big.Rat).Mul(hours, big.NewRat(3600, 1))); all != nil && all.Sign() > 0 {
			c.Utilisation = ratio(new(big.Rat).Quo(new(big.Rat).Add(prompt, output), all))
		}
	}
	if c.Total == nil {
		return
	}
	total := big.NewRat(*c.Total, 1_000_000_000)
	c.PerMillion = per(total, 1_000_000, u.Prompt+u.Completion)
	c.PerAnswer = per(total, 1, u.Answered)
	if u.Untimed == 0 && (e.FirstTokenMS != nil || e.TotalMS != nil) {
		c.PerGoodMillion, c.PerGoodAnswer = per(total, 1_000_000, u.GoodTokens), per(total, 1, u.Good)
	}
	if prompt != nil {
		if busy := new(big.Rat).Add(prompt, output); busy.Sign() > 0 {
			c.PerMillionPrompt = per(new(big.Rat).Mul(total, new(big.Rat).Quo(prompt, busy)), 1_000_000, u.Prompt)
			c.PerMillionOutput = per(new(big.Rat).Mul(total, new(big.Rat).Quo(output, busy)), 1_000_000, u.Completion)
		}
	}
	if total.Sign() > 0 {
		c.TokensPerUnit = ratio(new(big.Rat).Quo(big.NewRat(u.Prompt+u.Completion, 1), total))
		if u.Billed != nil {
			margin := new(big.Rat).Quo(big.NewRat(*u.Billed, 1_000_000_000), total)
			c.Margin = ratio(margin.Sub(margin, big.NewRat(1, 1)))
		}
	}
}

// Change is what became of a line.
type Change struct {
	Kind          string
	Before, After *int64
	Nano          *int64   // After less Before
	Share         *float64 // of the total before
}

// Compare says what changed, line by line: where both totals are known, the changes sum to that of the total. A line that one side does not have was 0 there.
func Compare(before, after Costs) (lines []Change, total Change) {
	zero := int64(0)
	at := func(c Costs, kind string) (*int64, bool) {
		for _, l := range c.Lines {
			if l.Kind == kind {
				return l.Nano, true
			}
		}
		return &zero, false
	}
	change := func(kind string, a, b *int64) Change {
		out := Change{Kind: kind, Before: a, After: b}
		if a != nil && b != nil {
			d := *b - *a
			out.Nano = &d
			if before.Total != nil && *before.Total > 0 {
				out.Share = ratio(big.NewRat(d, *before.Total))
			}
		}
		return out
	}
	for _, kind := range []string{Depreciation, Rent, PowerRequests, PowerIdle, Space, Operations} {
		a, had := at(before, kind)
		b, has := at(after, kind)
		if had || has {
			lines = append(lines, change(kind, a, b))
		}
	}
	return lines, change("total", before.Total, after.Total)
}

func times(f *Figure, by *big.Rat) *big.Rat {
	if f == nil {
		return nil
	}
	return new(big.Rat).Mul(f.Value.Rat, by)
}

// per returns amount × unit ÷ n in nano, nil of nothing.
func per(amount *big.Rat, unit, n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return nano(new(big.Rat).Mul(amount, big.NewRat(unit, n)))
}

// nano rounds an amount that is not negative half up to 10⁻⁹ units; nil beyond 62 bits, so that sums and differences fit.
func nano(amount *big.Rat) *int64 {
	x := new(big.Rat).Mul(amount, big.NewRat(2_000_000_000, 1))
	n := new(big.Int).Quo(new(big.Int).Add(x.Num(), x.Denom()), new(big.Int).Mul(x.Denom(), big.NewInt(2)))
	if n.BitLen() > 62 {
		return nil
	}
	out := n.Int64()
	return &out
}

func ratio(r *big.Rat) *float64 {
	f, _ := r.Float64()
	return &f
}
