package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The estimate is compared with what the simulated engine then does, for requests that come at any time of a busy engine.
func TestEstimateAgainstSimulation(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		clients, most, prompt, output int
		class                         int
	}{
		"room for all":       {6, 16, 200, 60, Interactive},
		"a queue":            {24, 8, 200, 60, Standard},
		"long prompts":       {12, 6, 900, 40, Batch},
		"long completions":   {12, 6, 50, 200, Standard},
		"a long queue":       {60, 8, 100, 40, Standard},
		"nobody else, alone": {1, 8, 300, 40, Interactive},
	} {
		s := newSimulation(4, linear(500, 800, 800, 0.3), &ControllerConfig{MaxSequences: k.most}, 0)
		s.warm = 0
		s.add(k.clients, simClient{class: k.class, prompt: k.prompt, output: k.output, think: 300 * time.Millisecond})
		estimates := map[*simSequence]time.Duration{}
		var ratios []time.Duration // in units of a nanosecond per thousandth
		for s.now < 60*time.Second {
			s.arrivals()
			if n := len(s.waiting) + len(s.active); n > 0 {
				s.estimate(estimates, k.most, float64(k.output))
			}
			s.turn()
			for q, e := range estimates {
				if q.produced > 0 {
					ratios = append(ratios, time.Duration(1000*float64(e+time.Millisecond)/float64(q.last-q.arrived+time.Millisecond)))
					delete(estimates, q)
				}
			}
		}
		low, mid, high := quantile(ratios, 0.1), quantile(ratios, 0.5), quantile(ratios, 0.9)
		t.Logf("%s: estimate ÷ truth, in thousandths: P10 %d, P50 %d, P90 %d of %d", name, low, mid, high, len(ratios))
		if len(ratios) < 10 || mid < 650 || mid > 1500 || low < 330 || high > 3000 {
			t.Errorf("%s: estimate ÷ truth, in thousandths: P10 %d, P50 %d, P90 %d of %d", name, low, mid, high, len(ratios))
		}
	}
}

// estimate notes one for every sequence that has just come.
func (s *simulation) estimate(out map[*simSequence]time.Duration, most int, completion float64) {
	b := Backlog{AdmittedAtMost: most, CompletionMean: completion, Sequences: 1}
	for _, q := range s.active {
		b.Running[q.class]++
		b.Context += (q.computed + q.produced) / max(1, len(s.active))
		b.PrefillAhead += q.prompt - q.computed
	}
	for _, q := range s.waiting {
		if _, known := out[q]; !known && q.arrived == s.now {
			one := b
			one.Class, one.Prompt = q.class, q.prompt
			out[q] = s.c.Estimate(one)
		}
		b.SequencesAhead++
		b.PrefillAhead += q.prompt
	}
	for _, q := range s.active { // admitted in the moment it came
		if _, known := out[q]; !known && q.arrived == s.now && q.computed == 0 {
			one := b
			one.Class, one.Prompt, one.SequencesAhead = q.class, q.prompt, 0
			one.Running[q.class]--
			one.PrefillAhead -= q.prompt
			out[q] = s.c.Estimate(one)
		}
	}
}

func TestEstimateGrowsWithTheBacklog(t *testing.T) {
	t.Parallel()
	c := NewController(ControllerConfig{})
	base := Backlog{Class: Standard, Prompt: 100, Sequences: 1, AdmittedAtMost: 4, CompletionMean: 50, Context: 100}
	alone := c.Estimate(base)
	if alone < 60*time.Millisecond || alone > 130*time.Millisecond {
		t.Errorf("alone %v, 100 tokens of 0.8 ms", alone)
	}
	busy := base
	busy.Running = [Classes]int{1, 1, 1}
	last := c.Estimate(busy)
	if last <= alone {
		t.Errorf("beside three sequences %v, alone %v", last, alone)
	}
	for n := range 30 {
		busy.SequencesAhead, busy.PrefillAhead = n+1, 100*(n+1)
		e := c.Estimate(busy)
		if e < last {
			t.Errorf("behind %d sequences %v, behind one fewer %v", n+1, e, last)
		}
		last = e
	}
	if last < 2*time.Second {
		t.Errorf("behind 30 sequences of 50 tokens each on 4 places %v", last)
	}
	if e := c.Estimate(Backlog{}); e < 0 || e > time.Second {
		t.Errorf("of nothing %v", e)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	for _, k := range []struct {
		estimate, alone, timeout time.Duration
		want                     AdmitDecision
	}{
		{3 * s, 1 * s, 3 * s, AdmitDecision{Admit: true}},
		{3 * s, 1 * s, 2900 * ms, AdmitDecision{RetryAfter: 1 * s}},
		{9500 * ms, 1 * s, 3 * s, AdmitDecision{RetryAfter: 7 * s}},
		{900 * s, 1 * s, 3 * s, AdmitDecision{RetryAfter: 60 * s}},
		{5 * s, 4 * s, 3 * s, AdmitDecision{Never: true, RetryAfter: 1 * s}},
		{50 * ms, 40 * ms, 0, AdmitDecision{Never: true, RetryAfter: 1 * s}},
		{50 * ms, 40 * ms, -5 * s, AdmitDecision{Never: true, RetryAfter: 1 * s}},
	} {
		k.want.Estimate = k.estimate
		if got := Decide(k.estimate, k.alone, k.timeout); got != k.want {
			t.Errorf("Decide(%v, %v, %v) = %+v, want %+v", k.estimate, k.alone, k.timeout, got, k.want)
		}
	}
}

func TestOccupancy(t *testing.T) {
	t.Parallel()
	o := QueueOccupancy{Bounds: Limits{Requests: 5, Tokens: 1000, Bytes: 10000, TenantRequests: 3, TenantTokens: 600, TenantBytes: 7000}}
	for _, k := range []struct {
		tenant        string
		tokens, bytes int
		want          Limit
	}{
		{"a", 200, 2000, LimitNone},
		{"a", 500, 10, LimitTenantTokens},
		{"a", 10, 5001, LimitTenantBytes},
		{"a", 900, 10, LimitTokens},
		{"b", 500, 8001, LimitBytes},
		{"a", 1, 1, LimitNone},
		{"a", 1, 1, LimitNone},
		{"a", 1, 1, LimitTenantRequests},
		{"b", 1, 1, LimitNone},
		{"c", 1, 1, LimitNone},
		{"d", 1, 1, LimitRequests},
	} {
		if got := o.Admit(k.tenant, k.tokens, k.bytes); got != k.want {
			t.Errorf("%+v: %q", k, got)
		}
	}
	var unlimited QueueOccupancy
	if got := unlimited.Admit("a", 1<<40, 1<<40); got != LimitNone {
		t.Errorf("without bounds %q is full", got)
	}
}

// After as many releases as admissions nothing is left, and the bounds hold in between.
func TestOccupancyReturnsToZero(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	o := QueueOccupancy{Bounds: Limits{Requests: 50, Tokens: 5000, TenantBytes: 3000}}
	type held struct {
		tenant        string
		tokens, bytes int
	}
	var all []held
	for range 10000 {
		if len(all) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(all))
			o.Release(all[i].tenant, all[i].tokens, all[i].bytes)
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			continue
		}
		h := held{fmt.Sprint(rng.IntN(9)), rng.IntN(500), rng.IntN(900)}
		if o.Admit(h.tenant, h.tokens, h.bytes) == LimitNone {
			all = append(all, h)
		}
		requests, tokens, _ := o.Waiting()
		if requests != len(all) || requests > 50 || tokens > 5000 || o.tenants[h.tenant].bytes > 3000 {
			t.Fatalf("%d requests with %d tokens wait", requests, tokens)
		}
	}
	for _, h := range all {
		o.Release(h.tenant, h.tokens, h.bytes)
	}
	if o.total != (amount{}) || len(o.tenants) != 0 {
		t.Errorf("left are %+v and %d tenants", o.total, len(o.tenants))
	}
}

// Who is refused and comes back when told to, and nobody else has come meanwhile, is admitted: and then does have its token in time.
func TestRetryAfterIsHonest(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		for _, timeout := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second} {
			s := newSimulation(seed, linear(500, 800, 800, 0.3), &ControllerConfig{MaxSequences: 8}, 0)
			s.warm = 0
			s.add(60, simClient{class: Standard, tenant: "before", prompt: 200, output: 60, think: 1000 * time.Hour})
			s.until(2 * time.Second)
			backlog := func() Backlog {
				b := Backlog{Class: Standard, Prompt: 100, Sequences: 1, AdmittedAtMost: 8, CompletionMean: 60, SequencesAhead: len(s.waiting)}
				for _, q := range s.active {
					b.Running[q.class]++
					b.Context += (q.computed + q.produced) / len(s.active)
					b.PrefillAhead += q.prompt - q.computed
				}
				for _, q := range s.waiting {
					b.PrefillAhead += q.prompt
				}
				return b
			}
			alone := s.c.Estimate(Backlog{Class: Standard, Prompt: 100, Sequences: 1})
			first := Decide(s.c.Estimate(backlog()), alone, timeout)
			if first.Admit || first.Never || first.RetryAfter < 5*time.Second {
				t.Fatalf("seed %d, patience %v: behind 60 requests %+v", seed, timeout, first)
			}
			s.until(s.now + first.RetryAfter)
			again := Decide(s.c.Estimate(backlog()), alone, timeout)
			if !again.Admit && again.RetryAfter > time.Second {
				t.Errorf("seed %d, patience %v: first %+v, when it came back %+v", seed, timeout, first, again)
			}
		}
	}
}

// What is larger than a bound can wait alone: refused, it would come back for ever.
func TestOccupancyLetsOneInAlone(t *testing.T) {
	o := QueueOccupancy{Bounds: Limits{Requests: 4, Tokens: 100, TenantTokens: 75}}
	if b := o.Admit("a", 500, 0); b != LimitNone {
		t.Fatalf("alone: %s", b)
	}
	if b := o.Admit("b", 1, 0); b != LimitTokens {
		t.Errorf("beside it: %q", b)
	}
	o.Release("a", 500, 0)
	if b := o.Admit("b", 1, 0); b != LimitNone {
		t.Errorf("after it: %s", b)
	}
	if b := o.Admit("a", 500, 0); b != LimitTokens {
		t.Errorf("beside another: %q", b)
	}
}
