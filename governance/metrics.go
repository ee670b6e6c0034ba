package governance

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	findings *prometheus.CounterVec
	failures prometheus.Counter
	unknown  prometheus.Counter

	hits          *prometheus.CounterVec
	libraryIssued *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	f := promauto.With(reg)
	return &metrics{
		findings: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_governance_values_total", Help: "Sensitive values found, by direction, class and what was done.",
		}, []string{"direction", "class", "action"}),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_governance_policy_refresh_failures_total", Help: "Failed attempts to refresh the policies in force.",
		}),
		unknown: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_governance_unknown_pseudonyms_total", Help: "Pseudonyms in answers that stand for no value of the request.",
		}),
		hits: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_governance_safety_hits_total", Help: "Matches of rules of content safety, by direction, risk and what was done.",
		}, []string{"direction", "risk", "action"}),
		libraryIssued: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_governance_safety_library_issued_timestamp_seconds", Help: "Day on which a rule library that a policy uses was issued.",
		}, []string{"library"}),
	}
}
