package billing

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/internal/fault"
)

// Correction changes what a tenant pays. What was billed stays as it is; budgets do not notice.
type Correction struct {
	Tenant  string
	Month   string // that it is about, such as 2026-09; or
	Request string // that it is about, whose model and key it gets, and whose month where none is given
	Amount  Money  // what more is to be paid; below 0: less
	Reason  string
	Actor   string
}

// maxReason bounds a reason, in characters.
const maxReason = 500

type correctionRow struct {
	ID       string `gorm:"column:id"`
	Tenant   string `gorm:"column:tenant"`
	At       int64  `gorm:"column:at"`
	Month    string `gorm:"column:month"`
	Request  string `gorm:"column:request"`
	Model    string `gorm:"column:model"`
	Key      string `gorm:"column:api_key"`
	Amount   int64  `gorm:"column:amount"`
	Currency string `gorm:"column:currency"`
	Reason   string `gorm:"column:reason"`
	Actor    string `gorm:"column:actor"`
}

func (correctionRow) TableName() string { return "billing_corrections" }

func (correctionRow) columns() []string {
	return []string{"id", "tenant", "at", "month", "request", "model", "api_key", "amount", "currency", "reason", "actor"}
}

func (r correctionRow) view() statement.Correction {
	return statement.Correction{
		ID: r.ID, At: time.UnixMicro(r.At).UTC(), Month: r.Month, Request: r.Request, Model: r.Model, Key: r.Key, Amount: r.Amount, Reason: r.Reason, Actor: r.Actor,
	}
}

// Correct books a correction. It counts from now on: in the statement of the current month, and in reports of today. CodeNotFound says that
// the tenant has no such request.
func (l *Ledger) Correct(ctx context.Context, c Correction) (statement.Correction, error) {
	if err := c.check(); err != nil {
		return statement.Correction{}, err
	}
	terms, err := l.terms.Get()
	if err != nil {
		return statement.Correction{}, unavailable(err)
	}
	now := l.now()
	book, ok := terms.bookAt(now)
	if !ok {
		return statement.Correction{}, unavailable(fmt.Errorf("no price book is in force at %s, and so no currency", now.UTC().Format(time.RFC3339)))
	}
	zone, err := time.LoadLocation(l.cfg.Zone)
	if err != nil {
		return statement.Correction{}, fmt.Errorf("zone of statements: %w", err)
	}
	row := correctionRow{
		ID: uuid.Must(uuid.NewV7()).String(), Tenant: c.Tenant, At: now.UnixMicro(), Month: c.Month, Request: c.Request, Amount: int64(c.Amount),
		Currency: book.Currency, Reason: strings.TrimSpace(c.Reason), Actor: c.Actor,
	}
	err = l.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if c.Request != "" {
			var of []usageRow
			if err := tx.Select("model", "api_key", "at").Where("request = ? AND tenant = ?", c.Request, c.Tenant).Limit(1).Find(&of).Error; err != nil {
				return err
			}
			if len(of) == 0 {
				return fault.New(fault.CodeNotFound, fault.Say("thing.billed_request"), c.Request)
			}
			row.Model, row.Key, row.Month = of[0].Model, of[0].Key, cmp.Or(row.Month, Month.id(time.UnixMicro(of[0].At), zone))
		}
		return tx.Create(&row).Error
	})
	return row.view(), dbError("book correction", err)
}

func (c Correction) check() error {
	invalid := func(param string, why fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, param, why).WithParam(param)
	}
	if c.Tenant == "" {
		return fault.New(fault.CodeMissing, "tenant").WithParam("tenant")
	}
	if c.Amount == 0 || c.Amount > 1<<60 || c.Amount < -1<<60 {
		return invalid("amount_nano", fault.Say("billing.correction_amount"))
	}
	if n := utf8.RuneCountInString(strings.TrimSpace(c.Reason)); n == 0 || n > maxReason {
		return invalid("reason", fault.Say("billing.correction_reason", maxReason))
	}
	if _, err := time.Parse("2006-01", c.Month); c.Month != "" && err != nil {
		return invalid("month", fault.Say("billing.month"))
	}
	return nil
}

// Corrections returns the corrections of a tenant, newest first.
func (l *Ledger) Corrections(ctx context.Context, tenant string) ([]statement.Correction, error) {
	var rows []correctionRow
	err := l.store.db.WithContext(ctx).Select(correctionRow{}.columns()).Where("tenant = ?", tenant).Order("at DESC, id DESC").Limit(maxRows).Find(&rows).Error
	out := make([]statement.Correction, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.view())
	}
	return out, dbError("read corrections", err)
}

// openCorrections returns the corrections that a statement counts. The first of the open months takes also what no closed statement has: a
// correction may have been on its way when its month was closed.
func openCorrections(tx *gorm.DB, s *statement.Statement, closed []statement.Statement, first bool) error {
	query := tx.Select(correctionRow{}.columns()).Where("tenant = ? AND at < ?", s.Tenant, s.Until.UnixMicro())
	if !first {
		query = query.Where("at >= ?", s.From.UnixMicro())
	}
	var rows []correctionRow
	if err := query.Order("at, id").Find(&rows).Error; err != nil {
		return fmt.Errorf("read corrections: %w", err)
	}
	counted := map[string]bool{}
	for _, c := range closed {
		for _, x := range c.Corrections {
			counted[x.ID] = true
		}
	}
	for _, r := range rows {
		if counted[r.ID] {
			continue
		}
		if s.Currency == "" {
			s.Currency = r.Currency
		}
		s.Corrections = append(s.Corrections, r.view())
	}
	return nil
}
