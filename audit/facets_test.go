package audit

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestSearchTablesAreCovered changes and removes what records are searched by: either would hide records.
func TestSearchTablesAreCovered(t *testing.T) {
	skipShort(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := newScene(t, db)
		id := s.ids[7]
		e, err := s.l.Get(t.Context(), id)
		must(t, err)
		lists := listsOf(e.Event)
		posting := lists.postings[1]
		complains := func(what string) {
			t.Helper()
			r := verify(t, s.l, db)
			if len(r.Problems) == 0 || r.Problems[0].Kind != "column" || r.Problems[0].Record == "" {
				t.Errorf("%s: %+v", what, r.Problems)
			}
		}
		for _, c := range []struct {
			table, where string
			args         []any
			names        []string
			row          any
		}{
			{"audit_facets", "id = ?", []any{lists.facet.Head.ID}, []string{
				"id", "tenant", "project", "actor_kind", "actor", "actor_name", "action", "stage", "model", "routed", "version", "policy", "rollout", "arm",
				"decision", "outcome", "error_code", "classes", "text", "oldest", "newest",
			}, &lists.facet},
			{"audit_sources", "id = ?", []any{lists.sources[0].Head.ID}, []string{"id", "source", "facet", "oldest", "newest"}, &lists.sources[0]},
			{"audit_terms", "id = ?", []any{posting.Term}, []string{"id", "tenant", "text", "oldest", "newest"}, &lists.terms[1]},
			{"audit_postings", "term = ? AND id = ?", []any{posting.Term, id}, []string{"term", "time", "id", "facet"}, &posting},
		} {
			for _, name := range c.names {
				var value any = "x"
				where, args := c.where, c.args
				switch {
				case name == "time", name == "newest":
					value = int64(4242)
				case name == "oldest":
					value = int64(math.MaxInt64)
				case name == "term" || name == "facet" || name == "id" && c.table != "audit_postings":
					value = []byte("0123456789abcdef")
				}
				if c.table == "audit_postings" && (name == "id" || name == "term") { // found by the value that stays
					s.swapPosting(posting, name, value, func() { complains(c.table + "." + name) })
					continue
				}
				s.swap(c.table, where, args, name, value, func() { complains(c.table + "." + name) })
			}
			res := db.Table(c.table).Where(c.where, c.args...).Delete(nil)
			if res.Error != nil || res.RowsAffected != 1 {
				t.Fatalf("%s: %d rows, %v", c.table, res.RowsAffected, res.Error)
			}
			complains(c.table + " without the row")
			must(t, db.Create(c.row).Error)
		}
		mustVerify(t, s.l, db)
	})
}

// swapPosting changes a part of the key of a posting, runs check, and puts it back.
func (s *scene) swapPosting(p postingRow, name string, value any, check func()) {
	s.t.Helper()
	must(s.t, s.db.Exec("DELETE FROM audit_postings WHERE term = ? AND id = ?", p.Term, p.ID).Error)
	other := p
	switch v := value.(type) {
	case string:
		other.ID = v
	case []byte:
		other.Term = v
	}
	must(s.t, s.db.Create(&other).Error)
	check()
	must(s.t, s.db.Exec("DELETE FROM audit_postings WHERE term = ? AND id = ?", other.Term, other.ID).Error)
	must(s.t, s.db.Create(&p).Error)
}

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
		at := func(hours, micros int64) []*lists {
			e := recordtest.Sample(1)
			e.Time = start + hours*listUnit + micros
			l := listsOf(e)
			return []*lists{&l}
		}
		add := func(l []*lists) error {
			for i := range l {
				l[i].postings = nil // the record is not there
			}
			return db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error { return index(tx, l) })
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
		must(t, firstError(errs...))
		wants("all at once", 1, 17)
		must(t, db.Exec("DELETE FROM audit_facets").Error)
		must(t, db.Exec("DELETE FROM audit_sources").Error)
		must(t, db.Exec("DELETE FROM audit_terms").Error)
		for i := range errs { // all of them make the lists
			wg.Go(func() { errs[i] = add(at(int64(20+i), 0)) })
		}
		wg.Wait()
		must(t, firstError(errs...))
		wants("made by all at once", 20, 27)
	})
}

// TestUnusedListsGo: what only pruned records had goes with them, so that nothing says where they came from; what others have stays, and
// pruning and shipping at once leave no record without its lists.
func TestUnusedListsGo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 600)
		old := recordtest.Sample(700) // as old, sealed behind what goes
		old.Time, old.Source = time.Now().Add(-400*day).UnixMicro(), "10.9.9.9"
		fresh := recordtest.Sample(701)
		fresh.Time, fresh.Source = 0, "10.8.8.8"
		for _, e := range []Event{old, fresh} {
			if _, err := g.l.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, g.l)
		before := count(t, db, "audit_sources")
		done := make(chan error)
		go func() { // brings records that are as old while lists go
			for i := range 40 {
				e := recordtest.Sample(i)
				e.Time = time.Now().Add(-399 * day).UnixMicro()
				if _, err := g.l.Append(t.Context(), e); err != nil {
					done <- err
					return
				}
				if err := g.l.Flush(t.Context()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		g.prune()
		must(t, <-done)
		g.mustVerify()
		for table, unused := range map[string]string{
			"audit_facets":  "NOT EXISTS (SELECT 1 FROM audit_events AS e WHERE e.facet = audit_facets.id)",
			"audit_sources": "NOT EXISTS (SELECT 1 FROM audit_events AS e WHERE e.facet = audit_sources.facet AND e.source = audit_sources.source)",
			"audit_terms":   "NOT EXISTS (SELECT 1 FROM audit_postings AS p WHERE p.term = audit_terms.id)",
		} {
			var n int64
			must(t, db.Table(table).Where(unused).Count(&n).Error)
			if n != 0 {
				t.Errorf("%s: %d rows of no record", table, n)
			}
		}
		if after := count(t, db, "audit_sources"); after >= before {
			t.Errorf("%d addresses before, %d after", before, after)
		}
	})
}
