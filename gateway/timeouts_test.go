package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestClocks: each clock ends the call at its time, cancels the engine, gives back what was reserved, records, and says which one it was.
func TestClocks(t *testing.T) {
	for name, c := range map[string]struct {
		config  Config
		prepare func(w *world, c *Call)
		plan    enginetest.Plan
		tokens  int // that come, one every ten seconds
		code    fault.Code
		after   time.Duration
	}{
		"total":              {tokens: 100, code: fault.CodeTimeout, after: time.Minute},
		"total before text":  {code: fault.CodeTimeout, after: time.Minute},
		"first token":        {config: Config{FirstTokenTimeout: 15 * time.Second}, code: fault.CodeFirstTokenTimeout, after: 15 * time.Second},
		"the caller's own":   {config: Config{FirstTokenTimeout: 15 * time.Second}, prepare: func(_ *world, c *Call) { c.FirstTokenTimeout = 5 * time.Second }, code: fault.CodeFirstTokenTimeout, after: 5 * time.Second},
		"not the caller's":   {config: Config{FirstTokenTimeout: 15 * time.Second}, prepare: func(_ *world, c *Call) { c.FirstTokenTimeout = 50 * time.Second }, code: fault.CodeFirstTokenTimeout, after: 15 * time.Second},
		"idle":               {config: Config{IdleTimeout: 12 * time.Second}, tokens: 3, code: fault.CodeIdleTimeout, after: 42 * time.Second},
		"idle of a batch":    {config: Config{IdleTimeout: 5 * time.Second}, prepare: func(_ *world, c *Call) { c.Class = engine.ClassBatch }, tokens: 2, code: fault.CodeTimeout, after: time.Minute},
		"in one piece":       {config: Config{FirstTokenTimeout: time.Second, IdleTimeout: time.Second}, prepare: func(w *world, c *Call) { w.whole, c.Blocking = true, true }, code: fault.CodeTimeout, after: time.Minute},
		"first token is not": {config: Config{FirstTokenTimeout: 15 * time.Second}, tokens: 1, code: fault.CodeTimeout, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				step := make(chan struct{})
				w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
					return enginetest.Plan{Texts: []string{"one two three four five six"}, Step: step}
				})
				w.cfg.FirstTokenTimeout, w.cfg.IdleTimeout = c.config.FirstTokenTimeout, c.config.IdleTimeout
				q := call("hello")
				if c.prepare != nil {
					c.prepare(w, q)
				}
				over := make(chan struct{})
				defer close(over)
				go func() {
					for range c.tokens {
						select {
						case <-time.After(10 * time.Second): // of the bubble's clock
						case <-over:
							return
						}
						select {
						case step <- struct{}{}:
						case <-over:
							return
						}
					}
				}()
				began := time.Now()
				r, err := w.Chat(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				_, err = r.Collect()
				if !fault.Is(err, c.code) || time.Since(began) != c.after {
					t.Fatalf("%v after %v, want %s after %v", err, time.Since(began), c.code, c.after)
				}
				ended := "failed"
				if name == "the caller's own" { // it says nothing about the model, so rollouts do not count it
					ended = "refused"
				}
				if out := w.log.events[1]; out.Outcome != ended || out.ErrorCode != string(c.code) || out.Status != 504 || out.Usage.Cost != 0 {
					t.Errorf("recorded %+v", out)
				}
				if w.ledger.released != 1 || len(w.ledger.settled) != 0 || !w.slotFree(t) || w.engine.Aborted() != 1 {
					t.Errorf("released %d, settled %v, engine aborted %d times", w.ledger.released, w.ledger.settled, w.engine.Aborted())
				}
			})
		})
	}
}

// TestSlowReader: while the caller takes his time over an event, nobody waits for the engine.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("one two three"))
		w.cfg.IdleTimeout = time.Second
		r, err := w.Chat(t.Context(), call("hello"))
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range r.Events() {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // of the bubble's clock
		}
		if got := w.log.trail(); got != "admitted outcome/ok" {
			t.Error(got)
		}
	})
}

// TestClockBeforeTheEngine: the total time runs in the steps, too.
func TestClockBeforeTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.rag.hang = true
		c := call("hello")
		c.RAG = &RAG{Collection: "docs"}
		began := time.Now()
		if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeTimeout) || time.Since(began) != time.Minute {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		if got := w.log.trail(); got != "outcome/failed" || !w.slotFree(t) {
			t.Error(got)
		}
	})
}
