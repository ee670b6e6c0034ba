package native

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

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
		s := g.seen
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

// Steps returns what the latest steps after the given one computed, and for which requests: their shares add up to the tokens of the step.
func (e *Engine) Steps(after uint64) []sched.StepRecord { return e.loop.steps.Since(after) }

// state collects the metrics that are read when somebody asks.
type state struct{ e *Engine }

var (
	descPages    = prometheus.NewDesc(namespace+"kv_pages", "Pages of keys and values that a model may have.", []string{"model"}, nil)
	descUsage    = prometheus.NewDesc(namespace+"kv_usage_ratio", "Share of these pages that is in use or kept for later.", []string{"model"}, nil)
	descTarget   = prometheus.NewDesc(namespace+"latency_target_seconds", "Time between two tokens that the scheduler aims for, by queue class.", []string{"model", "class"}, nil)
	descObserved = prometheus.NewDesc(namespace+"latency_observed_p99_seconds", "What 99 in 100 tokens lately stayed under, by queue class.", []string{"model", "class"}, nil)
	descBound    = prometheus.NewDesc(namespace+"sequences_bound", "Sequences that the latency target allows at a time, by queue class.", []string{"model", "class"}, nil)
	descMargin   = prometheus.NewDesc(namespace+"latency_margin_ratio", "Share of the target that steps are planned with, by queue class.", []string{"model", "class"}, nil)
	descCost     = prometheus.NewDesc(namespace+"step_cost_seconds", "What the scheduler takes a step to cost: by itself (step), and for each decode_token, prefill_token and context_position.", []string{"model", "part"}, nil)
	descPrefix   = prometheus.NewDesc(namespace+"prefix_pages_total", "Pages of the prefix cache, by what happened to them.", []string{"model", "event"}, nil)
)

// Describe implements prometheus.Collector.
func (state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descPages, descUsage, descTarget, descObserved, descBound, descMargin, descCost, descPrefix} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s state) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, m := range s.e.Scheduler() {
		id := string(m.Model)
		gauge(descPages, float64(m.Pages), id)
		gauge(descUsage, float64(m.PagesInUse)/float64(max(1, m.Pages)), id)
		for _, c := range m.Controller.Classes {
			gauge(descTarget, c.TargetMs/1e3, id, c.Class)
			gauge(descObserved, c.ObservedP99Ms/1e3, id, c.Class)
			gauge(descBound, float64(c.MaxSequences), id, c.Class)
			gauge(descMargin, c.Margin, id, c.Class)
		}
		k := m.Controller.Coefficients
		gauge(descCost, k.Step/1e6, id, "step")
		gauge(descCost, k.Decode/1e6, id, "decode_token")
		gauge(descCost, k.Prefill/1e6, id, "prefill_token")
		gauge(descCost, k.Context/1e6, id, "context_position")
		for event, n := range map[string]uint64{
			"hit": m.Prefix.HitPages, "inserted": m.Prefix.Inserted, "refused": m.Prefix.Refused, "evicted": m.Prefix.Evicted,
			"spilled": m.Prefix.Spilled, "promoted": m.Prefix.Promoted, "spill_dropped": m.Prefix.SpillDropped, "spill_damaged": m.Prefix.SpillDamaged,
		} {
			out <- prometheus.MustNewConstMetric(descPrefix, prometheus.CounterValue, float64(n), id, event)
		}
	}
}
