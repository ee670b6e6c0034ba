package agreement

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type row struct {
	ID, Tenant, Project, KeyID             string
	Recipient, Contact, Reference, Purpose string
	Text, Digest                           string
	ValidFrom, ValidUntil                  int64
	AskedAt                                int64 `gorm:"autoCreateTime:false"`
	AskedBy, AskedName                     string
	ApprovedAt                             int64
	ApprovedBy, ApprovedName               string
	RevokedAt                              int64
	RevokedBy, RevokedName, RevokeReason   string
}

func (row) TableName() string { return "label_agreements" }

func columns() []string {
	return []string{
		"id", "tenant", "project", "key_id", "recipient", "contact", "reference", "purpose", "text", "digest", "valid_from", "valid_until", "asked_at", "asked_by", "asked_name",
		"approved_at", "approved_by", "approved_name", "revoked_at", "revoked_by", "revoked_name", "revoke_reason",
	}
}

func (r row) public() Agreement {
	return Agreement{
		ID: r.ID, Tenant: r.Tenant, Project: r.Project, Key: r.KeyID, Recipient: r.Recipient, Contact: r.Contact, Reference: r.Reference, Purpose: r.Purpose,
		Text: r.Text, Digest: r.Digest, From: at(r.ValidFrom), Until: at(r.ValidUntil), AskedBy: r.AskedBy, AskedName: r.AskedName, Asked: at(r.AskedAt),
		ApprovedBy: r.ApprovedBy, ApprovedName: r.ApprovedName, Approved: at(r.ApprovedAt),
		RevokedBy: r.RevokedBy, RevokedName: r.RevokedName, Revoked: at(r.RevokedAt), Reason: r.RevokeReason,
	}
}

func at(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

func public(rows []row) []Agreement {
	out := make([]Agreement, len(rows))
	for i, r := range rows {
		out[i] = r.public()
	}
	return out
}

// version grows with every change.
func (s *Store) version(ctx context.Context) (n int64, err error) {
	err = s.cfg.DB.WithContext(ctx).Raw("SELECT version FROM label_changes WHERE name = 'agreements'").Scan(&n).Error
	return n, err
}

// load reads what is approved, not revoked and not over, without the texts.
func (s *Store) load(ctx context.Context) (map[string][]term, error) {
	var rows []row
	err := s.cfg.DB.WithContext(ctx).Select("id", "tenant", "project", "key_id", "valid_from", "valid_until").
		Where("approved_at > 0 AND revoked_at = 0 AND valid_until > ?", s.now().UnixMicro()).Order("asked_at, id").Find(&rows).Error
	out := map[string][]term{}
	for _, r := range rows {
		out[r.Tenant] = append(out[r.Tenant], term{id: r.ID, project: r.Project, key: r.KeyID, from: r.ValidFrom, until: r.ValidUntil})
	}
	return out, err
}

// create stores an agreement that waits.
func (s *Store) create(ctx context.Context, a Agreement) error {
	return s.write(ctx, "ask for a label agreement", func(tx *gorm.DB) error {
		var open int64
		err := tx.Model(&row{}).Where("tenant = ? AND revoked_at = 0 AND valid_until > ?", a.Tenant, a.Asked.UnixMicro()).Count(&open).Error
		if err != nil {
			return err
		}
		if open >= maxOpen {
			return fault.New(fault.CodeConflict, fault.Say("agreement.too_many", maxOpen))
		}
		return tx.Create(&row{
			ID: a.ID, Tenant: a.Tenant, Project: a.Project, KeyID: a.Key, Recipient: a.Recipient, Contact: a.Contact, Reference: a.Reference, Purpose: a.Purpose,
			Text: a.Text, Digest: a.Digest, ValidFrom: a.From.UnixMicro(), ValidUntil: a.Until.UnixMicro(), AskedAt: a.Asked.UnixMicro(), AskedBy: a.AskedBy, AskedName: a.AskedName,
		}).Error
	})
}

// change does something with an agreement, and returns what do has made of it.
func (s *Store) change(ctx context.Context, step, tenant, id string, do func(tx *gorm.DB, a *Agreement) error) (out Agreement, err error) {
	err = s.write(ctx, step, func(tx *gorm.DB) error {
		if out, err = find(tx, tenant, id); err != nil {
			return err
		}
		return do(tx, &out)
	})
	if err != nil {
		return Agreement{}, err
	}
	return out, nil
}

// write changes the tables and reads them again. Writers take turns: the counter, which is written first, is locked until the end. When only the reading
// fails, the change is done all the same: the poll repeats it.
func (s *Store) write(ctx context.Context, step string, do func(tx *gorm.DB) error) error {
	err := s.cfg.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE label_changes SET version = version + 1 WHERE name = 'agreements'").Error; err != nil {
			return err
		}
		return do(tx)
	})
	if err != nil {
		return database.Unavailable(step, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTime)
	defer cancel()
	if err := s.known.Load(ctx); err != nil {
		s.cfg.Log.Error("reading label agreements after a change failed; the poll repeats it", slog.Any("error", err))
	}
	return nil
}

func find(db *gorm.DB, tenant, id string) (Agreement, error) {
	var rows []row
	if err := db.Select(columns()).Where("id = ? AND tenant = ?", database.Text(id), tenant).Find(&rows).Error; err != nil {
		return Agreement{}, err
	}
	if len(rows) == 0 {
		return Agreement{}, fault.New(fault.CodeNotFound, fault.Say("thing.label_agreement"), id)
	}
	return rows[0].public(), nil
}

// Get returns an agreement of a tenant. Error: CodeNotFound.
func (s *Store) Get(ctx context.Context, tenant, id string) (Agreement, error) {
	a, err := find(s.cfg.DB.WithContext(ctx), tenant, id)
	return a, database.Unavailable("read a label agreement", err)
}

// List returns agreements of a tenant, whatever became of them, newest first and without their texts: n at most, behind the first offset.
func (s *Store) List(ctx context.Context, tenant string, offset, n int) ([]Agreement, error) {
	var rows []row
	err := s.cfg.DB.WithContext(ctx).Select(slices.DeleteFunc(columns(), func(c string) bool { return c == "text" })).
		Where("tenant = ?", tenant).Order("asked_at DESC, id DESC").Offset(offset).Limit(n).Find(&rows).Error
	return public(rows), database.Unavailable("list label agreements", err)
}

// Between returns the agreements of a tenant that were in force at some time in a period, to excluded, in the order in which they were asked for.
// Error: CodeInvalidValue for more than [MaxBetween].
func (s *Store) Between(ctx context.Context, tenant string, from, to time.Time) ([]Agreement, error) {
	var rows []row
	err := s.cfg.DB.WithContext(ctx).Select(columns()).
		Where("tenant = ? AND approved_at > 0 AND valid_from < ? AND approved_at < ? AND valid_until > ? AND (revoked_at = 0 OR revoked_at > ? AND revoked_at > valid_from)",
			tenant, to.UnixMicro(), to.UnixMicro(), from.UnixMicro(), from.UnixMicro()).
		Order("asked_at, id").Limit(MaxBetween + 1).Find(&rows).Error
	if len(rows) > MaxBetween {
		return nil, fault.New(fault.CodeInvalidValue, "to", fault.Say("agreement.period", MaxBetween)).WithParam("to")
	}
	return public(rows), database.Unavailable("list label agreements", err)
}
