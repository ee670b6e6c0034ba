package native

import (
	"cmp"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/draft"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/native/prefix"
	"github.com/sluice-project/sluice/engine/native/sched"
)

// SchedulerState is what the scheduler of one model knows and decided last. It holds numbers and names, and no text.
type SchedulerState struct {
	Model       engine.ModelID `json:"model"`
	Controller  sched.State    `json:"controller"`
	Running     int            `json:"running_sequences"`
	Waiting     int            `json:"waiting_sequences"`
	Concurrency int            `json:"concurrency_limit"` // sequences of all models, whatever the controller allows
	Pages       int            `json:"kv_pages"`
	PagesInUse  int            `json:"kv_pages_in_use"` // by sequences, or kept for later
	PageTokens  int            `json:"kv_page_tokens"`
	PageBytes   int            `json:"kv_page_bytes"`
	Prefix      prefix.Stats   `json:"prefix_cache"`
	Drafts      draft.Stats    `json:"draft_index"`
	Acceptance  float64        `json:"draft_acceptance"`
}

// Scheduler returns the state of every model that generates.
func (e *Engine) Scheduler() []SchedulerState {
	l := e.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]SchedulerState, 0, len(l.generators))
	for _, g := range l.generators {
		s := g.observed
		s.Model, s.Concurrency, s.Controller, s.Drafts = g.info.ID, l.slots, g.control.State(), g.texts.Stats()
		s.Pages, s.PageTokens, s.PageBytes = g.pages, exec.PagePositions, g.prog.PageBytes()
		s.Running, s.Waiting = g.load.sequences(), 0
		for _, q := range l.queue {
			if q.job.model == g {
				s.Waiting++
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b SchedulerState) int { return cmp.Compare(a.Model, b.Model) })
	return out
}

// StepPage returns what at most n of the steps after the given one computed, oldest first, and for which requests: their shares add up to
// the tokens of the step. Without a step it is the latest n.
func (e *Engine) StepPage(after *uint64, n int) []sched.StepRecord {
	log := e.loop.steps
	if after != nil {
		return log.Page(*after, n)
	}
	last := log.Last()
	return log.Page(last-min(last, uint64(max(0, n))), n)
}
