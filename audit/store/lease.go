package store

import (
	"fmt"
	"time"

	"gorm.io/gorm"
)

// The times of leases.
const (
	LeaseFor = 10 * time.Second
	MaxSkew  = time.Minute // between the clocks of replicas, at most
)

// Lease is a row of audit_lease: of all replicas and commands at most one holds it at a time. Its end is a time of the holder's clock, so a
// lease keeps work from being done twice; what must not happen twice is also guarded in the transaction that does it.
type Lease struct {
	Name  string // of the row, which is there from the migration on
	For   time.Duration
	Taken error // what Take returns while somebody else holds it
}

// Take makes holder the one that holds the lease, or prolongs it. A lease that ends far in the future was taken by a clock that ran ahead and
// is void: else nobody would get it until the time comes.
func (l Lease) Take(tx *gorm.DB, holder string, now time.Time) error {
	res := tx.Exec("UPDATE audit_lease SET holder = ?, expires = ? WHERE name = ? AND (holder = ? OR expires < ? OR expires > ?)",
		holder, now.Add(l.For).UnixMicro(), l.Name, holder, now.UnixMicro(), now.Add(l.For+MaxSkew).UnixMicro())
	if res.Error == nil && res.RowsAffected == 0 {
		return l.Taken
	}
	return res.Error
}

// Release lets others take the lease at once. It does nothing if holder does not hold it.
func (l Lease) Release(db *gorm.DB, holder string) error {
	err := db.Exec("UPDATE audit_lease SET holder = '', expires = 0 WHERE name = ? AND holder = ?", l.Name, holder).Error
	if err != nil {
		return fmt.Errorf("release the lease %s: %w", l.Name, err)
	}
	return nil
}

// Held reports whether somebody holds the lease, by the rule of [Lease.Take].
func (l Lease) Held(db *gorm.DB, now time.Time) (bool, error) {
	var n int64
	err := db.Raw("SELECT COUNT(*) FROM audit_lease WHERE name = ? AND holder <> '' AND expires >= ? AND expires <= ?",
		l.Name, now.UnixMicro(), now.Add(l.For+MaxSkew).UnixMicro()).Scan(&n).Error
	return n > 0, err
}
