package audit

import (
	"testing"

	"gorm.io/gorm"

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
		f, posting := facetOf(e.Event), postingsOf(e.Event)[1]
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
			{"audit_facets", "id = ?", []any{f.ID()}, []string{
				"id", "tenant", "project", "actor_kind", "actor", "actor_name", "action", "stage", "model", "routed", "version", "policy", "rollout", "arm",
				"decision", "outcome", "error_code", "classes", "text",
			}, &facetRow{ID: f.ID(), Facet: f, Text: f.Text()}},
			{"audit_terms", "id = ?", []any{posting.Term}, []string{"id", "tenant", "text"}, &termRow{posting.Term, e.Tenant, "c/d@1"}},
			{"audit_postings", "term = ? AND id = ?", []any{posting.Term, id}, []string{"term", "time", "id", "facet"}, &posting},
		} {
			for _, name := range c.names {
				var value any = "x"
				where, args := c.where, c.args
				switch {
				case name == "time":
					value = int64(4242)
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
