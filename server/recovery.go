package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/server/keysource"
)

// actionRecovered is that of the record that somebody has made the master key out of a recovery copy.
const actionRecovered = "keys.recover"

// recordRecovery moves the note of a recovery to the audit log. Without a record nothing is served, and the note stays.
func (p *parts) recordRecovery(ctx context.Context) error {
	custodian := keysource.New(p.cfg.KeySource)
	r, found, err := custodian.Recovery()
	if err != nil || !found {
		return err
	}
	detail := map[string]string{}
	if !r.At.IsZero() {
		detail["at"] = r.At.Format(time.RFC3339)
	}
	receipt, err := p.audit.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: operatorTenant, Actor: audit.Actor{Kind: "system", ID: "command", Name: r.By}, Action: actionRecovered,
		Detail: detail, Decision: "allow", Outcome: "ok",
	})
	if err == nil && receipt.Seq == 0 {
		err = errors.New("the record was lost")
	}
	if err != nil {
		return fmt.Errorf("record that the master key was recovered: %w", err)
	}
	return custodian.Recorded()
}
