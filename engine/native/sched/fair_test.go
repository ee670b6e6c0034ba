package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// queueing is an engine in which only Fair decides: a number of sequences run, each step computes their next token and some prompt tokens.
type queueing struct {
	f       *Fair
	rng     *rand.Rand
	now     int // milliseconds
	slots   int
	waiting []Candidate
	running []*served
	tokens  map[string]float64 // weighted, by tenant
	class   [Classes]int       // rows, by class
	open    map[string]int
	started []Candidate
}

type served struct {
	Candidate
	left int // completion tokens
}

func newQueueing(seed uint64, cfg FairConfig) *queueing {
	return &queueing{f: NewFair(cfg), rng: rand.New(rand.NewPCG(seed, 3)), slots: 8, tokens: map[string]float64{}, open: map[string]int{}}
}

func (q *queueing) arrive(tenant string, class, tokens int) {
	q.f.Arrive(tenant)
	q.open[tenant]++
	q.waiting = append(q.waiting, Candidate{Tenant: tenant, Class: class, Arrived: at(q.now), Tokens: tokens})
}

// step computes up to budget prompt tokens, and one token of every sequence whose prompt is computed.
func (q *queueing) step(budget int) {
	q.now += 20
	if free := q.slots - len(q.running); free > 0 && len(q.waiting) > 0 {
		order := q.f.Order(nil, q.waiting, at(q.now), free)
		for _, i := range order {
			q.f.Start(q.waiting[i])
			q.started = append(q.started, q.waiting[i])
			q.running = append(q.running, &served{q.waiting[i], 1 + q.rng.IntN(60)})
		}
		slices.Sort(order)
		for _, i := range slices.Backward(order) {
			q.waiting = slices.Delete(q.waiting, i, i+1)
		}
	}
	var prompts []Candidate
	var whose []*served
	for _, r := range q.running {
		if r.Tokens > 0 {
			prompts, whose = append(prompts, r.Candidate), append(whose, r)
			continue
		}
		r.left--
		q.charge(r, 0, 1)
	}
	for _, i := range q.f.Order(nil, prompts, at(q.now), len(prompts)) {
		n := min(budget, whose[i].Tokens)
		budget -= n
		whose[i].Tokens -= n
		q.charge(whose[i], n, 0)
	}
	q.running = slices.DeleteFunc(q.running, func(r *served) bool {
		if r.left <= 0 {
			q.f.Leave(r.Tenant, false)
			q.open[r.Tenant]--
		}
		return r.left <= 0
	})
}

func (q *queueing) charge(r *served, prefill, decode int) {
	q.f.Charge(r.Tenant, r.Class, prefill, 0, decode)
	q.tokens[r.Tenant] += float64(prefill + 2*decode)
	q.class[r.Class] += prefill + decode
}

// refill keeps a tenant at that many open requests.
func (q *queueing) refill(tenant string, class, open, tokens int) {
	for q.open[tenant] < open {
		q.arrive(tenant, class, 1+q.rng.IntN(2*tokens))
	}
}

func TestBackloggedTenantsGetTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		q := newQueueing(seed, FairConfig{Weights: map[string]float64{"heavy": 3}})
		start := map[string]float64{}
		for step := range 6000 {
			// Long prompts against short ones, many requests against few.
			q.refill("long", Standard, 9, 800)
			q.refill("short", Standard, 60, 40)
			q.refill("heavy", Standard, 20, 200)
			q.step(64)
			if step == 500 {
				start = map[string]float64{"long": q.tokens["long"], "short": q.tokens["short"], "heavy": q.tokens["heavy"]}
			}
			if step > 500 {
				long, short := q.tokens["long"]-start["long"], q.tokens["short"]-start["short"]
				heavy := (q.tokens["heavy"] - start["heavy"]) / 3
				// The quantum, and eight running requests of 1600 + 2·60 at most, on both sides.
				if d := max(long, short, heavy) - min(long, short, heavy); d > 2*(2048+8*1720) {
					t.Fatalf("seed %d, step %d: by weight, long got %.0f, short %.0f, heavy %.0f", seed, step, long, short, heavy)
				}
			}
		}
		long, short, heavy := q.tokens["long"], q.tokens["short"], q.tokens["heavy"]
		if math.Abs(long/short-1) > 0.1 || math.Abs(heavy/short/3-1) > 0.1 {
			t.Errorf("seed %d: long got %.0f, short %.0f, heavy %.0f", seed, long, short, heavy)
		}
	}
}

func TestSingleRequestGoesNext(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		q := newQueueing(seed, FairConfig{})
		for range 100 + q.rng.IntN(400) {
			q.refill("many", Interactive, 50, 300)
			q.step(40)
		}
		for range 10 { // again and again, with pauses
			q.arrive("single", Interactive, 100)
			if got := q.waiting[q.f.Order(nil, q.waiting, at(q.now), 1)[0]].Tenant; got != "single" {
				t.Fatalf("seed %d: %s goes next", seed, got)
			}
			begun := len(q.started)
			for q.open["single"] > 0 {
				q.refill("many", Interactive, 50, 300)
				q.step(40)
				// While its prompt is computed it goes before the others' prompts.
				var prompts []Candidate
				for _, r := range q.running {
					if r.Tokens > 0 {
						prompts = append(prompts, r.Candidate)
					}
				}
				for _, p := range prompts {
					if p.Tenant == "single" && prompts[q.f.Order(nil, prompts, at(q.now), 1)[0]].Tenant != "single" {
						t.Fatalf("seed %d: somebody's prompt goes before that of the single one", seed)
					}
				}
			}
			if q.started[begun].Tenant != "single" {
				t.Fatalf("seed %d: %s was started next", seed, q.started[begun].Tenant)
			}
			for range q.rng.IntN(30) {
				q.refill("many", Interactive, 50, 300)
				q.step(40)
			}
		}
	}
}

// A tenant that pauses gains nothing: in the time after its return it gets no more than one that was always there.
func TestPauseGainsNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		q := newQueueing(seed, FairConfig{})
		for range 500 {
			q.refill("steady", Standard, 30, 200)
			q.refill("pausing", Standard, 30, 200)
			q.step(64)
		}
		for range 3000 {
			q.refill("steady", Standard, 30, 200)
			q.step(64)
		}
		before := q.tokens["pausing"] - q.tokens["steady"]
		for step := range 3000 {
			q.refill("steady", Standard, 30, 200)
			q.refill("pausing", Standard, 30, 200)
			q.step(64)
			if ahead := q.tokens["pausing"] - q.tokens["steady"] - before; ahead > 2*(2048+8*520) {
				t.Fatalf("seed %d: %d steps after its return the pausing tenant is %.0f tokens ahead", seed, step, ahead)
			}
		}
	}
}

// What a tenant computed while nobody else wanted to is not held against it.
func TestIdleMachineIsFree(t *testing.T) {
	t.Parallel()
	f := NewFair(FairConfig{})
	f.Arrive("a")
	f.Start(Candidate{Tenant: "a", Class: Standard, Tokens: 10})
	f.Charge("a", Standard, 10, 0, 1e6)
	f.Arrive("b")
	if a, b := f.Counter("a"), f.Counter("b"); a != b {
		t.Errorf("a newcomer begins at %.0f, who runs is at %.0f", b, a)
	}
	f.Leave("a", false)
	f.Leave("b", true)
	f.Arrive("c")
	if got := f.Counter("c"); got != 2e6+10 {
		t.Errorf("after all have left, a newcomer begins at %.0f", got)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	f := NewFair(FairConfig{Quantum: 10})
	for _, name := range []string{"a", "b"} {
		for range 4 {
			f.Arrive(name)
		}
	}
	f.Start(Candidate{Tenant: "b"})
	f.Charge("b", Standard, 500, 1e6, 0)
	candidates := []Candidate{
		{Tenant: "a", Class: Batch, Arrived: at(0), Tokens: 100},
		{Tenant: "b", Class: Standard, Arrived: at(1), Tokens: 100},
		{Tenant: "a", Class: Standard, Arrived: at(4), Tokens: 400},
		{Tenant: "a", Class: Standard, Arrived: at(3), Tokens: 400},
		{Tenant: "a", Class: Standard, Arrived: at(5), Priority: 1, Tokens: 400},
		{Tenant: "b", Class: Interactive, Arrived: at(9), Tokens: 100},
		{Tenant: "b", Class: Standard, Arrived: at(2), Tokens: 100},
	}
	// b's interactive one first; then a, which got less, by priority and age until it is ahead; then b.
	want := []int{5, 4, 3, 1, 6, 2, 0}
	if got := f.Order(nil, candidates, at(10), 100); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if got := f.Order([]int{-1}, candidates, at(10), 2); !slices.Equal(got, []int{-1, 5, 4}) {
		t.Errorf("the first two are %v", got)
	}
	if got := f.Order(nil, nil, at(10), 3); len(got) != 0 {
		t.Errorf("of nobody %v", got)
	}
	stranger := []Candidate{{Tenant: "x", Class: Batch}, {Tenant: "y", Class: Batch}}
	if got := f.Order(nil, stranger, at(10), 3); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("of strangers %v", got)
	}
}

// Order gives every candidate once, classes in order, and within a tenant and class by priority and age.
func TestOrderProperties(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	for range 300 {
		f := NewFair(FairConfig{Quantum: float64(1 + rng.IntN(3000))})
		var all []Candidate
		for range rng.IntN(60) {
			c := Candidate{
				Tenant: fmt.Sprint(rng.IntN(6)), Class: rng.IntN(Classes), Priority: rng.IntN(3), Arrived: at(rng.IntN(5000)), Tokens: rng.IntN(900),
			}
			f.Arrive(c.Tenant)
			f.Charge(c.Tenant, c.Class, rng.IntN(500), 0, 0)
			all = append(all, c)
		}
		got := f.Order(nil, all, at(5000), len(all))
		if sorted := slices.Sorted(slices.Values(got)); len(got) != len(all) || len(slices.Compact(sorted)) != len(all) {
			t.Fatalf("%d candidates are ordered as %v", len(all), got)
		}
		for n, i := range got {
			for _, j := range got[:n] {
				a, b := all[j], all[i] // a goes first
				if a.Class > b.Class {
					t.Fatalf("a less urgent class goes first")
				}
				if a.Class == b.Class && a.Tenant == b.Tenant && (a.Priority < b.Priority || a.Priority == b.Priority && a.Arrived.After(b.Arrived)) {
					t.Fatalf("%+v goes before %+v", a, b)
				}
			}
		}
		limit := rng.IntN(70)
		if short := f.Order(nil, all, at(5000), limit); !slices.Equal(short, got[:min(limit, len(got))]) {
			t.Fatalf("the first %d are %v of %v", limit, short, got)
		}
	}
}

// Interactive work for more than the engine can do does not shut batch out, and batch takes no more than its least share.
func TestLateClassGetsItsShare(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		q := newQueueing(seed, FairConfig{})
		for range 20000 {
			q.refill("a", Interactive, 30, 100)
			q.refill("b", Interactive, 30, 100)
			q.refill("c", Batch, 30, 200)
			q.step(64)
		}
		share := float64(q.class[Batch]) / float64(q.class[Batch]+q.class[Interactive])
		if share < 0.03 || share > 0.12 {
			t.Errorf("seed %d: batch got %.1f %% of the tokens", seed, 100*share)
		}
	}
}

func TestVictim(t *testing.T) {
	t.Parallel()
	f := NewFair(FairConfig{})
	for _, name := range []string{"a", "b"} {
		f.Arrive(name)
		f.Start(Candidate{Tenant: name})
	}
	f.Charge("b", Batch, 100, 0, 0)
	running := []Candidate{
		{Tenant: "b", Class: Interactive, Arrived: at(9)},
		{Tenant: "a", Class: Batch, Arrived: at(8)},
		{Tenant: "b", Class: Batch, Arrived: at(1)},
		{Tenant: "b", Class: Batch, Arrived: at(5)},
		{Tenant: "b", Class: Batch, Arrived: at(7), Priority: 1},
	}
	for _, want := range []int{5, 1, 7, 8, 9} {
		i := f.Victim(running)
		if i < 0 || !running[i].Arrived.Equal(at(want)) {
			t.Fatalf("of %+v the victim is %d, not the one that arrived at %d", running, i, want)
		}
		running = slices.Delete(running, i, i+1)
	}
	if f.Victim(running) != -1 {
		t.Errorf("a victim of nobody")
	}
}

func TestVictimFor(t *testing.T) {
	t.Parallel()
	f := NewFair(FairConfig{})
	start := func(name string, n int) {
		for range n {
			f.Arrive(name)
			f.Start(Candidate{Tenant: name})
		}
	}
	start("many", 3)
	start("one", 1)
	f.Arrive("none")
	many, one := Candidate{Tenant: "many", Class: Standard}, Candidate{Tenant: "one", Class: Standard}
	batch := Candidate{Tenant: "one", Class: Batch}
	for _, k := range []struct {
		tenant  string
		class   int
		running []Candidate
		want    int
	}{
		{"none", Standard, []Candidate{one, many, one}, 1},
		{"none", Standard, []Candidate{one, many, batch}, 2},
		{"none", Standard, []Candidate{one, one}, -1},
		{"none", Batch, []Candidate{one, many}, -1},
		{"none", Interactive, []Candidate{one}, 0},
		{"one", Standard, []Candidate{many, many}, -1}, // something of it runs
		{"one", Interactive, []Candidate{many, one}, 1},
		{"stranger", Standard, []Candidate{many}, 0},
		{"none", Interactive, nil, -1},
	} {
		f.Charge("one", Standard, 10, 0, 0)
		if got := f.VictimFor(Candidate{Tenant: k.tenant, Class: k.class}, k.running); got != k.want {
			t.Errorf("for %s, %s, the victim of %+v is %d, want %d", k.tenant, ClassName(k.class), k.running, got, k.want)
		}
	}
	for _, k := range []struct {
		tenant               string
		running, bound, hard int
		want                 bool
	}{
		{"many", 3, 4, 8, true},
		{"many", 4, 4, 8, false},
		{"none", 4, 4, 8, true},
		{"none", 5, 4, 8, false},
		{"none", 4, 4, 4, false},
		{"stranger", 9, 8, 20, true},
		{"stranger", 10, 8, 20, false},
	} {
		if got := f.MayStart(Candidate{Tenant: k.tenant}, k.running, k.bound, k.hard); got != k.want {
			t.Errorf("%+v: %v", k, got)
		}
	}
}

func TestIdleTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	f := NewFair(FairConfig{Tenants: 100})
	f.Arrive("steady")
	for i := range 20000 {
		name := fmt.Sprint("t", i)
		f.Arrive(name)
		f.Start(Candidate{Tenant: name})
		f.Charge(name, Standard, i%700, 0, 0)
		f.Leave(name, false)
		f.Leave(name, false) // once too often changes nothing
		f.Charge(name, Standard, 1, 0, 0)
		if len(f.tenants) > 102 || f.idle != len(f.tenants)-1 {
			t.Fatalf("%d tenants are remembered, %d as idle", len(f.tenants), f.idle)
		}
	}
	// Of those that are forgotten, the ones that got most stay longest.
	if f.Counter("t19999") < f.Counter("steady") {
		t.Errorf("a forgotten tenant begins below who waits")
	}
	f.Leave("steady", true)
	f.Leave("steady", true)
	f.Charge("nobody", Standard, 1, 0, 0)
	f.Leave("nobody", true)
	f.Start(Candidate{Tenant: "nobody"})
	if len(f.tenants) > 101 {
		t.Errorf("%d tenants", len(f.tenants))
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	f := NewFair(FairConfig{Weights: map[string]float64{"a": 4, "b": -1, "c": math.NaN(), "d": math.Inf(1)}})
	for _, name := range []string{"a", "b", "c", "d"} {
		f.Arrive(name)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		f.Charge(name, Standard, 100, 50, 10)
	}
	for name, want := range map[string]float64{"a": 30, "b": 120, "c": 120, "d": 120} {
		if got := f.Counter(name); got != want {
			t.Errorf("%s is at %v, want %v", name, got, want)
		}
	}
}

func TestShareStates(t *testing.T) {
	t.Parallel()
	running := func(of ...any) (out []Candidate) { // tenant, class, how many
		for i := 0; i < len(of); i += 3 {
			for range of[i+2].(int) {
				out = append(out, Candidate{Tenant: of[i].(string), Class: of[i+1].(int)})
			}
		}
		return out
	}
	for _, k := range []struct {
		name    string
		running []Candidate
		given   map[string]int
		want    []ShareState // of the first candidate of each tenant and class
	}{
		{"alone", running("a", 1, 9), nil, []ShareState{AtShare}},
		{"many and one", running("a", 1, 9, "b", 1, 1), nil, []ShareState{AboveShare, BelowShare}},
		{"about even", running("a", 1, 3, "b", 1, 2), nil, []ShareState{AboveShare, AtShare}},
		{"half of the share", running("a", 1, 3, "b", 1, 1), nil, []ShareState{AboveShare, BelowShare}},
		{"fifty with one each", running("a", 1, 1, "b", 1, 1, "c", 1, 1), nil, []ShareState{AtShare, AtShare, AtShare}},
		{"by weight", running("heavy", 1, 3, "b", 1, 1), nil, []ShareState{AtShare, AtShare}},
		{"who was given more is not behind", running("a", 1, 9, "b", 1, 1), map[string]int{"b": 5000}, []ShareState{AboveShare, AtShare}},
		{"but for a quantum", running("a", 1, 9, "b", 1, 1), map[string]int{"b": 2000}, []ShareState{AboveShare, BelowShare}},
		{"batch takes nothing from chats", running("a", 0, 1, "a", 2, 30, "b", 0, 1), nil, []ShareState{AtShare, AboveShare, AtShare}},
		{"chats count for batch", running("a", 0, 9, "a", 2, 1, "b", 2, 1), nil, []ShareState{AtShare, AboveShare, BelowShare}},
	} {
		f := NewFair(FairConfig{Weights: map[string]float64{"heavy": 3}})
		for _, c := range k.running {
			f.Arrive(c.Tenant)
			f.Start(c)
		}
		for tenant, n := range k.given {
			f.Charge(tenant, Standard, n, 0, 0)
		}
		var got []ShareState
		all := f.ShareStates([]ShareState{AboveShare}, k.running)[1:]
		for i, c := range k.running {
			if i == 0 || c.Tenant != k.running[i-1].Tenant || c.Class != k.running[i-1].Class {
				got = append(got, all[i])
			} else if all[i] != all[i-1] {
				t.Errorf("%s: one tenant stands in two ways", k.name)
			}
		}
		if !slices.Equal(got, k.want) {
			t.Errorf("%s: %v, want %v", k.name, got, k.want)
		}
	}
}
