package pool_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/fault"
)

// lister is an engine that lists what it is told to.
type lister struct {
	engine.Engine

	mu        sync.Mutex
	models    []engine.Model
	err       error
	condition pool.State
}

func (l *lister) Models(context.Context) ([]engine.Model, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.models, l.err
}

func (l *lister) Generate(context.Context, *engine.Prompt) iter.Seq2[engine.Event, error] { return nil }

func (l *lister) Condition() pool.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.condition
}

func (l *lister) set(change func(*lister)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// kit is a pool of engines that list one model, on a clock that a test moves.
type kit struct {
	*pool.Set

	engines []*lister
	now     atomic.Int64
}

func open(t *testing.T, weights ...int) *kit {
	t.Helper()
	k := &kit{Set: &pool.Set{}}
	k.Now = func() time.Time { return time.Unix(0, k.now.Load()) }
	k.pass(time.Hour)
	dice := rand.New(rand.NewPCG(1, 2))
	k.Rand = dice.Float64
	var members []pool.Member
	for n, w := range weights {
		e := &lister{models: []engine.Model{{ID: "m", CanGenerate: true}}, condition: pool.StateReady}
		k.engines = append(k.engines, e)
		members = append(members, pool.Member{Name: fmt.Sprint("i", n), Engine: e, Attributes: pool.Attributes{Weight: w}})
	}
	k.Replace("p", members)
	k.Refresh(t.Context())
	return k
}

func (k *kit) pass(d time.Duration) { k.now.Add(int64(d)) }

func all(pool.Offer) bool { return true }

func (k *kit) choose(tried ...*pool.Instance) string {
	i, _, _ := k.Choose("p", pool.Wanted{Model: "m", Fits: all, Tried: tried})
	if i == nil {
		return ""
	}
	return i.Name
}

func (k *kit) states() (out []pool.State) {
	for _, i := range k.Instances("p") {
		out = append(out, i.Status().State)
	}
	return out
}

var errDown = fault.New(fault.CodeEngineUnavailable, "m")

// TestSharesFollowWeights: at rest the draws are by weight; under work the instance with the least for its weight gets the next request.
func TestSharesFollowWeights(t *testing.T) {
	k := open(t, 1, 0, 4) // 0 is 1
	n := map[string]int{}
	for range 6000 {
		n[k.choose()]++
	}
	for name, want := range map[string]float64{"i0": 1000, "i1": 1000, "i2": 4000} {
		if math.Abs(float64(n[name])-want) > 200 {
			t.Errorf("%s was drawn %d times, want about %.0f", name, n[name], want)
		}
	}
	busy := map[string]int{}
	for range 60 {
		i, _, _ := k.Choose("p", pool.Wanted{Model: "m", Fits: all})
		i.Begin()
		busy[i.Name]++
	}
	if busy["i0"] != 10 || busy["i1"] != 10 || busy["i2"] != 40 {
		t.Errorf("60 requests at once are spread as %v", busy)
	}
}

// TestWhoIsPassedOver: who does not answer, is drained or warms up gets nothing; who fails in a row gets nothing for a while, then one request,
// and is chosen anyway when nobody else is left.
func TestWhoIsPassedOver(t *testing.T) {
	k := open(t, 1, 1)
	only := func(want string) {
		t.Helper()
		for range 20 {
			if got := k.choose(); got != want {
				t.Fatalf("chose %q, want %q; %v", got, want, k.states())
			}
		}
	}
	is := func(want ...pool.State) {
		t.Helper()
		if got := k.states(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	is(pool.StateReady, pool.StateReady)

	k.engines[0].set(func(l *lister) { l.err = errors.New("refused") })
	k.Refresh(t.Context())
	is(pool.StateSick, pool.StateReady)
	only("i1")
	k.pass(time.Minute)
	is(pool.StateGone, pool.StateReady)
	k.engines[0].set(func(l *lister) { l.err, l.condition = nil, pool.StateWarming })
	k.Refresh(t.Context())
	is(pool.StateWarming, pool.StateReady)
	only("i1")
	k.engines[0].set(func(l *lister) { l.condition = pool.StateReady })
	k.Replace("p", []pool.Member{
		{Name: "i0", Engine: k.engines[0]}, {Name: "i1", Engine: k.engines[1], Attributes: pool.Attributes{Draining: true}},
	})
	is(pool.StateReady, pool.StateDraining)
	only("i0")

	i0 := k.Instances("p")[0]
	fail := func() { i0.Begin(); i0.End(errDown) }
	fail()
	fail()
	i0.Begin()
	i0.End(fault.New(fault.CodeInvalidValue, "x", fault.Say("value.positive"))) // the request's own fault
	i0.Begin()
	i0.End(context.Canceled)
	is(pool.StateReady, pool.StateDraining)
	fail()
	is(pool.StateSick, pool.StateDraining)
	only("i0") // nobody else is left
	k.Replace("p", []pool.Member{{Name: "i0", Engine: k.engines[0]}, {Name: "i1", Engine: k.engines[1]}})
	only("i1")
	k.pass(time.Second) // its pause is over: it is tried once
	i0.Begin()
	only("i1")
	i0.End(errDown)
	is(pool.StateSick, pool.StateReady)
	k.pass(time.Second)
	only("i1") // the second pause is longer
	k.pass(time.Second)
	i0.Begin()
	i0.End(nil)
	is(pool.StateReady, pool.StateReady)
	if got := k.choose(k.Instances("p")...); got != "" {
		t.Errorf("%s was tried already", got)
	}
}

// TestWhoAsksLeaves: that whoever asked has left says nothing of the instances.
func TestWhoAsksLeaves(t *testing.T) {
	k := open(t, 1)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	k.engines[0].set(func(l *lister) { l.err = context.Canceled })
	k.Refresh(ctx)
	if got := k.choose(); got != "i0" {
		t.Errorf("chose %q", got)
	}
}

// TestSince: an instance says since when it is as it is, whatever brought that about.
func TestSince(t *testing.T) {
	k := open(t, 1)
	i := k.Instances("p")[0]
	since := func(want pool.State, ago time.Duration) {
		t.Helper()
		if st := i.Status(); st.State != want || k.Now().Sub(st.Since) != ago {
			t.Errorf("%s since %s, want %s since %s", st.State, k.Now().Sub(st.Since), want, ago)
		}
	}
	since(pool.StateReady, 0)
	k.pass(time.Hour)
	since(pool.StateReady, time.Hour)
	k.Replace("p", []pool.Member{{Name: "i0", Engine: k.engines[0], Attributes: pool.Attributes{Draining: true}}})
	since(pool.StateDraining, 0)
	k.pass(time.Second)
	k.Refresh(t.Context())
	since(pool.StateDraining, time.Second)
}

// TestNobody: why nobody was chosen is told apart.
func TestNobody(t *testing.T) {
	k := open(t, 1, 1)
	k.engines[1].set(func(l *lister) { l.models = []engine.Model{{ID: "m", CanEmbed: true}} })
	k.Refresh(t.Context())
	ask := func(id engine.ModelID, fits func(pool.Offer) bool) pool.Nobody {
		i, m, none := k.Choose("p", pool.Wanted{Model: id, Fits: fits})
		if i != nil || m != nil {
			t.Errorf("%+v %+v", i, m)
		}
		return none
	}
	if got := ask("other", all); got.Known != nil || got.Unfit || got.Silent || len(got.Closed) > 0 {
		t.Errorf("of a model that nobody has: %+v", got)
	}
	if got := ask("m", func(o pool.Offer) bool { return o.Model.CanScore }); !got.Unfit || got.Known == nil || got.Known.ID != "m" {
		t.Errorf("of what nobody can: %+v", got)
	}
	if i, m, _ := k.Choose("p", pool.Wanted{Model: "m", Fits: func(o pool.Offer) bool { return o.Model.CanEmbed }}); i == nil || i.Name != "i1" || !m.CanEmbed {
		t.Errorf("%+v %+v", i, m)
	}
	for _, e := range k.engines {
		e.set(func(l *lister) { l.err = errors.New("refused") })
	}
	k.Refresh(t.Context())
	if got := ask("m", all); !got.Silent {
		t.Errorf("of engines that do not answer: %+v", got)
	}
	if i, _, got := k.Choose("no such pool", pool.Wanted{Model: "m", Fits: all}); i != nil || !got.Silent {
		t.Errorf("%+v", got)
	}
}

// TestReplaceKeepsWhoStays: an instance that stays keeps what it runs and its pause; one under its name with another engine is another one.
func TestReplaceKeepsWhoStays(t *testing.T) {
	k := open(t, 1, 1)
	before := k.Instances("p")
	before[0].Begin()
	k.Replace("p", []pool.Member{{Name: "i0", Engine: k.engines[0], Attributes: pool.Attributes{Weight: 7}}, {Name: "i1", Engine: &lister{}}})
	now := k.Instances("p")
	if now[0] != before[0] || now[0].Status().Running != 1 || now[0].Status().Weight != 7 || now[1] == before[1] || now[1].Status().State != pool.StateStarting {
		t.Errorf("%+v, %+v", now[0].Status(), now[1].Status())
	}
	k.Replace("p", nil)
	if k.Has("p") || len(k.Names()) != 0 {
		t.Error("an empty pool stays")
	}
}

// TestChangesBesideRequests: membership changes and instances fail while requests are placed; every request that begins ends, and nobody is lost.
func TestChangesBesideRequests(t *testing.T) {
	k := open(t, 1, 2, 3)
	k.Rand = nil // that of a test is one goroutine's
	members := func(n int) (out []pool.Member) {
		for i := range n {
			out = append(out, pool.Member{Name: fmt.Sprint("i", i), Engine: k.engines[i]})
		}
		return out
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for n := range 2000 {
				i, _, _ := k.Choose("p", pool.Wanted{Model: "m", Fits: all})
				if i == nil {
					t.Error("nobody was chosen")
					return
				}
				i.Begin()
				switch (n + w) % 5 {
				case 0:
					i.End(errDown)
				default:
					i.End(nil)
				}
			}
		})
	}
	for n := range 300 {
		k.Replace("p", members(1+n%3))
		k.Refresh(t.Context())
		k.pass(time.Second)
	}
	workers.Wait()
	k.Replace("p", members(3))
	for _, i := range k.Instances("p") {
		if n := i.Status().Running; n != 0 {
			t.Errorf("%s still runs %d", i.Name, n)
		}
	}
}

// TestChoosingAllocatesNothing: it is on the path of every request.
func TestChoosingAllocatesNothing(t *testing.T) {
	k := open(t, 1, 1, 1, 1, 1, 1, 1, 1)
	w := pool.Wanted{Model: "m", Fits: all}
	if n := testing.AllocsPerRun(1000, func() { k.Choose("p", w) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkChoose(b *testing.B) {
	s := &pool.Set{}
	var members []pool.Member
	for n := range 8 {
		members = append(members, pool.Member{Name: fmt.Sprint("i", n), Engine: &lister{models: []engine.Model{{ID: "m"}}, condition: pool.StateReady}})
	}
	s.Replace("p", members)
	s.Refresh(b.Context())
	w := pool.Wanted{Model: "m", Fits: all}
	b.ReportAllocs()
	for b.Loop() {
		s.Choose("p", w)
	}
}

// TestOftenFailingIsPassedOver: also who fails every second request, for longer each time, and is back when all goes well.
func TestOftenFailingIsPassedOver(t *testing.T) {
	k := open(t, 1, 1)
	bad := k.Instances("p")[0]
	try := func(err error) { bad.Begin(); bad.End(err) }
	eject := func() (after int) {
		for bad.Status().State == pool.StateReady {
			if after++; after > 20 {
				t.Fatal("it is never passed over")
			}
			try(map[bool]error{true: errDown}[after%2 == 1])
		}
		return after
	}
	if n := eject(); n != 9 {
		t.Errorf("after %d requests", n)
	}
	for range 4 {
		if got := k.choose(); got != "i1" {
			t.Errorf("%s was chosen", got)
		}
	}
	k.pass(time.Second)
	try(nil)
	eject()
	k.pass(time.Second)
	if st := bad.Status(); st.State != pool.StateSick {
		t.Errorf("the second pause is as short as the first: %s", st.State)
	}
	k.pass(3 * time.Second)
	for range 300 {
		try(nil)
	}
	eject()
	k.pass(time.Second)
	if st := bad.Status(); st.State != pool.StateReady {
		t.Errorf("what is long ago still counts: %s", st.State)
	}
}

// TestRoomFollowsRefusals: who says that it is overloaded gets fewer requests at once, more again while all goes well, and still some when nobody else is left.
func TestRoomFollowsRefusals(t *testing.T) {
	k := open(t, 1, 1)
	busy, overload := k.Instances("p")[0], fault.New(fault.CodeEngineOverloaded, "m")
	for range 8 {
		busy.Begin()
	}
	for range 4 { // which were refused together
		busy.End(overload)
	}
	// It runs 4 and is taken to manage 6.
	other := k.Instances("p")[1]
	for range 7 {
		other.Begin()
	}
	if got := k.choose(); got != "i0" {
		t.Errorf("%s was chosen while the other has more to do", got)
	}
	busy.Begin()
	busy.Begin()
	if got := k.choose(); got != "i1" {
		t.Errorf("%s was chosen, which is full", got)
	}
	if got := k.choose(other); got != "i0" {
		t.Errorf("%q was chosen of one that is full alone", got)
	}
	for range 6 {
		busy.Begin()
		busy.End(nil)
	}
	if got := k.choose(); got != "i0" {
		t.Errorf("%s was chosen: six requests went well, so there is room for a seventh", got)
	}
	busy.Begin()
	if got := k.choose(); got != "i1" {
		t.Errorf("%s was chosen, which is full again", got)
	}
	k.pass(2 * time.Minute)
	busy.End(nil)
	busy.Begin()
	for range 3 {
		other.Begin()
	}
	if got := k.choose(); got != "i0" {
		t.Errorf("%s was chosen: the refusal is long ago", got)
	}
}

// TestFirstTextIsForgotten: what an instance took says nothing ten seconds later.
func TestFirstTextIsForgotten(t *testing.T) {
	k := open(t, 1)
	i := k.Instances("p")[0]
	took := func() time.Duration {
		o, ok := i.Open("m")
		if !ok {
			t.Fatal("it is closed")
		}
		return o.FirstText
	}
	if got := took(); got != 0 {
		t.Error(got)
	}
	i.Began(time.Second)
	i.Began(9 * time.Second)
	if got := took(); got != 2*time.Second {
		t.Error(got)
	}
	k.pass(11 * time.Second)
	if got := took(); got != 0 {
		t.Error(got)
	}
}
