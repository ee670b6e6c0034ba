package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// What runs beside the one who is measured.
const (
	batchClients = 16
	batchOutput  = 128
	manyClients  = 50
	ownAsks      = 16 // prompts of each of them, before they come again
	talks        = 7  // requests of the one who is measured; the first warms up
)

// mixedTrack is one interactive client: alone, beside batch work, and beside batch work without latency targets.
type mixedTrack struct{ alone, with, without []figures }

// fairTrack is the median time to the first token of a tenant with one request, in ms: on an idle engine, and beside a tenant with fifty.
type fairTrack struct{ idle, beside, ratio []float64 }

// special measures the rows that are about classes and tenants, which the peer does not have.
func (c *servingRun) special(ctx context.Context, n int) error {
	if strings.Contains("mixed", c.servingOptions.rows) {
		if err := c.mixedRound(ctx, n); err != nil {
			return fmt.Errorf("mixed load: %w", err)
		}
	}
	if strings.Contains("fairness", c.servingOptions.rows) {
		if err := c.fairRound(ctx, n); err != nil {
			return fmt.Errorf("fairness: %w", err)
		}
	}
	return nil
}

func (c *servingRun) mixedRound(ctx context.Context, n int) error {
	for _, free := range []bool{n%2 == 1, n%2 == 0} {
		server, err := startOpen(ctx, openConfig{
			Model: c.model, Threads: c.threads, Packed: c.packed(), NoSpeculation: c.noSpeculation, NoTargets: free,
		})
		if err != nil {
			return err
		}
		alone, beside, err := c.mixedOn(ctx, n, server)
		server.stop()
		if err != nil {
			return err
		}
		if free {
			c.mixed.without = append(c.mixed.without, beside)
		} else {
			c.mixed.alone, c.mixed.with = append(c.mixed.alone, alone), append(c.mixed.with, beside)
		}
		fmt.Fprintf(os.Stderr, "mixed load, without targets %v: interactive first token %.0f/%.0f ms, gap %.1f/%.1f ms (alone %.1f/%.1f)\n", free,
			beside.first50, beside.first99, beside.gap50, beside.gap99, alone.gap50, alone.gap99)
	}
	return nil
}

func (c *servingRun) mixedOn(ctx context.Context, n int, server *running) (alone, beside figures, err error) {
	person := ask{tenant: "person", tier: "priority", output: c.output}
	if alone, err = c.talk(ctx, server, person, uint64(2000+n)); err != nil {
		return alone, beside, err
	}
	err = c.beside(ctx, server, batchClients, ask{tenant: "batch", tier: "flex", output: batchOutput}, uint64(3000+n), func() error {
		beside, err = c.talk(ctx, server, person, uint64(4000+n))
		return err
	})
	return alone, beside, err
}

func (c *servingRun) fairRound(ctx context.Context, n int) error {
	server, err := startOpen(ctx, openConfig{Model: c.model, Threads: c.threads, Packed: c.packed(), NoSpeculation: c.noSpeculation})
	if err != nil {
		return err
	}
	defer server.stop()
	single := ask{tenant: "single", output: c.output}
	idle, err := c.talk(ctx, server, single, uint64(5000+n))
	if err != nil {
		return err
	}
	var loaded figures
	err = c.beside(ctx, server, manyClients, ask{tenant: "many", output: c.output}, uint64(6000+n), func() error {
		loaded, err = c.talk(ctx, server, single, uint64(7000+n))
		return err
	})
	c.fair.idle, c.fair.beside = append(c.fair.idle, idle.first50), append(c.fair.beside, loaded.first50)
	c.fair.ratio = append(c.fair.ratio, loaded.first50/idle.first50)
	fmt.Fprintf(os.Stderr, "fairness: first token of the single request %.0f ms, idle %.0f ms\n", loaded.first50, idle.first50)
	return err
}

// talk sends requests one after the other. The first is left out of what is returned.
func (c *servingRun) talk(ctx context.Context, server *running, like ask, seed uint64) (figures, error) {
	asks, err := c.asksLike(like, talks, seed)
	if err != nil {
		return figures{}, err
	}
	if _, err := closed(ctx, &server.endpoint, 1, asks[:1]); err != nil {
		return figures{}, err
	}
	got, err := closed(ctx, &server.endpoint, 1, asks[1:])
	return got.figures(0), err
}

// asksLike returns requests of 128 tokens with distinct prompts.
func (c *servingRun) asksLike(like ask, n int, seed uint64) ([]ask, error) {
	asks, err := c.prompts.asks(n, 128, like.output, false, seed)
	for i := range asks {
		asks[i].tenant, asks[i].tier = like.tenant, like.tier
	}
	return asks, err
}

// beside does something while clients ask without a pause. It begins when the first of them has an answer.
func (c *servingRun) beside(ctx context.Context, server *running, clients int, like ask, seed uint64, do func() error) error {
	asks, err := c.asksLike(like, ownAsks*clients, seed)
	if err != nil {
		return err
	}
	loaded, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	var trouble failure
	begun := make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	for i := range clients {
		own := asks[i*ownAsks : (i+1)*ownAsks]
		wg.Go(func() {
			for round := 0; loaded.Err() == nil; round++ {
				a := own[round%len(own)]
				a.seed += uint64(round)
				_, err := server.stream(loaded, a, time.Now())
				once()
				if err != nil && loaded.Err() == nil {
					trouble.note(err)
					return
				}
			}
		})
	}
	select {
	case <-begun:
	case <-ctx.Done():
		return ctx.Err()
	}
	err = do()
	if trouble.any() {
		return trouble.err
	}
	return err
}
