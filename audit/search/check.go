package search

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"

	"gorm.io/gorm"
)

// Check compares what records are searched by with the tables: who removes a row there hides records from searches. Its zero value with
// Problem set is ready. A list is compared once, and again when a record shows that is of a time which the list did not reach.
type Check struct {
	// Problem is told of a record, by its id and position, that the tables do not say what they should about, and why.
	Problem func(record string, index int64, cause string)

	known    map[string]head // lists that were compared, by id
	sets     map[string]*searched[setRow]
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

// Note takes a record, by its id and position, to be compared.
func (c *Check) Note(l Lists, record string, index int64) {
	if c.known == nil {
		c.known, c.postings = map[string]head{}, map[string]*searched[postingRow]{}
		c.sets, c.sources, c.terms = map[string]*searched[setRow]{}, map[string]*searched[sourceRow]{}, map[string]*searched[termRow]{}
	}
	note(c.known, c.sets, record, index, []setRow{l.set})
	note(c.known, c.sources, record, index, l.sources)
	note(c.known, c.terms, record, index, l.terms)
	for _, p := range l.postings {
		c.postings[string(p.Term)+record] = &searched[postingRow]{p, record, index}
	}
}

// note notes lists that are to be compared.
func note[R any, P pointer[R]](known map[string]head, in map[string]*searched[R], record string, index int64, rows []R) {
	for _, r := range rows {
		h := P(&r).head()
		id := string(h.ID)
		if k, ok := known[id]; ok && k.holds(*h) {
			continue
		}
		if old, ok := in[id]; ok {
			*P(&old.row).head() = P(&old.row).head().join(*h)
		} else {
			in[id] = &searched[R]{r, record, index}
		}
	}
}

// Compare compares what was noted since the last call with the tables.
func (c *Check) Compare(db *gorm.DB) error {
	if err := compareRows(c, db, c.sets, "audit_facets"); err != nil {
		return err
	}
	if err := compareRows(c, db, c.sources, "audit_sources"); err != nil {
		return err
	}
	if err := compareRows(c, db, c.terms, "audit_terms"); err != nil {
		return err
	}
	return c.comparePostings(db)
}

// compareRows looks for these rows by their ids. What they say must be as it should; their times may reach further.
func compareRows[R any, P pointer[R]](c *Check, db *gorm.DB, want map[string]*searched[R], table string) error {
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
				c.known[string(h.ID)] = stored
				delete(want, string(h.ID))
			}
		}
	}
	for key, m := range want {
		c.Problem(m.record, m.index, "what this record is searched by, in "+table+", is missing or differs from the payload")
		c.known[key] = head{Oldest: math.MinInt64, Newest: math.MaxInt64} // said once
		delete(want, key)
	}
	return nil
}

func (c *Check) comparePostings(db *gorm.DB) error {
	all := make([]postingRow, 0, len(c.postings))
	for _, m := range c.postings {
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
			if m, ok := c.postings[key]; ok && m.row.Time == r.Time && bytes.Equal(m.row.Set, r.Set) {
				delete(c.postings, key)
			}
		}
	}
	for key, m := range c.postings {
		c.Problem(m.record, m.index, "what this record is searched by, in audit_postings, is missing or differs from the payload")
		delete(c.postings, key)
	}
	return nil
}
