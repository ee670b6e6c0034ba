package energy

import "github.com/prometheus/client_golang/prometheus"

// Register has the totals shown as metrics; without meters there are none.
func (a *Account) Register(reg prometheus.Registerer) {
	if !a.metered || reg == nil {
		return
	}
	show := func(name, help string, value func(Totals) float64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return value(a.Totals()) }))
	}
	joules := func(uj int64) float64 { return float64(uj) / 1e6 }
	show("sluice_energy_metered_joules_total", "Energy that the meters told", func(t Totals) float64 { return joules(t.Metered) })
	show("sluice_energy_requests_joules_total", "Energy of requests that have ended", func(t Totals) float64 { return joules(t.Requests) })
	show("sluice_energy_idle_joules_total", "Energy that the machine takes when idle", func(t Totals) float64 { return joules(t.Idle) })
	show("sluice_energy_unattributed_joules_total", "Energy beyond idle that is no request's", func(t Totals) float64 { return joules(t.Unattributed) })
	show("sluice_energy_missing_seconds_total", "Time in which a meter could not be read", func(t Totals) float64 { return t.Missing.Seconds() })
}
