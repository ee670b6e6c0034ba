package audit

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
)

// searchable collects what the records read since the last comparison are searched by. A facet or term is compared once.
type searchable struct {
	known    map[string]bool // ids of facets and terms that were compared
	facets   map[string]searched[facetRow]
	terms    map[string]searched[termRow]
	postings map[string]searched[postingRow]
}

// searched is a row that should be there, and a record that says so.
type searched[R any] struct {
	row    R
	record string
	index  int64
}

// searchBy notes what a record is searched by. facet is the id of its facet.
func (w *walk) searchBy(e Event, facet []byte, index int64) {
	s := &w.search
	if s.known == nil {
		s.known = map[string]bool{}
		s.facets, s.terms, s.postings = map[string]searched[facetRow]{}, map[string]searched[termRow]{}, map[string]searched[postingRow]{}
	}
	if !s.known[string(facet)] {
		f := facetOf(e)
		s.known[string(facet)] = true
		s.facets[string(facet)] = searched[facetRow]{facetRow{ID: facet, Facet: f, Text: f.Text()}, e.ID, index}
	}
	for _, t := range termsOf(e) {
		id := t.ID()
		s.postings[string(id)+e.ID] = searched[postingRow]{postingRow{Term: id, Time: e.Time, ID: column(e.ID), Facet: facet}, e.ID, index}
		if !s.known[string(id)] {
			s.known[string(id)] = true
			s.terms[string(id)] = searched[termRow]{termRow{ID: id, Tenant: t.Tenant, Text: t.Text}, e.ID, index}
		}
	}
}

// compareSearch compares what was noted since the last call with the tables: who removes a row there hides records from searches.
func (w *walk) compareSearch(db *gorm.DB) error {
	s := &w.search
	if err := compareRows(w, db, s.facets, "audit_facets", func(r facetRow) []byte { return r.ID }); err != nil {
		return err
	}
	if err := compareRows(w, db, s.terms, "audit_terms", func(r termRow) []byte { return r.ID }); err != nil {
		return err
	}
	return w.comparePostings(db)
}

// compareRows looks for these rows by their ids.
func compareRows[R any](w *walk, db *gorm.DB, want map[string]searched[R], table string, id func(R) []byte) error {
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
			if key := string(id(r)); reflect.DeepEqual(want[key].row, r) {
				delete(want, key)
			}
		}
	}
	for key, m := range want {
		w.problem("column", m.record, m.index, "what this record is searched by, in "+table+", is missing or differs from the payload")
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
