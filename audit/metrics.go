package audit

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	appended    prometheus.Counter
	failures    prometheus.Counter
	fsync       prometheus.Histogram
	batch       prometheus.Histogram
	walBytes    *prometheus.GaugeVec
	spooled     prometheus.Counter
	lost        prometheus.Counter
	shipped     prometheus.Counter
	shipErrors  prometheus.Counter
	shipLag     prometheus.Gauge
	unbooked    prometheus.Counter
	sealed      prometheus.Gauge
	sealErrors  prometheus.Counter
	pruned      prometheus.Counter
	pruneErrors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_audit_" + name, Help: help})
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_audit_" + name, Help: help})
		reg.MustRegister(g)
		return g
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sluice_audit_" + name, Help: help, Buckets: buckets})
		reg.MustRegister(h)
		return h
	}
	sizes := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_audit_wal_bytes", Help: "Size of the local write-ahead log (log) and of the second one (spool)."}, []string{"device"})
	reg.MustRegister(sizes)
	sizes.WithLabelValues("log")
	return &metrics{
		appended:    counter("records_appended_total", "Records made durable in the local write-ahead log."),
		failures:    counter("commit_failures_total", "Commits of the write-ahead log that failed; their records were refused."),
		fsync:       histogram("fsync_seconds", "Time one fsync of the write-ahead log took.", prometheus.ExponentialBuckets(0.0001, 2, 16)),
		batch:       histogram("commit_records", "Records that shared one fsync.", prometheus.ExponentialBuckets(1, 2, 12)),
		walBytes:    sizes,
		spooled:     counter("records_spooled_total", "Records that only the second directory took."),
		lost:        counter("records_lost_total", "Records that no directory took, of tenants whose mode is best-effort: their answers went out without a record."),
		shipped:     counter("records_shipped_total", "Records moved into the database."),
		shipErrors:  counter("ship_errors_total", "Attempts to move records into the database that failed."),
		shipLag:     gauge("ship_lag_seconds", "Age of the oldest record that is not in the database yet."),
		unbooked:    counter("records_unbooked_total", "Records whose usage could not be booked and wait for reconciliation."),
		sealed:      gauge("sealed_records", "Records under the newest signed checkpoint this replica has seen."),
		sealErrors:  counter("seal_errors_total", "Sealing passes that failed."),
		pruned:      counter("records_pruned_total", "Records that were archived and removed since their time was over."),
		pruneErrors: counter("prune_errors_total", "Prunings that failed; they lose nothing and are tried again."),
	}
}
