package billing

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/internal/fault"
)

type metrics struct {
	reservations  *prometheus.CounterVec
	usage         *prometheus.CounterVec
	open          prometheus.Gauge
	leases        prometheus.Counter
	leaseFailures prometheus.Counter
	lost          prometheus.Counter
	overdrawn     prometheus.Counter
	abandoned     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vec := func(name, label, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		reservations: vec("sluice_billing_reservations_total", "outcome", "Reservations by outcome: granted, refused, failed."),
		usage:        vec("sluice_billing_usage_records_total", "result", "Usage records by result: new, replay, conflict, failed; counted before the commit."),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_billing_open_reservations", Help: "Reservations that are open, or settled and not known to be recorded.",
		}),
		leases:        counter("sluice_billing_leases_total", "Budget leases taken from the database."),
		leaseFailures: counter("sluice_billing_lease_failures_total", "Attempts to lease that failed for other reasons than a spent budget."),
		lost:          counter("sluice_billing_leases_lost_total", "Leases that expired because they could not be renewed in time."),
		overdrawn:     counter("sluice_billing_overdrawn_total", "Requests that cost more than was reserved for them."),
		abandoned:     counter("sluice_billing_reservations_abandoned_total", "Reservations given up because nobody settled or recorded them."),
	}
	for _, c := range []prometheus.Collector{
		m.reservations, m.usage, m.open, m.leases, m.leaseFailures, m.lost, m.overdrawn, m.abandoned,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) reserved(err error) {
	outcome := "granted"
	switch {
	case err != nil && fault.KindOf(err) == fault.Quota:
		outcome = "refused"
	case err != nil:
		outcome = "failed"
	}
	m.reservations.WithLabelValues(outcome).Inc()
}
