package store_test

import (
	"strings"
	"testing"
	"time"

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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A search by time reads the partitions of that time and no others.
func TestPartitionsArePruned(t *testing.T) {
	db := dbtest.Postgres(t)
	var months store.Partitions
	must(t, months.Ensure(t.Context(), db, at("2024-01-01 00:00:00"), at("2024-02-01 00:00:00"), at("2024-03-01 00:00:00")))
	var plan []string
	must(t, db.Raw("EXPLAIN SELECT id FROM audit_events WHERE time >= ? AND time < ? ORDER BY time DESC, id DESC LIMIT 10",
		at("2024-02-03 00:00:00"), at("2024-02-05 00:00:00")).Scan(&plan).Error)
	for _, line := range plan {
		if month := "audit_events_2024"; strings.Contains(line, month) && !strings.Contains(line, month+"02") {
			t.Errorf("another month is read: %s", line)
		}
	}
}
