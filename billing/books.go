package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/internal/fault"
)

// BookVersion is a published price book.
type BookVersion struct {
	Version       string
	Digest        string // hex SHA-256 of the document
	Currency      string
	EffectiveFrom time.Time
	Actor         string
	CreatedAt     time.Time
	Document      string
	Effective     bool // rates requests admitted now
}

// Publish stores a price book as a new version, which nobody can change any more. CodeInvalidPriceBook names what is wrong with
// the document; CodeExists says that the newest version is the same document.
func (l *Ledger) Publish(ctx context.Context, doc []byte, actor string) (BookVersion, error) {
	row, err := l.store.publish(ctx, doc, actor, l.now())
	if err != nil {
		return BookVersion{}, err
	}
	if err := l.terms.Load(ctx); err != nil {
		return BookVersion{}, err
	}
	return l.version(row), nil
}

// Books returns all price books, oldest first.
func (l *Ledger) Books(ctx context.Context) ([]BookVersion, error) {
	rows, err := l.store.bookRows(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]BookVersion, 0, len(rows))
	for _, r := range rows {
		out = append(out, l.version(r))
	}
	return out, nil
}

func (l *Ledger) version(r bookRow) BookVersion {
	v := BookVersion{
		Version: bookName(r.Version), Digest: r.Digest, Currency: r.Currency, EffectiveFrom: time.UnixMicro(r.EffectiveFrom).UTC(),
		Actor: r.Actor, CreatedAt: time.UnixMicro(r.CreatedAt).UTC(), Document: r.Document,
	}
	if last, loaded := l.terms.Last(); loaded {
		b, ok := last.bookAt(l.now())
		v.Effective = ok && b.version == r.Version
	}
	return v
}

func invalidBook(err error) error {
	var e *price.Error
	if errors.As(err, &e) {
		return fault.Wrap(err, fault.CodeInvalidPriceBook, e.Path, e.Reason)
	}
	return fault.Wrap(err, fault.CodeInvalidPriceBook, "document", fault.Say("value.unreadable"))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
