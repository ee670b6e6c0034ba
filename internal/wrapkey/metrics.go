package wrapkey

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	epoch            prometheus.Gauge
	left, unreadable *prometheus.GaugeVec
	done             *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, kinds []Kind) *metrics {
	m := &metrics{
		epoch: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_keyring_epoch", Help: "Number of the active wrapping key; 0 is the one derived from the master key.",
		}),
		left: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_keyring_left", Help: "Rows that are still wrapped under an older wrapping key.",
		}, []string{"kind"}),
		unreadable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_keyring_unreadable", Help: "Rows that the last rotation could not open; they keep their wrapping key from being destroyed.",
		}, []string{"kind"}),
		done: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_keyring_rewrapped_total", Help: "Rows that rotations re-wrapped on this replica.",
		}, []string{"kind"}),
	}
	if reg != nil {
		reg.MustRegister(m.epoch, m.left, m.unreadable, m.done)
	}
	for _, k := range kinds {
		m.left.WithLabelValues(k.Name())
		m.unreadable.WithLabelValues(k.Name())
		m.done.WithLabelValues(k.Name())
	}
	return m
}

func (m *metrics) set(s Status) {
	m.epoch.Set(float64(s.Active))
	for _, p := range s.Kinds {
		m.left.WithLabelValues(p.Kind).Set(float64(p.Left))
		m.unreadable.WithLabelValues(p.Kind).Set(float64(p.Unreadable))
	}
}
