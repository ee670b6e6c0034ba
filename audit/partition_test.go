package audit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func at(date string) int64 {
	t, err := time.Parse(time.DateTime, date)
	if err != nil {
		panic(err)
	}
	return t.UnixMicro()
}

// Records of every time find a partition, which is made while they are shipped, by several replicas at once and again when it is gone; each
// lies in the one of its month, to the microsecond, and the log verifies.
func TestPartitions(t *testing.T) {
	db := dbtest.Postgres(t)
	a, b := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{}), openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	want := map[string]int64{}
	for i, c := range []struct {
		time      int64
		partition string
	}{
		{-5, "audit_events_before"},
		{1, "audit_events_before"},
		{at("2019-12-31 23:59:59") + 999999, "audit_events_before"},
		{at("2020-01-01 00:00:00"), "audit_events_202001"},
		{at("2024-02-29 23:59:59") + 999999, "audit_events_202402"},
		{at("2024-03-01 00:00:00"), "audit_events_202403"},
		{at("2099-12-31 23:59:59"), "audit_events_209912"},
		{at("2100-01-01 00:00:00"), "audit_events_after"},
		{1 << 62, "audit_events_after"},
	} {
		var wg sync.WaitGroup
		for n, l := range []*Log{a, b} {
			e := recordtest.Sample(10*i + n)
			e.Time = c.time
			wg.Go(func() {
				if _, err := l.Append(context.Background(), e); err != nil {
					t.Error(err)
				}
				l.work.Lock()
				defer l.work.Unlock()
				if err := l.ship(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want[c.partition] += 2
	}
	flush(t, a)
	flush(t, b)
	mustVerify(t, a, db)
	for partition, n := range want {
		if got := count(t, db, partition); got != n {
			t.Errorf("%s holds %d records, want %d", partition, got, n)
		}
	}
	must(t, db.Exec("ALTER TABLE audit_events DETACH PARTITION audit_events_202001").Error)
	must(t, db.Exec("DROP TABLE audit_events_202001").Error)
	e := recordtest.Sample(1000)
	e.Time = at("2020-01-31 10:00:00")
	if _, err := a.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	a.work.Lock()
	first, second := a.ship(t.Context()), a.ship(t.Context())
	a.work.Unlock()
	if first == nil || second != nil {
		t.Errorf("a partition that was dropped elsewhere: %v, then %v", first, second)
	}
	for _, statement := range []string{"TRUNCATE audit_events", "TRUNCATE audit_events_202402", "DELETE FROM audit_events_202402", "UPDATE audit_events_202402 SET tenant = ''"} {
		if db.Exec(statement).Error == nil {
			t.Errorf("%s was taken", statement)
		}
	}
}

// Whoever ships a record twice is refused by the database, also when both looked before either wrote: the time, which the key needs on
// a partitioned table, is that of the record.
func TestShippedOnceIntoPartitions(t *testing.T) {
	db := dbtest.Postgres(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	appendN(t, l, 0, 1)
	flush(t, l)
	var r store.EventRow
	must(t, db.Select(store.Columns()).Take(&r).Error)
	if db.Create(&r).Error == nil {
		t.Error("the same record was stored twice")
	}
}
