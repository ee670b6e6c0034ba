package reconcile

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	findings *prometheus.GaugeVec
	finished prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		findings: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_audit_findings", Help: "Open findings of the reconciliation: places where the audit log is incomplete or says other than the books.",
		}, []string{"kind"}),
		finished: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_audit_reconciled_timestamp_seconds", Help: "When any replica last completed a reconciliation, 0 before the first.",
		}),
	}
	reg.MustRegister(m.findings, m.finished)
	m.set(nil, 0)
	return m
}

func (m *metrics) set(open map[string]int64, finished int64) {
	for _, kind := range kinds() {
		m.findings.WithLabelValues(kind).Set(float64(open[kind]))
	}
	m.finished.Set(float64(finished) / 1e6)
}
