package search

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func TestNewestFor(t *testing.T) {
	for _, at := range []int64{math.MinInt64, -listUnit, -5, 0, 1, -listUnit - 1, listUnit - 1, listUnit, time.Now().UnixMicro(), math.MaxInt64 - listUnit, math.MaxInt64 - 1} {
		if n := newestFor(at); n <= at || at > 0 && at < math.MaxInt64-listUnit && n-at > listUnit {
			t.Errorf("%d: %d", at, n)
		}
		if o := oldestFor(at); o > at || at > 0 && at-o > 2*listUnit {
			t.Errorf("%d: %d", at, o)
		}
	}
}

// TestListsKeepUp: whatever the order in which replicas bring records, newest of a list ends behind all of them; it is not touched within an
// hour.
func TestListsKeepUp(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		start := recordtest.Sample(1).Time / listUnit * listUnit
		at := func(hours, micros int64) []*Lists {
			e := recordtest.Sample(1)
			e.Time = start + hours*listUnit + micros
			l := ListsOf(&e)
			return []*Lists{&l}
		}
		add := func(l []*Lists) error {
			for i := range l {
				l[i].postings = nil // the record is not there
			}
			return db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error { return Add(tx, l) })
		}
		wants := func(what string, oldest, newest int64) {
			t.Helper()
			for _, table := range []string{"audit_facets", "audit_sources", "audit_terms"} {
				var got []head
				must(t, db.Table(table).Distinct("oldest", "newest").Find(&got).Error)
				if len(got) != 1 || got[0].Oldest != start+(oldest-1)*listUnit || got[0].Newest != start+(newest+1)*listUnit {
					t.Errorf("%s: %s has %v", what, table, got)
				}
			}
		}
		must(t, add(at(3, 5)))
		wants("first", 3, 3)
		must(t, add(slices.Concat(at(4, 0), at(1, 0), at(3, 9))))
		wants("a later one among earlier ones", 1, 4)
		must(t, add(at(2, 0)))
		wants("one within", 1, 4)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = add(at(int64(10+i), 0)) })
		}
		wg.Wait()
		must(t, errors.Join(errs...))
		wants("all at once", 1, 17)
		must(t, db.Exec("DELETE FROM audit_facets").Error)
		must(t, db.Exec("DELETE FROM audit_sources").Error)
		must(t, db.Exec("DELETE FROM audit_terms").Error)
		for i := range errs { // all of them make the lists
			wg.Go(func() { errs[i] = add(at(int64(20+i), 0)) })
		}
		wg.Wait()
		must(t, errors.Join(errs...))
		wants("made by all at once", 20, 27)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
