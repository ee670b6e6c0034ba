package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/simulate"
	"github.com/sluice-project/sluice/internal/fault"
)

// verdict is what a case comes to.
type verdict struct {
	result   Result
	reason   fault.Phrase
	why      bool // reason is set
	evidence []string
	features map[capability.Feature]bool
}

// note adds a line of evidence. It never has a text of a model.
func (v *verdict) note(format string, args ...any) {
	v.evidence = append(v.evidence, fmt.Sprintf(format, args...))
}

// saw notes whether features worked.
func (v *verdict) saw(worked bool, features ...capability.Feature) {
	if v.features == nil {
		v.features = map[capability.Feature]bool{}
	}
	for _, f := range features {
		before, seen := v.features[f]
		v.features[f] = worked && (!seen || before)
	}
}

// fail makes the case fail; the first reason stays.
func (v *verdict) fail(why fault.Phrase) {
	if v.result != Failed {
		v.result, v.reason, v.why = Failed, why, true
	}
}

// unseen ends a case, unless it has failed, with nothing to be seen.
func (v *verdict) unseen(why fault.Phrase) {
	if v.result == "" {
		v.result, v.reason, v.why = NotReported, why, true
	}
}

// skip ends a case that has nothing to fail by.
func skip(r Result, why fault.Phrase) *verdict { return &verdict{result: r, reason: why, why: true} }

// run is a run under way.
type run struct {
	cfg Config
	*client
}

// cases are the cases in the order in which they run: those that disturb the engine come last.
func (r *run) cases() []func(context.Context) *verdict {
	return []func(context.Context) *verdict{
		r.health, r.models, r.answer, r.streaming, r.tools, r.formats, r.sampling, r.errors, r.cancel, r.metrics, r.overload, r.contract, r.media, r.adapters, r.drain,
	}
}

// Run examines an engine. An error means that nothing was examined: the configuration is wrong, or the context has ended. What goes wrong with the engine is in
// the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r, err := prepare(ctx, &cfg)
	if err != nil {
		return Report{}, fmt.Errorf("conform: %w", err)
	}
	p := cfg.Peer.Profile
	report := Report{
		Format: "sluice-conform/1", Profile: p.Name, Digest: p.Digest(), Basis: string(p.Basis), Software: cfg.Software, Began: cfg.Now().UTC(),
		Target: Target{Model: r.model, Hardware: cfg.Hardware},
	}
	order := r.cases()
	for n := range order {
		c := Case(n + 1)
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, c) {
			continue
		}
		began := cfg.Now()
		out := one(ctx, cfg, c, order[n])
		if ctx.Err() != nil {
			return Report{}, fmt.Errorf("conform: %w", ctx.Err())
		}
		if report.Target.Version == "" {
			report.Target.Version = r.version(ctx)
		}
		out.Took = cfg.Now().Sub(began)
		report.Cases = append(report.Cases, out)
	}
	report.Target.Simulated = cfg.Simulated || r.simulated.Load()
	report.Grade = grade(p, report)
	report.Took = cfg.Now().Sub(report.Began)
	return report, nil
}

// version asks for the version within the time of a case; "" is one that it does not tell.
func (r *run) version(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	v, err := r.peer.Version(ctx)
	if err != nil {
		return ""
	}
	return v
}

// one runs a case within its time.
func one(ctx context.Context, cfg Config, c Case, f func(context.Context) *verdict) Outcome {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	v := f(ctx)
	if v.result == "" {
		v.result = Passed
	}
	out := Outcome{Case: c, Result: v.result, Evidence: v.evidence, Features: v.features}
	if v.why {
		out.Reason = profile.Text{En: v.reason.In(fault.English), Zh: v.reason.In(fault.Chinese)}
	}
	return out
}

// grade is what a run bears: of a simulator no more than that a documented dialect was replayed.
func grade(p *profile.Profile, r Report) capability.Grade {
	if !slices.ContainsFunc(r.Cases, func(o Outcome) bool { return o.Result == Passed }) {
		return capability.E0
	}
	switch {
	case r.Target.Simulated && p.Basis == profile.Assumed:
		return capability.E0
	case r.Target.Simulated:
		return capability.E2
	case r.Target.Hardware != "":
		return capability.E4
	}
	return capability.E3
}

// listener looks at the answers of an engine, on whatever path they come: one that calls itself a simulator is one.
type listener struct {
	http.RoundTripper

	simulated *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (l listener) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(req)
	if err == nil && resp.Header.Get(simulate.Header) != "" {
		l.simulated.Store(true)
	}
	return resp, err
}

// listening returns a client that is like another one and tells of simulators. The other one stays as it is.
func listening(to *http.Client, simulated *atomic.Bool) *http.Client {
	c := *to
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = listener{c.Transport, simulated}
	return &c
}

func prepare(ctx context.Context, cfg *Config) (*run, error) {
	cfg.Timeout, cfg.Load = cmp.Or(cfg.Timeout, 2*time.Minute), cmp.Or(cfg.Load, 64)
	cfg.FreeWithin, cfg.MovesWithin = cmp.Or(cfg.FreeWithin, 5*time.Second), cmp.Or(cfg.MovesWithin, 5*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Peer.Client == nil {
		cfg.Peer.Client = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{MaxIdleConnsPerHost: cfg.Load, IdleConnTimeout: time.Minute},
		}
	}
	cl := &client{prof: cfg.Peer.Profile, key: cfg.Peer.Key, model: cfg.Model}
	cfg.Peer.Client = listening(cfg.Peer.Client, &cl.simulated)
	cl.http = cfg.Peer.Client
	var err error
	if cl.peer, err = peer.New(cfg.Peer); err != nil {
		return nil, err
	}
	prof := cfg.Peer.Profile
	if prof.Endpoints.Chat == "" && prof.Endpoints.Completions == "" && prof.Endpoints.Form != "tgi" && prof.Endpoints.Form != "v2" {
		return nil, errors.New("the profile knows no way to ask for text that can be examined")
	}
	if err := cl.choose(ctx, cfg.Timeout); err != nil {
		return nil, err
	}
	return &run{cfg: *cfg, client: cl}, nil
}

// choose settles which model is asked, and how long it may get.
func (c *client) choose(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	list, err := c.peer.Models(ctx)
	if c.model == "" {
		if len(list) == 0 {
			return fmt.Errorf("no model was named, and the engine lists none (%w)", errors.Join(err, errors.New("an empty list")))
		}
		c.model = list[0].ID
	}
	for _, m := range list {
		if m.ID == c.model {
			c.context = m.Context
		}
	}
	return nil
}

// unusable is the reason of a request that got no usable answer.
func unusable(what string, err error) fault.Phrase {
	var refused *errRefused
	if errors.As(err, &refused) {
		return fault.Say("conform.refused", what, fmt.Sprint(refused.Status))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.Say("conform.too_long", what)
	}
	return fault.Say("conform.no_answer", what)
}
