package reveal

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sluice-project/sluice/internal/fault"
)

type metrics struct {
	values   *prometheus.CounterVec
	refusals *prometheus.CounterVec
	sweeps   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	f := promauto.With(reg)
	m := &metrics{
		values: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_governance_reveal_values_total", Help: "Pseudonyms that people asked for, by what they were shown.",
		}, []string{"shown"}),
		refusals: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_governance_reveal_refusals_total", Help: "Requests to see values that were refused, by error code.",
		}, []string{"code"}),
		sweeps: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_governance_reveal_sweeps_total", Help: "Requests that made it unusually many conversations that one person looked at within an hour.",
		}),
	}
	for _, s := range []Visibility{VisibleToken, VisiblePartial, VisibleClear, VisibleUnknown} {
		m.values.WithLabelValues(string(s))
	}
	for _, c := range []fault.Code{fault.CodeReauthenticate, fault.CodeApprovalNeeded, fault.CodeRevealLimited} {
		m.refusals.WithLabelValues(string(c))
	}
	return m
}
