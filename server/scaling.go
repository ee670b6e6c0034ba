package server

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/scaling/local"
	"github.com/sluice-project/sluice/server/alerts"
)

// scaledPool is a pool whose workers this process starts and ends.
type scaledPool struct {
	name    string
	parts   *parts
	workers *local.Pool
	loop    *scaling.Loop

	// Of the goroutine of the loop alone.
	begun map[*pool.Instance]int64 // requests that were counted, by instance
	at    time.Time                // when they were
}

// buildScaling makes the loops of the pools that are scaled. Nothing is started before they run.
func (p *parts) buildScaling() error {
	for _, c := range p.cfg.Engines.Pools {
		if c.Scale == nil {
			continue
		}
		controller, err := scaling.New(c.Scale.Policy)
		if err != nil {
			return fmt.Errorf("pool %s: %w", c.Name, err)
		}
		s := &scaledPool{name: c.Name, parts: p, begun: map[*pool.Instance]int64{}}
		cfg := c.Scale.Workers
		if cfg.Dir, err = filepath.Abs(filepath.Join(p.cfg.Data, "workers", c.Name)); err != nil {
			return fmt.Errorf("pool %s: %w", c.Name, err)
		}
		s.workers, err = local.New(c.Name, cfg, local.Deps{
			Join: func(ctx context.Context, members []pool.Member) { p.instances.Scale(ctx, c.Name, members) },
			Member: func(name string, w *worker.Client) pool.Member {
				return pool.Member{Name: name, Kind: pool.KindWorker, Engine: workerInstance{w}, Attributes: pool.Attributes{Place: p.cfg.Engines.PlaceOf("")}}
			},
			Running: s.running, Ready: controller.Ready, Log: p.log,
		})
		if err != nil {
			return fmt.Errorf("pool %s: %w", c.Name, err)
		}
		s.loop = scaling.NewLoop(scaling.LoopConfig{Pool: c.Name, Every: c.Scale.Every, Term: 1}, scaling.LoopDeps{
			Controller: controller, Actuator: s.workers, Base: s.base, Signals: s.signals, Record: s.record, Log: p.log,
		})
		p.scaled = append(p.scaled, s)
	}
	return nil
}

// Run scales the pool until ctx ends, and then ends its workers.
func (s *scaledPool) Run(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.workers.Run(ctx) })
	both.Go(func() error { return s.loop.Run(ctx) })
	return both.Wait()
}

// scalingLoops are the loops of all scaled pools, by name.
func (p *parts) scalingLoops() []*scaling.Loop {
	var out []*scaling.Loop
	for _, s := range p.scaled {
		out = append(out, s.loop)
	}
	slices.SortFunc(out, func(a, b *scaling.Loop) int { return strings.Compare(a.Pool(), b.Pool()) })
	return out
}

// latestScaling are the scaled pools with their latest decisions.
func (p *parts) latestScaling() []alerts.ScaledPool {
	var out []alerts.ScaledPool
	for _, l := range p.scalingLoops() {
		if d, _, ok := l.Decisions(); ok {
			_, most := l.Bounds()
			out = append(out, alerts.ScaledPool{Name: l.Pool(), Most: most, Decision: d})
		}
	}
	return out
}

// running is how many requests run on one of the workers.
func (s *scaledPool) running(name string, c *worker.Client) int {
	for _, i := range s.parts.pools.Instances(s.name) {
		if w, ok := i.Engine.(workerInstance); ok && w.Client == c && i.Name == name {
			return i.Status().Running
		}
	}
	return 0
}

// base is how many of the instances that are configured or registered take requests.
func (s *scaledPool) base() int {
	n, ours := 0, s.workers.Clients()
	for _, i := range s.parts.pools.Instances(s.name) {
		w, ok := i.Engine.(workerInstance)
		if i.Status().State == pool.StateReady && !(ok && slices.Contains(ours, w.Client)) {
			n++
		}
	}
	return n
}

// signals are those of the pool in this process: requests that began since the last time, and what its workers have said of themselves. Each signal is
// there only if every worker that is ready gives it.
func (s *scaledPool) signals(now time.Time) scaling.Signals {
	var out scaling.Signals
	all := s.parts.pools.Instances(s.name)
	begun, before := map[*pool.Instance]int64{}, s.begun
	arrived, tokens, waiting, use, workers, known := int64(0), 0.0, 0.0, 0.0, 0, true
	for _, i := range all {
		st := i.Status()
		begun[i] = st.Begun
		arrived += st.Begun - before[i]
		w, ok := i.Engine.(workerInstance)
		if !ok || st.State != pool.StateReady {
			continue
		}
		load := w.Health().Load
		workers++
		known = known && len(load) > 0
		for _, l := range load {
			waiting += float64(l.Waiting)
			tokens += float64(l.PagesInUse) * float64(l.PageTokens)
			if l.Pages > 0 {
				use = max(use, float64(l.PagesInUse)/float64(l.Pages))
			}
		}
	}
	if span := now.Sub(s.at); !s.at.IsZero() && span > 0 {
		out.Rate = scaling.Reading{Value: float64(max(0, arrived)) / span.Seconds(), At: now}
	}
	s.begun, s.at = begun, now
	if workers > 0 && known {
		out.Waiting, out.Tokens, out.KVUse = scaling.Reading{Value: waiting, At: now}, scaling.Reading{Value: tokens, At: now}, scaling.Reading{Value: use, At: now}
	}
	return out
}

// record writes a decision into the audit log, with its reasons and the numbers that it saw. It belongs to the installation, hence to the operator's tenant.
func (s *scaledPool) record(ctx context.Context, d scaling.Decision) error {
	whole, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = s.parts.audit.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: operatorTenant, Actor: audit.Actor{Kind: "system", ID: "scaling", Name: "scaling"}, Action: "pool.scale", Resource: s.name,
		Detail: map[string]string{
			"target": strconv.Itoa(d.Target), "ordered": strconv.Itoa(d.Ordered), "before": strconv.Itoa(d.Before), "floor": strconv.Itoa(d.Floor), "winner": string(d.Winner), "decision": string(whole),
		},
		Dialect: "workflow", Decision: "allow", Outcome: "ok",
	})
	return err
}
