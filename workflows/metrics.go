package workflows

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	transitions *prometheus.CounterVec
	verdicts    *prometheus.CounterVec
	connected   prometheus.Gauge
	concurrency prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_workflows_transitions_total", Help: "Transitions of rollouts performed, by the phase entered.",
		}, []string{"phase"}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_workflows_verdicts_total", Help: "Verdicts on the evidence of rollouts, by outcome.",
		}, []string{"outcome"}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_workflows_connected", Help: "1 while the worker of this process is connected to Temporal.",
		}),
		concurrency: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_workflows_engine_concurrency", Help: "Concurrency that the capacity plan applied to the engine of this process.",
		}),
	}
	reg.MustRegister(m.transitions, m.verdicts, m.connected, m.concurrency)
	return m
}

// shareOf returns the share in the name of a step, 0 for the baseline.
func shareOf(stage string) int {
	_, share, _ := strings.Cut(stage, "-")
	n, _ := strconv.Atoi(share) // no number, no share
	return n
}

// phaseOf strips the share from the name of a step, so that the label has few values.
func phaseOf(stage string) string {
	phase, _, _ := strings.Cut(stage, "-")
	return phase
}
