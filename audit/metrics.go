package audit

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit/wal"
)

type metrics struct {
	wal         *wal.Metrics
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
	return &metrics{
		wal:         wal.NewMetrics(reg),
		spooled:     counter("records_spooled_total", "Records that only the second directory took."),
		lost:        counter("records_lost_total", "Records that no directory took, of tenants whose mode is best-effort: their answers went out without a record."),
		shipped:     counter("records_shipped_total", "Records moved into the database."),
		shipErrors:  counter("ship_errors_total", "Attempts to move records into the database that failed."),
		shipLag:     gauge("ship_lag_seconds", "Age of the oldest record that is not in the database yet."),
		unbooked:    counter("records_unbooked_total", "Records whose usage could not be billed and wait for reconciliation."),
		sealed:      gauge("sealed_records", "Records under the newest signed checkpoint this replica has seen."),
		sealErrors:  counter("seal_errors_total", "Sealing passes that failed."),
		pruned:      counter("records_pruned_total", "Records that were archived and removed since their time was over."),
		pruneErrors: counter("prune_errors_total", "Prunings that failed; they lose nothing and are tried again."),
	}
}
