package native

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/internal/fault"
)

// tinyMark is a watermark that tells choices and contexts apart, and marks no context twice.
var tinyMark = &engine.Watermark{Scheme: "test", Key: "k", Begin: func(seed uint64, choice int) engine.Marker {
	seen := map[[2]int32]bool{}
	return func(completion, tokens []int32, weights []float32) (int, bool) {
		n := len(completion)
		if n < 2 || seen[[2]int32(completion[n-2:])] {
			return -1, false
		}
		seen[[2]int32(completion[n-2:])] = true
		r := rand.New(rand.NewPCG(seed+uint64(choice), uint64(completion[n-2])<<32|uint64(completion[n-1])))
		for i := r.IntN(len(weights)); ; i = (i + 1) % len(weights) {
			if weights[i] > 0.01 {
				return i, true
			}
		}
	}
}}

// variety makes different requests: prompts that begin alike, tenants, classes, choices, penalties, log-probabilities.
func variety(n int) []*engine.Request {
	r := rand.New(rand.NewPCG(5, 8))
	classes := []engine.Class{engine.ClassInteractive, engine.ClassStandard, engine.ClassBatch}
	stem := strings.Repeat("the quick brown fox ", 5)
	out := make([]*engine.Request, n)
	for i := range out {
		req := &engine.Request{
			Model: tinyID, Prompt: stem[:r.IntN(len(stem))] + strings.Repeat(string(rune('a'+i%26)), r.IntN(40)), MaxTokens: 1 + r.IntN(40),
			Seed: seed(uint64(i)), Logprobs: -1, Temperature: float64(r.IntN(3)) * 0.5, Choices: 1 + r.IntN(6)/5,
			Tenant: fmt.Sprint("tenant ", r.IntN(3)), Class: classes[r.IntN(3)], Priority: r.IntN(2),
		}
		switch r.IntN(6) {
		case 0:
			req.Logprobs = 1
		case 1:
			req.RepetitionPenalty, req.FrequencyPenalty = 1.3, 0.2
		case 2:
			req.TopK, req.MinP, req.MinTokens = 7, 0.01, min(3, req.MaxTokens)
		case 3:
			req.Echo = true
		case 4:
			req.Watermark, req.Choices = tinyMark, 2
		}
		out[i] = req
	}
	return out
}

// Ten thousand requests come as they like, some leave at some point, and memory for few of them makes sequences go and come back: every
// answer is that of an idle engine, and in the end no page, no place in the queue and no share is held.
func TestRandomSchedule(t *testing.T) {
	arrivals := 10_000
	if testing.Short() {
		arrivals = 1000
	}
	reqs := variety(120)
	f := newTiny(gguf.Q4_1)
	idle := openTiny(t, f, Config{NoSpeculation: true})
	want := make([]collected, len(reqs))
	for i, r := range reqs {
		if want[i] = collect(t.Context(), idle, r); want[i].err != nil {
			t.Fatal(i, want[i].err)
		}
	}
	e := openTiny(t, f, Config{Concurrency: 12, PrefixCache: PrefixCache{SpillDir: t.TempDir(), SpillMebibytes: 1}})
	g := e.generators[tinyID]
	g.pages = 14
	g.pass.Pages().SetLimit(g.pages)
	var wg sync.WaitGroup
	var cached, left sync.Map
	for worker := range 24 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 11))
			for range arrivals / 24 {
				i := r.IntN(len(reqs))
				ctx, cancel := context.WithCancel(t.Context())
				stay := -1
				if r.IntN(3) == 0 {
					stay = r.IntN(8)
				}
				got := leaving(ctx, cancel, e, reqs[i], stay)
				cancel()
				if stay >= 0 && errors.Is(got.err, context.Canceled) {
					left.Store(i, true)
					continue
				}
				sameAnswers(t, fmt.Sprintf("request %d", i), got, want[i])
				if got.usage != nil && got.usage.CachedTokens > 0 {
					cached.Store(i, true)
				}
			}
		})
	}
	wg.Wait()
	settled(t, e)
	for what, m := range map[string]*sync.Map{"used the prefix cache": &cached, "left early": &left} {
		n := 0
		m.Range(func(any, any) bool { n++; return true })
		if n < 10 {
			t.Errorf("%d requests %s", n, what)
		}
	}
	state := e.Scheduler()[0]
	t.Logf("%d steps, %d of %d pages in use at the end, prefix cache %+v", state.Controller.Steps, state.PagesInUse, state.Pages, state.Prefix)
	g.tree.Clear()
	requests, tokens, bytes := e.loop.occupancy.Waiting()
	if n := g.pass.Pages().InUse(); n != 0 || requests != 0 || tokens != 0 || bytes != 0 || len(e.loop.active) != 0 || len(e.loop.queue) != 0 {
		t.Errorf("%d pages, %d requests, %d tokens, %d bytes, %d active, %d queued are left", n, requests, tokens, bytes, len(e.loop.active), len(e.loop.queue))
	}
}

// leaving collects a request, and cancels it after some events; −1: never.
func leaving(ctx context.Context, cancel func(), e engine.Engine, req *engine.Request, stay int) collected {
	n := max(1, req.Choices)
	c := collected{texts: make([]string, n), finishes: make([]engine.Finish, n), logprobs: make([][]engine.TokenLogprob, n)}
	if stay == 0 {
		go cancel()
	}
	events := 0
	for ev, err := range enginetest.Ask(ctx, e, req) {
		if err != nil {
			c.err = err
			break
		}
		c.texts[ev.Choice] += ev.Text
		c.logprobs[ev.Choice] = append(c.logprobs[ev.Choice], ev.Logprobs...)
		if ev.Finish != "" {
			c.finishes[ev.Choice] = ev.Finish
		}
		c.usage = ev.Usage
		if events++; events == stay {
			cancel()
		}
	}
	return c
}

// A prompt that another request of the tenant began with is not computed again; another tenant learns nothing of it, unless a policy
// lets both share.
func TestPrefixesAreShared(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q8_0), Config{})
	ask := func(tenant, tail string, shared bool) int {
		c := collect(t.Context(), e, &engine.Request{
			Model: tinyID, Prompt: strings.Repeat("a common beginning ", 8) + tail, MaxTokens: 2, Logprobs: -1, Tenant: tenant, SharedPrefix: shared,
		})
		if c.err != nil {
			t.Fatal(c.err)
		}
		return c.usage.CachedTokens
	}
	common := len(strings.Repeat("a common beginning ", 8))
	for i, c := range []struct {
		tenant, tail string
		shared       bool
		low, high    int
	}{
		{"a", "x", false, 0, 0},
		{"a", "y", false, common - common%64 - 8, common},
		{"b", "x", false, 0, 0},
		{"a", "x", true, 0, 0},
		{"b", "y", true, common - common%64 - 8, common},
		{"", "x", false, 0, 0},
	} {
		if got := ask(c.tenant, c.tail, c.shared); got < c.low || got > c.high {
			t.Errorf("%d: %d cached tokens, want %d to %d", i, got, c.low, c.high)
		}
	}
	for tenant, cached := range map[string]bool{"a": true, "c": false} { // what a deadline is measured against
		j, err := jobOf(t.Context(), e, &engine.Request{Model: tinyID, Prompt: strings.Repeat("a common beginning ", 8) + "z", Logprobs: -1, Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		e.loop.mu.Lock()
		left := e.loop.onlyModel(j).Prompt
		e.loop.mu.Unlock()
		if cached != (left < len(j.prompt)/2) {
			t.Errorf("tenant %s: %d of %d tokens are expected to be computed", tenant, left, len(j.prompt))
		}
	}
}

// Guesses are verified: texts are the same with them and without, and on text that repeats itself most are right.
func TestSpeculationChangesNothing(t *testing.T) {
	f := newTiny(gguf.Q4_1)
	plain, guessing := openTiny(t, f, Config{NoSpeculation: true}), openTiny(t, f, Config{})
	for i := range 12 {
		req := &engine.Request{
			Model: tinyID, Prompt: strings.Repeat(fmt.Sprintf("line %d\n", i), 6), MaxTokens: 100, Seed: seed(uint64(i)), Logprobs: 1,
			Temperature: float64(i%3) * 0.2, Choices: 1 + i%2,
		}
		if i%4 == 3 {
			req.FrequencyPenalty = 0.5
		}
		sameAnswers(t, fmt.Sprint(i), collect(t.Context(), guessing, req), collect(t.Context(), plain, req))
	}
	settled(t, guessing)
	accepted, proposed := 0, 0
	for _, s := range guessing.StepPage(nil, stepLogSize) {
		accepted, proposed = accepted+s.Accepted, proposed+s.Load.Drafts
	}
	t.Logf("%d of %d guesses were right", accepted, proposed)
	if accepted == 0 || accepted == proposed {
		t.Errorf("%d of %d guesses were right: the test shows nothing", accepted, proposed)
	}
}

// Whoever sees the end of an answer finds all of its steps in the log, also where it took one: energy is charged by them. The loop is kept from
// the log until the end has been seen, or did not come.
func TestEndsAfterItsSteps(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q4_1), Config{})
	seen := make(chan struct{})
	mark := &engine.Watermark{Scheme: "test", Key: "k", Begin: func(uint64, int) engine.Marker {
		return func([]int32, []int32, []float32) (int, bool) {
			locked := make(chan struct{})
			go func() {
				e.loop.mu.Lock()
				defer e.loop.mu.Unlock()
				close(locked)
				select {
				case <-seen:
				case <-time.After(200 * time.Millisecond):
				}
			}()
			<-locked
			return -1, false
		}
	}}
	ended := false
	for ev, err := range enginetest.Ask(t.Context(), e, &engine.Request{ID: "one", Model: tinyID, Prompt: "line", MaxTokens: 1, Temperature: 1, Watermark: mark}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Usage == nil {
			continue
		}
		ended = true
		if steps := e.StepPage(nil, stepLogSize); len(steps) == 0 || steps[len(steps)-1].Shares[0].Request != "one" {
			t.Errorf("it has ended, and its step is not in the log: %+v", steps)
		}
		close(seen)
	}
	if !ended {
		t.Error("it has no end")
	}
}

// The shares of a step's requests add up to what the step computed.
func TestStepsAddUp(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q4_1), Config{})
	var wg sync.WaitGroup
	for i, r := range variety(40) {
		own := *r
		own.ID = fmt.Sprint("request ", i)
		wg.Go(func() { _ = collect(t.Context(), e, &own) })
	}
	wg.Wait()
	settled(t, e)
	steps := e.StepPage(nil, stepLogSize)
	for _, s := range steps {
		sum := s.Load
		for _, share := range s.Shares {
			if !strings.HasPrefix(share.Request, "request ") {
				t.Fatalf("a share without a request: %+v", s)
			}
			sum.Decode, sum.Prefill, sum.Drafts = sum.Decode-share.Decode, sum.Prefill-share.Prefill, sum.Drafts-share.Drafts
		}
		if sum.Decode != 0 || sum.Prefill != 0 || sum.Drafts != 0 || s.Load.Rows() == 0 || s.Took <= 0 {
			t.Fatalf("shares differ from the step by %+v: %+v", sum, s)
		}
	}
	if len(steps) == 0 {
		t.Error("no step was logged")
	}
}

// A hook sees what may come next, changes what does, and ends its own request when it fails.
func TestHook(t *testing.T) {
	e := openTiny(t, noEnd(), Config{})
	req := func(h engine.Hook) *engine.Request {
		return &engine.Request{Model: tinyID, Prompt: "hook", MaxTokens: 8, Temperature: 1, Seed: seed(4), Logprobs: -1, Hook: h}
	}
	calls := 0
	c := collect(t.Context(), e, req(func(d *engine.Draw) error {
		if calls++; len(d.Completion) != calls-1 || len(d.Prompt) == 0 || len(d.Candidates) == 0 {
			t.Errorf("%d: %d tokens before, %d candidates", calls, len(d.Completion), len(d.Candidates))
		}
		for i := range d.Candidates {
			if d.Candidates[i].Token != 'z' {
				d.Candidates[i].Weight = 0
			}
		}
		return nil
	}))
	if c.err != nil || strings.Trim(c.texts[0], string(e.generators[tinyID].tokens.Bytes('z'))) != "" || calls != 8 {
		t.Errorf("%d calls, %q, %v", calls, c.texts[0], c.err)
	}
	other := make(chan collected, 1)
	go func() { other <- collect(t.Context(), e, req(nil)) }()
	broken := errors.New("no key")
	if c := collect(t.Context(), e, req(func(d *engine.Draw) error {
		if len(d.Completion) == 3 {
			return broken
		}
		return nil
	})); !errors.Is(c.err, broken) || c.usage != nil {
		t.Errorf("a hook that fails: %+v", c)
	}
	if c := <-other; c.err != nil {
		t.Errorf("another request: %v", c.err)
	}
}

// A first token that can only come too late is refused at once, with a time to come back.
func TestDeadlines(t *testing.T) {
	e := openTiny(t, noEnd(), Config{Concurrency: 1})
	held, release := hold(e)
	first := make(chan collected, 1)
	go func() { first <- collect(t.Context(), e, endless()) }()
	<-held
	req := endless()
	req.Deadline = time.Now().Add(time.Nanosecond)
	c := collect(t.Context(), e, req)
	if !fault.Is(c.err, fault.CodeEngineOverloaded) || fault.Public(c.err).RetryAfter() < time.Second {
		t.Errorf("%v", c.err)
	}
	req.Deadline = time.Now().Add(time.Hour)
	req.MaxTokens = 2
	late := make(chan collected, 1)
	go func() { late <- collect(t.Context(), e, req) }()
	release()
	if c := <-late; c.err != nil {
		t.Error(c.err)
	}
	<-first
}

// A reader that does not read holds its text and nothing else, and leaving frees that, too.
func TestSlowReader(t *testing.T) {
	e := openTiny(t, noEnd(), Config{})
	ctx, cancel := context.WithCancel(t.Context())
	j, err := jobOf(ctx, e, endless())
	if err == nil {
		err = e.loop.submit(j)
	}
	if err != nil {
		t.Fatal(err)
	}
	settled(t, e) // it is computed to its end, though nobody reads
	if len(j.events) != 1 || j.events[0].Usage == nil {
		t.Errorf("%d events wait", len(j.events))
	}
	cancel()
	g := e.generators[tinyID]
	g.tree.Clear()
	if n := g.pass.Pages().InUse(); n != 0 {
		t.Errorf("%d pages in use", n)
	}
}

// Echoed prompts come with their log-probabilities: those of the tokens as the completion of what stands before them.
func TestEcho(t *testing.T) {
	e := openTiny(t, noEnd(), Config{})
	c := collect(t.Context(), e, &engine.Request{Model: tinyID, Prompt: "echo me", MaxTokens: 3, Logprobs: 0, Echo: true, Choices: 2})
	ids := e.generators[tinyID].tokens.Encode("echo me", true)
	if c.err != nil || !strings.HasPrefix(c.texts[0], "echo me") || len(c.logprobs[0]) != len(ids)+3 || len(c.logprobs[1]) != len(ids)+3 {
		t.Fatalf("%q, %d log-probabilities, %v", c.texts, len(c.logprobs[0]), c.err)
	}
	first, second := c.logprobs[0][0], c.logprobs[0][1]
	if first.Logprob == first.Logprob || second.Logprob != second.Logprob {
		t.Errorf("the first has %v, the second %v", first.Logprob, second.Logprob)
	}
	// What the completion of a shorter prompt says of the token that came next.
	short := collect(t.Context(), e, &engine.Request{Model: tinyID, Prompt: "echo m", MaxTokens: 1, Logprobs: 0, Hook: func(d *engine.Draw) error {
		for i := range d.Candidates {
			if d.Candidates[i].Token != ids[len(ids)-1] {
				d.Candidates[i].Weight = 0
			}
		}
		return nil
	}})
	if short.err != nil || short.logprobs[0][0].Logprob != c.logprobs[0][len(ids)-1].Logprob {
		t.Errorf("%v, want %v (%v)", c.logprobs[0][len(ids)-1], short.logprobs[0], short.err)
	}
}

// TestWhoseLimit: a full queue is the engine's, and a tenant's part of it is the caller's own.
func TestWhoseLimit(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q8_0), Config{})
	for name, c := range map[string]struct {
		bounds sched.Limits
		own    bool
	}{
		"all":       {sched.Limits{Requests: 1}, false},
		"of tenant": {sched.Limits{TenantRequests: 1}, true},
	} {
		j, err := jobOf(t.Context(), e, &engine.Request{Model: tinyID, Prompt: "x", Logprobs: -1, Tenant: "a"})
		if err != nil {
			t.Fatal(err)
		}
		e.loop.mu.Lock()
		e.loop.occupancy = sched.QueueOccupancy{Bounds: c.bounds}
		e.loop.occupancy.Admit("a", 1, 1)
		e.loop.mu.Unlock()
		if err := e.loop.submit(j); !fault.Is(err, fault.CodeEngineOverloaded) || errors.Is(err, engine.ErrCallerLimit) != c.own {
			t.Errorf("%s: %v", name, err)
		}
	}
}
