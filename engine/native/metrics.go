package native

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	active prometheus.Gauge
	queued prometheus.Gauge
	tokens *prometheus.CounterVec
	steps  prometheus.Histogram
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
	reg.MustRegister(m.active, m.queued, m.tokens, m.steps)
	return m
}

func (m *metrics) step(d time.Duration, prompt, completion int) {
	m.steps.Observe(d.Seconds())
	m.tokens.WithLabelValues("prompt").Add(float64(prompt))
	m.tokens.WithLabelValues("completion").Add(float64(completion))
}
