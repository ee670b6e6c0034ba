package cost

import (
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/internal/fault"
)

const owned = `
schema: 1
currency: CNY
effective_from: 2026-01-01T00:00:00+08:00
zone: Asia/Shanghai
engines:
  - name: rack-a
    models: ["glm", "qwen-*"]
    machines: {value: 2, source: "inventory 14", date: 2026-01-05}
    purchase_price: {value: 480000, source: "contract 7", date: 2025-12-01}
    depreciation_months: {value: 48, source: "accounting rule 3", date: 2025-01-01}
    pue: {value: 1.25, source: "meters of the building", date: 2026-01-31}
    idle_watts: {value: 300, source: "measured on site", date: 2026-01-31}
    space_month: {value: 3000.50, source: "lease", date: 2025-06-01}
    staff_month: {value: 40000, source: "plan", date: 2026-01-01}
    staff_percent: {value: 12.5, source: "time sheets", date: 2026-01-31}
    prompt_tokens_second: {value: 20000, source: "sluice bench", date: 2026-01-20}
    output_tokens_second: {value: 1000, source: "sluice bench", date: 2026-01-20}
    slo_total_ms: {value: 2000, source: "contract 9", date: 2026-01-01}
    power:
      - {hours: [10, 11, 14, 15, 16, 17], value: 1.2, source: "tariff 2026-1", date: 2025-12-20}
      - {hours: [0, 1, 2, 3, 4, 5, 6, 7], value: 0.3, source: "tariff 2026-1", date: 2025-12-20}
      - {value: 0.7, source: "tariff 2026-1", date: 2025-12-20}
`

func book(t *testing.T, doc string) *Book {
	t.Helper()
	b, err := Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// february is a month of 28 days in Shanghai.
func february() (from, until time.Time) {
	return time.Date(2026, 1, 31, 16, 0, 0, 0, time.UTC), time.Date(2026, 2, 28, 16, 0, 0, 0, time.UTC)
}

// busy is a month whose figures are worked out by hand in TestCostsOfAMonth.
func busy() Usage {
	from, _ := february()
	const kWh = 3_600_000_000_000
	fifty := int64(50_000e9)
	return Usage{
		Requests: 1000, Answered: 900, Good: 800, GoodTokens: 100_000_000, Prompt: 200_000_000, Cached: 50_000_000, Completion: 40_000_000, Billed: &fifty,
		Energy: []Energy{
			{from.Add(10 * time.Hour), "measured", 400, 100 * kWh},                // at 10 o'clock in Shanghai: peak
			{from.Add(25*time.Hour + 45*time.Minute), "measured", 500, 200 * kWh}, // at 1:45 of the next day: valley
			{from.Add(9 * time.Hour), "measured", 100, 10 * kWh},                  // at 9: flat
		},
	}
}

func TestCostsOfAMonth(t *testing.T) {
	b := book(t, owned)
	from, until := february()
	c, err := b.Of(b.Engines[0], busy(), from, until, until)
	if err != nil {
		t.Fatal(err)
	}
	// 2 × 480,000 ÷ 48 = 20,000
	// (100 × 1.2 + 200 × 0.3 + 10 × 0.7) × 1.25 = 233.75
	// 28 days × (6 × 1.2 + 8 × 0.3 + 10 × 0.7) = 464.8 CNY h/kWh; × 2 × 0.3 kW × 1.25 = 348.6
	// 40,000 × 12.5 % = 5,000
	for i, want := range []struct {
		kind, basis string
		nano        int64
	}{
		{Depreciation, Declared, 20_000e9},
		{PowerRequests, Measured, 233_750_000_000},
		{PowerIdle, Modelled, 348_600_000_000},
		{Space, Declared, 3_000_500_000_000},
		{Operations, Declared, 5_000e9},
	} {
		if l := c.Lines[i]; l.Kind != want.kind || l.Nano == nil || *l.Nano != want.nano || l.Basis != want.basis {
			t.Errorf("%+v, want %+v", l, want)
		}
	}
	const total = 28_582_850_000_000 // 28,582.85
	// 240 M tokens, of which prompts take 200 M ÷ 20,000 = 10,000 s and answers 40 M ÷ 1,000 = 40,000 s, so 1 and 4 of 5
	for name, got := range map[string]struct {
		got  *int64
		want int64
	}{
		"total":   {c.Total, total},
		"million": {c.PerMillion, 119_095_208_333},
		"prompt":  {c.PerMillionPrompt, 28_582_850_000},  // 28,582.85 ÷ 5 ÷ 200
		"output":  {c.PerMillionOutput, 571_657_000_000}, // 28,582.85 × 4 ÷ 5 ÷ 40
		"answer":  {c.PerAnswer, 31_758_722_222},
		"good":    {c.PerGoodAnswer, 35_728_562_500},
		"goods":   {c.PerGoodMillion, 285_828_500_000},
	} {
		if got.got == nil || *got.got != got.want {
			t.Errorf("%s: %v, want %d", name, got.got, got.want)
		}
	}
	if want := 50_000.0 / (2 * 28 * 86_400); math.Abs(*c.Utilisation-want) > 1e-12 || math.Abs(*c.MachineHours-2*28*24) > 1e-9 || c.EnergyMethod != Measured {
		t.Errorf("%v of %v, %v", *c.Utilisation, want, *c.MachineHours)
	}
	if want := 50_000/28_582.85 - 1; math.Abs(*c.Margin-want) > 1e-9 || math.Abs(*c.TokensPerUnit-240e6/28_582.85) > 1e-6 {
		t.Errorf("margin %v, want %v", *c.Margin, want)
	}
	half, err := b.Of(b.Engines[0], Usage{}, from, from.Add(14*24*time.Hour), until)
	if err != nil || *half.Lines[0].Nano != 10_000e9 || *half.Lines[1].Nano != 0 || half.PerMillion != nil || half.PerGoodAnswer != nil {
		t.Errorf("half a month without requests: %+v, %v", half.Lines, err)
	}
}

// TestUnknownCostIsNeverZero: without any one figure, and with one request whose energy is not known, what depends on it is not known.
func TestUnknownCostIsNeverZero(t *testing.T) {
	from, until := february()
	for _, figure := range []string{"machines", "purchase_price", "depreciation_months", "pue", "idle_watts", "space_month", "staff_month", "staff_percent", "power"} {
		doc, dropping := "", false
		for line := range strings.Lines(owned) {
			in := strings.TrimSpace(line)
			if dropping = strings.HasPrefix(in, figure+":") || dropping && figure == "power" && strings.HasPrefix(in, "- {"); !dropping {
				doc += line
			}
		}
		b := book(t, doc)
		c, err := b.Of(b.Engines[0], busy(), from, until, until)
		if err != nil || c.Total != nil || c.PerMillion != nil || c.PerAnswer != nil || c.PerGoodMillion != nil || c.Margin != nil || c.TokensPerUnit != nil || c.AtLeast <= 0 {
			t.Errorf("without %s: %+v, %v", figure, c, err)
		}
		named := false
		for _, l := range c.Lines {
			if l.Nano == nil {
				named = named || l.Missing == figure
				if l.Basis != "" {
					t.Errorf("without %s: %+v has a basis", figure, l)
				}
			}
		}
		if !named {
			t.Errorf("no line says that %s is missing: %+v", figure, c.Lines)
		}
	}
	b, u := book(t, owned), busy()
	u.Energy = append(u.Energy, Energy{Start: from, Requests: 1})
	c, err := b.Of(b.Engines[0], u, from, until, until)
	if l := c.Lines[1]; err != nil || l.Nano != nil || l.AtLeast != 233_750_000_000 || l.Missing != "energy" || c.Total != nil {
		t.Errorf("%+v, %v", l, err)
	}
	with := strings.Replace(owned, "    space_month", "    request_watt_hours: {value: 20, source: data sheet, date: 2026-01-01}\n    space_month", 1)
	// 20 Wh at midnight in Shanghai: 0.02 × 0.3 × 1.25
	c, err = book(t, with).Of(book(t, with).Engines[0], u, from, until, until)
	if l := c.Lines[1]; err != nil || l.Nano == nil || *l.Nano != 233_757_500_000 || l.Basis != "mixed" || c.Total == nil {
		t.Errorf("%+v, %v", l, err)
	}
	u = busy()
	u.Untimed = 1
	if c, err := b.Of(b.Engines[0], u, from, until, until); err != nil || c.PerGoodAnswer != nil || c.PerAnswer == nil {
		t.Errorf("an answer whose time is not known is taken for good or bad: %+v, %v", c, err)
	}
	u = busy()
	u.Energy[0].Method = Modelled
	if c, err := b.Of(b.Engines[0], u, from, until, until); err != nil || c.Lines[1].Basis != "mixed" || c.EnergyMethod != "mixed" {
		t.Errorf("%+v, %v", c.Lines[1], err)
	}
}

// TestPublishedFigures recomputes S-12 from its inputs: the nodes that the published rates take are those that were published, and so are cost and margin.
func TestPublishedFigures(t *testing.T) {
	doc, err := os.ReadFile("testdata/published.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := book(t, string(doc))
	from := time.Date(2025, 2, 27, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(0, 0, 1)
	// 608 G tokens in, 342 G of them from the cache, 168 G out; 0.14, 0.55 and 2.19 USD a million
	u := Usage{Requests: 1, Answered: 1, Prompt: 608e9, Cached: 342e9, Completion: 168e9}
	billed := int64(266e9*550 + 342e9*140 + 168e9*2190)
	u.Billed = &billed
	u.Energy = []Energy{{Start: from, Requests: 1}} // on machines of others: nobody meters, and power is in the rent
	c, err := b.Of(b.Engines[0], u, from, until, until)
	if err != nil {
		t.Fatal(err)
	}
	if *c.Total != 87_072e9 {
		t.Errorf("a day costs %d, published are 87,072 USD", *c.Total)
	}
	if math.Abs(*c.Utilisation-1) > 0.001 {
		t.Errorf("73.7k and 14.8k tokens a second take %v of the 226.75 nodes", *c.Utilisation)
	}
	if math.Abs(*c.Margin-5.45) > 0.01 {
		t.Errorf("a margin of %v, published are 545 %%", *c.Margin)
	}
	million := map[int]float64{}
	for i, rate := range map[int]int64{1: 4039, 2: 2324} {
		c, err := b.Of(b.Engines[i], Usage{Requests: 1, Completion: rate * 3600}, from, from.Add(time.Hour), from.Add(time.Hour))
		if err != nil || *c.Utilisation != 1 {
			t.Fatal(*c.Utilisation, err)
		}
		million[i] = float64(*c.PerMillion)
	}
	if times := million[2] / million[1]; math.Abs(times-1.73) > 0.01 {
		t.Errorf("%v times the cost for a token, published are 1.73 times the tokens for a card", times)
	}
}

// TestChangesSum: what lines change sums to what the total changes, whatever was declared and measured; of S-03, 13 of 20 rented machines away for a part
// of the night cost 22.4 % less.
func TestChangesSum(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	from, until := february()
	for range 200 {
		var both [2]Costs
		for i := range both {
			b := book(t, strings.ReplaceAll(owned, "value: 480000", "value: "+Decimal{new(big.Rat).SetFrac64(random.Int64N(1e18), 1e9)}.String()))
			u := busy()
			u.Energy[0].Microjoules = random.Int64N(1e18)
			c, err := b.Of(b.Engines[0], u, from, until, until)
			if err != nil {
				t.Fatal(err)
			}
			sum := int64(0)
			for _, l := range c.Lines {
				sum += *l.Nano
			}
			if sum != *c.Total || c.AtLeast != sum {
				t.Fatalf("lines sum to %d, the total is %d", sum, *c.Total)
			}
			both[i] = c
		}
		lines, total := Compare(both[0], both[1])
		sum, share := int64(0), 0.0
		for _, l := range lines {
			sum, share = sum+*l.Nano, share+*l.Share
		}
		if sum != *total.Nano || math.Abs(share-*total.Share) > 1e-9 || *total.Nano != *both[1].Total-*both[0].Total {
			t.Fatalf("%d and %v, the total changes by %d and %v", sum, share, *total.Nano, *total.Share)
		}
	}
	before := book(t, strings.Replace(strings.Replace(owned, "purchase_price", "machine_hour", 1), "value: 480000", "value: 10", 1))
	after := *before.Engines[0].Machines
	after.Value = Decimal{big.NewRat(1552, 1000)} // 2 less 22.4 %
	e := before.Engines[0]
	none := &Figure{Value: Decimal{new(big.Rat)}, Source: "in the rent", Date: "2026-01-01"}
	e.IdleWatts, e.Space, e.StaffPercent = none, none, none
	a, errA := before.Of(e, Usage{}, from, until, until)
	e.Machines = &after
	b, errB := before.Of(e, Usage{}, from, until, until)
	lines, total := Compare(a, b)
	if errA != nil || errB != nil || math.Abs(*total.Share+0.224) > 1e-9 || math.Abs(*lines[0].Share+0.224) > 1e-9 || lines[0].Kind != Rent {
		t.Errorf("%+v, %v %v", lines, errA, errB)
	}
}

func TestParse(t *testing.T) {
	b := book(t, owned)
	for model, want := range map[string]int{"glm": 0, "qwen-2": 0, "gpt": -1, "": -1} {
		if got := b.EngineOf(model); got != want {
			t.Errorf("%q is of engine %d", model, got)
		}
	}
	for old, wrong := range map[string]string{
		"schema: 1":                        "schema: 2",
		"currency: CNY":                    "currency: Yuan",
		"zone: Asia/Shanghai":              "zone: Local",
		"effective_from: 2026":             "effective_from: soon # ",
		"name: rack-a":                     "name: ''",
		`["glm", "qwen-*"]`:                `["glm", "glm"]`,
		`value: 2, source: "inventory 14"`: `value: -2, source: "inventory 14"`,
		`value: 1.25`:                      `value: 0.9`,
		`value: 12.5`:                      `value: 112.5`,
		`value: 300,`:                      `value: 3e2,`,
		`source: "contract 7", `:           ``,
		"date: 2025-06-01":                 "date: June",
		"idle_watts":                       "idle_wats",
		"    pue:":                         "    machine_hour: {value: 1, source: contract, date: 2026-01-01}\n    pue:",
		"hours: [0, 1,":                    "hours: [10, 1,",
		"      - {value: 0.7":              "      - {hours: [8], value: 0.7",
		"[10, 11,":                         "[24, 11,",
	} {
		doc := strings.Replace(owned, old, wrong, 1)
		if _, err := Parse([]byte(doc)); doc == owned || !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	for _, doc := range []string{"", owned + "\n---\n" + owned, strings.Repeat("#", price.MaxBytes+1), "[", owned + strings.Replace(owned[strings.Index(owned, "  - name"):], "rack-a", "rack-b", 1)} {
		if _, err := Parse([]byte(doc)); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%.40q: %v", doc, err)
		}
	}
}

// FuzzParse: whatever is accepted gives a report of a month, and no figure without a source.
func FuzzParse(f *testing.F) {
	f.Add(owned)
	f.Fuzz(func(t *testing.T, doc string) {
		b, err := Parse([]byte(doc))
		if err != nil {
			return
		}
		from, until := february()
		for _, e := range b.Engines {
			for _, x := range e.figures() {
				if x.figure != nil && (x.figure.Source == "" || x.figure.Date == "") {
					t.Errorf("%s of %s has no source", x.name, e.Name)
				}
			}
			c, err := b.Of(e, busy(), from, until, until)
			if err != nil || c.AtLeast < 0 || c.Total != nil && *c.Total != c.AtLeast {
				t.Errorf("%+v, %v", c, err)
			}
		}
	})
}
