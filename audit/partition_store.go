package audit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
)

// partitions makes sure that PostgreSQL has a table for the month of a record before the record comes. It is for one database; its zero value
// is ready. SQLite has one table for all.
type partitions struct {
	mu   sync.Mutex
	have map[string]bool // months, as 202611
}

// month names the month of a time in unix microseconds as the database does.
func month(at int64) string { return time.UnixMicro(at).UTC().Format("200601") }

// ensure makes the partitions for these times that are not known to be there. It runs in a transaction of its own: attaching a month waits
// for nobody who reads or writes, and nobody waits for it for longer than that takes.
func (p *partitions) ensure(ctx context.Context, db *gorm.DB, times ...int64) error {
	if db.Name() == "sqlite" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range times {
		m := month(at)
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

// forget makes the next ensure ask again: another replica may have pruned a month that was there.
func (p *partitions) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.have = nil
}

// ensureFor makes the partitions that records need. What cannot be read needs none: it is refused when it is stored.
func (p *partitions) ensureFor(ctx context.Context, db *gorm.DB, frames []frame) error {
	if db.Name() == "sqlite" {
		return nil
	}
	var times []int64
	for _, f := range frames {
		if e, err := record.Decode(f.payload); err == nil {
			times = append(times, e.Time)
		}
	}
	return p.ensure(ctx, db, times...)
}
