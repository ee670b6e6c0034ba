package native

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/internal/fault"
)

// What may wait for one encoder, and of it what one tenant may have: a quarter stays for the others. A call is let in whatever its size
// when nothing waits.
const (
	maxEncoderCalls  = 1024
	maxEncoderTokens = 1 << 20
	tenantCalls      = maxEncoderCalls - maxEncoderCalls/4
	tenantTokens     = maxEncoderTokens - maxEncoderTokens/4
)

// encoderOrdered is how many calls are looked at to fill a batch.
const encoderOrdered = 64

// encoderText is what is computed together: a text, or a query with a document.
type encoderText struct {
	call   *encoderCall
	index  int // among the results of the call
	ids    []int32
	second int // where the second text begins; the number of ids if there is none
}

// encoderCall is a request: some texts.
type encoderCall struct {
	ctx     context.Context //nolint:containedctx // a call lives as long as its request, and is dropped with it
	tenant  string
	class   int
	arrived time.Time
	tokens  int // of all texts
	results [][]float32

	// The queue's own.
	texts []encoderText // that wait, longest first
	taken int           // tokens of texts that were taken
	left  int           // texts without a result
	done  chan struct{} // closed when none is left, or err is set
	err   error
	ended bool
}

func newEncoderCall(ctx context.Context, tenant string, class engine.Class, texts int) *encoderCall {
	return &encoderCall{
		ctx: ctx, tenant: tenant, class: classOf(class), arrived: time.Now(),
		results: make([][]float32, texts), texts: make([]encoderText, 0, texts), done: make(chan struct{}),
	}
}

func (c *encoderCall) add(t encoderText) {
	t.call = c
	c.texts = append(c.texts, t)
	c.tokens += len(t.ids)
}

// encoderQueue holds what waits for an encoder. Tenants share the tokens that are computed; the calls of a tenant take turns, too, so
// that a long one does not keep a short one waiting. It is safe for concurrent use.
type encoderQueue struct {
	model string
	wake  func()

	mu      sync.Mutex
	fair    *sched.Fair
	calls   []*encoderCall // with texts that wait
	running []*encoderCall // with texts in the batch that is being computed
	tokens  int            // that wait
	busy    time.Time      // since when something waits without a break
	moved   int            // tokens computed since then
	closed  bool

	candidates []sched.Candidate
	order      []int
}

func (q *encoderQueue) init(model string, wake func()) {
	q.model, q.wake, q.fair = model, wake, sched.NewFair(sched.FairConfig{})
}

// run queues a call and waits until it is computed or its context ends.
func (q *encoderQueue) run(c *encoderCall) error {
	if err := c.ctx.Err(); err != nil {
		return cancelled(err)
	}
	if err := q.submit(c); err != nil || len(c.results) == 0 {
		return err
	}
	q.wake()
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
		q.drop(c)
		return cancelled(c.ctx.Err())
	}
}

func (q *encoderQueue) submit(c *encoderCall) error {
	slices.SortStableFunc(c.texts, func(a, b encoderText) int { return cmp.Compare(len(b.ids), len(a.ids)) })
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return q.unavailable()
	case len(c.texts) == 0:
		return nil
	case q.full(c):
		return fault.New(fault.CodeEngineOverloaded, q.model).WithRetryAfter(q.retryAfter())
	}
	if len(q.calls)+len(q.running) == 0 {
		q.busy, q.moved = time.Now(), 0
	}
	for range c.texts {
		q.fair.Arrive(c.tenant)
	}
	c.left = len(c.texts)
	q.tokens += c.tokens
	q.calls = append(q.calls, c)
	return nil
}

// full reports whether a call has to be refused. What one tenant has beyond its part takes nothing from that of the others.
func (q *encoderQueue) full(c *encoderCall) bool {
	if len(q.calls) == 0 {
		return false
	}
	calls, tokens := map[string]int{c.tenant: 1}, map[string]int{c.tenant: c.tokens}
	for _, w := range q.calls {
		calls[w.tenant]++
		tokens[w.tenant] += w.tokens - w.taken
	}
	if calls[c.tenant] > tenantCalls || tokens[c.tenant] > tenantTokens {
		return true
	}
	allCalls, allTokens := 0, 0
	for tenant := range calls {
		allCalls += min(calls[tenant], tenantCalls)
		allTokens += min(tokens[tenant], tenantTokens)
	}
	return allCalls > maxEncoderCalls || allTokens > maxEncoderTokens
}

func (q *encoderQueue) unavailable() error { return fault.New(fault.CodeEngineUnavailable, q.model) }

// retryAfter estimates how long it takes to compute a tenth of what waits, in whole seconds from 1 to 60.
func (q *encoderQueue) retryAfter() time.Duration {
	if q.moved == 0 {
		return time.Second
	}
	d := time.Duration(float64(time.Since(q.busy)) * float64(q.tokens) / float64(q.moved) / 10)
	return min(max(d.Round(time.Second), time.Second), time.Minute)
}

// drop forgets a call whose caller left. What of it is being computed is thrown away when that is done.
func (q *encoderQueue) drop(c *encoderCall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.calls, c); i >= 0 {
		q.calls = slices.Delete(q.calls, i, i+1)
	}
	for _, t := range c.texts {
		q.tokens -= len(t.ids)
		q.fair.Leave(c.tenant, true)
	}
	c.texts = nil
}

// pending is the most urgent class of what waits or is being computed; sched.Classes if there is nothing.
func (q *encoderQueue) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	least := sched.Classes
	for _, list := range [][]*encoderCall{q.calls, q.running} {
		for _, c := range list {
			least = min(least, c.class)
		}
	}
	return least
}

// take returns the texts of the next batch: those whose turn it is, of up to rows tokens together. The first one is taken whatever its
// length. Long texts go first, so that short ones fill what is left.
func (q *encoderQueue) take(batch []encoderText, rows int) []encoderText {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.candidates = q.candidates[:0]
	for _, c := range q.calls {
		q.candidates = append(q.candidates, sched.Candidate{
			Tenant: c.tenant, Class: c.class, Priority: -c.taken, Arrived: c.arrived, Tokens: len(c.texts[0].ids),
		})
	}
	q.order = q.fair.Order(q.order[:0], q.candidates, time.Now(), encoderOrdered)
	for _, i := range q.order {
		before, c, kept := len(batch), q.calls[i], q.calls[i].texts[:0]
		for _, t := range c.texts {
			if n := len(t.ids); len(batch) == 0 || n <= rows {
				batch, rows = append(batch, t), rows-n
				q.start(c, n)
			} else {
				kept = append(kept, t)
			}
		}
		clear(c.texts[len(kept):])
		c.texts = kept
		if len(batch) > before {
			q.running = append(q.running, c)
		}
		if rows <= 0 {
			break
		}
	}
	q.calls = slices.DeleteFunc(q.calls, func(c *encoderCall) bool { return len(c.texts) == 0 })
	return batch
}

// start books a text that is taken.
func (q *encoderQueue) start(c *encoderCall, tokens int) {
	q.fair.Start(sched.Candidate{Tenant: c.tenant, Class: c.class, Arrived: c.arrived, Tokens: tokens})
	q.fair.Charge(c.tenant, c.class, tokens, 0, 0)
	c.taken += tokens
	q.tokens -= tokens
}

// finish books the texts of a batch that was computed, or given up, and wakes the callers that have all of theirs.
func (q *encoderQueue) finish(batch []encoderText, computed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.running) // lets go of the calls
	q.running = q.running[:0]
	for _, t := range batch {
		q.fair.Leave(t.call.tenant, false)
		if !computed { // nobody waits for it
			continue
		}
		q.moved += len(t.ids)
		if t.call.left--; t.call.left == 0 {
			t.call.end(nil)
		}
	}
}

// end tells the caller that everything is computed, or why not.
func (c *encoderCall) end(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	close(c.done)
}

// abandoned reports whether nobody waits for any text of the batch that is being computed.
func (q *encoderQueue) abandoned() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed || !slices.ContainsFunc(q.running, func(c *encoderCall) bool { return c.ctx.Err() == nil })
}

// close fails every call, those that come later, too.
func (q *encoderQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, c := range slices.Concat(q.calls, q.running) {
		c.end(q.unavailable())
	}
	q.calls, q.running, q.tokens = nil, nil, 0
}
