package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Tables are the database tables of a store.
type Tables struct{ db *gorm.DB }

// NewTables returns the tables of a migrated database.
func NewTables(db *gorm.DB) Tables { return Tables{db} }

type tables Tables

type approvalRow struct {
	ID            string
	Tenant        string
	Digest        string
	Target        string
	Purpose       string
	Counts        string
	Act           string
	AskedBy       string
	AskedName     string
	Created       int64
	Expires       int64
	ApprovedBy    string
	ApprovedName  string
	Approved      int64
	Used          int64
	DeclinedBy    string
	DeclinedName  string
	Declined      int64
	DeclineReason string
}

// of is where approvals of a kind are. Each has a table of its own, so that a replica of a release that knows fewer kinds decides about none of the
// others.
func of(db *gorm.DB, kind Kind) *gorm.DB {
	switch kind {
	case KindErasure:
		return db.Table("erasure_approvals")
	case KindAct:
		return db.Table("act_approvals")
	case KindReveal:
	}
	return db.Table("reveal_approvals")
}

// Ask stores a request that [Store.New] made, for what digest says. Error: CodeConflict if too many of this person wait.
func (b *Store) Ask(tx *gorm.DB, a Approval, digest string) error {
	counts, err := json.Marshal(a.Counts)
	if err != nil {
		return fmt.Errorf("ask for an approval: %w", err)
	}
	if err := of(tx, a.Kind).Where("created <= ?", a.Created.Add(-storeTime).UnixMicro()).Delete(&approvalRow{}).Error; err != nil {
		return err
	}
	var waiting int64
	err = of(tx, a.Kind).Where("asked_by = ? AND approved = 0 AND declined = 0 AND expires > ?", a.AskedBy, a.Created.UnixMicro()).Count(&waiting).Error
	if err != nil {
		return err
	}
	if waiting >= maxWaiting {
		return fault.New(fault.CodeConflict, fault.Say("approval.too_many_pending", waiting))
	}
	return of(tx, a.Kind).Create(&approvalRow{
		ID: a.ID, Tenant: a.Tenant, Digest: digest, Target: a.Target, Purpose: a.Purpose, Counts: string(counts), Act: a.Act, AskedBy: a.AskedBy,
		AskedName: a.AskedName, Created: a.Created.UnixMicro(), Expires: a.Expires.UnixMicro(),
	}).Error
}

// AskNow is Ask in a transaction of its own.
func (b *Store) AskNow(ctx context.Context, a Approval, digest string) error {
	err := b.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return b.Ask(tx, a, digest) })
	return database.Unavailable("ask for an approval", err)
}

// usable are the approvals that can be used for what digest says.
func usable(db *gorm.DB, kind Kind, id, digest string, now time.Time) *gorm.DB {
	return of(db, kind).
		Where("id = ? AND digest = ? AND approved > 0 AND used = 0 AND declined = 0 AND expires > ?", id, digest, now.UnixMicro())
}

// Spend uses an approval up, in the transaction of what it permits. Error: CodeConflict, which says why it is not good for this.
func (b *Store) Spend(tx *gorm.DB, kind Kind, id, digest string) error {
	now := b.now()
	res := usable(tx, kind, id, digest, now).Update("used", now.UnixMicro())
	if res.Error != nil || res.RowsAffected > 0 {
		return res.Error
	}
	return unusable(tx, kind, id, digest, now)
}

// SpendNow is Spend in a transaction of its own, for an act whose own transaction cannot be joined: it comes first, so that an approval never
// permits two acts.
func (b *Store) SpendNow(ctx context.Context, kind Kind, id, digest string) (Approval, error) {
	a, err := b.Spendable(ctx, kind, id, digest)
	if err != nil {
		return Approval{}, err
	}
	err = b.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return b.Spend(tx, kind, id, digest) })
	return a, database.Unavailable("use an approval", err)
}

// Restore makes an approval usable again whose act was refused, and so changed nothing.
func (b *Store) Restore(ctx context.Context, kind Kind, id string) error {
	return database.Unavailable("give back an approval", of(b.store.db.WithContext(ctx), kind).Where("id = ? AND declined = 0", id).Update("used", 0).Error)
}

// unusable says why an approval cannot be used.
func unusable(db *gorm.DB, kind Kind, id, digest string, now time.Time) error {
	var rows []approvalRow
	if err := of(db, kind).Select("digest", "approved", "used", "expires", "declined", "declined_name", "decline_reason").Where("id = ?", id).Find(&rows).Error; err != nil {
		return err
	}
	why := fault.Say("approval.other_purpose")
	switch {
	case len(rows) == 0 || rows[0].Digest != digest:
	case rows[0].Declined > 0:
		why = declined(rows[0].DeclinedName, rows[0].DeclineReason)
	case rows[0].Used > 0:
		why = fault.Say("approval.used")
	case rows[0].Expires <= now.UnixMicro():
		why = fault.Say("approval.expired")
	case rows[0].Approved == 0:
		why = fault.Say("approval.pending")
	}
	return fault.New(fault.CodeConflict, why).WithParam("approval")
}

func declined(by, reason string) fault.Phrase {
	return fault.Say("approval.declined", by, reason)
}

func (s tables) spendable(ctx context.Context, kind Kind, id, digest string, now time.Time) (out Approval, err error) {
	db := s.db.WithContext(ctx)
	rows, err := read(usable(db, kind, id, digest, now), kind)
	if err == nil && len(rows) == 0 {
		err = unusable(db, kind, id, digest, now)
	}
	if err != nil {
		return Approval{}, database.Unavailable("look for an approval", err)
	}
	return rows[0], nil
}

func (s tables) approve(ctx context.Context, kind Kind, tenant, id string, who identity.Principal, now time.Time) (Approval, error) {
	return s.settle(ctx, kind, tenant, id, who, now, "approve", func(tx *gorm.DB, a *Approval) (bool, error) {
		if err := Independent(tx.Session(&gorm.Session{NewDB: true}), a.AskedBy, who.ID, now); err != nil {
			return false, err
		}
		if !a.Approved.IsZero() {
			return false, fault.New(fault.CodeConflict, fault.Say("approval.approved_before"))
		}
		res := tx.Where("approved = 0").Updates(map[string]any{"approved": now.UnixMicro(), "approved_by": who.ID, "approved_name": who.Name})
		a.Approved, a.ApprovedBy, a.ApprovedName = now, who.ID, who.Name
		return res.RowsAffected > 0, res.Error
	})
}

// Independent refuses, with CodeSecondPerson, accounts of which one created the other: whoever did may have both. Two that a third one created are apart. It refuses an
// approver, too, whom the asker gave roles not long ago: nobody makes himself a second person.
func Independent(db *gorm.DB, asker, approver string, now time.Time) error {
	for of, maker := range map[string]string{asker: approver, approver: asker} {
		by, err := identity.Creator(db, of)
		if err != nil {
			return err
		}
		if by == maker {
			return fault.New(fault.CodeSecondPerson)
		}
	}
	granted, err := identity.Granted(db, approver, asker, now.Add(-GrantSpan))
	if err == nil && granted {
		err = fault.New(fault.CodeSecondPerson)
	}
	return err
}

// decline ends the time of an approval, too: the release before knows no other way to tell that it is good for nothing.
func (s tables) decline(ctx context.Context, kind Kind, tenant, id, reason string, who identity.Principal, now time.Time) (Approval, error) {
	return s.settle(ctx, kind, tenant, id, who, now, "decline", func(tx *gorm.DB, a *Approval) (bool, error) {
		res := tx.Where("used = 0").Updates(map[string]any{
			"declined": now.UnixMicro(), "declined_by": who.ID, "declined_name": who.Name, "decline_reason": reason, "expires": now.UnixMicro(),
		})
		a.Declined, a.DeclinedBy, a.DeclinedName, a.Reason, a.Expires = now, who.ID, who.Name, reason, now
		return res.RowsAffected > 0, res.Error
	})
}

// settle lets somebody else than the asker do something with an approval that still can be used. do says whether it could.
func (s tables) settle(ctx context.Context, kind Kind, tenant, id string, who identity.Principal, now time.Time, step string,
	do func(tx *gorm.DB, a *Approval) (bool, error),
) (out Approval, err error) {
	refuse := func(why fault.Phrase) error { return fault.New(fault.CodeConflict, why) }
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if out, err = find(tx, kind, tenant, id); err != nil {
			return err
		}
		switch {
		case out.AskedBy == who.ID:
			return fault.New(fault.CodeSecondPerson)
		case !out.Declined.IsZero():
			return refuse(declined(out.DeclinedName, out.Reason))
		case !out.Used.IsZero():
			return refuse(fault.Say("approval.request_used"))
		case !out.Expires.After(now):
			return refuse(fault.Say("approval.request_expired"))
		}
		done, err := do(of(tx, kind).Where("id = ? AND declined = 0", id), &out)
		if err == nil && !done {
			err = refuse(fault.Say("approval.decided_before"))
		}
		return err
	})
	if err != nil {
		return Approval{}, database.Unavailable(step, err)
	}
	return out, nil
}

func find(db *gorm.DB, kind Kind, tenant, id string) (Approval, error) {
	rows, err := read(of(db, kind).Where("id = ? AND tenant = ?", id, tenant), kind)
	if err == nil && len(rows) == 0 {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.approval"), id)
	}
	if err != nil {
		return Approval{}, err
	}
	return rows[0], nil
}

func (s tables) list(ctx context.Context, kind Kind, tenant string, since time.Time) ([]Approval, error) {
	q := of(s.db.WithContext(ctx), kind).Where("created > ?", since.UnixMicro())
	if tenant != EveryTenant {
		q = q.Where("tenant = ?", tenant)
	}
	out, err := read(q.
		Order("created DESC, id DESC").Limit(maxList), kind)
	return out, database.Unavailable("list approvals", err)
}

func read(db *gorm.DB, kind Kind) ([]Approval, error) {
	var rows []approvalRow
	err := db.Select("id", "tenant", "target", "purpose", "counts", "act", "asked_by", "asked_name", "created", "expires", "approved_by", "approved_name",
		"approved", "used", "declined", "declined_by", "declined_name", "decline_reason").Find(&rows).Error
	if err != nil {
		return nil, err
	}
	out := make([]Approval, 0, len(rows))
	for _, r := range rows {
		a := Approval{
			ID: r.ID, Tenant: r.Tenant, Kind: kind, Target: r.Target, Purpose: r.Purpose, Act: r.Act, AskedBy: r.AskedBy, AskedName: r.AskedName,
			Created: timestamp(r.Created), Expires: timestamp(r.Expires), ApprovedBy: r.ApprovedBy, ApprovedName: r.ApprovedName, Approved: timestamp(r.Approved),
			Used: timestamp(r.Used), DeclinedBy: r.DeclinedBy, DeclinedName: r.DeclinedName, Declined: timestamp(r.Declined), Reason: r.DeclineReason,
		}
		if err := json.Unmarshal([]byte(r.Counts), &a.Counts); err != nil {
			return nil, fmt.Errorf("read approval %s: %w", r.ID, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// timestamp is a stored time; 0 is none.
func timestamp(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
