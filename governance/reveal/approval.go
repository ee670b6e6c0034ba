package reveal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	approvalTime = time.Hour            // for which an approval can be given and used
	listTime     = 7 * 24 * time.Hour   // for which it is listed
	storeTime    = 180 * 24 * time.Hour // for which it is stored
	maxWaiting   = 20                   // of one person
	maxList      = 200
)

// Approval is the permission of a second person to see many values once. It says how many of which class, and never which.
type Approval struct {
	ID, Tenant string
	Target     string // digest
	Purpose    string
	Counts     map[string]int // see [Result.Counts]
	AskedBy    string         // id
	AskedName  string
	Created    time.Time
	Expires    time.Time

	ApprovedBy   string // "" while it waits
	ApprovedName string
	Approved     time.Time
	Used         time.Time // zero until then
}

// binding is what an approval is good for: these pseudonyms of this target for this purpose, asked for by this person.
func (s *Service) binding(ask Ask, p *prepared) string {
	var codes []string
	for _, v := range p.values {
		if v.Show == ShowClear {
			codes = append(codes, v.Code)
		}
	}
	slices.Sort(codes)
	return s.digest(ask.Target.Tenant, s.vault.Digest(ask.Target), ask.Who.ID, ask.Purpose, strings.Join(codes, " "))
}

// Request asks for an approval of what [Service.Reveal] with the same request needs one for; it is good for an hour. Errors: as of Reveal,
// CodeConflict if no approval is needed or too many of this person wait.
func (s *Service) Request(ctx context.Context, ask Ask) (Approval, error) {
	p, err := s.prepare(ctx, &ask)
	if err != nil {
		return Approval{}, err
	}
	if p.clear == 0 {
		return Approval{}, fault.New(fault.CodeConflict, fault.Say("nothing would be shown in full", "没有原值会完整显示"))
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Approval{}, fmt.Errorf("ask for an approval: %w", err)
	}
	now := s.now().Truncate(time.Microsecond).UTC()
	a := Approval{
		ID: id.String(), Tenant: ask.Target.Tenant, Target: s.vault.Digest(ask.Target), Purpose: ask.Purpose, Counts: Result{Values: p.values}.Counts(),
		AskedBy: ask.Who.ID, AskedName: ask.Who.Name, Created: now, Expires: now.Add(approvalTime),
	}
	return a, s.store.addApproval(ctx, a, s.use(ask, p), now)
}

// Approve gives an approval that somebody else asked for. Errors: CodeNotFound; CodeNotAllowed for the asker; CodeReauthenticate; CodeConflict
// if it was given before or its time is over; CodeDatabaseUnavailable.
func (s *Service) Approve(ctx context.Context, tenant, id string, who identity.Principal) (Approval, error) {
	if err := s.fresh(who); err != nil {
		return Approval{}, err
	}
	return s.store.approve(ctx, tenant, id, who, s.now().Truncate(time.Microsecond).UTC())
}

// Approvals returns those of a tenant of the last days, newest first; at most 200.
func (s *Service) Approvals(ctx context.Context, tenant string) ([]Approval, error) {
	return s.store.approvals(ctx, tenant, s.now().Add(-listTime))
}
