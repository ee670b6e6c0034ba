package audit

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestSearchTablesAreCovered changes and removes what records are searched by: either would hide records.
func TestSearchTablesAreCovered(t *testing.T) {
	skipShort(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := newScene(t, db)
		id := s.ids[7]
		var set []byte
		var source string
		must(t, db.Raw("SELECT facet, source FROM audit_events WHERE id = ?", id).Row().Scan(&set, &source))
		var terms [][]byte
		must(t, db.Raw("SELECT term FROM audit_postings WHERE id = ?", id).Scan(&terms).Error)
		term := terms[1]
		complains := func(what string) {
			t.Helper()
			r := verifyLog(t, s.l, db)
			if len(r.Problems) == 0 || r.Problems[0].Kind != "column" || r.Problems[0].Record == "" {
				t.Errorf("%s: %+v", what, r.Problems)
			}
		}
		for _, c := range []struct {
			table, where string
			args         []any
			names        []string
		}{
			{"audit_facets", "id = ?", []any{set}, []string{
				"id", "tenant", "project", "actor_kind", "actor", "actor_name", "action", "stage", "model", "routed", "version", "policy", "rollout", "arm",
				"decision", "outcome", "error_code", "classes", "text", "oldest", "newest",
			}},
			{"audit_sources", "id = ?", []any{append(hex.AppendEncode(nil, set), source...)}, []string{"id", "source", "facet", "oldest", "newest"}},
			{"audit_terms", "id = ?", []any{term}, []string{"id", "tenant", "text", "oldest", "newest"}},
			{"audit_postings", "term = ? AND id = ?", []any{term, id}, []string{"term", "time", "id", "facet"}},
		} {
			for _, name := range c.names {
				var value any = "x"
				switch {
				case name == "time", name == "newest":
					value = int64(4242)
				case name == "oldest":
					value = int64(math.MaxInt64)
				case name == "term" || name == "facet" || name == "id" && c.table != "audit_postings":
					value = []byte("0123456789abcdef")
				}
				s.replace(c.table, c.where, c.args, name, value, func() { complains(c.table + "." + name) })
			}
			row := s.take(c.table, c.where, c.args)
			res := db.Table(c.table).Where(c.where, c.args...).Delete(nil)
			if res.Error != nil || res.RowsAffected != 1 {
				t.Fatalf("%s: %d rows, %v", c.table, res.RowsAffected, res.Error)
			}
			complains(c.table + " without the row")
			must(t, db.Table(c.table).Create(row).Error)
		}
		mustVerify(t, s.l, db)
	})
}

// take reads one row.
func (s *scene) take(table, where string, args []any) map[string]any {
	s.t.Helper()
	var rows []map[string]any
	must(s.t, s.db.Table(table).Where(where, args...).Find(&rows).Error)
	if len(rows) != 1 {
		s.t.Fatalf("%s: %d rows", table, len(rows))
	}
	return rows[0]
}

// replace puts a row with another value in the place of a row, runs check, and puts the row back. The value may be part of the key.
func (s *scene) replace(table, where string, args []any, name string, value any, check func()) {
	s.t.Helper()
	row := s.take(table, where, args)
	other := maps.Clone(row)
	other[name] = value
	must(s.t, s.db.Table(table).Where(where, args...).Delete(nil).Error)
	must(s.t, s.db.Table(table).Create(other).Error)
	check()
	must(s.t, s.db.Table(table).Where(fmt.Sprint("id = ? AND ", name, " = ?"), other["id"], value).Delete(nil).Error)
	must(s.t, s.db.Table(table).Create(row).Error)
}

// TestUnusedListsGo: what only pruned records had goes with them, so that nothing says where they came from; what others have stays, and
// pruning and shipping at once leave no record without its lists.
func TestUnusedListsGo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 600)
		old := recordtest.Sample(700) // as old, sealed behind what goes
		old.Time, old.Source = time.Now().Add(-400*retention.Day).UnixMicro(), "10.9.9.9"
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
				e.Time = time.Now().Add(-399 * retention.Day).UnixMicro()
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
