// Package approval lets a second person permit one act of somebody else, once, within an hour, or within a day if it is an act of management.
//
// The requester binds the approval to the act by a digest, and its user states the digest again. The requester cannot approve, nor can an
// account that created the requester's or was created by it, nor one that the requester gave its roles within the last [GrantSpan]. The approver must have signed in recently. The transaction of the act spends the
// approval, so both happen or neither. An approval can be declined, with a reason, until it is spent.
//
// The caller checks permissions and writes the audit records.
package approval

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	lifetime   = time.Hour            // for which an approval can be given and used
	actTime    = 24 * time.Hour       // the same, of an act of management: its second person may be asleep
	listTime   = 7 * 24 * time.Hour   // for which it is listed
	storeTime  = 180 * 24 * time.Hour // for which it is stored
	maxWaiting = 20                   // of one person
	maxList    = 200
	maxReason  = 4096 // bytes
)

// GrantSpan is how long whoever gave an account its roles is no independent person to it.
const GrantSpan = 90 * 24 * time.Hour

// Kind is what an approval permits. One kind is never good for another.
type Kind string

// The kinds.
const (
	KindReveal  Kind = "reveal"  // many values at once
	KindErasure Kind = "erasure" // of what a legal hold covers
	KindAct     Kind = "act"     // of management
)

// Approval is the permission of a second person. It holds counts and digests of what it permits, never names or values.
type Approval struct {
	ID, Tenant string
	Kind       Kind
	Target     string // digest
	Purpose    string
	Counts     map[string]int
	Act        string // JSON that the asker and the approver of an act read; "" of other kinds
	AskedBy    string // id
	AskedName  string
	Created    time.Time
	Expires    time.Time

	ApprovedBy   string // "" while it waits
	ApprovedName string
	Approved     time.Time
	Used         time.Time // zero until then

	DeclinedBy   string // "" unless somebody did
	DeclinedName string
	Declined     time.Time
	Reason       string // why it was declined
}

// Store stores approvals. It is safe for concurrent use.
type Store struct {
	store        tables
	maxSignInAge time.Duration
	now          func() time.Time
}

// New returns a store over a migrated database. An approver's sign-in must not be older than fresh.
func New(s Tables, fresh time.Duration, now func() time.Time) *Store {
	return &Store{store: tables(s), maxSignInAge: fresh, now: now}
}

// RequireFreshSignIn refuses whoever signed in too long ago, with CodeReauthenticate, or with CodeStepUp who has a second factor and showed it too
// long ago. A zero time is that.
func (b *Store) RequireFreshSignIn(who identity.Principal) error {
	if age := b.now().Sub(who.ProvedAt()); age <= b.maxSignInAge {
		return nil
	}
	if who.SecondFactor {
		return fault.New(fault.CodeStepUp, b.maxSignInAge.String())
	}
	return fault.New(fault.CodeReauthenticate, b.maxSignInAge.String())
}

func (b *Store) timestamp() time.Time { return b.now().Truncate(time.Microsecond).UTC() }

// New returns a request for an approval; [Store.Ask] stores it.
func (b *Store) New(a Approval) (Approval, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Approval{}, fmt.Errorf("ask for an approval: %w", err)
	}
	a.ID, a.Created = id.String(), b.timestamp()
	a.Expires = a.Created.Add(lifetime)
	if a.Kind == KindAct {
		a.Expires = a.Created.Add(actTime)
	}
	return a, nil
}

// Approve approves a request of somebody else. Errors: CodeNotFound; CodeSecondPerson for the asker, and for an account that
// is not independent of the asker's; CodeReauthenticate and CodeStepUp; CodeConflict
// if it was given or declined before or its time is over; CodeDatabaseUnavailable.
func (b *Store) Approve(ctx context.Context, kind Kind, tenant, id string, who identity.Principal) (Approval, error) {
	if err := b.RequireFreshSignIn(who); err != nil {
		return Approval{}, err
	}
	return b.store.approve(ctx, kind, tenant, id, who, b.timestamp())
}

// Decline declines a request of somebody else with a reason, or withdraws an unspent approval. Errors: CodeMissing and
// CodeInvalidValue for the reason; CodeNotFound; CodeSecondPerson for the asker; CodeConflict if it was used or declined before or its time is
// over; CodeDatabaseUnavailable.
func (b *Store) Decline(ctx context.Context, kind Kind, tenant, id, reason string, who identity.Principal) (Approval, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" {
		return Approval{}, fault.New(fault.CodeMissing, "reason").WithParam("reason")
	}
	if len(reason) > maxReason || !utf8.ValidString(reason) {
		return Approval{}, fault.New(fault.CodeInvalidValue, "reason", fault.Say("value.text_bytes", maxReason)).WithParam("reason")
	}
	return b.store.decline(ctx, kind, tenant, id, reason, who, b.timestamp())
}

// Find returns an approval. Errors: CodeNotFound; CodeDatabaseUnavailable.
func (b *Store) Find(ctx context.Context, kind Kind, tenant, id string) (Approval, error) {
	a, err := find(b.store.db.WithContext(ctx), kind, tenant, id)
	return a, database.Unavailable("look for an approval", err)
}

// Spendable returns an approval that [Store.Spend] would take now. Errors: as of Spend.
func (b *Store) Spendable(ctx context.Context, kind Kind, id, digest string) (Approval, error) {
	return b.store.spendable(ctx, kind, id, digest, b.timestamp())
}

// EveryTenant asks a list for the approvals of all tenants, those of acts in all tenants included.
const EveryTenant = ""

// List returns the approvals of a kind and tenant of the last 7 days, newest first; at most 200.
func (b *Store) List(ctx context.Context, kind Kind, tenant string) ([]Approval, error) {
	return b.store.list(ctx, kind, tenant, b.now().Add(-listTime))
}
