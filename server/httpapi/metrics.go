package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/internal/inflight"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, bodies *inflight.Limiter) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total", Help: "HTTP requests by route and status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_duration_seconds", Help: "Time to answer an HTTP request, streams to their end.",
			Buckets: []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300},
		}, []string{"route"}),
	}
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_http_body_bytes", Help: "Bytes of request bodies held now.",
	}, func() float64 { return float64(bodies.Held()) })
	reg.MustRegister(m.requests, m.duration, held)
	return m
}

func (m *metrics) observe(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	if status == http.StatusSwitchingProtocols {
		return // a WebSocket is no request; those that it brings are
	}
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}
