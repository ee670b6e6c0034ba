package billing

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/internal/fault"
)

//go:embed default_prices.yaml
var defaultBook []byte

// store is the ledger's tables.
type store struct{ db *gorm.DB }

// dbError marks a failure of the database for callers outside the request path.
func dbError(step string, err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeDatabaseUnavailable)
}

type changeRow struct {
	Name    string `gorm:"column:name"`
	Version int64  `gorm:"column:version"`
}

func (changeRow) TableName() string { return "billing_changes" }

// version returns the change counter: it grows with every change of price books and budgets.
func (s store) version(ctx context.Context) (int64, error) {
	var r changeRow
	err := s.db.WithContext(ctx).Select("name", "version").Where("name = ?", "billing").Take(&r).Error
	return r.Version, dbError("read change counter", err)
}

func bumpVersion(tx *gorm.DB) error {
	return tx.Model(&changeRow{}).Where("name = ?", "billing").Update("version", gorm.Expr("version + 1")).Error
}

// load reads all price books and budgets.
func (s store) load(ctx context.Context) (*terms, error) {
	books, err := s.books(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.budgets(ctx, "")
	if err != nil {
		return nil, err
	}
	out := &terms{books: books, organisations: map[string][]*budget{}, tenants: map[string][]*budget{}, budgets: map[string]*budget{}}
	for _, r := range rows {
		b, err := r.budget()
		if err != nil {
			return nil, err
		}
		out.add(b)
	}
	return out, nil
}

type bookRow struct {
	Version       int64  `gorm:"column:version"`
	Digest        string `gorm:"column:digest"`
	Currency      string `gorm:"column:currency"`
	EffectiveFrom int64  `gorm:"column:effective_from"`
	Document      string `gorm:"column:document"`
	Actor         string `gorm:"column:actor"`
	CreatedAt     int64  `gorm:"column:created_at;autoCreateTime:false"`
}

func (bookRow) TableName() string { return "billing_books" }

func (bookRow) columns() []string {
	return []string{"version", "digest", "currency", "effective_from", "document", "actor", "created_at"}
}

func (s store) books(ctx context.Context) ([]book, error) {
	var rows []bookRow
	err := s.db.WithContext(ctx).Select(bookRow{}.columns()).Order("effective_from, version").Find(&rows).Error
	if err != nil {
		return nil, dbError("read price books", err)
	}
	out := make([]book, 0, len(rows))
	for _, r := range rows {
		b, err := price.Parse([]byte(r.Document))
		if err != nil {
			return nil, fmt.Errorf("stored price book %s: %w", bookName(r.Version), err)
		}
		out = append(out, book{r.Version, b})
	}
	return out, nil
}

// seed stores the default book if there is none. Of several replicas that start at once, one succeeds.
func (l *Ledger) seed(ctx context.Context) error {
	var n int64
	if err := l.store.db.WithContext(ctx).Model(&bookRow{}).Count(&n).Error; err != nil {
		return dbError("count price books", err)
	}
	if n > 0 {
		return nil
	}
	_, err := l.store.publish(ctx, defaultBook, "system", l.now())
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return nil
	}
	return err
}

// publish appends a price book.
func (s store) publish(ctx context.Context, doc []byte, actor string, now time.Time) (bookRow, error) {
	b, err := price.Parse(doc)
	if err != nil {
		return bookRow{}, invalidBook(err)
	}
	row := bookRow{
		Digest: digest(doc), Currency: b.Currency, EffectiveFrom: b.EffectiveFrom.UnixMicro(), Document: string(doc), Actor: actor,
		CreatedAt: now.UnixMicro(),
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		last, err := appendBook(tx, row.TableName(), fault.Say("thing.price_book"), &row)
		if err != nil || last.Version == 0 || last.Currency == row.Currency {
			return err
		}
		return currencyMayChange(tx, last.Currency)
	})
	return row, dbError("publish price book", err)
}

// appendBook stores a book as the next version of its table, and returns the one before, whose version is 0 if there is none. Error: CodeExists if that is the
// same document. The counter row is the lock: publications happen one at a time.
func appendBook(tx *gorm.DB, table string, thing fault.Phrase, row *bookRow) (last bookRow, err error) {
	if err := bumpVersion(tx); err != nil {
		return last, err
	}
	if err := tx.Table(table).Select(row.columns()).Order("version DESC").Limit(1).Find(&last).Error; err != nil {
		return last, err
	}
	if last.Digest == row.Digest {
		return last, fault.New(fault.CodeExists, thing, bookName(last.Version))
	}
	row.Version = last.Version + 1
	return last, tx.Table(table).Create(row).Error
}

// currencyMayChange refuses another currency once amounts in the old one exist.
func currencyMayChange(tx *gorm.DB, old string) error {
	var usage, budgets, corrections int64
	if err := tx.Model(&usageRow{}).Limit(1).Count(&usage).Error; err != nil {
		return err
	}
	if err := tx.Model(&budgetRow{}).Limit(1).Count(&budgets).Error; err != nil {
		return err
	}
	if err := tx.Model(&correctionRow{}).Limit(1).Count(&corrections).Error; err != nil {
		return err
	}
	if usage > 0 || budgets > 0 || corrections > 0 {
		return fault.New(fault.CodeInvalidPriceBook, "currency", fault.Say("billing.other_currency", old))
	}
	return nil
}

// forUpdate locks the rows a query reads until the transaction ends. SQLite ignores it: its transactions take the write lock at
// their start.
func forUpdate(tx *gorm.DB) *gorm.DB { return tx.Clauses(clause.Locking{Strength: "UPDATE"}) }

func (s store) bookRows(ctx context.Context) ([]bookRow, error) {
	var rows []bookRow
	err := s.db.WithContext(ctx).Select(bookRow{}.columns()).Order("version").Find(&rows).Error
	return rows, dbError("read price books", err)
}
