package native

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/native/exec"
)

type metrics struct {
	active prometheus.Gauge
	queued prometheus.Gauge
	tokens *prometheus.CounterVec
	steps  prometheus.Histogram
	plans  *prometheus.CounterVec
	fused  *prometheus.CounterVec
	missed *prometheus.CounterVec

	layouts prometheus.Counter
}

// New loads the models of cfg. It starts no goroutine: the threads begin with the first request. reg may be nil.
func New(cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Engine, error) {
	return open(cfg, log, newMetrics(reg))
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_engine_active_sequences", Help: "Sequences that are being computed.",
		}),
		queued: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_engine_queued_requests", Help: "Requests that wait for a slot.",
		}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_engine_tokens_total", Help: "Tokens computed, by phase.",
		}, []string{"phase"}),
		steps: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_engine_step_seconds", Help: "Duration of one step: a token for every sequence and a chunk of a prompt.",
			Buckets: []float64{.001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .2, .5, 1, 2, 5},
		}),
	}
	m.plans = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_engine_packed_weights_total",
		Help: "Models loaded, by where their packed weights came from: hit (mapped from the cache), built, rebuilt (the file could not be used), off (not kept).",
	}, []string{"model", "result"})
	m.fused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_engine_plan_rewrites_total", Help: "Rewrites that the passes of the compiler made, by pass.",
	}, []string{"pass"})
	m.missed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_engine_plan_fallbacks_total", Help: "Rewrites and formats that the compiler had to do without, by pass and reason.",
	}, []string{"pass", "reason"})
	m.layouts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_engine_plan_specialisations_total", Help: "Times a plan was laid out for another number of rows than the step before had.",
	})
	reg.MustRegister(m.layouts, m.active, m.queued, m.tokens, m.steps, m.plans, m.fused, m.missed)
	return m
}

func (m *metrics) step(d time.Duration, prompt, completion int) {
	m.steps.Observe(d.Seconds())
	m.tokens.WithLabelValues("prompt").Add(float64(prompt))
	m.tokens.WithLabelValues("completion").Add(float64(completion))
}

func (m *metrics) compiled(id engine.ModelID, r exec.Report) {
	m.plans.WithLabelValues(string(id), r.Cache).Inc()
}

func (m *metrics) optimized(r *graph.Report) {
	for pass, n := range r.Applied {
		m.fused.WithLabelValues(pass).Add(float64(n))
	}
	for _, s := range r.Skipped {
		m.missed.WithLabelValues(s.Pass, s.Reason).Inc()
	}
}
