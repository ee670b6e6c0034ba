package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/billing/energy"
)

// stepPage is how many steps are read at once: as many as the native engine keeps.
const stepPage = 4096

// energySteps gives the account of energy the steps of the native engine.
type energySteps struct {
	parts *parts
	costs atomic.Pointer[rowCosts]
}

// rowCosts are what a row of a prompt and of an answer cost, as the scheduler has fitted it on this machine.
type rowCosts struct{ prompt, token float64 }

// since returns the steps after the given one.
func (s *energySteps) since(after uint64) ([]energy.Step, uint64) {
	if s.parts.native == nil {
		return nil, after
	}
	records := s.parts.native.StepPage(&after, stepPage)
	if len(records) == 0 {
		return nil, after
	}
	costs := rowCosts{1, 1}
	if fitted := s.costs.Load(); fitted != nil {
		costs = *fitted
	}
	out := make([]energy.Step, len(records))
	for i, r := range records {
		shares := make([]energy.Share, len(r.Shares))
		for k, sh := range r.Shares {
			shares[k] = energy.Share{Request: sh.Request, Weight: costs.token*float64(sh.Decode) + costs.prompt*float64(sh.Prefill+sh.Drafts)}
		}
		out[i] = energy.Step{Ago: time.Since(r.Time.Add(r.Took)), Took: r.Took, Shares: shares}
	}
	return out, records[len(records)-1].Step
}

// run takes over what the scheduler has fitted, until ctx ends. Requests do not: they would wait for the engine. With several models a step does
// not say whose it was, and a row counts as a row. There must be a native engine.
func (s *energySteps) run(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		models := s.parts.native.Scheduler()
		if len(models) != 1 {
			s.costs.Store(nil)
			continue
		}
		if c := models[0].Controller.Coefficients; c.Decode > 0 && c.Prefill > 0 {
			s.costs.Store(&rowCosts{prompt: c.Prefill, token: c.Decode})
		}
	}
}
