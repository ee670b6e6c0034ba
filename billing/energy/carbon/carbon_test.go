package carbon_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/billing/energy/carbon"
)

// TestFactors: every factor says where it comes from, own ones too, and none is taken where none is named.
func TestFactors(t *testing.T) {
	list, err := carbon.Factors(nil)
	if err != nil || len(list) < 17 {
		t.Fatal(len(list), err)
	}
	seen := map[string]bool{}
	for _, f := range list {
		if seen[f.ID] || f.RegionZH == "" {
			t.Errorf("%+v", f)
		}
		seen[f.ID] = true
	}
	if _, err := carbon.Find(list, ""); err == nil {
		t.Error("no factor is a factor")
	}
	const own = `[{"id":"own","region":"Our roof","region_zh":"","scope":"contract","milligrams_per_kwh":0,"year":2026,"source":"contract 7","published":"2026-01-31"}]`
	if list, err := carbon.Factors([]byte(own)); err != nil || list[len(list)-1].ID != "own" {
		t.Error(err)
	}
	for _, wrong := range []string{
		``, `{}`, own + "x", strings.Replace(own, "own", "cn-2023", 1), strings.Replace(own, "contract 7", "", 1), strings.Replace(own, "2026-01-31", "soon", 1),
		strings.Replace(own, `:0,`, `:-1,`, 1), strings.Replace(own, `"year"`, `"yaer"`, 1), strings.Replace(own, `"contract"`, `"green"`, 1),
	} {
		if _, err := carbon.Factors([]byte(wrong)); err == nil {
			t.Errorf("accepted: %s", wrong)
		}
	}
}

// TestMonth: a month by hand. 100 kWh in Guangdong at a PUE of 1.25 is 125 kWh × 441.9 g = 55,237.5 g; by the market, at 609.6 g, 76,200 g.
func TestMonth(t *testing.T) {
	list, err := carbon.Factors(nil)
	if err != nil {
		t.Fatal(err)
	}
	const kWh = 3_600_000_000_000
	for id, want := range map[string]int64{"cn-guangdong-2023": 55_237_500_000, "cn-residual-2023": 76_200_000_000, "cn-2023": 66_325_000_000} {
		f, err := carbon.Find(list, id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Micrograms(100*kWh, 1250); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", id, got, err, want)
		}
		for _, wrong := range [][2]int64{{-1, 1000}, {1, 999}, {1, 10_001}} {
			if _, err := f.Micrograms(wrong[0], wrong[1]); err == nil {
				t.Errorf("%v is accepted", wrong)
			}
		}
		if got, err := f.Micrograms(math.MaxInt64, 10_000); err != nil || got <= 0 {
			t.Errorf("all the energy there can be: %d, %v", got, err)
		}
	}
	r := carbon.Work{Requests: 50, Tokens: 4000, Microjoules: 2_000_000_000}.Rates()
	if *r.JoulesPerRequest != 40 || *r.JoulesPer1000 != 500 || *r.TokensPerJoule != 2 || *r.RequestsPerKJ != 25 {
		t.Errorf("%v %v %v %v", *r.JoulesPerRequest, *r.JoulesPer1000, *r.TokensPerJoule, *r.RequestsPerKJ)
	}
	if r := (carbon.Work{Requests: 5, Tokens: 5}).Rates(); r.TokensPerJoule != nil || r.JoulesPerRequest != nil {
		t.Error("an energy that is not known has rates")
	}
	if g := carbon.SCI(8_000_000, 2_000_000, 4000); *g != 2.5 || carbon.SCI(1, 1, 0) != nil {
		t.Error(*g)
	}
}

func FuzzFactors(f *testing.F) {
	f.Add(`[{"id":"own","region":"r","region_zh":"","scope":"contract","milligrams_per_kwh":1,"year":2026,"source":"s","published":"2026-01-31"}]`)
	f.Fuzz(func(t *testing.T, own string) {
		list, err := carbon.Factors([]byte(own))
		if err != nil {
			return
		}
		for _, x := range list {
			if x.Source == "" || x.Milligrams < 0 {
				t.Errorf("%+v", x)
			}
		}
	})
}
