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
	}
	for _, c := range []prometheus.Collector{m.search, m.ingest} {
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
