package native

import "github.com/prometheus/client_golang/prometheus"

// state collects the metrics that are read when somebody asks.
type state struct{ e *Engine }

//nolint:gochecknoglobals // constant descriptions
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
