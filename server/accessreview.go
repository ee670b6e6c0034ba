package server

import (
	"context"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/accessreview"
)

// recordLapse writes to the audit log that an entry of a review of access lapses, before anything ends.
func (p *parts) recordLapse(ctx context.Context, c accessreview.Campaign, i accessreview.Item) error {
	_, err := p.audit.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: c.Tenant, Actor: audit.Actor{Kind: "system", ID: "access-review"}, Action: "access.lapse", Resource: i.ID,
		Decision: "allow", Outcome: "ok", Detail: map[string]string{"review": c.ID, "kind": string(i.Kind), "owner": c.Owner},
	})
	return err
}
