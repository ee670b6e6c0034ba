package pool_test

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
)

// with replaces the attributes of the instances of a kit.
func (k *kit) with(attributes ...pool.Attributes) {
	var members []pool.Member
	for n, a := range attributes {
		members = append(members, pool.Member{Name: fmt.Sprint("i", n), Engine: k.engines[n], Attributes: a})
	}
	k.Replace("p", members)
}

func (k *kit) prefer(w pool.Wanted) (string, []pool.Considered) {
	w.Model, w.Trace = "m", &pool.Trace{}
	if w.Fits == nil {
		w.Fits = all
	}
	i, _, _ := k.Choose("p", w)
	if i == nil {
		return "", w.Trace.All()
	}
	return i.Name, w.Trace.All()
}

func hashes(domain string, texts ...string) []uint64 {
	h := pool.NewPrefixHash(seed, domain)
	for _, t := range texts {
		h.Write(t)
	}
	return h.Sum()
}

var seed = maphash.MakeSeed()

// TestPlaceOfAnInstance: what is said holds; of the engine of this process nothing need be said; everything else is outside.
func TestPlaceOfAnInstance(t *testing.T) {
	s := &pool.Set{}
	s.Replace("p", []pool.Member{
		{Name: "native", Kind: pool.KindNative, Engine: &lister{}},
		{Name: "worker", Kind: pool.KindWorker, Engine: &lister{}},
		{Name: "remote", Kind: pool.KindRemote, Engine: &lister{}},
		{Name: "unknown", Engine: &lister{}},
		{Name: "told", Kind: pool.KindRemote, Engine: &lister{}, Attributes: pool.Attributes{Place: pool.PlaceEdge}},
	})
	for n, want := range []pool.Place{pool.PlaceCentre, pool.PlaceCloud, pool.PlaceCloud, pool.PlaceCloud, pool.PlaceEdge} {
		i := s.Instances("p")[n]
		if got := i.Offer(&engine.Model{}).Place; got != want || i.Status().Place != want {
			t.Errorf("%s: %s", i.Name, got)
		}
	}
	for _, a := range []pool.Attributes{{Place: "moon"}, {CostPerMillion: -1}, {JoulesPerToken: 1e10}} {
		if a.Validate() == nil {
			t.Errorf("%+v", a)
		}
	}
}

// TestPrefixHashes: each hash covers all before it, its domain and where texts end; prompts of two domains have none in common.
func TestPrefixHashes(t *testing.T) {
	a := strings.Repeat("a", 700)
	base := hashes("acme", a)
	if len(base) != 2 || len(hashes("acme", a[:255])) != 0 || len(hashes("acme", strings.Repeat("x", 100<<10))) != 64 {
		t.Fatalf("%d hashes of 700 bytes", len(base))
	}
	if got := hashes("acme", a+"more"); got[0] != base[0] || got[1] != base[1] {
		t.Error("prompts that begin alike")
	}
	for _, other := range [][]uint64{hashes("globex", a), hashes("acme", "", a), hashes("acme", "b"+a)} {
		for _, h := range other {
			if slices.Contains(base, h) {
				t.Error("a hash of another prompt, or of another domain")
			}
		}
	}
	if got := hashes("acme", a[:300], a[300:]); got[0] != base[0] || got[1] == base[1] {
		t.Error("where a text ends")
	}
}

// TestPreferences: each term leads to the instance that it speaks for, the weights decide between them, and the trace says what each scored.
func TestPreferences(t *testing.T) {
	k := open(t, 1, 1, 1)
	k.with(pool.Attributes{CostPerMillion: 4, JoulesPerToken: 1}, pool.Attributes{CostPerMillion: 1, JoulesPerToken: 3}, pool.Attributes{})
	prompt := hashes("acme", strings.Repeat("s", 2048))
	k.Instances("p")[2].Given(prompt)
	busy := k.Instances("p")[1]
	busy.Begin()
	busy.Begin()
	for name, c := range map[string]struct {
		p    pool.Preference
		want string
	}{
		"energy":                 {pool.Preference{Energy: 1}, "i0"},
		"cost":                   {pool.Preference{Cost: 1, Spread: 2}, "i1"},
		"prefix":                 {pool.Preference{Prefix: 1}, "i2"},
		"cost above load":        {pool.Preference{Cost: 1, Load: 0.1, Spread: 2}, "i1"},
		"prefix above the rest":  {pool.Preference{Prefix: 3, Cost: 1, Energy: 1}, "i2"},
		"load and energy":        {pool.Preference{Load: 1, Energy: 0.1}, "i0"},
		"cheap has its part":     {pool.Preference{Cost: 1, Spread: 0.01}, "i0"},
		"prefix below two terms": {pool.Preference{Prefix: 0.5, Energy: 1}, "i0"},
	} {
		got, trace := k.prefer(pool.Wanted{Prefer: &c.p, Prefix: prompt})
		if got != c.want || len(trace) != 3 {
			t.Errorf("%s: %s, %+v", name, got, trace)
		}
		for n, x := range trace {
			if (x.Verdict == pool.VerdictChosen) != (x.Instance == got) || x.Score.Load == 0 || (x.Score.Prefix > 0) != (n == 2 && c.p.Prefix > 0) {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
	if _, trace := k.prefer(pool.Wanted{Prefer: &pool.Preference{Cost: 1, Spread: 0.01}}); trace[1].Verdict != pool.VerdictBusy {
		t.Errorf("%+v", trace[1])
	}
	other, _ := k.prefer(pool.Wanted{Prefer: &pool.Preference{Prefix: 1, Energy: 0.1}, Prefix: hashes("globex", strings.Repeat("s", 2048))})
	if other != "i0" {
		t.Errorf("a tenant is led by another's prompt: %s", other)
	}
	if got, trace := k.prefer(pool.Wanted{Prefer: &pool.Preference{Energy: 1}, Fits: func(o pool.Offer) bool { return o.Batch > 1 }, Why: func() string { return "place" }}); got != "i1" || trace[0].Verdict != pool.VerdictUnfit || trace[0].Why != "place" {
		t.Errorf("what does not fit is not preferred: %s, %+v", got, trace)
	}
}

// TestSessionsStay: a conversation has one home, on every replica; those of an instance that goes are spread, and no other moves.
func TestSessionsStay(t *testing.T) {
	k, p := open(t, 1, 1, 1, 1), pool.Preference{Session: 1, Spread: 10}
	home := map[int]string{}
	for s := range 400 {
		home[s], _ = k.prefer(pool.Wanted{Prefer: &p, Session: pool.HashOf(fmt.Sprint(s))})
	}
	other, spread := open(t, 1, 1, 1, 1), map[string]int{}
	gone := other.Instances("p")[2]
	for s := range 400 {
		if got, _ := other.prefer(pool.Wanted{Prefer: &p, Session: pool.HashOf(fmt.Sprint(s))}); got != home[s] {
			t.Fatalf("session %d has the homes %s and %s", s, got, home[s])
		}
		got, _ := other.prefer(pool.Wanted{Prefer: &p, Session: pool.HashOf(fmt.Sprint(s)), Tried: []*pool.Instance{gone}})
		if home[s] != "i2" && got != home[s] {
			t.Fatalf("session %d moved", s)
		}
		spread[home[s]]++
	}
	for name, n := range spread {
		if n < 70 || n > 130 {
			t.Errorf("%s has %d of 400", name, n)
		}
	}
}

// TestSlowInstances: who takes too long until a first token is passed over while another one does not, and tried again after a while.
func TestSlowInstances(t *testing.T) {
	k, p := open(t, 1, 1), pool.Preference{Cost: 1, FirstToken: time.Second, Spread: 10}
	k.with(pool.Attributes{CostPerMillion: 1}, pool.Attributes{CostPerMillion: 5})
	cheap, dear := k.Instances("p")[0], k.Instances("p")[1]
	if got, _ := k.prefer(pool.Wanted{Prefer: &p}); got != "i0" {
		t.Errorf("%s, though nobody knows that it is slow", got)
	}
	cheap.Begin()
	cheap.Began(3 * time.Second)
	cheap.End(nil)
	if got, trace := k.prefer(pool.Wanted{Prefer: &p}); got != "i1" || trace[0].Verdict != pool.VerdictSlow {
		t.Errorf("%s, %+v", got, trace)
	}
	dear.Begin()
	dear.Began(2 * time.Second)
	dear.End(nil)
	if got, _ := k.prefer(pool.Wanted{Prefer: &p}); got != "i1" {
		t.Errorf("%s: where all are slow, the one that is expected first", got)
	}
	dear.Begin()
	if got, _ := k.prefer(pool.Wanted{Prefer: &p}); got != "i0" {
		t.Errorf("%s: where all are slow, the one that is expected first", got)
	}
	k.pass(61 * time.Second)
	if got, _ := k.prefer(pool.Wanted{Prefer: &p}); got != "i0" {
		t.Errorf("%s: what it took is forgotten", got)
	}
}

// TestTraceOfAChoice: every instance is in it with why it was not chosen, at most 16 of them, the chosen one always.
func TestTraceOfAChoice(t *testing.T) {
	k := open(t, make([]int, 40)...)
	k.engines[0].set(func(l *lister) { l.condition = pool.StateWarming })
	k.engines[1].set(func(l *lister) { l.models = nil })
	k.Refresh(t.Context())
	failing := k.Instances("p")[2]
	for range 3 {
		failing.Begin()
		failing.End(errDown)
	}
	trace := &pool.Trace{}
	i, _, _ := k.Choose("p", pool.Wanted{Model: "m", Fits: all, Trace: trace, Tried: k.Instances("p")[3:38]})
	got := trace.All()
	if len(got) != 16 || trace.More() != 24 || got[0].Verdict != pool.VerdictClosed || got[1].Verdict != pool.VerdictAbsent || got[2].Verdict != pool.VerdictFailing || got[3].Verdict != pool.VerdictTried {
		t.Errorf("%d and %d, %+v", len(got), trace.More(), got)
	}
	if got[15].Verdict != pool.VerdictChosen || got[15].Instance != i.Name {
		t.Errorf("%+v, %s", got[15], i.Name)
	}
}

func preferring() pool.Wanted {
	return pool.Wanted{
		Model: "m", Fits: all, Prefer: &pool.Preference{Load: 1, Prefix: 2, Cost: 1, Energy: 1, Session: 1, FirstToken: time.Second}, Session: pool.HashOf("s"), Trace: &pool.Trace{},
		Prefix: hashes("acme", strings.Repeat("s", 16<<10)),
	}
}

// warm gives every instance a past: prompts, first tokens and declared figures.
func warm(s *pool.Set, prompt []uint64) {
	dice := rand.New(rand.NewPCG(3, 4))
	for n, i := range s.Instances("p") {
		i.Begin()
		i.Began(time.Duration(n) * 100 * time.Millisecond)
		i.Given(prompt[:n*len(prompt)/8])
		for range 2000 {
			i.Given([]uint64{dice.Uint64()})
		}
	}
}

// TestPreferringAllocatesNothing: with every term, and a trace.
func TestPreferringAllocatesNothing(t *testing.T) {
	k, w := open(t, 1, 1, 1, 1, 1, 1, 1, 1), preferring()
	warm(k.Set, w.Prefix)
	if n := testing.AllocsPerRun(1000, func() { k.Choose("p", w) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { k.Instances("p") }); n == 0 {
		t.Error("this test sees no allocation")
	}
}

func BenchmarkPrefer(b *testing.B) {
	s := &pool.Set{}
	var members []pool.Member
	for n := range 8 {
		members = append(members, pool.Member{
			Name: fmt.Sprint("i", n), Engine: &lister{models: []engine.Model{{ID: "m"}}, condition: pool.StateReady},
			Attributes: pool.Attributes{CostPerMillion: float64(n + 1), JoulesPerToken: float64(8 - n)},
		})
	}
	s.Replace("p", members)
	s.Refresh(b.Context())
	w := preferring()
	warm(s, w.Prefix)
	b.ReportAllocs()
	for b.Loop() {
		s.Choose("p", w)
	}
}

func BenchmarkPrefixHash(b *testing.B) {
	text := strings.Repeat("s", 16<<10)
	b.ReportAllocs()
	for b.Loop() {
		hashes("acme", text)
	}
}

// TestAffinityOfTheIdle: in a pool that has next to nothing to do the home of a conversation is not left for a request that it has; in one that has work it is.
func TestAffinityOfTheIdle(t *testing.T) {
	k, p := open(t, 1, 1, 1, 1), pool.Preference{Session: 1}
	session := pool.HashOf("s")
	name, _ := k.prefer(pool.Wanted{Prefer: &p, Session: session})
	all := k.Instances("p")
	home := all[slices.IndexFunc(all, func(i *pool.Instance) bool { return i.Name == name })]
	home.Begin()
	if got, trace := k.prefer(pool.Wanted{Prefer: &p, Session: session}); got != name {
		t.Errorf("%s in place of %s: %+v", got, name, trace)
	}
	home.Begin()
	if got, _ := k.prefer(pool.Wanted{Prefer: &p, Session: session}); got == name {
		t.Error("it has all the requests that there are")
	}
}

// TestWhoIsGivenUpIsSlow: an instance that was not waited for until it spoke takes at least as long, where that is more than what is known of it.
func TestWhoIsGivenUpIsSlow(t *testing.T) {
	k, p := open(t, 1, 1), pool.Preference{Cost: 1, FirstToken: time.Second, Spread: 10}
	k.with(pool.Attributes{CostPerMillion: 1}, pool.Attributes{CostPerMillion: 5})
	cheap := k.Instances("p")[0]
	want := func(name, why string) {
		t.Helper()
		if got, trace := k.prefer(pool.Wanted{Prefer: &p}); got != name {
			t.Errorf("%s: %s, %+v", why, got, trace)
		}
	}
	cheap.Waited(100*time.Millisecond, p.FirstToken)
	cheap.Begin()
	want("i1", "of what nobody knows one request at a time is enough, whatever it has not said in a moment")
	cheap.End(nil)
	cheap.Waited(3*time.Second, p.FirstToken)
	want("i1", "what nobody knew, and was given up")
	k.pass(61 * time.Second)
	want("i0", "it is forgotten")
	cheap.Began(10 * time.Millisecond)
	cheap.Waited(10*time.Second, p.FirstToken)
	want("i1", "what was fast, and was given up")
}

// TestFirstTokenIsBounded: no bound wraps around with the requests of an instance.
func TestFirstTokenIsBounded(t *testing.T) {
	for bound, ok := range map[time.Duration]bool{time.Hour: true, time.Hour + 1: false, 1 << 62: false, -1: false} {
		if p := (pool.Preference{Load: 1, FirstToken: bound}); (p.Validate() == nil) != ok {
			t.Errorf("%s: %v", bound, p.Validate())
		}
	}
}
