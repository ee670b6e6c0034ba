package audit

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"

	"gorm.io/gorm"
)

// searchable collects what the records read since the last comparison are searched by. A list is compared once, and again when a record
// shows that is of a time which the list did not reach.
type searchable struct {
	known    map[string]head // lists that were compared, by id
	facets   map[string]*searched[facetRow]
	sources  map[string]*searched[sourceRow]
	terms    map[string]*searched[termRow]
	postings map[string]*searched[postingRow]
}

// searched is a row that should be there, and a record that says so.
type searched[R any] struct {
	row    R
	record string
	index  int64
}

// searchBy notes what a record is searched by.
func (w *walk) searchBy(a arrival, index int64) {
	s := &w.search
	if s.known == nil {
		s.known, s.postings = map[string]head{}, map[string]*searched[postingRow]{}
		s.facets, s.sources, s.terms = map[string]*searched[facetRow]{}, map[string]*searched[sourceRow]{}, map[string]*searched[termRow]{}
	}
	look(s.known, s.facets, a, index, []facetRow{a.lists.facet})
	look(s.known, s.sources, a, index, a.lists.sources)
	look(s.known, s.terms, a, index, a.lists.terms)
	for _, p := range a.lists.postings {
		s.postings[string(p.Term)+a.event.ID] = &searched[postingRow]{p, a.event.ID, index}
	}
}

// look notes lists that are to be compared.
func look[R any, P pointer[R]](known map[string]head, in map[string]*searched[R], a arrival, index int64, rows []R) {
	for _, r := range rows {
		h := P(&r).head()
		id := string(h.ID)
		if k, ok := known[id]; ok && k.holds(*h) {
			continue
		}
		if old, ok := in[id]; ok {
			*P(&old.row).head() = P(&old.row).head().join(*h)
		} else {
			in[id] = &searched[R]{r, a.event.ID, index}
		}
	}
}

// compareSearch compares what was noted since the last call with the tables: who removes a row there hides records from searches.
func (w *walk) compareSearch(db *gorm.DB) error {
	s := &w.search
	if err := compareRows(w, db, s.facets, "audit_facets"); err != nil {
		return err
	}
	if err := compareRows(w, db, s.sources, "audit_sources"); err != nil {
		return err
	}
	if err := compareRows(w, db, s.terms, "audit_terms"); err != nil {
		return err
	}
	return w.comparePostings(db)
}

// compareRows looks for these rows by their ids. What they say must be as it should; their times may reach further.
func compareRows[R any, P pointer[R]](w *walk, db *gorm.DB, want map[string]*searched[R], table string) error {
	ids := make([][]byte, 0, len(want))
	for key := range want {
		ids = append(ids, []byte(key))
	}
	for part := range slices.Chunk(ids, insertBatch) {
		var rows []R
		if err := db.Where("id IN ?", part).Find(&rows).Error; err != nil {
			return fmt.Errorf("read %s: %w", table, err)
		}
		for _, r := range rows {
			h := P(&r).head()
			stored, m := *h, want[string(h.ID)]
			*h = *P(&m.row).head()
			if stored.holds(*h) && reflect.DeepEqual(m.row, r) {
				w.search.known[string(h.ID)] = stored
				delete(want, string(h.ID))
			}
		}
	}
	for key, m := range want {
		w.problem("column", m.record, m.index, "what this record is searched by, in "+table+", is missing or differs from the payload")
		w.search.known[key] = head{Oldest: math.MinInt64, Newest: math.MaxInt64} // said once
		delete(want, key)
	}
	return nil
}

func (w *walk) comparePostings(db *gorm.DB) error {
	all := make([]postingRow, 0, len(w.search.postings))
	for _, m := range w.search.postings {
		all = append(all, m.row)
	}
	slices.SortFunc(all, func(a, b postingRow) int { return int(min(1, max(-1, a.Time-b.Time))) })
	for part := range slices.Chunk(all, insertBatch) {
		var terms [][]byte
		var ids []string
		for _, p := range part {
			terms, ids = append(terms, p.Term), append(ids, p.ID)
		}
		var rows []postingRow
		err := db.Where("term IN ? AND time BETWEEN ? AND ? AND id IN ?", terms, part[0].Time, part[len(part)-1].Time, ids).Find(&rows).Error
		if err != nil {
			return fmt.Errorf("read audit_postings: %w", err)
		}
		for _, r := range rows {
			key := string(r.Term) + r.ID
			if m, ok := w.search.postings[key]; ok && m.row.Time == r.Time && bytes.Equal(m.row.Facet, r.Facet) {
				delete(w.search.postings, key)
			}
		}
	}
	for key, m := range w.search.postings {
		w.problem("column", m.record, m.index, "what this record is searched by, in audit_postings, is missing or differs from the payload")
		delete(w.search.postings, key)
	}
	return nil
}
