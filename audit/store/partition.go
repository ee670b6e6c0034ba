package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
)

// Partitions makes sure that PostgreSQL has a table for the month of a record before the record comes. It is for one database; its zero value
// is ready. SQLite has one table for all.
type Partitions struct {
	mu   sync.Mutex
	have map[string]bool // months, as 202611
}

// Month names the month of a time in unix microseconds as the database does.
func Month(at int64) string { return time.UnixMicro(at).UTC().Format("200601") }

// Ensure makes the partitions for these times that are not known to be there. It runs in a transaction of its own: attaching a month waits
// for nobody who reads or writes, and nobody waits for it for longer than that takes.
func (p *Partitions) Ensure(ctx context.Context, db *gorm.DB, times ...int64) error {
	if database.IsSQLite(db) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range times {
		m := Month(at)
		if p.have[m] {
			continue
		}
		if err := db.WithContext(ctx).Exec("SELECT audit_partition(?)", at).Error; err != nil {
			return fmt.Errorf("make the partition of %s: %w", m, err)
		}
		if p.have == nil {
			p.have = map[string]bool{}
		}
		p.have[m] = true
	}
	return nil
}

// Forget makes the next ensure ask again: another replica may have pruned a month that was there.
func (p *Partitions) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.have = nil
}
