package reveal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Tables are the database tables of a service.
type Tables struct{ db *gorm.DB }

// NewTables returns the tables of a migrated database.
func NewTables(db *gorm.DB) Tables { return Tables{db} }

type tables Tables

type (
	personRow struct {
		Person  string
		Touched int64
	}
	useRow struct {
		ID       string
		Person   string
		Target   string
		Time     int64
		Clear    int64
		Partial  int64
		Approval string // "" if nobody approved
	}
)

func (personRow) TableName() string { return "reveal_people" }
func (useRow) TableName() string    { return "reveal_uses" }

// usage is what a request counts.
type usage struct {
	person, target   string
	clear, partial   int
	limit, second    int // values in an hour, and of those in clear that need an approval
	approval, digest string
}

// spend counts a request of a person, spends its approval, and returns how many targets the person requested within the hour, before and after
// this request. The row of the person serialises concurrent requests on all replicas, so that they cannot exceed a limit together.
func (s tables) spend(ctx context.Context, book *approval.Store, u usage, now time.Time) (before, after int, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return 0, 0, fmt.Errorf("count a reveal: %w", err)
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockPerson(tx, u.person, now); err != nil {
			return err
		}
		since := now.Add(-hour).UnixMicro()
		if err := tx.Where("time <= ?", since).Delete(&useRow{}).Error; err != nil {
			return err
		}
		uses, err := lastHour(tx, u.person, now)
		if err != nil {
			return err
		}
		if err := checkHourlyLimit(uses, u, now); err != nil { // first: no approval helps
			return err
		}
		if n := unapproved(uses) + u.clear; u.clear > 0 && u.approval == "" && n >= u.second {
			return fault.New(fault.CodeApprovalNeeded, n, u.second)
		}
		if u.approval != "" {
			if err := book.Spend(tx, approval.KindReveal, u.approval, u.digest); err != nil {
				return err
			}
		}
		targets := map[string]bool{}
		for _, x := range uses {
			targets[x.Target] = true
		}
		before = len(targets)
		targets[u.target] = true
		after = len(targets)
		return tx.Create(&useRow{
			ID: id.String(), Person: u.person, Target: u.target, Time: now.UnixMicro(), Clear: int64(u.clear), Partial: int64(u.partial),
			Approval: u.approval,
		}).Error
	})
	return before, after, database.Unavailable("count a reveal", err)
}

// lockTimeout is how long a transaction may be idle before the database ends it.
const lockTimeout = 5 * time.Second

func lockPerson(tx *gorm.DB, person string, now time.Time) error {
	if err := database.SetIdleTimeout(tx, lockTimeout); err != nil {
		return err
	}
	for range 2 {
		res := tx.Model(&personRow{}).Where("person = ?", person).Update("touched", now.UnixMicro())
		if res.Error != nil || res.RowsAffected > 0 {
			return res.Error
		}
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&personRow{Person: person}).Error; err != nil {
			return err
		}
	}
	return errors.New("the row of the person cannot be made")
}

// lastHour returns the uses of a person within the last hour, oldest first.
func lastHour(tx *gorm.DB, person string, now time.Time) ([]useRow, error) {
	var uses []useRow
	err := tx.Select("target", "time", "clear", "partial", "approval").Where("person = ? AND time > ?", person, now.Add(-hour).UnixMicro()).Order("time, id").Find(&uses).Error
	return uses, err
}

// unapproved returns the number of values in clear without an approval.
func unapproved(uses []useRow) int {
	n := int64(0)
	for _, x := range uses {
		if x.Approval == "" {
			n += x.Clear
		}
	}
	return int(n)
}

// checkHourlyLimit refuses a use that exceeds the hourly limit.
func checkHourlyLimit(uses []useRow, u usage, now time.Time) error {
	if wait := waitFor(uses, u, now); wait > 0 {
		return fault.New(fault.CodeRevealLimited, u.limit).WithRetryAfter(wait)
	}
	return nil
}

// waitFor returns how long until the hourly limit has room for u; 0 if it has now. uses are those of the hour, oldest first.
func waitFor(uses []useRow, u usage, now time.Time) time.Duration {
	seen := int64(0)
	for _, x := range uses {
		seen += x.Clear + x.Partial
	}
	more := int64(u.clear + u.partial)
	over := seen + more - int64(u.limit)
	if more == 0 || over <= 0 {
		return 0
	}
	for _, x := range uses {
		if over -= x.Clear + x.Partial; over <= 0 {
			return max(time.Second, time.UnixMicro(x.Time).Add(hour).Sub(now))
		}
	}
	return hour
}

// addApproval stores a request for the approval of a use. The use must need one and fit the hourly limit now, or the approval could expire
// unused.
func (s tables) addApproval(ctx context.Context, book *approval.Store, a approval.Approval, u usage, now time.Time) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lockPerson(tx, a.AskedBy, now); err != nil {
			return err
		}
		uses, err := lastHour(tx, a.AskedBy, now)
		if err != nil {
			return err
		}
		if err := checkHourlyLimit(uses, u, now); err != nil {
			return err
		}
		if n := unapproved(uses) + u.clear; n < u.second {
			return fault.New(fault.CodeConflict, fault.Say("reveal.no_approval_needed", n, u.second))
		}
		return book.Ask(tx, a, u.digest)
	})
	return database.Unavailable("ask for an approval", err)
}
