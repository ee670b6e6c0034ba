package energy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/billing/energy/meter"
)

// bench is a machine whose clock, power, engine and faults a test moves.
type bench struct {
	t       *testing.T
	account *energy.Account
	now     meter.Moment
	energy  float64 // microjoules since the start
	told    int64
	fail    error // of the meter

	steps     []energy.Step
	ended     []time.Duration
	intervals []energy.Interval
}

// fakeMeter is the meter of a bench.
type fakeMeter struct{ b *bench }

func (fakeMeter) Source() meter.Source {
	return meter.Source{Kind: "fake", Method: meter.Measured, UncertaintyPermille: 20}
}

func (fakeMeter) Refresh(context.Context) error { return nil }

func (f fakeMeter) Advance(meter.Moment) (int64, error) {
	if f.b.fail != nil && !errors.Is(f.b.fail, meter.ErrGap) {
		return 0, f.b.fail
	}
	e := int64(f.b.energy) - f.b.told
	f.b.told += e
	return e, f.b.fail
}

func newBench(t *testing.T, idle int64) *bench {
	b := &bench{t: t, now: meter.Moment{Wall: time.Unix(1_700_000_000, 0)}}
	a, err := energy.NewAccount(energy.AccountConfig{
		Config: energy.Config{IdleMilliwatts: idle, BusyMilliwatts: idle},
		Meters: []meter.Meter{fakeMeter{b}},
		Clock:  func() meter.Moment { return b.now }, StepEngine: "native",
		Steps: func(after uint64) ([]energy.Step, uint64) {
			var out []energy.Step
			for i := after; i < uint64(len(b.steps)); i++ {
				s := b.steps[i]
				s.Ago = b.now.Mono - b.ended[i]
				out = append(out, s)
			}
			return out, uint64(len(b.steps))
		},
		Observe: func(in energy.Interval) { b.intervals = append(b.intervals, in) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.account = a
	return b
}

// pass lets time go by at a power.
func (b *bench) pass(d time.Duration, watts float64) {
	b.now.Mono += d
	b.now.Wall = b.now.Wall.Add(d)
	b.energy += watts * float64(d) / 1e3
}

// step notes that the engine has done a step.
func (b *bench) step(took time.Duration, shares ...energy.Share) {
	b.steps = append(b.steps, energy.Step{Took: took, Shares: shares})
	b.ended = append(b.ended, b.now.Mono)
}

// conserved holds every interval and the totals to the meter, to the microjoule.
func (b *bench) conserved() {
	b.t.Helper()
	var metered int64
	for i, in := range b.intervals {
		if in.Requests+in.Idle+in.Unattributed != in.Metered || in.Requests < 0 || in.Idle < 0 || in.Unattributed < 0 {
			b.t.Fatalf("interval %d does not add up: %+v", i, in)
		}
		metered += in.Metered
	}
	s := b.account.Totals()
	if s.Metered != metered || s.Requests+s.Running+s.Idle+s.Unattributed != s.Metered || min(s.Requests, s.Running, s.Idle, s.Unattributed) < 0 {
		b.t.Fatalf("the totals do not add up to %d: %+v", metered, s)
	}
}

// TestSharesAddUpToTheMeter: whatever begins, works, pauses, ends, breaks and resets, in any order, every interval adds up to the meter to the
// microjoule, nothing is negative, and requests that ended with figures sum to the requests of the totals.
func TestSharesAddUpToTheMeter(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t, r.Int64N(30_000))
		pauses, known := map[string]func(){}, int64(0)
		ids := []string{"a", "b", "c", "d", "e"}
		for range 150 {
			id := ids[r.IntN(len(ids))]
			switch r.IntN(10) {
			case 0, 1:
				if pauses[id] == nil {
					pauses[id] = b.account.Begin(id, []string{"native", "", "worker"}[r.IntN(3)])
				}
			case 2:
				if pauses[id] != nil {
					pauses[id]()
					pauses[id] = nil
				}
			case 3:
				late := pauses[id]
				if pauses[id] = nil; late != nil && r.IntN(2) == 0 {
					late()
				}
				f := b.account.End(id, 0, 0)
				if late != nil {
					late()
				}
				known += f.Microjoules
				if f.Method == "" && f.Microjoules != 0 {
					t.Fatal("an unknown figure is not 0")
				}
			case 4:
				b.fail = []error{nil, nil, nil, meter.ErrGap, errors.New("EIO")}[r.IntN(5)]
			case 5, 6:
				b.account.Read()
			case 7:
				b.step(time.Duration(r.IntN(50))*time.Millisecond, energy.Share{Request: id, Weight: r.Float64() * 9}, energy.Share{Request: "f", Weight: r.Float64()})
			default:
				b.pass(time.Duration(r.IntN(12_000))*time.Millisecond, r.Float64()*200)
			}
			b.conserved()
		}
		b.fail = nil
		for _, id := range ids {
			if pauses[id] != nil {
				pauses[id]()
			}
			known += b.account.End(id, 0, 0).Microjoules
		}
		b.account.Read()
		b.pass(time.Second, 10)
		b.account.Read()
		b.conserved()
		if s := b.account.Totals(); s.Running != 0 {
			t.Fatalf("seed %d: nobody runs and has %d µJ", seed, s.Running)
		}
		if in := b.intervals[len(b.intervals)-1]; in.Idle != in.Metered {
			t.Fatalf("seed %d: nobody runs and it is not idle: %+v", seed, in)
		}
		if got := b.account.Totals().Requests; got != known {
			t.Fatalf("seed %d: the requests sum to %d, the totals say %d", seed, known, got)
		}
	}
}

// TestPlantedSharesAreFound: of a machine whose power follows a known law, two models and three tenants at once, each request is charged what it
// caused within 5 per cent, and at most 5 per cent are nobody's.
func TestPlantedSharesAreFound(t *testing.T) {
	const idle = 20.0
	b := newBench(t, 0)
	for range 30 { // the machine is seen idle
		b.pass(time.Second, idle)
		b.account.Read()
	}
	r := rand.New(rand.NewPCG(7, 7))
	caused, charged, dynamic := map[string]float64{}, map[string]float64{}, 0.0
	for round := range 60 {
		// Three requests of a round run together: two in one model, whose rows cost differently, and one in another.
		ids := []string{fmt.Sprint("bank", round), fmt.Sprint("shop", round), fmt.Sprint("clinic", round)}
		var pauses []func()
		for _, id := range ids {
			pauses = append(pauses, b.account.Begin(id, "native"))
		}
		next := b.now.Mono
		for range 40 + r.IntN(40) {
			// One step of the first model and one of the second: time and power by the work in them.
			first := []float64{1 + 3*r.Float64(), 1 + r.Float64()}
			for _, s := range []struct {
				ids     []string
				weights []float64
				per     time.Duration
			}{{ids[:2], first, 9 * time.Millisecond}, {ids[2:], []float64{1}, 35 * time.Millisecond}} {
				sum := 0.0
				for _, w := range s.weights {
					sum += w
				}
				took := time.Duration(float64(s.per) * sum)
				const watts = 45.0
				b.pass(took, idle+watts)
				dynamic += watts * float64(took) / 1e3
				var shares []energy.Share
				for i, id := range s.ids {
					caused[id[:4]] += watts * float64(took) / 1e3 * s.weights[i] / sum
					shares = append(shares, energy.Share{Request: id, Weight: s.weights[i]})
				}
				b.step(took, shares...)
				if b.now.Mono-next > time.Second {
					b.account.Read()
					next = b.now.Mono
				}
			}
		}
		for i, id := range ids {
			pauses[i]()
			f := b.account.End(id, 0, 0)
			if f.Method != meter.Measured || f.Idle != meter.Measured || f.Uncertainty != 20 {
				t.Fatalf("figure %+v", f)
			}
			charged[id[:4]] += float64(f.Microjoules)
		}
		b.pass(500*time.Millisecond, idle)
	}
	b.account.Read()
	b.conserved()
	for id, want := range caused {
		if off := math.Abs(charged[id]-want) / want; off > 0.05 {
			t.Errorf("%s is charged %.0f of %.0f µJ: off by %.1f%%", id, charged[id], want, 100*off)
		}
	}
	if s := b.account.Totals(); float64(s.Unattributed) > 0.05*dynamic {
		t.Errorf("%d µJ of %.0f are nobody's", s.Unattributed, dynamic)
	}
}

// TestLongStepsBesideShortRequests: readings in the middle of a long step charge it for the time that it ran.
func TestLongStepsBesideShortRequests(t *testing.T) {
	b := newBench(t, 10_000)
	long := b.account.Begin("long", "native")
	b.pass(100*time.Millisecond, 60)
	b.step(100*time.Millisecond, energy.Share{Request: "long", Weight: 1})
	b.account.Read()
	short := 0.0
	for range 100 {
		for i := range 10 { // embeddings of 10 ms beside a step of 100 ms, half of the machine each
			id := fmt.Sprint("short", i)
			pause := b.account.Begin(id, "")
			b.pass(10*time.Millisecond, 60)
			pause()
			if i == 9 {
				b.step(100*time.Millisecond, energy.Share{Request: "long", Weight: 1})
			}
			short += float64(b.account.End(id, 0, 0).Microjoules)
		}
	}
	long()
	f := float64(b.account.End("long", 0, 0).Microjoules)
	b.conserved()
	want := 0.5 * 50e6 * 10 / 10 // of 50 W for 10 s, a third or a half, as the two are weighed
	if f < want || short > 1.02*250e6 || f+short < 0.98*500e6 {
		t.Errorf("long %.0f µJ, short %.0f µJ", f, short)
	}
}

// TestUnknownIsNeverZero: while a meter cannot be read, requests have no figure and no method, and what it says later is not charged to others.
func TestUnknownIsNeverZero(t *testing.T) {
	for _, why := range []error{errors.New("permission denied"), meter.ErrGap} {
		b := newBench(t, 0)
		first, second := b.account.Begin("first", ""), b.account.Begin("second", "")
		b.fail = why
		b.pass(time.Second, 50)
		first()
		if f := b.account.End("first", 0, 0); f.Method != "" || f.Microjoules != 0 {
			t.Errorf("%v: %+v", why, f)
		}
		b.fail = nil
		b.pass(time.Second, 50)
		second()
		f := b.account.End("second", 0, 0)
		b.conserved()
		if errors.Is(why, meter.ErrGap) && f.Method != "" || !errors.Is(why, meter.ErrGap) && (f.Method != meter.Measured || f.Microjoules < 60e6 || f.Microjoules > 70e6) {
			t.Errorf("%v: the other has %+v", why, f) // at work for 2 s of the 3 s of both
		}
	}
	b := newBench(t, 0)
	b.fail = errors.New("gone")
	for i := range 100_000 { // a meter that is gone for good costs no memory
		id := fmt.Sprint(i)
		b.account.Begin(id, "")()
		b.pass(time.Millisecond, 1)
		b.account.End(id, 0, 0)
	}
	b.fail = nil
	b.account.Read()
	b.conserved()
	if s := b.account.Totals(); s.Missing < 99*time.Second || s.Unattributed != s.Metered {
		t.Errorf("%+v", s)
	}
}

// TestNoMeterNoRefusal: a meter that is not there makes figures unknown, and nothing else.
func TestNoMeterNoRefusal(t *testing.T) {
	a, err := energy.NewAccount(energy.AccountConfig{Config: energy.Config{Meters: []meter.Config{{Kind: "rapl", Root: t.TempDir()}}}})
	if err != nil {
		t.Fatal(err)
	}
	a.Begin("r", "")()
	if f := a.End("r", time.Second, 1); f.Method != "" || f.Microjoules != 0 || a.Method() != "measured" {
		t.Errorf("%+v", f)
	}
	d, err := energy.NewAccount(energy.AccountConfig{Config: energy.Config{IdleMilliwatts: 1000, BusyMilliwatts: 3000}})
	if err != nil {
		t.Fatal(err)
	}
	d.Begin("r", "")()
	if f := d.End("r", time.Second, 1); f.Method != meter.Declared || f.Microjoules != 2_000_000 {
		t.Errorf("%+v", f)
	}
}

// TestAbandonedIsNobodys: of a request that another machine answered nothing is charged.
func TestAbandonedIsNobodys(t *testing.T) {
	b := newBench(t, 10_000)
	pause := b.account.Begin("moved", "")
	b.pass(time.Second, 50)
	pause()
	b.account.Abandon("moved")
	b.conserved()
	if s := b.account.Totals(); s.Requests != 0 || s.Unattributed != 40_000_000 || s.Idle != 10_000_000 {
		t.Errorf("%+v", s)
	}
}

// TestIdleTimeEndsWhereWorkBegins: what the machine took before a request began is not charged to it, also if the one before was settled while its
// stretch of work went on, as answers are.
func TestIdleTimeEndsWhereWorkBegins(t *testing.T) {
	b := newBench(t, 0)
	pause := b.account.Begin("first", "")
	b.pass(time.Second, 30)
	b.account.End("first", 0, 0)
	pause()
	b.pass(5*time.Second, 10)
	b.account.Begin("second", "")
	b.pass(time.Second, 60)
	if f := b.account.End("second", 0, 0); f.Microjoules != 60_000_000 {
		t.Errorf("%+v", f)
	}
	b.conserved()
	if s := b.account.Totals(); s.Idle != 50_000_000 || s.Requests != 90_000_000 {
		t.Errorf("%+v", s)
	}
}
