package retention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// maxHoldText bounds what a hold says.
const maxHoldText = 1024

// Keeper are the holds of one database, and who is bound by them.
type Keeper struct {
	db      *gorm.DB
	now     func() time.Time
	Subject subjects
}

// NewKeeper returns the holds of a database. subject says who stands for a person in records, as audit.Subject does.
func NewKeeper(db *gorm.DB, now func() time.Time, subject func(tenant, who string) string) *Keeper {
	return &Keeper{db: db, now: now, Subject: subject}
}

// HoldRow is a row of audit_holds.
type HoldRow struct {
	ID         string
	Tenant     string
	Request    string
	Actor      string
	Subject    string
	Since      int64
	Before     int64
	Reason     string
	Created    int64
	CreatedBy  string
	Released   int64
	ReleasedBy string
	Releaser   string
}

// TableName implements gorm's Tabler.
func (HoldRow) TableName() string { return "audit_holds" }

func (r HoldRow) hold() Hold {
	return Hold{r.ID, r.Tenant, r.Request, r.Actor, r.Subject, r.Since, r.Before, r.Reason, r.Created, r.CreatedBy, r.Released, r.ReleasedBy, r.Releaser}
}

// Hold keeps the records that h selects from being pruned, and what is kept beside them from being erased, from now on; it fills ID and Created.
// A pruning or an erasure in progress notices it. The caller
// records who holds, and why, first. Errors: CodeInvalidValue for a hold without a reason or without a selection.
func (x *Keeper) Hold(ctx context.Context, h Hold) (Hold, error) {
	refuse := func(param string, why fault.Phrase) (Hold, error) {
		return Hold{}, fault.New(fault.CodeInvalidValue, param, why).WithParam(param)
	}
	for param, text := range map[string]*string{"tenant": &h.Tenant, "request": &h.Request, "actor": &h.Actor, "reason": &h.Reason} {
		if len(*text) > maxHoldText || !utf8.ValidString(*text) {
			return refuse(param, fault.Say("value.text_bytes", maxHoldText))
		}
		*text = database.Text(*text)
	}
	if h.Reason = strings.TrimSpace(h.Reason); h.Reason == "" {
		return refuse("reason", fault.Say("audit.hold_reason"))
	}
	if h.Tenant == "" && h.Request == "" && h.Actor == "" && h.Subject == "" && h.From == 0 && h.To == 0 {
		return refuse("tenant", fault.Say("audit.hold_selection"))
	}
	if h.Subject != "" && (h.Tenant == "" || !digestPattern(h.Subject)) {
		return refuse("subject", fault.Say("audit.hold_subject"))
	}
	if h.From < 0 || h.To != 0 && h.To <= h.From {
		return refuse("to", fault.Say("value.end_before_start"))
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Hold{}, fmt.Errorf("hold audit records: %w", err)
	}
	row := HoldRow{
		ID: id.String(), Tenant: h.Tenant, Request: h.Request, Actor: h.Actor, Subject: h.Subject, Since: h.From, Before: h.To, Reason: h.Reason,
		Created: x.now().UnixMicro(), CreatedBy: database.Text(h.CreatedBy),
	}
	err = x.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockPruning(tx); err != nil {
			return err
		}
		return tx.Create(&row).Error
	})
	if err != nil {
		return Hold{}, fault.Wrap(fmt.Errorf("hold audit records: %w", err), fault.CodeDatabaseUnavailable)
	}
	return row.hold(), nil
}

// digestPattern reports whether s looks like what audit.Subject returns.
func digestPattern(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == hex.EncodeToString(b)
}

// ReleaseHold ends a hold; what it kept goes at the next pruning, unless something else keeps it. Errors: CodeNotFound if the tenant has no
// such hold ("" is any tenant), CodeConflict if it was released before. The caller records who releases, and why, first. Whoever releases a hold is
// bound by it for another day, and everybody is by one that was released by no account, since nobody can tell who that was: see [Keeper.Covering].
func (x *Keeper) ReleaseHold(ctx context.Context, tenant, id string, by record.Actor) (Hold, error) {
	var out Hold
	err := x.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockPruning(tx); err != nil {
			return fault.Wrap(err, fault.CodeDatabaseUnavailable)
		}
		rows, err := readHolds(tx.Where("id = ?", database.Text(id)))
		if err != nil {
			return err
		}
		if len(rows) == 0 || tenant != "" && rows[0].Tenant != database.Text(tenant) {
			return fault.New(fault.CodeNotFound, fault.Say("thing.hold"), id)
		}
		if out = rows[0]; out.Released != 0 {
			return fault.New(fault.CodeConflict, fault.Say("audit.hold_released"))
		}
		out.Released, out.ReleasedBy = x.now().UnixMicro(), database.Text(by.Name)
		if by.Kind == "user" {
			out.Releaser = by.ID
		}
		change := map[string]any{"released": out.Released, "released_by": out.ReleasedBy, "releaser": out.Releaser}
		err = tx.Model(&HoldRow{}).Where("id = ?", out.ID).Updates(change).Error
		if err != nil {
			return fault.Wrap(err, fault.CodeDatabaseUnavailable)
		}
		return nil
	})
	if err != nil {
		return Hold{}, fmt.Errorf("release hold: %w", err)
	}
	return out, nil
}

// HoldTenant returns the tenant of a hold; "" if it is of all tenants, or is not there.
func (x *Keeper) HoldTenant(ctx context.Context, id string) (string, error) {
	rows, err := readHolds(x.db.WithContext(ctx).Where("id = ?", database.Text(id)))
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0].Tenant, nil
}

// MaxHolds bounds a list of holds.
const MaxHolds = 1000

// Holds returns the holds of a tenant ("" is all tenants), newest first, those that were released too; at most 1000.
func (x *Keeper) Holds(ctx context.Context, tenant string) ([]Hold, error) {
	db := x.db.WithContext(ctx).Order("created DESC, id DESC").Limit(MaxHolds)
	if tenant != "" {
		db = db.Where("tenant = ?", database.Text(tenant))
	}
	return readHolds(db)
}

func readHolds(db *gorm.DB) ([]Hold, error) {
	var rows []HoldRow
	err := db.Select("id", "tenant", "request", "actor", "subject", "since", "before", "reason", "created", "created_by", "released", "released_by", "releaser").Find(&rows).Error
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("read holds: %w", err), fault.CodeDatabaseUnavailable)
	}
	out := make([]Hold, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.hold())
	}
	return out, nil
}

// activeHolds are those that hold now.
func activeHolds(db *gorm.DB) ([]Hold, error) { return readHolds(db.Where("released = 0").Order("id")) }

// bindingHolds are those that bind somebody who would erase what is of a tenant: the active ones, and those that he has released himself lately, or
// somebody of whom nobody knows who he is.
func bindingHolds(db *gorm.DB, tenant, by string, now int64) ([]Hold, error) {
	db = db.Where("tenant = ? OR tenant = ''", database.Text(tenant))
	return readHolds(db.Where("released = 0 OR releaser IN (?, '') AND released > ?", by, now-releaserBound).Order("id"))
}

// SpanTenants reports whether any of these holds is not of a single tenant.
func (x *Keeper) SpanTenants(ctx context.Context, ids []string) (bool, error) {
	var n int64
	err := x.db.WithContext(ctx).Model(&HoldRow{}).Where("id IN ? AND tenant = ''", ids).Count(&n).Error
	if err != nil {
		return false, fault.Wrap(fmt.Errorf("read holds: %w", err), fault.CodeDatabaseUnavailable)
	}
	return n > 0, nil
}

func sameHolds(a, b []Hold) bool {
	return slices.EqualFunc(a, b, func(x, y Hold) bool { return x.ID == y.ID })
}
