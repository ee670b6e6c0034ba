package siem

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	sent, failures, skipped *prometheus.CounterVec
	behind, lag             *prometheus.GaugeVec
}

// newMetrics registers the metrics and shows every series of every destination from the start.
func newMetrics(reg prometheus.Registerer, destinations []Config) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_audit_siem_" + name, Help: help}, []string{"channel"})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_audit_siem_" + name, Help: help}, []string{"channel"})
	}
	m := &metrics{
		sent:     counter("records_total", "Records that security monitoring has confirmed, by destination."),
		failures: counter("failures_total", "Batches that security monitoring did not confirm; they are sent again."),
		skipped:  counter("records_skipped_total", "Records that were removed before security monitoring got them."),
		behind:   gauge("behind_records", "Sealed records that security monitoring has not confirmed. 0 at replicas that do not send."),
		lag:      gauge("lag_seconds", "Age of the oldest of them. 0 at replicas that do not send."),
	}
	if reg != nil {
		reg.MustRegister(m.sent, m.failures, m.skipped, m.behind, m.lag)
	}
	for _, c := range destinations {
		for _, v := range []*prometheus.CounterVec{m.sent, m.failures, m.skipped} {
			v.WithLabelValues(c.Name)
		}
		m.behind.WithLabelValues(c.Name)
		m.lag.WithLabelValues(c.Name)
	}
	return m
}
