package simulate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine/unified"
)

// piece is a token of an answer.
type piece struct {
	text    string
	thought bool
}

// emission is a token on its way to its request.
type emission struct {
	choice int
	piece  piece
	last   bool
}

// job is one choice of a request.
type job struct {
	ctx    context.Context //nolint:containedctx // that of its request
	choice int
	prompt int
	plan   []piece
	out    chan<- emission // has room for all of its request's, so that nobody waits for a slow reader

	filled, next            int // tokens of the prompt that are computed, tokens that are given out
	linger                  time.Duration
	arrived, began, first   time.Time
	lastToken, lingersUntil time.Time
}

func (j *job) held() int { return j.filled + j.next }

// errOverloaded is why a request is not taken.
var errOverloaded = errors.New("too much to do")

// core shares steps among jobs.
type core struct {
	cfg Config

	mu      sync.Mutex
	waiting []*job
	running []*job
	busy    bool // a goroutine steps
	tally   tally
}

// submit queues the jobs of a request, all or none.
func (c *core) submit(jobs []*job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Profile.Errors.Overload != 0 && len(c.waiting)+len(jobs) > c.cfg.Machine.MaxQueue+c.free() {
		return errOverloaded
	}
	if c.cfg.Mutation == MutateOverload && len(c.waiting)+len(jobs) > c.free() {
		return errOverloaded
	}
	for _, j := range jobs {
		j.arrived = c.cfg.Clock.Now()
		c.tally.add(unified.PrefixQueried, float64(j.prompt))
	}
	c.waiting = append(c.waiting, jobs...)
	if !c.busy {
		c.busy = true
		go c.run()
	}
	return nil
}

// free is how many jobs may begin at once.
func (c *core) free() int { return max(0, c.cfg.Machine.MaxBatch-len(c.running)) }

// run steps until there is nothing to do.
func (c *core) run() {
	for {
		took, ok := c.plan()
		if !ok {
			return
		}
		_ = c.cfg.Clock.Sleep(context.Background(), took) // nothing ends it early
		for _, e := range c.step() {
			e.job.out <- e.emission
		}
	}
}

// plan admits what has room and says how long the next step takes. It is false if nothing is left to do.
func (c *core) plan() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now()
	gone := func(j *job) bool {
		if !j.lingersUntil.IsZero() {
			return now.After(j.lingersUntil)
		}
		return j.ctx.Err() != nil && c.cfg.Mutation != MutateCancel
	}
	c.running = slices.DeleteFunc(c.running, gone)
	c.waiting = slices.DeleteFunc(c.waiting, func(j *job) bool { return j.ctx.Err() != nil })
	held := 0
	for _, j := range c.running {
		held += j.prompt + len(j.plan)
	}
	for len(c.waiting) > 0 && c.free() > 0 {
		j := c.waiting[0]
		if held += j.prompt + len(j.plan); held > c.cfg.Capacity() && len(c.running) > 0 {
			break
		}
		j.began = now
		c.tally.observe(unified.QueueTime, now.Sub(j.arrived).Seconds())
		c.running, c.waiting = append(c.running, j), c.waiting[1:]
	}
	if len(c.running) == 0 {
		c.busy = false
		return 0, false
	}
	tokens, reads := c.load()
	c.tally.observe(unified.StepTokens, float64(tokens))
	return c.cfg.StepTime(tokens, reads), true
}

// load is what the next step computes and reads.
func (c *core) load() (tokens, reads int) {
	chunk := c.cfg.Machine.PrefillChunk
	for _, j := range c.running {
		reads += j.held()
		if left := j.prompt - j.filled; left > 0 {
			n := min(left, chunk)
			chunk -= n
			tokens += n
		} else if j.lingersUntil.IsZero() {
			tokens++
		}
	}
	return tokens, reads
}

type delivery struct {
	job *job
	emission
}

// step moves the jobs on by one step and returns their tokens.
func (c *core) step() []delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now()
	chunk := c.cfg.Machine.PrefillChunk
	var out []delivery
	for _, j := range c.running {
		if !j.lingersUntil.IsZero() {
			continue
		}
		if left := j.prompt - j.filled; left > 0 {
			n := min(left, chunk)
			chunk -= n
			if j.filled += n; j.filled < j.prompt {
				continue
			}
			c.tally.add(unified.PromptTokens, float64(j.prompt))
			c.tally.observe(unified.PrefillTime, now.Sub(j.began).Seconds())
		}
		if j.next == len(j.plan) { // nothing to say
			c.finish(j, now)
			out = append(out, delivery{j, emission{choice: j.choice, last: true}})
			continue
		}
		if j.next == 0 {
			j.first = now
			c.tally.observe(unified.FirstToken, now.Sub(j.arrived).Seconds())
		} else {
			c.tally.observe(unified.PerToken, now.Sub(j.lastToken).Seconds())
		}
		j.lastToken = now
		e := emission{choice: j.choice, piece: j.plan[j.next]}
		if j.next++; j.next == len(j.plan) {
			e.last = true
			c.finish(j, now)
		}
		c.tally.add(unified.OutputTokens, 1)
		out = append(out, delivery{j, e})
	}
	c.running = slices.DeleteFunc(c.running, func(j *job) bool { return j.next == len(j.plan) && j.filled == j.prompt && j.lingersUntil.IsZero() })
	return out
}

func (c *core) finish(j *job, now time.Time) {
	c.tally.add(unified.RequestsDone, 1)
	c.tally.observe(unified.RequestTime, now.Sub(j.arrived).Seconds())
	if !j.first.IsZero() {
		c.tally.observe(unified.DecodeTime, now.Sub(j.first).Seconds())
	}
	if j.linger > 0 {
		j.lingersUntil = now.Add(j.linger)
	}
}

// figures are the metrics of now.
func (c *core) figures() map[unified.Name]figure {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := 0
	for _, j := range c.running {
		held += j.held()
	}
	t := c.tally.clone()
	t.set(unified.RequestsRunning, float64(len(c.running)))
	t.set(unified.RequestsWaiting, float64(len(c.waiting)))
	t.set(unified.BatchSize, float64(len(c.running)))
	t.set(unified.KVTokens, float64(held))
	t.set(unified.KVUsage, float64(held)/float64(c.cfg.Capacity()))
	t.set(unified.AdaptersLoaded, float64(len(c.cfg.Model.Adapters)))
	t.set(unified.DeviceMemoryUsed, c.cfg.Model.Parameters*c.cfg.Model.BytesPerParam+c.cfg.Model.KVBytesToken*float64(held))
	return t
}
