package gateway

import (
	"context"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/identity"
)

// Act lets a caller do something that asks no engine, such as storing a file. The call is authorized again and counts against the limits; it is recorded
// before it is done, and again with how it ended. It has the time of a request. On refusal the error is a *Refusal, and do was not called or has failed.
func (p *Pipeline) Act(ctx context.Context, c *Call, do func(ctx context.Context, who identity.Principal) error) error {
	r := p.newRun(c, route.Embed)
	err := r.runSteps(ctx, authorize, takeSlot)
	receipt := ""
	if err == nil {
		err = r.refuseSigning()
	}
	if err == nil {
		receipt, err = r.recordAct(ctx)
	}
	if err != nil {
		return r.refuse(ctx, err)
	}
	defer r.finish(ctx, ending{}) // of a panic; where the outcome stands already it changes nothing
	bounded, stop := r.withTotalTimeout(ctx)
	defer stop()
	if err := do(bounded, r.caller.Principal); err != nil {
		err = r.failed(ctx, bounded, err)
		r.finish(ctx, endingOf(err))
		return &Refusal{Receipt: receipt, Rate: r.rate(), err: err}
	}
	r.finish(ctx, ending{outcome: outcomeOK})
	return nil
}

// recordAct writes the record that the act is let through, and returns its id.
func (r *run) recordAct(ctx context.Context) (receipt string, err error) {
	e := r.event(audit.StageAdmitted, nil)
	e.Decision = decisionAllow
	got, err := r.p.deps.Audit.AppendWith(ctx, e, "")
	if err != nil {
		return "", auditUnavailable(err)
	}
	if got.Kept() {
		receipt = got.ID
	}
	return receipt, nil
}

// Look is Act for what changes nothing and shows no content: it is not recorded, unless it is refused.
func (p *Pipeline) Look(ctx context.Context, c *Call, do func(ctx context.Context, who identity.Principal) error) error {
	r := p.newRun(c, route.Embed)
	err := r.runSteps(ctx, authorize, takeSlot)
	if err == nil {
		err = r.refuseSigning()
	}
	if err != nil {
		return r.refuse(ctx, err)
	}
	defer r.slot.ticket.Release(context.WithoutCancel(ctx), 0)
	return do(ctx, r.caller.Principal)
}
