package server

import (
	"context"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/accessreview"
)

// recordEnd writes to the audit log that an entry of a review of access ends without a request, or that it cannot be ended.
func (p *parts) recordEnd(ctx context.Context, c accessreview.Campaign, i accessreview.Item) error {
	e := audit.Event{
		Stage: audit.StageAction, Tenant: c.Tenant, Actor: audit.Actor{Kind: "system", ID: "access-review"}, Action: "access.lapse", Resource: i.ID,
		Decision: "allow", Outcome: "ok", Detail: map[string]string{"review": c.ID, "kind": string(i.Kind), "owner": c.Owner},
	}
	if i.Decision == accessreview.Ended { // a request that broke off has decided so
		e.Action, e.Detail["decided_by"] = "access.end", i.By
	}
	if i.Failure != "" {
		e.Outcome, e.ErrorCode = "failed", string(i.Failure)
	}
	_, err := p.audit.Append(ctx, e)
	return err
}
