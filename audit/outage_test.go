package audit

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestDatabaseDownUnderLoad takes the database away while eight goroutines append without a pause: for a second and a half, or for a
// real minute with SLUICE_TEST_LONG. The write-ahead log has room, so nobody is refused and readiness stays; afterwards everything
// arrives once and is billed once.
func TestDatabaseDownUnderLoad(t *testing.T) {
	for name, take := range map[string]func(t *testing.T) (db *gorm.DB, away, back func()){
		// A write lock that somebody holds is how an SQLite file is away.
		"sqlite locked": func(t *testing.T) (*gorm.DB, func(), func()) {
			path := t.TempDir() + "/a.db"
			db, other := openMigrated(t, path), openMigrated(t, path)
			var tx *gorm.DB
			return db, func() { tx = other.Begin(); must(t, tx.Error) }, func() { must(t, tx.Rollback().Error) }
		},
		"postgres refuses": func(t *testing.T) (*gorm.DB, func(), func()) {
			w := newLink(t, dbtest.PostgresURL(t))
			return w.open(t), func() { w.set(refuse) }, func() { w.set(forward) }
		},
		"postgres silent": func(t *testing.T) (*gorm.DB, func(), func()) {
			w := newLink(t, dbtest.PostgresURL(t))
			return w.open(t), func() { w.set(swallow) }, func() { w.set(forward) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, away, back := take(t)
			testDatabaseDown(t, db, away, back)
		})
	}
}

func testDatabaseDown(t *testing.T, db *gorm.DB, away, back func()) {
	outage, pause := 1500*time.Millisecond, 5*time.Millisecond
	if os.Getenv("SLUICE_TEST_LONG") != "" {
		outage, pause = time.Minute, 20*time.Millisecond
	}
	cfg := testConfig(t.TempDir())
	cfg.ShipEvery, cfg.CheckpointEvery = 5*time.Millisecond, 10*time.Millisecond
	cfg.MaxBytes = 1 << 30
	l := openTest(t, cfg, db, countingSink, durable.OS{})
	l.stepTimeout = 500 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var loop, load sync.WaitGroup
	loop.Go(func() { _ = l.Run(ctx) })
	var taken, during atomic.Int64
	var mu sync.Mutex
	ids := map[string]int{}
	over := make(chan struct{})
	down := atomic.Bool{}
	for w := range 8 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				case <-time.After(pause):
				}
				r, err := l.Append(context.Background(), recordtest.Sample(w*1_000_000+n))
				if err != nil {
					t.Errorf("refused while the database is away: %v", err)
					return
				}
				taken.Add(1)
				if down.Load() {
					during.Add(1)
				}
				mu.Lock()
				ids[r.ID]++
				mu.Unlock()
			}
		})
	}
	waitFor(t, func() bool { return taken.Load() > 100 })
	away()
	down.Store(true)
	for end := time.Now().Add(outage); time.Now().Before(end); {
		if err := l.Ready(); err != nil {
			t.Errorf("not ready while the database is away: %v", err)
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	down.Store(false)
	back()
	close(over)
	load.Wait()
	cancel()
	loop.Wait()
	l.stepTimeout = time.Minute
	flush(t, l)
	r := mustVerify(t, l, db)
	if n := int64(len(ids)); n != taken.Load() || r.Sealed != n || count(t, db, "installation_settings") != n || during.Load() < 20 {
		t.Errorf("%d taken, %d of them during the outage, %d ids, %d sealed", taken.Load(), during.Load(), n, r.Sealed)
	}
	if left := l.wal.Segments(); len(left) > 1 {
		t.Errorf("%d segments stay", len(left))
	}
	for _, id := range searchIDs(t, l, search.Query{Limit: 500}) {
		ids[id]--
	}
	for id, n := range ids {
		if n != 0 {
			t.Errorf("record %s: %d", id, n)
		}
	}
	t.Logf("%d records, %d of them while the database was away", taken.Load(), during.Load())
}
