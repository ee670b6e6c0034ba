package server

import (
	"time"

	"github.com/sluice-project/sluice/server/sla"
)

// serviceLevel returns what counts requests against the objectives. Commands count, too: they store records. Nothing may run beside the first call.
func (p *parts) serviceLevel() *sla.Service {
	if p.sla == nil {
		zone, err := time.LoadLocation(p.cfg.Billing.Zone) // "" is UTC
		if err != nil {
			zone = time.UTC // which Validate has refused
		}
		p.sla = sla.New(p.cfg.SLA, p.db, zone, p.log)
	}
	return p.sla
}
