package rag

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/internal/fault"
)

type metrics struct {
	search *prometheus.HistogramVec
	ingest *prometheus.CounterVec
	again  *prometheus.CounterVec
	left   prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		search: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_rag_search_seconds", Help: "Time of searches by outcome: ok, or the kind of the error.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"outcome"}),
		ingest: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_rag_ingests_total", Help: "Documents taken in by outcome: ok, or the kind of the error.",
		}, []string{"outcome"}),
		again: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_rag_reembedded_total", Help: "Documents whose vectors were made anew for another model, by outcome: ok, skipped (somebody else was faster), or the kind of the error.",
		}, []string{"outcome"}),
		left: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_rag_pending_documents", Help: "Documents that are found by their words only, until their vectors are made anew; 0 on all replicas but the one that does that.",
		}),
	}
	for _, c := range []prometheus.Collector{m.search, m.ingest, m.again, m.left} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return fault.KindOf(err).String()
}

func (m *metrics) searched(d time.Duration, err error) {
	m.search.WithLabelValues(outcome(err)).Observe(d.Seconds())
}

func (m *metrics) ingested(err error) { m.ingest.WithLabelValues(outcome(err)).Inc() }

func (m *metrics) pendingDocuments(n int) { m.left.Set(float64(n)) }

func (m *metrics) reembed(done bool, err error) {
	label := outcome(err)
	if err == nil && !done {
		label = "skipped"
	}
	m.again.WithLabelValues(label).Inc()
}
