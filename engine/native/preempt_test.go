package native

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
)

// byHand lets a test take the loop's steps itself, with so many pages of keys and values.
func byHand(t *testing.T, pages int) (*Engine, *generator) {
	t.Helper()
	e := openTiny(t, noEnd(), Config{Concurrency: 4})
	e.loop.running = true
	g := e.generators[tinyID]
	g.pages = pages
	g.pass.Pages().SetLimit(pages)
	return e, g
}

// queued hands a request to an engine whose steps the test takes.
func queued(t *testing.T, e *Engine, ctx context.Context, req *engine.Request) *job {
	t.Helper()
	req.Model = tinyID
	j, err := jobOf(ctx, e, req)
	if err == nil {
		err = e.loop.submit(j)
	}
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// steps takes so many steps, and reports whether that was all.
func steps(e *Engine, n int) bool {
	for range n {
		if !e.loop.admit() {
			e.loop.running = true
			return len(e.loop.queue) == 0
		}
		for _, m := range e.loop.models() {
			e.loop.compute(m)
		}
	}
	return false
}

// all takes the steps that are left.
func all(t *testing.T, e *Engine) {
	t.Helper()
	if !steps(e, 1000) {
		t.Fatalf("it does not end: %d are active, %d wait", len(e.loop.active), len(e.loop.queue))
	}
}

// some is a text of so many tokens that has nothing in common with that of another number.
func some(n int, which uint64) string {
	r := rand.New(rand.NewPCG(which, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

func free(prompt string, tokens int, class engine.Class) *engine.Request {
	return &engine.Request{Prompt: prompt, MaxTokens: tokens, Logprobs: -1, Class: class}
}

// A sequence for which the only one that runs has to leave runs then, though it takes all the memory there is.
func TestTheLastOneLeaves(t *testing.T) {
	e, _ := byHand(t, 4)
	e.SetConcurrency(1)
	queued(t, e, t.Context(), free("go on", 50, engine.ClassBatch))
	steps(e, 5)
	j := queued(t, e, t.Context(), free(some(195, 1), 2, engine.ClassInteractive))
	all(t, e)
	if !j.over() || j.err != nil {
		t.Errorf("it ended with %v", j.err)
	}
}

// A sequence that needs all the memory ends, though the copy of a page that it shares in part would take one page more.
func TestSharedPageInFullMemory(t *testing.T) {
	e, g := byHand(t, 4)
	common := some(100, 1)
	queued(t, e, t.Context(), free(common+some(50, 2), 50, ""))
	all(t, e)
	want := collect(t.Context(), openTiny(t, noEnd(), Config{}), &engine.Request{Model: tinyID, Prompt: common + some(98, 3), MaxTokens: 2, Logprobs: -1})
	j := queued(t, e, t.Context(), free(common+some(98, 3), 2, ""))
	all(t, e)
	events, err, _ := j.take()
	if err != nil || len(events) != 1 || events[0].Text != want.texts[0] || j.cached == 0 || g.tree.Stats().TailTokens == 0 {
		t.Errorf("%+v, %v, want %q; %d tokens were cached", events, err, want.texts, j.cached)
	}
}

// What a prompt is told of is told once, and what a request computed itself is not called cached, when it is preempted on the way.
func TestPreemptedWithinThePrompt(t *testing.T) {
	for _, echo := range []bool{false, true} {
		e, _ := byHand(t, 8)
		req := free(some(180, 3), 1, "")
		if echo {
			req.Echo, req.Logprobs = true, 0
		}
		j := queued(t, e, t.Context(), req)
		steps(e, 1)
		if n := e.loop.active[0].computed; n == 0 || n >= 180 {
			t.Fatalf("%d tokens are computed", n)
		}
		e.loop.preempt(e.loop.active[0])
		all(t, e)
		told := 0
		for _, ev := range j.events {
			told += len(ev.Logprobs)
		}
		if echo && told != 181 || j.cached != 0 {
			t.Errorf("echo %v: %d log-probabilities, %d cached tokens", echo, told, j.cached)
		}
	}
}

// A sequence that is preempted while a step is put together takes no pages to the queue: nobody would give them back.
func TestPreemptedWithinAStep(t *testing.T) {
	e, g := byHand(t, 8)
	ctx, cancel := context.WithCancel(t.Context())
	queued(t, e, ctx, free(some(180, 1), 5, ""))
	steps(e, 1)
	urgent := free(some(100, 2), 5, "")
	urgent.Priority = 1
	queued(t, e, t.Context(), urgent)
	e.loop.admit()
	g.pass.Pages().SetLimit(3)
	e.loop.compute(g)
	if len(e.loop.queue) != 1 || e.loop.queue[0].cache != nil {
		t.Errorf("%d wait", len(e.loop.queue))
	}
	cancel()
	all(t, e)
	g.tree.Clear()
	if n := g.pass.Pages().InUse(); n != 0 {
		t.Errorf("%d pages are in use", n)
	}
}

// Nobody is preempted for a sequence that cannot run even so.
func TestNobodyLeavesInVain(t *testing.T) {
	e, _ := byHand(t, 5)
	l := e.loop
	for i, class := range []engine.Class{engine.ClassInteractive, engine.ClassBatch, engine.ClassInteractive} {
		queued(t, e, t.Context(), free(some([]int{100, 80, 190}[i], uint64(i)), 9, class))
	}
	for _, s := range l.queue[:2] {
		l.start(s)
	}
	last := l.queue[2]
	l.queue = l.queue[2:]
	if l.admitWaiting(); l.preempted || len(l.active) != 2 || len(l.queue) != 1 || l.queue[0] != last {
		t.Errorf("%d are active, %d wait", len(l.active), len(l.queue))
	}
	all(t, e)
}

// The time in which nothing was to be done is not time that other work took.
func TestIdleTimeIsNobodysWork(t *testing.T) {
	e, g := byHand(t, 8)
	for range 3 {
		queued(t, e, t.Context(), free("x", 2, ""))
		all(t, e)
		if !g.finished.IsZero() {
			g.finished = g.finished.Add(-900 * time.Millisecond)
		}
	}
	queued(t, e, t.Context(), free("x", 2, ""))
	all(t, e)
	if g.betweenSteps > 100*time.Millisecond {
		t.Errorf("%v", g.betweenSteps)
	}
}

// Tenants that share prompts do not share answers: guesses come from the tenant's own.
func TestGuessesAreTheTenantsOwn(t *testing.T) {
	e, _ := byHand(t, 8)
	seen := map[string]bool{}
	for _, tenant := range []string{"a", "b"} {
		for _, shared := range []bool{false, true} {
			j, err := jobOf(t.Context(), e, &engine.Request{Model: tinyID, Prompt: "x", Tenant: tenant, SharedPrefix: shared, Logprobs: -1})
			if err != nil {
				t.Fatal(err)
			}
			seen[j.draftKey] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("%d spaces of answers for 2 tenants", len(seen))
	}
}
