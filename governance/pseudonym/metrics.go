package pseudonym

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sluice-project/sluice/internal/fault"
)

type metrics struct {
	values   *prometheus.CounterVec
	refusals *prometheus.CounterVec
	removed  *prometheus.CounterVec
	commits  prometheus.Histogram
	failures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	f := promauto.With(reg)
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := f.NewCounterVec(prometheus.CounterOpts{Name: "sluice_governance_vault_" + name, Help: help}, []string{label})
		for _, v := range values {
			c.WithLabelValues(v)
		}
		return c
	}
	return &metrics{
		values: counters("values_total", "Values of pseudonyms that were to be kept: newly stored, or known to be stored.", "result", "stored", "known"),
		refusals: counters("refusals_total", "Calls of the pseudonym store that failed, and with them their requests.", "code",
			string(fault.CodeVaultFull), string(fault.CodeVaultUnavailable)),
		removed: counters("removed_total", "Values that were removed: past their time, or erased.", "reason", "expired", "erased"),
		commits: f.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_governance_vault_commit_seconds", Help: "Time that storing the values of waiting requests took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_governance_vault_sweep_failures_total", Help: "Sweeps that failed; what is past its time is not shown, and goes at the next.",
		}),
	}
}
