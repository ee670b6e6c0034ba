package wal

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of the write-ahead logs of a process.
type Metrics struct {
	appended prometheus.Counter
	failures prometheus.Counter
	fsync    prometheus.Histogram
	batch    prometheus.Histogram
	size     *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		appended: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_audit_records_appended_total", Help: "Records made durable in the local write-ahead log."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_audit_commit_failures_total", Help: "Commits of the write-ahead log that failed; their records were refused."}),
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_audit_fsync_seconds", Help: "Time one fsync of the write-ahead log took.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_audit_commit_records", Help: "Records that shared one fsync.", Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		size: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_audit_wal_bytes", Help: "Size of the local write-ahead log (log) and of the second one (spool)."}, []string{"device"}),
	}
	reg.MustRegister(m.appended, m.failures, m.fsync, m.batch, m.size)
	m.size.WithLabelValues("log")
	return m
}
