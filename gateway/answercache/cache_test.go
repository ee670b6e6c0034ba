package answercache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/engine"
)

var errBroken = errors.New("broken")

// source is an engine: it says the texts of its plan, one each second, and then ends or fails.
type source struct {
	calls, stopped atomic.Int32
	plan           func(call int) (texts []string, err error)
	wait           time.Duration // before each text
	elsewhere      bool          // it is not what the key says
}

func (s *source) ask(ctx context.Context) (iter.Seq2[engine.Event, error], func() (place, kept string, asFor bool)) {
	n := int(s.calls.Add(1))
	at := func() (place, kept string, asFor bool) {
		return fmt.Sprint("place ", n), fmt.Sprint("kept of ", n), !s.elsewhere
	}
	return func(yield func(engine.Event, error) bool) {
		texts, err := s.plan(n)
		for _, text := range texts {
			select {
			case <-time.After(s.wait):
			case <-ctx.Done():
				s.stopped.Add(1)
				yield(engine.Event{}, ctx.Err())
				return
			}
			if !yield(engine.Event{Text: text}, nil) {
				s.stopped.Add(1)
				return
			}
		}
		if err != nil {
			time.Sleep(s.wait) // so that all can join before
			yield(engine.Event{}, err)
			return
		}
		yield(engine.Event{Finish: engine.FinishStop, Usage: &engine.Usage{PromptTokens: 3, CompletionTokens: len(texts)}}, nil)
	}, at
}

func says(texts ...string) func(int) ([]string, error) {
	return func(int) ([]string, error) { return texts, nil }
}

func exact() Terms {
	return Terms{Keep: true, TTL: time.Minute, TenantBytes: 1 << 20, Failed: func(err error) bool { return errors.Is(err, errBroken) }}
}

// got is what somebody has had of an answer.
type got struct {
	text, state, origin, at string
	usage                   *engine.Usage
	err                     error
	left                    Left
}

// read consumes a share; most is the most events, 0 for all.
func read(ctx context.Context, s *Share[string], from *source, most int) (out got) {
	var texts []string
	n := 0
	for ev, err := range s.Events(ctx, from.ask) {
		if out.err = err; err != nil {
			break
		}
		if ev.Text != "" {
			texts = append(texts, ev.Text)
		}
		out.usage = ev.Usage
		if n++; n == most {
			break
		}
	}
	state, origin := s.State()
	out.at, _ = s.At()
	out.text, out.state, out.origin, out.left = strings.Join(texts, "|"), string(state), origin, s.Leave()
	return out
}

// keptBytes returns how many bytes the kept answers take.
func keptBytes[P any](c *Cache[P]) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// TestHundredEqualRequests: an engine is asked once for a hundred requests at one time, each of whom sees the answer from its beginning in the pieces in
// which it came, and not at all for later ones, until its time is over.
func TestHundredEqualRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, from := New[string](0), &source{plan: says("a", "b", "c"), wait: time.Second}
		var all sync.WaitGroup
		var led atomic.Int32
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond) // the last come when two thirds are there
				g := read(t.Context(), c.Join("acme", Key{1}, fmt.Sprint(i), exact()), from, 0)
				if g.err != nil || g.text != "a|b|c" || g.usage == nil || g.origin != "0" || g.at != "place 1" {
					t.Errorf("%d: %+v", i, g)
				}
				if g.left.Led {
					led.Add(1)
				}
			})
		}
		all.Wait()
		if from.calls.Load() != 1 || led.Load() != 1 {
			t.Errorf("%d calls, %d have led", from.calls.Load(), led.Load())
		}
		began := time.Now()
		if g := read(t.Context(), c.Join("acme", Key{1}, "later", exact()), from, 0); g.state != "hit" || g.origin != "0" || g.text != "a|b|c" || g.at != "kept of 1" || g.left.Led || time.Now() != began {
			t.Errorf("%+v", g)
		}
		for _, other := range []struct {
			tenant string
			key    Key
		}{{"globex", Key{1}}, {"acme", Key{2}}} {
			if g := read(t.Context(), c.Join(other.tenant, other.key, "o", exact()), from, 0); g.state != "miss" {
				t.Errorf("%s %v: %+v", other.tenant, other.key[0], g)
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if keptBytes(c) != 0 || len(c.tenants) != 0 {
			t.Errorf("%d bytes of %d tenants are in memory when their time is over", keptBytes(c), len(c.tenants))
		}
		calls := from.calls.Load()
		if g := read(t.Context(), c.Join("acme", Key{1}, "late", exact()), from, 0); g.state != "miss" || from.calls.Load() != calls+1 {
			t.Errorf("%+v", g)
		}
	})
}

// TestWhoeverLeaves: the engine works while anybody waits. Who leaves stops nobody else, and the account goes on to the next; the last one stops it.
func TestWhoeverLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, from := New[string](0), &source{plan: says("a", "b", "c", "d"), wait: time.Second}
		leader, second, third := c.Join("acme", Key{}, "1", exact()), c.Join("acme", Key{}, "2", exact()), c.Join("acme", Key{}, "3", exact())
		var all sync.WaitGroup
		all.Go(func() {
			if g := read(t.Context(), leader, from, 2); g.text != "a|b" || !g.left.Led || g.left.Ended || g.left.Usage != nil || g.left.Output != 2 {
				t.Errorf("%+v", g)
			}
		})
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			if g := read(ctx, third, from, 0); g.text != "a" || !errors.Is(g.err, context.DeadlineExceeded) || g.left.Led {
				t.Errorf("%+v", g)
			}
		})
		if g := read(t.Context(), second, from, 0); g.text != "a|b|c|d" || !g.left.Led || !g.left.Ended || g.left.Usage == nil || g.state != "coalesced" || g.origin != "1" {
			t.Errorf("%+v", g)
		}
		all.Wait()
		if from.stopped.Load() != 0 || from.calls.Load() != 1 {
			t.Error("the engine was stopped, or asked again")
		}

		alone := c.Join("acme", Key{9}, "4", exact())
		if g := read(t.Context(), alone, from, 1); !g.left.Led {
			t.Errorf("%+v", g)
		}
		synctest.Wait()
		if from.stopped.Load() != 1 {
			t.Error("the engine works for nobody")
		}
		if g := read(t.Context(), c.Join("acme", Key{9}, "5", exact()), from, 0); g.state != "miss" || g.err != nil {
			t.Errorf("what was broken off was given to somebody: %+v", g)
		}
		c.Join("acme", Key{10}, "6", exact()).Leave() // before anybody has read
		if g := read(t.Context(), c.Join("acme", Key{10}, "7", exact()), from, 0); g.state != "miss" || g.err != nil {
			t.Errorf("%+v", g)
		}
	})
}

// TestFailureIsNotShared: of an engine that fails before anybody has seen anything only the first hears; the others ask once more, all together. Who has seen a
// part gets the error.
func TestFailureIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string](0)
		from := &source{wait: time.Second, plan: func(n int) ([]string, error) {
			if n == 1 {
				return nil, errBroken
			}
			return []string{"a"}, nil
		}}
		var failed, well, led atomic.Int32
		var all sync.WaitGroup
		for i := range 20 {
			s := c.Join("acme", Key{}, fmt.Sprint(i), exact())
			all.Go(func() {
				g := read(t.Context(), s, from, 0)
				switch {
				case errors.Is(g.err, errBroken) && i == 0:
					failed.Add(1)
				case g.err == nil && g.text == "a":
					well.Add(1)
				default:
					t.Errorf("%d: %+v", i, g)
				}
				if g.left.Led && g.err == nil {
					led.Add(1)
				}
			})
		}
		all.Wait()
		if from.calls.Load() != 2 || failed.Load() != 1 || well.Load() != 19 || led.Load() != 1 {
			t.Errorf("%d calls, %d failed, %d well, %d led", from.calls.Load(), failed.Load(), well.Load(), led.Load())
		}

		from = &source{wait: time.Second, plan: func(int) ([]string, error) { return nil, errBroken }}
		for i := range 20 {
			s := c.Join("acme", Key{1}, fmt.Sprint(i), exact())
			all.Go(func() {
				if g := read(t.Context(), s, from, 0); !errors.Is(g.err, errBroken) {
					t.Errorf("%d: %+v", i, g)
				}
			})
		}
		all.Wait()
		if n := from.calls.Load(); n != 2 {
			t.Errorf("an engine that always fails was asked %d times", n)
		}

		from = &source{wait: time.Second, plan: func(int) ([]string, error) { return []string{"a"}, errBroken }}
		for i := range 3 {
			s := c.Join("acme", Key{2}, fmt.Sprint(i), exact())
			all.Go(func() {
				if g := read(t.Context(), s, from, 0); !errors.Is(g.err, errBroken) || g.text != "a" {
					t.Errorf("%d: %+v", i, g)
				}
			})
		}
		all.Wait()
		if from.calls.Load() != 1 {
			t.Error("an answer was spliced of two")
		}
		if g := read(t.Context(), c.Join("acme", Key{2}, "n", exact()), &source{plan: says("x")}, 0); g.state != "miss" {
			t.Errorf("a part of an answer was kept: %+v", g)
		}
		panics := &source{plan: func(int) ([]string, error) { panic("no") }}
		if g := read(t.Context(), c.Join("acme", Key{3}, "p", exact()), panics, 0); g.err == nil || !strings.Contains(g.err.Error(), "panicked") {
			t.Errorf("%+v", g)
		}
	})
}

// TestStaleAnswers: an answer that is too old takes the place of one that an engine fails to give, as long as its terms say, and of no other.
func TestStaleAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, terms := New[string](0), exact()
		terms.Stale = time.Minute
		well := &source{plan: says("a")}
		broken := &source{plan: func(int) ([]string, error) { return nil, errBroken }}
		refuses := &source{plan: func(int) ([]string, error) { return nil, errors.New("too long") }}
		read(t.Context(), c.Join("acme", Key{}, "1", terms), well, 0)
		time.Sleep(90 * time.Second)
		if g := read(t.Context(), c.Join("acme", Key{}, "2", terms), broken, 0); g.state != "stale" || g.text != "a" || g.origin != "1" || g.left.Led {
			t.Errorf("%+v", g)
		}
		if g := read(t.Context(), c.Join("acme", Key{}, "3", terms), refuses, 0); g.err == nil {
			t.Errorf("%+v", g)
		}
		if g := read(t.Context(), c.Join("acme", Key{}, "4", exact()), broken, 0); g.err == nil {
			t.Errorf("the terms of who asks hold: %+v", g)
		}
		time.Sleep(40 * time.Second)
		if g := read(t.Context(), c.Join("acme", Key{}, "5", terms), broken, 0); g.err == nil {
			t.Errorf("%+v", g)
		}
	})
}

// TestDropForgets: what is dropped is given to nobody, also where it was on its way; who waits gets it.
func TestDropForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, from := New[string](0), &source{plan: says("a", "b"), wait: time.Second}
		read(t.Context(), c.Join("acme", Key{}, "1", exact()), from, 0)
		waits := c.Join("acme", Key{1}, "2", exact())
		var all sync.WaitGroup
		all.Go(func() {
			if g := read(t.Context(), waits, from, 0); g.text != "a|b" {
				t.Errorf("%+v", g)
			}
		})
		time.Sleep(1500 * time.Millisecond)
		c.Drop("acme")
		if keptBytes(c) != 0 {
			t.Errorf("%d bytes", keptBytes(c))
		}
		for i := range 2 {
			if s, _ := c.Join("acme", Key{byte(i)}, "n", exact()).State(); s != Miss {
				t.Errorf("%d: %s", i, s)
			}
		}
		all.Wait()
		if s, _ := c.Join("acme", Key{1}, "m", exact()).State(); s == Hit {
			t.Error("an answer that was dropped on its way was kept")
		}
	})
}

// TestBounds: a tenant has no more than his terms say, all together no more than the cache may hold, and who has the most makes room.
func TestBounds(t *testing.T) {
	c, long := New[string](40_000), strings.Repeat("x", 4000)
	from := &source{plan: says(long)}
	put := func(tenant string, k byte, terms Terms) {
		read(t.Context(), c.Join(tenant, Key{k}, "r", terms), from, 0)
	}
	has := func(tenant string, k byte) bool { return c.find(tenant, Key{k}, false) != nil }
	terms := exact()
	terms.TenantBytes = 12_000
	for k := range byte(3) {
		put("small", k, terms)
	}
	if has("small", 0) || !has("small", 1) || !has("small", 2) {
		t.Error("a tenant keeps what was used last, as much as it may")
	}
	for k := range byte(20) {
		put("greedy", k, exact())
		if keptBytes(c) > 40_000 {
			t.Fatalf("%d bytes", keptBytes(c))
		}
	}
	if !has("small", 1) || !has("small", 2) {
		t.Error("a greedy tenant took the room of another")
	}
	if put("third", 0, exact()); !has("third", 0) || !has("small", 1) || !has("small", 2) {
		t.Error("who has little makes room for who has much")
	}
	terms.TenantBytes = 100
	put("none", 0, terms)
	if has("none", 0) {
		t.Error("an answer that is larger than all that the tenant may have is kept")
	}
	from.elsewhere = true
	put("elsewhere", 0, exact())
	if has("elsewhere", 0) {
		t.Error("an answer of another model than asked for is kept")
	}
	from.elsewhere = false
	once := exact()
	once.Keep = false
	put("once", 0, once)
	if has("once", 0) {
		t.Error("kept without terms for it")
	}
}

// TestMarkedAnswersAreNotKept: what bears the mark of its request, or was broken off by a filter, is given to no later request.
func TestMarkedAnswersAreNotKept(t *testing.T) {
	for name, last := range map[string]engine.Event{
		"marked":   {Finish: engine.FinishStop, Usage: &engine.Usage{}, Marking: &engine.Marking{Applied: true}},
		"filtered": {Finish: engine.FinishFilter, Usage: &engine.Usage{}},
	} {
		if keepable([]engine.Event{{Text: "a"}, last}) {
			t.Errorf("%s is kept", name)
		}
	}
}

// TestSlowReaders: what is held of a long answer is bounded; the engine waits for who reads slowly, and nobody waits long for one who does not read.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		piece, texts := strings.Repeat("x", 10_000), []string(nil)
		for range 300 { // three times what is held
			texts = append(texts, piece)
		}
		c, from := New[string](0), &source{plan: says(texts...)}
		reads, sleeps := c.Join("acme", Key{}, "1", exact()), c.Join("acme", Key{}, "2", exact())
		next, stop := iter.Pull2(sleeps.Events(t.Context(), from.ask))
		defer stop()
		if _, err, ok := next(); err != nil || !ok {
			t.Fatal(err)
		}
		began := time.Now()
		if g := read(t.Context(), reads, from, 0); g.err != nil || len(g.text) != 300*len(piece)+299 {
			t.Errorf("%d, %v", len(g.text), g.err)
		}
		if waited := time.Since(began); waited < maxStall || waited > 2*maxStall {
			t.Errorf("it waited %s for who does not read", waited)
		}
		if _, err, _ := next(); !errors.Is(err, ErrLagging) {
			t.Error(err)
		}
		sleeps.Leave()

		alone := c.Join("acme", Key{1}, "3", exact())
		next, stop = iter.Pull2(alone.Events(t.Context(), from.ask))
		defer stop()
		n := 0
		for {
			ev, err, ok := next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if n++; n == 2 {
				time.Sleep(time.Minute) // nobody else waits
				alone.flight.mu.Lock()
				if held := alone.flight.bytes; held > maxRunning+len(piece)+perEvent {
					t.Errorf("%d bytes are held", held)
				}
				alone.flight.mu.Unlock()
			}
			_ = ev
		}
		if n != 301 || keptBytes(c) != 0 {
			t.Errorf("%d events, %d bytes are kept of what is too long", n, keptBytes(c))
		}
		alone.Leave()
	})
}

// TestReadersMayChangeEvents: what one reader does to an event no other one sees.
func TestReadersMayChangeEvents(t *testing.T) {
	ev := engine.Event{
		Calls: []engine.ToolDelta{{Arguments: "a"}}, Usage: &engine.Usage{PromptTokens: 1}, Used: &engine.Usage{PromptTokens: 1}, Marking: &engine.Marking{Scheme: "s"},
		Logprobs: []engine.TokenLogprob{{Token: "t", Bytes: []byte("t"), Top: []engine.TokenLogprob{{Token: "t"}}}},
	}
	out := copied(&ev, true)
	out.Calls[0].Arguments, out.Usage.PromptTokens, out.Used.PromptTokens, out.Marking.Scheme = "b", 2, 2, "x"
	out.Logprobs[0].Token, out.Logprobs[0].Bytes[0], out.Logprobs[0].Top[0].Token = "u", 'u', "u"
	if ev.Calls[0].Arguments != "a" || ev.Usage.PromptTokens != 1 || ev.Used.PromptTokens != 1 || ev.Marking.Scheme != "s" || ev.Logprobs[0].Token != "t" ||
		string(ev.Logprobs[0].Bytes) != "t" || ev.Logprobs[0].Top[0].Token != "t" || !out.More {
		t.Errorf("%+v", ev)
	}
}

func BenchmarkHit(b *testing.B) {
	c, from := New[string](0), &source{plan: says("a", "b", "c", "d", "e", "f", "g", "h")}
	read(b.Context(), c.Join("acme", Key{}, "1", exact()), from, 0)
	b.ReportAllocs()
	for b.Loop() {
		s := c.Join("acme", Key{}, "2", exact())
		for range s.Events(b.Context(), from.ask) {
		}
		s.Leave()
	}
}

// TestNothingFromBeforeADropIsKept: neither what is asked again for who waited when the tenant was dropped, nor what somebody asks for whose request began before.
func TestNothingFromBeforeADropIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string](0)
		from := &source{wait: time.Second, plan: func(n int) ([]string, error) {
			if n == 1 {
				return nil, errBroken
			}
			return []string{"a"}, nil
		}}
		var all sync.WaitGroup
		for i := range 3 {
			s := c.Join("acme", Key{}, fmt.Sprint(i), exact())
			all.Go(func() {
				if g := read(t.Context(), s, from, 0); g.err != nil && i > 0 {
					t.Error(g.err)
				}
			})
		}
		synctest.Wait()
		c.Drop("acme")
		all.Wait()
		if from.calls.Load() != 2 || keptBytes(c) != 0 {
			t.Errorf("%d calls, %d bytes are kept", from.calls.Load(), keptBytes(c))
		}
		if g := read(t.Context(), c.Join("acme", Key{}, "before", exact()), from, 0); g.state != "miss" || keptBytes(c) != 0 || len(c.tenants) != 0 {
			t.Errorf("%+v: %d bytes of %d tenants", g, keptBytes(c), len(c.tenants))
		}
		now := exact()
		now.Generation = c.Generation()
		read(t.Context(), c.Join("acme", Key{}, "after", now), from, 0)
		if g := read(t.Context(), c.Join("acme", Key{}, "later", now), from, 0); g.state != "hit" {
			t.Errorf("%+v", g)
		}
	})
}

// TestAnswersThatComeAreBounded: all that come together hold as much as the cache may and a little each, if nobody reads them; and nothing when they are left.
func TestAnswersThatComeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, piece = 100_000, 5000
		texts := make([]string, 100)
		for i := range texts {
			texts[i] = strings.Repeat("x", piece)
		}
		c, from := New[string](room), &source{plan: says(texts...)}
		var shares []*Share[string]
		for i := range 20 {
			s := c.Join("acme", Key{byte(i)}, "r", exact())
			next, stop := iter.Pull2(s.Events(t.Context(), from.ask))
			defer stop()
			if _, err, ok := next(); err != nil || !ok {
				t.Fatal(err)
			}
			shares = append(shares, s)
		}
		synctest.Wait()
		if held := c.running.Load(); held > room+20*(minRunning+2*(piece+perEvent)) {
			t.Errorf("%d bytes are held", held)
		}
		for _, s := range shares {
			s.Leave()
		}
		c.Wait()
		if held := c.running.Load(); held != 0 {
			t.Errorf("%d bytes are held for nobody", held)
		}
		if g := read(t.Context(), c.Join("acme", Key{99}, "r", exact()), &source{plan: says("a")}, 0); g.err != nil || c.running.Load() != 0 {
			t.Errorf("%+v, %d bytes", g, c.running.Load())
		}
	})
}
