package replies

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// retryAfter is when somebody whose request is at work elsewhere may ask again.
const retryAfter = time.Second

// Attempt is a request that brings a key.
type Attempt struct {
	ID     string // of the request
	Tenant string
	Caller string // whose key it is: another caller's is another
	Key    string // as the caller spells it
	Asked  []byte // what is asked: the same key never stands for something else
}

// Claim is the right to answer a request. It ends with Keep or Release.
type Claim struct {
	s   *Store
	row replyRow
}

// Claim lets one of all requests with one key run: it returns the claim, or the answer that an earlier one has had. Errors: CodeIdempotencyReused
// where the key stands for another request, CodeRequestInProgress while the earlier one is at work.
func (s *Store) Claim(ctx context.Context, a Attempt) (claim *Claim, answer []byte, err error) {
	now := s.now()
	mine := replyRow{
		ID: "once_" + s.digest("replies/key/v1", a.Tenant, a.Caller, a.Key), Tenant: a.Tenant, Owner: a.Caller,
		Request: s.digest("replies/request/v1", a.Tenant, string(a.Asked)), Claim: a.ID, Wrapped: []byte{}, Sealed: []byte{},
		CreatedAt: now.UnixMicro(), ExpiresAt: now.Add(s.cfg.ClaimLife).UnixMicro(),
	}
	var there replyRow
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		there = replyRow{}
		res := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&mine)
		if res.Error != nil || res.RowsAffected > 0 {
			return res.Error
		}
		if err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Select(replyColumns()).Where("id = ?", mine.ID).Take(&there).Error; err != nil {
			return err
		}
		if there.ExpiresAt > now.UnixMicro() {
			return nil
		}
		there = replyRow{}
		return tx.Model(&replyRow{}).Where("id = ?", mine.ID).Select(replyColumns()).Updates(&mine).Error
	})
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound): // it was removed meanwhile
		return nil, nil, fault.New(fault.CodeRequestInProgress).WithRetryAfter(retryAfter)
	case err != nil: // it may have been carried out all the same, and nobody will answer
		_ = (&Claim{s, mine}).Release(context.WithoutCancel(ctx))
		return nil, nil, database.Unavailable("look for an earlier answer", err)
	case there.ID == "":
		return &Claim{s, mine}, nil, nil
	case there.Request != mine.Request:
		return nil, nil, fault.New(fault.CodeIdempotencyReused)
	case there.Claim != "":
		return nil, nil, fault.New(fault.CodeRequestInProgress).WithRetryAfter(retryAfter)
	}
	if answer, err = s.open(s.db.WithContext(ctx), there); err == nil {
		s.replayed.Inc()
	}
	return nil, answer, err
}

func (s *Store) digest(label string, parts ...string) string {
	return hex.EncodeToString(s.cfg.Keys.MAC(label, parts...)[:16])
}

// Keep keeps the answer, which was made for a person with this digest, "" for nobody known. It is durable when Keep returns. An error leaves the claim
// to its time.
func (c *Claim) Keep(ctx context.Context, subject string, answer []byte) error {
	row := c.row
	err := c.s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := c.s.seal(tx, &row, answer); err != nil {
			return err
		}
		res := c.mine(tx).Updates(map[string]any{
			"claim": "", "subject": subject, "suite": row.Suite, "epoch": row.Epoch, "wrapped": row.Wrapped, "sealed": row.Sealed, "expires_at": c.s.now().Add(c.s.cfg.Life).UnixMicro(),
		})
		if res.Error == nil && res.RowsAffected == 0 {
			return errors.New("the claim of the request is gone: it took too long, or the tenant was erased")
		}
		return res.Error
	})
	return database.Unavailable("keep an answer", err)
}

// Release gives the claim up: the next request with the key runs.
func (c *Claim) Release(ctx context.Context) error {
	return database.Unavailable("give up a claim", c.mine(c.s.db.WithContext(ctx)).Delete(&replyRow{}).Error)
}

// mine is the row while this claim holds it.
func (c *Claim) mine(tx *gorm.DB) *gorm.DB {
	return tx.Model(&replyRow{}).Where("id = ? AND claim = ?", c.row.ID, c.row.Claim)
}
