package server

import (
	"time"

	"github.com/sluice-project/sluice/billing/energy"
)

// stepPage is how many steps are read at once: as many as the native engine keeps.
const stepPage = 4096

// energySteps gives the account of energy the steps of the native engine. It is used under the account's lock.
type energySteps struct {
	parts *parts

	prompt, token float64 // what a row of a prompt and of an answer cost, as the scheduler has fitted it on this machine
	fitted        time.Time
}

// since returns the steps after the given one.
func (s *energySteps) since(after uint64) ([]energy.Step, uint64) {
	if s.parts.native == nil {
		return nil, after
	}
	records := s.parts.native.StepPage(&after, stepPage)
	if len(records) == 0 {
		return nil, after
	}
	s.fit()
	out := make([]energy.Step, len(records))
	for i, r := range records {
		shares := make([]energy.Share, len(r.Shares))
		for k, sh := range r.Shares {
			shares[k] = energy.Share{Request: sh.Request, Weight: s.token*float64(sh.Decode) + s.prompt*float64(sh.Prefill+sh.Drafts)}
		}
		out[i] = energy.Step{Ago: time.Since(r.Time.Add(r.Took)), Took: r.Took, Shares: shares}
	}
	return out, records[len(records)-1].Step
}

// fit takes over what the scheduler has fitted. With several models a step does not say whose it was, and a row counts as a row.
func (s *energySteps) fit() {
	if time.Since(s.fitted) < 10*time.Second {
		return
	}
	s.fitted, s.prompt, s.token = time.Now(), 1, 1
	models := s.parts.native.Scheduler()
	if len(models) != 1 {
		return
	}
	if c := models[0].Controller.Coefficients; c.Decode > 0 && c.Prefill > 0 {
		s.prompt, s.token = c.Prefill, c.Decode
	}
}
