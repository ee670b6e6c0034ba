package worker

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	lookEvery = time.Second
	lookLimit = 5 * time.Second  // one look may take; a busy machine answers late
	forgetIn  = time.Second      // a worker has forgotten, or is told again
	lostAfter = 15 * time.Second // of silence what runs is given up
)

// Health is what is known of a worker.
type Health struct {
	State    State
	Instance string // another one after each start of the worker
	Models   []engine.Model
	Load     []Load
}

// State returns how the worker was at the latest look. It never waits.
func (c *Client) State() State {
	c.start()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health.State
}

// Health returns what the latest look found. It never waits.
func (c *Client) Health() Health {
	c.start()
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.health
	h.Models, h.Load = slices.Clone(h.Models), slices.Clone(h.Load)
	return h
}

// state returns the health of a worker that has its models, after the first look at the latest.
func (c *Client) state(ctx context.Context) (Health, error) {
	if err := ctx.Err(); err != nil {
		return Health{}, err
	}
	c.start() //nolint:contextcheck // looks at the worker have a life of their own
	select {
	case <-c.looked:
	case <-ctx.Done():
		return Health{}, ctx.Err()
	case <-c.closed.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed.Err() != nil:
		return Health{}, fault.Wrap(errClosed, fault.CodeEngineUnavailable, "")
	case c.cause != nil:
		return Health{}, fault.Wrap(c.cause, fault.CodeEngineUnavailable, "").WithRetryAfter(time.Second)
	}
	return c.health, nil
}

func (c *Client) start() {
	c.begin.Do(func() {
		c.heard.Store(time.Now().UnixNano())
		if c.closed.Err() == nil {
			go c.watch()
		}
	})
}

// watch looks at the worker until the client is closed.
func (c *Client) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		c.look()
		if first {
			close(c.looked)
		}
		select {
		case <-c.closed.Done():
			return
		case <-c.doubts:
		case <-tick.C:
		}
	}
}

// hear notes that the worker lives.
func (c *Client) hear() { c.heard.Store(time.Now().UnixNano()) }

// doubt has the worker looked at, since a call has failed.
func (c *Client) doubt() {
	select {
	case c.doubts <- struct{}{}:
	default:
	}
}

// look asks the worker how it is, and has it forget what it has not forgotten yet.
func (c *Client) look() {
	ctx, cancel := context.WithTimeout(c.closed, lookLimit)
	defer cancel()
	var got healthReply
	err := c.fetch(ctx, http.MethodGet, "health", nil, maxHealth, &got)
	c.mu.Lock()
	if err == nil {
		c.hear()
		c.health = c.read(&got)
		if c.cause = nil; !slices.Contains([]State{Warming, Ready, Draining}, c.health.State) {
			c.cause = fmt.Errorf("the worker is %s", c.health.State)
		}
	} else {
		c.cause = err
		c.health = Health{State: Unreachable}
	}
	c.mu.Unlock()
	if err != nil && time.Since(time.Unix(0, c.heard.Load())) >= lostAfter {
		c.abandon(errLost)
	}
	if err == nil {
		c.forgetAll(ctx)
	}
}

// read turns what the worker says into what may be used of it.
func (c *Client) read(got *healthReply) Health {
	h := Health{State: got.State, Instance: got.Instance, Load: got.Load}
	for _, m := range got.Models {
		if len(c.cfg.Models) > 0 && !slices.Contains(c.cfg.Models, string(m.ID)) {
			continue
		}
		info := engine.Model(m)
		info.HasHooks, info.Local = false, c.cfg.Local
		h.Models = append(h.Models, info)
	}
	slices.SortFunc(h.Models, func(a, b engine.Model) int { return cmp.Compare(a.ID, b.ID) })
	return h
}

// fetch asks for what is no work and reads the JSON that answers it.
func (c *Client) fetch(ctx context.Context, method, path string, order any, limit int64, reply any) error {
	raw, err := c.raw(ctx, method, path, order, limit)
	if err != nil {
		return err
	}
	return decodeReply(raw, reply, "")
}

func (c *Client) raw(ctx context.Context, method, path string, order any, limit int64) ([]byte, error) {
	x, resp, err := c.send(ctx, method, path, order, "") //nolint:bodyclose // end closes it
	if err != nil {
		return nil, err
	}
	defer x.end()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent {
		return nil, x.refusal(resp)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, x.failure(err)
	}
	if int64(len(raw)) > limit {
		return nil, fault.Wrap(fmt.Errorf("the worker's reply has more than %d bytes", limit), fault.CodeUpstreamFailed, "")
	}
	return raw, nil
}

// track notes a call that runs, so that it ends when the client is closed or the worker is lost.
func (c *Client) track(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[x] = struct{}{}
}

func (c *Client) untrack(x *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, x)
}

// abandon ends everything that runs.
func (c *Client) abandon(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.running {
		x.cancel(why)
	}
}

// Forget has the worker drop what it keeps of a tenant's prompts and answers, as the engine behind it does. A worker that cannot be reached now is told
// as soon as it can be.
func (c *Client) Forget(tenant string) {
	c.start()
	c.mu.Lock()
	c.demands++
	c.forget[tenant] = c.demands
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.closed, forgetIn)
	defer cancel()
	c.forgetAll(ctx)
}

// Unforgotten returns how many tenants the worker still has to forget.
func (c *Client) Unforgotten() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.forget)
}

func (c *Client) forgetAll(ctx context.Context) {
	c.mu.Lock()
	due := maps.Clone(c.forget)
	c.mu.Unlock()
	for tenant, demand := range due {
		if c.fetch(ctx, http.MethodPost, "forget", forgetWork{tenant}, maxReply, nil) != nil {
			return // the next look comes
		}
		c.mu.Lock()
		if c.forget[tenant] == demand { // else it was demanded again meanwhile
			delete(c.forget, tenant)
		}
		c.mu.Unlock()
	}
}

// Adapters returns the adapters that the worker has loaded.
func (c *Client) Adapters(ctx context.Context) ([]Adapter, error) {
	var out []Adapter
	err := c.fetch(ctx, http.MethodGet, "adapters", nil, maxReply, &out)
	return out, err
}

// LoadAdapter has the worker load an adapter from its own folder. The errors are those of the engine behind it.
func (c *Client) LoadAdapter(ctx context.Context, a NewAdapter) (Adapter, error) {
	var out Adapter
	err := c.fetch(ctx, http.MethodPost, "adapters", a, maxReply, &out)
	if err == nil {
		c.look() //nolint:contextcheck // so that it is among the models now
	}
	return out, err
}

// UnloadAdapter has the worker forget an adapter.
func (c *Client) UnloadAdapter(ctx context.Context, id engine.ModelID) error {
	err := c.fetch(ctx, http.MethodDelete, "adapters/"+url.PathEscape(string(id)), nil, maxReply, nil)
	if err == nil {
		c.look() //nolint:contextcheck // so that it is not among the models any more
	}
	return err
}

// Metrics returns the metrics of the worker's process, in the text form of Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	return c.raw(ctx, http.MethodGet, "metrics", nil, maxMetrics)
}
