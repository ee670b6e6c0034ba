package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/unified"
	"github.com/sluice-project/sluice/internal/keyring"
)

// answerTimeout bounds a question that the upstream is asked about itself. Some answer by computing a token.
const answerTimeout = 5 * time.Second

// figures is a page of metrics as it was read.
type figures struct {
	values unified.Values
	at     time.Time
}

// watch prepares what the upstream is asked about itself, by the profile of its first model. One in a cloud is asked nothing.
func (e *Engine) watch(dial dial) error {
	base, err := url.Parse(e.base)
	if err != nil {
		return err
	}
	address, err := hostPort(e.base)
	if err != nil {
		return err
	}
	connect := connects(dial, address, e.cfg.ConnectTimeout)
	known, err := e.cfg.profiles()
	if err != nil {
		return err
	}
	p, err := known.Get(e.cfg.Dialect())
	if err != nil {
		return err
	}
	if p.Cloud {
		p = &profile.Profile{Name: p.Name}
	}
	p = within(*p, base.Port())
	asked, err := peer.New(peer.Config{
		Profile: p, URL: strings.TrimSuffix(e.base, p.Endpoints.Base),
		Client: &http.Client{CheckRedirect: e.client.CheckRedirect, Transport: keyed{e.client.Transport, base.Host, e.cfg.APIKey}},
	})
	if err != nil {
		return err
	}
	e.reach = &reach{
		ask: connect, learn: e.learner(p, asked), scrape: e.scraper(p, asked), closed: e.closed, now: time.Now,
		first: make(chan struct{}), until: time.Now().Add(firstLook),
	}
	e.reach.told.Store(!tells(p))
	if q := p.Health.Question(); q.Path != "" {
		e.reach.fresh.Store(true)
		e.reach.ask = health(asked, asked.URL(q.Port) == asked.URL(profile.PortMain), connect, answerTimeout)
	}
	return nil
}

// within leaves out of a profile what is asked at other ports, unless the upstream is at the port that the profile gives to its kind: where one port was
// changed nobody knows of the others, and another engine of the same machine may be there.
func within(p profile.Profile, port string) *profile.Profile {
	if port == strconv.Itoa(p.Ports.Main) {
		return &p
	}
	numbers := map[profile.Port]int{profile.PortManagement: p.Ports.Management, profile.PortMetrics: p.Ports.Metrics}
	if numbers[p.Health.Question().Port] != 0 {
		p.Health = profile.Health{}
	}
	if numbers[p.Version.Port] != 0 {
		p.Version = profile.Probe{}
	}
	if numbers[p.Models.ContextFrom.Port] != 0 {
		p.Models.ContextFrom = profile.Probe{}
	}
	if numbers[p.Metrics.Port] != 0 {
		p.Metrics = profile.Metrics{}
	}
	return &p
}

// keyed sends the credential of the upstream to the upstream, and to no other port of its machine.
type keyed struct {
	to   http.RoundTripper
	host string
	key  keyring.Credential
}

// RoundTrip implements http.RoundTripper.
func (k keyed) RoundTrip(req *http.Request) (*http.Response, error) {
	if key := k.key.Reveal(); key != "" && req.URL.Host == k.host {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return k.to.RoundTrip(req)
}

// health asks how the upstream is. One that does not tell is there if it has answered; one that has no time for the question, or whose
// question belongs to another port, if it can be connected to.
func health(asked *peer.Peer, main bool, connect look, timeout time.Duration) look {
	return func(ctx context.Context) (peer.State, error) {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		state, err := asked.Look(limited)
		switch {
		case err == nil:
			return state, nil
		case !main, limited.Err() != nil: // whoever has no time for the question may still answer requests
			return connect(ctx)
		case errors.Is(err, peer.ErrNotTold):
			return peer.Ready, nil
		}
		return peer.Unreachable, fmt.Errorf("the upstream cannot be reached: %w", err)
	}
}

// tells reports whether the profile knows a question for what the upstream is.
func tells(p *profile.Profile) bool {
	return p.Version.Path != "" || p.Models.Context != "" || p.Models.ContextFrom.Path != ""
}

// learner asks which version answers and how long its contexts are. Where the profile knows no such question there is nothing to learn.
func (e *Engine) learner(p *profile.Profile, asked *peer.Peer) func(context.Context) error {
	if !tells(p) {
		return func(context.Context) error { return nil }
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		seen, err := asked.Observe(ctx, false)
		if err != nil {
			return err
		}
		seen.Version = plainVersion(seen.Version)
		maps.DeleteFunc(seen.Models, func(name string, _ int) bool { // it may list any number of others
			return !slices.ContainsFunc(e.models, func(m model) bool { return name == cmp.Or(m.Upstream, m.ID) })
		})
		e.judge(seen)
		return nil
	}
}

// plainVersion is a version that may stand in records: one that is none is not known.
func plainVersion(s string) string {
	odd := strings.ContainsFunc(s, func(r rune) bool {
		return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("._+-~:() ", r))
	})
	if odd || len(s) > 64 {
		return ""
	}
	return s
}

// scraper reads the page of metrics. What cannot be read is not reported, and no fault of the upstream.
func (e *Engine) scraper(p *profile.Profile, asked *peer.Peer) func(context.Context, bool) {
	if p.Metrics.Path == "" || p.Metrics.Consumed {
		return func(context.Context, bool) {}
	}
	return func(ctx context.Context, ready bool) {
		if !ready {
			e.figures.Store(nil)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		values, err := asked.Metrics(ctx)
		if err != nil {
			e.figures.Store(nil)
			return
		}
		e.figures.Store(&figures{values, e.reach.now()})
	}
}

// Condition implements pool.Conditioned. One that can be asked how it is has not started before it was found ready, and gets no request until then.
func (e *Engine) Condition() pool.State {
	switch {
	case e.reach.idle.Load():
		return pool.StateWarming
	case e.reach.fresh.Load():
		return pool.StateStarting
	}
	return pool.StateReady
}

// Learnt implements pool.Learning. An upstream takes requests as soon as it is ready, also where it had no time to say what it is.
func (e *Engine) Learnt() bool { return e.reach.told.Load() }

// Metrics implements pool.Measured.
func (e *Engine) Metrics() (unified.Values, time.Time) {
	if f := e.figures.Load(); f != nil {
		return f.values, f.at
	}
	return nil, time.Time{}
}

// version is that of the software behind the upstream, as it said when it was asked last; "" if it does not tell.
func (e *Engine) version() string { return e.known.Load().version }

// judge works out anew what is known of the models, from what was seen of the upstream.
func (e *Engine) judge(seen capability.Observation) {
	e.known.Store(knownOf(e.models, seen))
}
