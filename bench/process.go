package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/sluice-project/sluice/engine/enginebench"
)

// processRow is what whole processes cost: ours and the peer's with the same model and threads, over the rounds.
type processRow struct {
	threads              int
	ourLoad, theirLoad   []float64 // seconds from the start of the process, over the first token, to its end
	ourFirst             []float64 // the same with nothing kept by an earlier load
	ourMemory, peerBytes []float64 // most bytes resident over a prompt of 512 and a generation
}

// processRound measures load time and memory. Flash attention of the first build stands for the peer: it is what uses least memory.
func (c *comparison) processRound(ctx context.Context, n int) error {
	if c.process == nil {
		for _, t := range c.threads {
			c.process = append(c.process, processRow{threads: t})
		}
	}
	for i := range c.process {
		p := &c.process[i]
		for turn := range 2 {
			var err error
			if (turn+n)%2 == 0 {
				err = c.peerProcess(ctx, p)
			} else {
				err = c.ourProcess(ctx, p)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *comparison) peerProcess(ctx context.Context, p *processRow) error {
	s := setting{0, true}
	o, err := c.peer.run(ctx, s, c.model, p.threads, test{prompt: 1}, "-r", "1", "--no-warmup")
	if err != nil {
		return err
	}
	p.theirLoad = append(p.theirLoad, o.elapsed.Seconds())
	if o, err = c.peer.run(ctx, s, c.model, p.threads, test{prompt: 512, generate: c.generate}, "--no-warmup"); err != nil {
		return err
	}
	p.peerBytes = append(p.peerBytes, float64(o.peak))
	return nil
}

func (c *comparison) ourProcess(ctx context.Context, p *processRow) error {
	v := c.variants[0]
	empty, err := os.MkdirTemp(c.cache, "packed-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(empty) }()
	m := enginebench.Model{Path: c.model, Plan: v.plan, Threads: p.threads, Context: 512 + c.generate, Packed: empty}
	first, err := loadOnce(ctx, v.command(c.binary), m, nil)
	if err != nil {
		return err
	}
	again, err := loadOnce(ctx, v.command(c.binary), m, nil)
	if err != nil {
		return err
	}
	p.ourFirst, p.ourLoad = append(p.ourFirst, first), append(p.ourLoad, again)
	_, err = loadOnce(ctx, v.command(c.binary), m, func(w *enginebench.Worker) error {
		_, err1 := w.Prompt(512)
		_, err2 := w.Generate(c.generate, 0)
		m, err3 := w.Memory()
		p.ourMemory = append(p.ourMemory, float64(m.Peak))
		return errors.Join(err1, err2, err3)
	})
	return err
}

// loadOnce starts a process that loads the model and computes a token, has it do more if asked, and waits for its end.
func loadOnce(ctx context.Context, command enginebench.Command, m enginebench.Model, more func(*enginebench.Worker) error) (seconds float64, err error) {
	started := time.Now()
	w, err := enginebench.Start(ctx, command)
	if err != nil {
		return 0, err
	}
	if _, err = w.Open(m); err == nil && more != nil {
		err = more(w)
	}
	err = errors.Join(err, w.Close())
	return time.Since(started).Seconds(), err
}
