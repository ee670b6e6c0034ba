package energy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
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
	sampled bool  // so is the meter

	steps     []energy.Step
	ended     []time.Duration
	intervals []energy.Interval
}

// fakeMeter is the meter of a bench.
type fakeMeter struct{ b *bench }

func (f fakeMeter) Source() meter.Source {
	return meter.Source{Kind: "fake", Method: meter.Measured, UncertaintyPermille: 20, Sampled: f.b.sampled}
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

func newBench(t *testing.T, idle int64) *bench { return newBenchOf(t, idle, false) }

// newBenchOf makes a machine that declares so many milliwatts when idle, whose first reading is taken.
func newBenchOf(t *testing.T, idle int64, sampled bool) *bench {
	b := &bench{t: t, now: meter.Moment{Wall: time.Unix(1_700_000_000, 0)}, sampled: sampled}
	a, err := energy.NewAccount(energy.AccountConfig{
		Config: energy.Config{IdleMilliwatts: idle, BusyMilliwatts: idle},
		Meters: []meter.Meter{fakeMeter{b}},
		Clock:  func() meter.Moment { return b.now },
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
	a.Read()
	return b
}

// rest lets the machine be seen idle at a power.
func (b *bench) rest(watts float64) {
	for range 12 {
		b.pass(time.Second, watts)
		b.account.Read()
	}
}

// pass lets time go by at a power.
func (b *bench) pass(d time.Duration, watts float64) {
	b.now.Mono += d
	b.now.Wall = b.now.Wall.Add(d)
	b.energy += watts * float64(d) / 1e3
}

// work lets the machine work for a request for so long at a power.
func (b *bench) work(request string, stepped bool, d time.Duration, watts float64) {
	pause := b.account.Begin(request, stepped)
	b.pass(d, watts)
	pause()
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
		b := newBenchOf(t, r.Int64N(30_000), seed%2 == 1)
		pauses, known := map[string]func(){}, int64(0)
		ids := []string{"a", "b", "c", "d", "e"}
		for range 150 {
			id := ids[r.IntN(len(ids))]
			switch r.IntN(10) {
			case 0, 1:
				if pauses[id] == nil {
					pauses[id] = b.account.Begin(id, r.IntN(2) == 0)
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
		if got := b.account.Totals().Requests; got != known && !b.sampled {
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
			pauses = append(pauses, b.account.Begin(id, true))
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
	long := b.account.Begin("long", true)
	b.pass(100*time.Millisecond, 60)
	b.step(100*time.Millisecond, energy.Share{Request: "long", Weight: 1})
	b.account.Read()
	short := 0.0
	for range 100 {
		for i := range 10 { // embeddings of 10 ms beside a step of 100 ms, half of the machine each
			id := fmt.Sprint("short", i)
			b.work(id, false, 10*time.Millisecond, 60)
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
		b.rest(0)
		first, second := b.account.Begin("first", false), b.account.Begin("second", false)
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
		if errors.Is(why, meter.ErrGap) && f.Method != "" || !errors.Is(why, meter.ErrGap) && (f.Method != meter.Measured || f.Microjoules != 75e6) {
			t.Errorf("%v: the other has %+v", why, f) // a half of the first second and the whole of the other
		}
	}
	b := newBench(t, 0)
	b.fail = errors.New("gone")
	for i := range 100_000 { // a meter that is gone for good costs no memory
		id := fmt.Sprint(i)
		b.account.Begin(id, false)()
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
	a.Begin("r", false)()
	if f := a.End("r", time.Second, 1); f.Method != "" || f.Microjoules != 0 || a.Method() != "measured" {
		t.Errorf("%+v", f)
	}
	d, err := energy.NewAccount(energy.AccountConfig{Config: energy.Config{IdleMilliwatts: 1000, BusyMilliwatts: 3000}})
	if err != nil {
		t.Fatal(err)
	}
	d.Begin("r", false)()
	if f := d.End("r", time.Second, 1); f.Method != meter.Declared || f.Microjoules != 2_000_000 {
		t.Errorf("%+v", f)
	}
}

// TestAbandonedIsNobodys: of a request that another machine answered nothing is charged.
func TestAbandonedIsNobodys(t *testing.T) {
	b := newBench(t, 10_000)
	b.work("moved", false, time.Second, 50)
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
	pause := b.account.Begin("first", false)
	b.pass(time.Second, 30)
	b.account.End("first", 0, 0)
	pause()
	b.pass(5*time.Second, 10)
	b.account.Begin("second", false)
	b.pass(time.Second, 60)
	if f := b.account.End("second", 0, 0); f.Microjoules != 60_000_000 {
		t.Errorf("%+v", f)
	}
	b.conserved()
	if s := b.account.Totals(); s.Idle != 50_000_000 || s.Requests != 90_000_000 {
		t.Errorf("%+v", s)
	}
}

// TestShortRequestsBetweenSamples: a power that is sampled once a second finds what requests of half a second cause, together within 5 per cent. No
// figure is called measured, none is 0, and none is told before the machine was seen at work; all samples add up.
func TestShortRequestsBetweenSamples(t *testing.T) {
	const idle, busy = 100.0, 300.0
	caused, charged, met := 0.0, 0.0, 0.0
	for seed := range uint64(10) {
		b := newBenchOf(t, 0, true)
		b.rest(idle)
		r := rand.New(rand.NewPCG(seed, 3))
		next, unknown := b.now.Mono+time.Second, 0
		pass := func(d time.Duration, watts float64) { // the meter tells of each second what it sees at its end
			for d > 0 {
				some := min(d, next-b.now.Mono)
				b.pass(some, 0)
				if d -= some; b.now.Mono == next {
					next += time.Second
					b.energy += watts * 1e6
					b.account.Read()
				}
			}
		}
		for i := range 1000 {
			pass(time.Duration(r.IntN(2_000_000_000)), idle)
			pause := b.account.Begin(fmt.Sprint(i), false)
			pass(500*time.Millisecond, busy)
			pause()
			f := b.account.End(fmt.Sprint(i), 0, 0)
			if f.Method == "" {
				unknown++
				continue
			}
			if f.Method != meter.Modelled || f.Microjoules == 0 || f.Uncertainty != 320 {
				t.Fatalf("%d: %+v", i, f)
			}
			caused += (busy - idle) * 0.5e6
			charged += float64(f.Microjoules)
		}
		b.conserved()
		if unknown == 0 || unknown > 25 {
			t.Errorf("%d are not known", unknown)
		}
		met += float64(b.account.Totals().Requests)
	}
	if math.Abs(charged-caused) > 0.05*caused || math.Abs(met-caused) > 0.05*caused {
		t.Errorf("of %.0f µJ %.0f are charged and %.0f in the totals", caused, charged, met)
	}
}

// TestLongRequestsOfSamples: what lasts for many samples is measured, and off by no more than its ends.
func TestLongRequestsOfSamples(t *testing.T) {
	b := newBenchOf(t, 0, true)
	b.rest(100)
	pause := b.account.Begin("long", false)
	for range 25 {
		b.pass(time.Second, 300)
		b.account.Read()
	}
	b.pass(500*time.Millisecond, 300)
	pause()
	if f := b.account.End("long", 0, 0); f.Method != meter.Measured || f.Uncertainty != 60 || f.Microjoules != 5_100_000_000 {
		t.Errorf("%+v", f)
	}
	b.account.Begin("next", false)
	b.fail = errors.New("no sample")
	b.pass(time.Second, 300)
	if b.account.Read(); b.account.End("next", 0, 0).Method != "" {
		t.Error("a request has a figure while the meter fails")
	}
	b.fail = nil
	b.account.Read()
	b.conserved()
	if s := b.account.Totals(); s.Requests < 5_000_000_000 || s.Running != 0 {
		t.Errorf("%+v", s)
	}
}

// TestLoadingIsNotIdle: what the machine takes before it serves is not learned as idle, nor is what it takes in the smaller part of its time without
// requests.
func TestLoadingIsNotIdle(t *testing.T) {
	b := &bench{t: t, now: meter.Moment{Wall: time.Unix(1_700_000_000, 0)}}
	a, err := energy.NewAccount(energy.AccountConfig{
		Config: energy.Config{IdleMilliwatts: 20_000, BusyMilliwatts: 20_000},
		Meters: []meter.Meter{fakeMeter{b}}, Clock: func() meter.Moment { return b.now },
		Observe: func(in energy.Interval) { b.intervals = append(b.intervals, in) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.account = a
	b.pass(25*time.Second, 300)
	b.told = int64(b.energy) // the first call of Advance tells nothing
	a.Begin("first", false)
	b.pass(10*time.Second, 300)
	if f := a.End("first", 0, 0); f.Microjoules != 2_800_000_000 || f.Method != meter.Declared || f.Idle != meter.Declared {
		t.Errorf("after loading: %+v", f)
	}
	for range 5 {
		b.rest(20)
	}
	for range 25 { // another model is loaded
		b.pass(time.Second, 300)
		a.Read()
	}
	a.Begin("second", false)
	b.pass(10*time.Second, 300)
	if f := a.End("second", 0, 0); f.Microjoules != 2_800_000_000 || f.Method != meter.Measured {
		t.Errorf("after loading another: %+v", f)
	}
	b.conserved()
}

// TestNoStepNoFigure: a request of the engine that logs steps has none while none of its steps is known, and its energy falls to nobody.
func TestNoStepNoFigure(t *testing.T) {
	b := newBench(t, 0)
	b.rest(10)
	b.work("r", true, time.Second, 210)
	if f := b.account.End("r", 0, 0); f.Method != "" || f.Microjoules != 0 {
		t.Errorf("%+v", f)
	}
	b.conserved()
	if s := b.account.Totals(); s.Requests != 0 || s.Unattributed != 200_000_000 {
		t.Errorf("%+v", s)
	}
}

// TestStepsAndOtherWork: of a request that embeds before it generates, both are counted.
func TestStepsAndOtherWork(t *testing.T) {
	b := newBench(t, 0)
	b.rest(10)
	b.work("r", false, time.Second, 60)
	generate := b.account.Begin("r", true)
	b.pass(time.Second, 110)
	b.step(time.Second, energy.Share{Request: "r", Weight: 1})
	generate()
	if f := b.account.End("r", 0, 0); f.Microjoules != 150_000_000 {
		t.Errorf("%+v", f)
	}
	b.conserved()
}

// TestGivesUpWhatNeverEnds: a request whose stretch has ended and that nobody ends is given up after an hour, and its energy is nobody's.
func TestGivesUpWhatNeverEnds(t *testing.T) {
	b := newBench(t, 0)
	b.rest(10)
	b.work("lost", false, time.Second, 60)
	b.account.Read()
	for range 65 {
		b.pass(time.Minute, 10)
		b.account.Read()
	}
	b.conserved()
	if s := b.account.Totals(); s.Running != 0 || s.Unattributed != 50_000_000 {
		t.Errorf("%+v", s)
	}
	if f := b.account.End("lost", 0, 0); f.Window != 0 {
		t.Errorf("it is still there: %+v", f)
	}
}

// sampler is a meter of 10 W that tells nothing without a sample.
type sampler struct {
	mu    sync.Mutex
	fresh bool
	fail  error
}

func (*sampler) Source() meter.Source {
	return meter.Source{Kind: "sampler", Method: meter.Measured, Sampled: true}
}

func (s *sampler) Refresh(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = s.fail == nil
	return s.fail
}

func (s *sampler) Advance(meter.Moment) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fresh {
		return 0, errors.New("no sample")
	}
	s.fresh = false
	return 10_000_000, nil
}

// TestRunReadsWhatItSampled: once a period the meters are sampled and then read, from the time that Run begins; one that fails is said to, and what it
// did not tell is told later.
func TestRunReadsWhatItSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &sampler{}
		a, err := energy.NewAccount(energy.AccountConfig{Meters: []meter.Meter{m}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // models are loaded
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(3500 * time.Millisecond)
		if s := a.Totals(); s.Covered != 3*time.Second || s.Metered != 30_000_000 || !a.Meters()[0].Reads {
			t.Errorf("%+v", s)
		}
		m.mu.Lock()
		m.fail = errors.New("gone")
		m.mu.Unlock()
		time.Sleep(2 * time.Second)
		if s := a.Totals(); s.Covered != 3*time.Second || a.Meters()[0].Reads {
			t.Errorf("while it fails: %+v", s)
		}
		m.mu.Lock()
		m.fail = nil
		m.mu.Unlock()
		time.Sleep(time.Second)
		if s := a.Totals(); s.Covered != 6*time.Second || s.Missing != 0 || !a.Meters()[0].Reads {
			t.Errorf("after it: %+v", s)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
