package notify

import "github.com/prometheus/client_golang/prometheus"

// Why an alert was dropped.
const (
	dropFull     = "full"     // too many were waiting
	dropRefused  = "refused"  // the other side will never take it
	dropDeadline = "deadline" // it could not be delivered in time
	dropShutdown = "shutdown" // the process ended first
)

type metrics struct {
	delivered  *prometheus.CounterVec
	failed     *prometheus.CounterVec
	dropped    *prometheus.CounterVec
	suppressed *prometheus.CounterVec
	waiting    *prometheus.GaugeVec
}

// newMetrics registers the metrics and shows every series of every channel from the start.
func newMetrics(reg prometheus.Registerer, channels []Channel) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_notify_" + name, Help: help}, append([]string{"channel"}, labels...))
	}
	m := &metrics{
		delivered:  counter("delivered_total", "Messages that the other side has taken."),
		failed:     counter("failed_attempts_total", "Attempts to send that failed; most are repeated."),
		dropped:    counter("dropped_total", "Alerts that were not delivered, by reason: full, refused, deadline, shutdown.", "reason"),
		suppressed: counter("suppressed_total", "Alerts that were not sent since the same one was, not long ago."),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_notify_waiting", Help: "Alerts that wait for their delivery.",
		}, []string{"channel"}),
	}
	if reg != nil {
		reg.MustRegister(m.delivered, m.failed, m.dropped, m.suppressed, m.waiting)
	}
	for _, c := range channels {
		m.delivered.WithLabelValues(c.Name)
		m.failed.WithLabelValues(c.Name)
		m.suppressed.WithLabelValues(c.Name)
		m.waiting.WithLabelValues(c.Name)
		for _, reason := range []string{dropFull, dropRefused, dropDeadline, dropShutdown} {
			m.dropped.WithLabelValues(c.Name, reason)
		}
	}
	return m
}
