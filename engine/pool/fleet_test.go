package pool_test

import (
	"container/heap"
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
)

// A fleet on a virtual clock: engines of a simple model, the real choice of instances, and requests of conversations. An engine reads prompts one after the
// other, as many tokens a second as it does, but for what its prefix cache has of them, which forgets what was used longest ago; then it writes at a constant rate,
// for all at once. Times, lengths and seeds are fixed, so a run gives the same figures everywhere.

const (
	blockTokens  = 64   // of a block of a prompt
	cacheBlocks  = 2000 // of a prefix cache
	decodeRate   = 60.0 // tokens a second of one answer
	applications = 24   // with a long beginning of their own, asked for by Zipf's law
)

// fleetEngine is an engine as a fleet plays it.
type fleetEngine struct {
	at     *pool.Instance
	rate   float64 // prompt tokens a second
	free   float64 // when it has read what it was given
	cache  map[uint64]*list.Element
	used   *list.List
	tokens float64 // of the requests that it had, prompts and answers
	cost   float64 // of a token
}

// read returns how many blocks of a prompt the cache has, and keeps them all.
func (e *fleetEngine) read(prompt []uint64) (hit int) {
	for hit < len(prompt) && e.cache[prompt[hit]] != nil {
		hit++
	}
	for _, h := range prompt {
		if at := e.cache[h]; at != nil {
			e.used.MoveToFront(at)
			continue
		}
		e.cache[h] = e.used.PushFront(h)
		if len(e.cache) > cacheBlocks {
			delete(e.cache, e.used.Remove(e.used.Back()).(uint64))
		}
	}
	return hit
}

type fleetEvent struct {
	at float64
	do func()
}

type fleetEvents []fleetEvent

func (q fleetEvents) Len() int           { return len(q) }
func (q fleetEvents) Less(i, j int) bool { return q[i].at < q[j].at }
func (q fleetEvents) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *fleetEvents) Push(x any)        { *q = append(*q, x.(fleetEvent)) }
func (q *fleetEvents) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// fleetFigures are what a run comes to.
type fleetFigures struct {
	hits         float64 // of prompt tokens that a cache had
	mean, p99    float64 // seconds until the first token
	imbalance    float64 // how far the engine with most tokens is above the mean
	within       float64 // of requests whose first token came in time
	costPerMille float64 // of a thousand tokens
}

// fleet is a run.
type fleet struct {
	engines  int
	util     float64 // of what all could read without a cache
	rates    []float64
	costs    []float64
	choose   func(f *fleetRun, prompt []uint64, conversation uint64) *pool.Instance
	slo      float64
	requests int // of each engine
}

type fleetRun struct {
	*pool.Set

	now  float64
	next int // of round robin
}

// by chooses by a preference; nil is by least work.
func by(p *pool.Preference) func(*fleetRun, []uint64, uint64) *pool.Instance {
	return func(f *fleetRun, prompt []uint64, conversation uint64) *pool.Instance {
		i, _, _ := f.Choose("p", pool.Wanted{Model: "m", Fits: all, Prefer: p, Prefix: prompt, Session: conversation})
		return i
	}
}

func roundRobin(f *fleetRun, _ []uint64, _ uint64) *pool.Instance {
	all := f.Instances("p")
	f.next++
	return all[f.next%len(all)]
}

func chain(h uint64, n int, out []uint64) []uint64 {
	for i := range n {
		h = (h+uint64(i)+1)*0x9e3779b97f4a7c15 ^ h>>29
		out = append(out, max(1, h))
	}
	return out
}

func (c fleet) run(t testing.TB) fleetFigures {
	f := &fleetRun{Set: &pool.Set{}}
	dice := rand.New(rand.NewPCG(uint64(c.engines), 7))
	f.Now = func() time.Time { return time.Unix(0, int64(f.now*1e9)).Add(time.Hour) }
	f.Rand = dice.Float64
	var members []pool.Member
	for n := range c.engines {
		members = append(members, pool.Member{
			Name: fmt.Sprint("i", n), Engine: &lister{models: []engine.Model{{ID: "m"}}, condition: pool.StateReady},
			Attributes: pool.Attributes{CostPerMillion: c.costs[n%len(c.costs)]},
		})
	}
	f.Replace("p", members)
	f.Refresh(t.Context())
	engines, capacity := map[*pool.Instance]*fleetEngine{}, 0.0
	for n, i := range f.Instances("p") {
		engines[i] = &fleetEngine{at: i, rate: c.rates[n%len(c.rates)], cost: c.costs[n%len(c.costs)], cache: map[uint64]*list.Element{}, used: list.New()}
		capacity += engines[i].rate
	}
	var weights []float64 // of applications
	for n := range applications {
		weights = append(weights, 1/float64(n+1))
	}
	type talk struct {
		prompt []uint64
		id     uint64
		turns  int
	}
	talks := make([]talk, 16*c.engines) // conversations that go on at one time
	meanTokens := 28.0 * blockTokens
	gap := meanTokens / (capacity * c.util)
	var q fleetEvents
	var firsts []float64
	var hit, asked, cost, tokens, inTime float64
	at := 0.0
	for range c.requests * c.engines {
		at += dice.ExpFloat64() * gap
		which, app, id, more, answer := dice.IntN(len(talks)), pickWeighted(dice, weights), dice.Uint64(), 1+dice.IntN(5), 40+dice.IntN(200)
		heap.Push(&q, fleetEvent{at, func() {
			talk := &talks[which]
			if talk.turns == 0 {
				*talk = talk0(app, id)
			}
			talk.turns--
			if len(talk.prompt)+more > 64 {
				talk.turns = 0
			} else {
				talk.prompt = chain(talk.id+uint64(len(talk.prompt)), more, slices.Clip(talk.prompt))
			}
			prompt := talk.prompt
			i := c.choose(f, prompt, talk.id)
			e := engines[i]
			i.Begin()
			i.Given(prompt)
			known := e.read(prompt)
			hit, asked = hit+float64(known), asked+float64(len(prompt))
			e.free = max(e.free, f.now) + float64((len(prompt)-known)*blockTokens+16)/e.rate
			first, begun := e.free-f.now, e.free
			firsts = append(firsts, first)
			if first <= c.slo {
				inTime++
			}
			all := float64(len(prompt)*blockTokens + answer)
			e.tokens, tokens = e.tokens+all, tokens+all
			cost += all * e.cost
			heap.Push(&q, fleetEvent{begun, func() { i.Began(time.Duration(first * 1e9)) }})
			heap.Push(&q, fleetEvent{begun + float64(answer)/decodeRate, func() { i.End(nil) }})
		}})
	}
	for len(q) > 0 {
		ev := heap.Pop(&q).(fleetEvent)
		f.now = ev.at
		ev.do()
	}
	out := fleetFigures{hits: hit / asked, within: inTime / float64(len(firsts)), costPerMille: cost / tokens}
	for _, x := range firsts {
		out.mean += x / float64(len(firsts))
	}
	slices.Sort(firsts)
	out.p99 = firsts[len(firsts)*99/100]
	most := 0.0
	for _, e := range engines {
		most = max(most, e.tokens)
	}
	out.imbalance = most/(tokens/float64(c.engines)) - 1
	return out
}

// talk0 begins a conversation: the beginning of an application is 24 blocks.
func talk0(app int, id uint64) (t struct {
	prompt []uint64
	id     uint64
	turns  int
},
) {
	t.prompt, t.id, t.turns = chain(uint64(app+1)<<40, 24, nil), id, 6
	return t
}

func pickWeighted(dice *rand.Rand, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	x := dice.Float64() * sum
	for n, w := range weights {
		if x -= w; x < 0 {
			return n
		}
	}
	return len(weights) - 1
}

func fleetSizes() []int {
	if os.Getenv("SLUICE_TEST_LONG") != "" {
		return []int{8, 64, 128}
	}
	return []int{8}
}

// TestFleetByPrefix: with prefixes caches have more of the prompts and first tokens come sooner than in turn and by least work, and no engine has a tenth more than the mean.
func TestFleetByPrefix(t *testing.T) {
	t.Parallel()
	for _, n := range fleetSizes() {
		c := fleet{engines: n, util: 0.9, rates: []float64{4000}, costs: []float64{1}, slo: 1, requests: 400}
		got := map[string]fleetFigures{}
		for name, choose := range map[string]func(*fleetRun, []uint64, uint64) *pool.Instance{
			"in turn": roundRobin, "least work": by(nil), "prefix": by(&pool.Preference{Load: 1, Prefix: 2}), "session": by(&pool.Preference{Load: 1, Session: 2}),
		} {
			c.choose = choose
			got[name] = c.run(t)
			x := got[name]
			t.Logf("| %d | %s | %.1f %% | %.0f ms | %.0f ms | %.1f %% |", n, name, 100*x.hits, 1000*x.mean, 1000*x.p99, 100*x.imbalance)
		}
		prefix := got["prefix"]
		for _, other := range []string{"in turn", "least work"} {
			if o := got[other]; prefix.hits <= o.hits || prefix.mean >= o.mean || prefix.p99 >= o.p99 {
				t.Errorf("%d engines: by prefix %+v, %s %+v", n, prefix, other, o)
			}
		}
		if prefix.imbalance >= 0.10 {
			t.Errorf("%d engines: one has %.1f %% more than the mean", n, 100*prefix.imbalance)
		}
	}
}

// TestCheapestThatIsFastEnough: of cheap slow engines and dear fast ones the cheap ones are chosen as long as their first tokens come in time, and the dear ones
// for what is left, or for everything where the cheap ones never are.
func TestCheapestThatIsFastEnough(t *testing.T) {
	t.Parallel()
	for _, n := range fleetSizes() {
		c := fleet{engines: n, costs: []float64{1, 4}, requests: 200}
		for _, x := range []struct {
			slow, util, slo  float64 // the rate of the cheap ones; those of the dear ones is 8000
			cheaper, dearest float64 // bounds of the cost
			within           float64
		}{
			{2000, 0.05, 2, 1, 1.3, 0.97}, // the cheap ones do it alone
			{2000, 0.5, 2, 1.2, 3.8, 0.9}, // they do not
			{300, 0.1, 0.5, 3, 4, 0.8},    // they are not fast enough for a prompt that is not known
		} {
			c.util, c.slo, c.rates = x.util, x.slo, []float64{x.slow, 8000}
			c.choose = by(&pool.Preference{Cost: 1, Load: 0.05, FirstToken: time.Duration(x.slo * 0.5 * float64(time.Second)), Spread: 100})
			got := c.run(t)
			c.choose = roundRobin
			turn := c.run(t)
			c.choose = by(&pool.Preference{Cost: 1, Spread: 100})
			cheap := c.run(t)
			t.Logf("| %d | %.0f | %.0f %% | %.1f s | %.2f, %.0f %% | %.2f, %.0f %% | %.2f, %.0f %% |", n, x.slow, 100*x.util, x.slo, got.costPerMille, 100*got.within, turn.costPerMille, 100*turn.within, cheap.costPerMille, 100*cheap.within)
			if got.costPerMille < x.cheaper || got.costPerMille > x.dearest || got.within < x.within || got.within < math.Min(turn.within, 1)-0.06 {
				t.Errorf("%d engines, %+v: %+v, in turn %+v", n, x, got, turn)
			}
		}
	}
}
