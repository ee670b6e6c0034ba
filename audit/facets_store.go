package audit

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/facet"
)

// newestUnit is what newest of a list is rounded up to, in microseconds: a list is touched once an hour, not with every record.
const newestUnit = int64(time.Hour / time.Microsecond)

// newestFor is newest of a list that has a record of a time: the end of its hour.
func newestFor(at int64) int64 {
	if at > math.MaxInt64-newestUnit {
		return math.MaxInt64
	}
	return (at/newestUnit + 1) * newestUnit
}

// head is what a list of records is kept up to date by: all its records are from before newest.
type head struct {
	ID     []byte
	Newest int64
}

// list is a list of records that a search reads, newest first.
type list interface{ head() head }

// facetRow is what many records have in common, see package facet. Text is what a search for text looks at.
type facetRow struct {
	ID          []byte
	facet.Facet `gorm:"embedded"`
	Text        string
	Newest      int64
}

func (facetRow) TableName() string { return "audit_facets" }
func (r facetRow) head() head      { return head{r.ID, r.Newest} }

// termRow is a text that few records have: a resource or a document.
type termRow struct {
	ID     []byte
	Tenant string
	Text   string
	Newest int64
}

func (termRow) TableName() string { return "audit_terms" }
func (r termRow) head() head      { return head{r.ID, r.Newest} }

// sourceRow is an address that records of a facet came from. Its id is the facet in hexadecimal and the address.
type sourceRow struct {
	ID     []byte
	Source string
	Facet  []byte
	Newest int64
}

func (sourceRow) TableName() string { return "audit_sources" }
func (r sourceRow) head() head      { return head{r.ID, r.Newest} }

// postingRow says that a record has a term.
type postingRow struct {
	Term  []byte
	Time  int64
	ID    string
	Facet []byte
}

func (postingRow) TableName() string { return "audit_postings" }

// facetOf returns what e has in common with others.
func facetOf(e Event) facet.Facet {
	var classes []string
	for _, f := range e.Findings {
		classes = append(classes, f.Class)
	}
	return facet.Of(facet.Facet{
		Tenant: e.Tenant, Project: e.Project, ActorKind: e.Actor.Kind, Actor: e.Actor.ID, ActorName: e.Actor.Name, Action: e.Action,
		Stage: string(e.Stage), Model: e.Model.Asked, Routed: e.Model.Routed, Version: e.Model.Version, Policy: e.Policy, Rollout: e.Rollout,
		Arm: e.Arm, Decision: e.Decision, Outcome: e.Outcome, ErrorCode: e.ErrorCode,
	}, classes)
}

// lists are the lists that a record is on, and its postings. They depend on nothing but the record.
type lists struct {
	facet    facetRow
	source   *sourceRow // nil without an address
	terms    []termRow
	postings []postingRow
}

func listsOf(e Event) lists {
	f, newest := facetOf(e), newestFor(e.Time)
	l := lists{facet: facetRow{ID: f.ID(), Facet: f, Text: f.Text(), Newest: newest}}
	if source := column(e.Source); source != "" {
		id := append(hex.AppendEncode(nil, l.facet.ID), source...)
		l.source = &sourceRow{ID: id, Source: source, Facet: l.facet.ID, Newest: newest}
	}
	for _, t := range facet.Terms(e.Tenant, e.Resource, e.Documents) {
		id := t.ID()
		l.terms = append(l.terms, termRow{ID: id, Tenant: t.Tenant, Text: t.Text, Newest: newest})
		l.postings = append(l.postings, postingRow{Term: id, Time: e.Time, ID: column(e.ID), Facet: l.facet.ID})
	}
	return l
}

// index puts records on their lists, in the transaction that stores them. Lists are stored in the order of their ids, so that two replicas
// wait for each other and do not lock each other out.
func index(tx *gorm.DB, records []lists) error {
	if !database.IsSQLite(tx) { // keeps a pruning from removing a list that is only looked at here
		if err := tx.Exec("LOCK TABLE audit_facets IN ROW EXCLUSIVE MODE").Error; err != nil {
			return fmt.Errorf("lock facets: %w", err)
		}
	}
	facets, sources, terms := map[string]facetRow{}, map[string]sourceRow{}, map[string]termRow{}
	var postings []postingRow
	for _, r := range records {
		latest(facets, r.facet)
		if r.source != nil {
			latest(sources, *r.source)
		}
		for _, t := range r.terms {
			latest(terms, t)
		}
		postings = append(postings, r.postings...)
	}
	if err := addNew(tx, facets); err != nil {
		return fmt.Errorf("store facets: %w", err)
	}
	if err := addNew(tx, sources); err != nil {
		return fmt.Errorf("store sources: %w", err)
	}
	if err := addNew(tx, terms); err != nil {
		return fmt.Errorf("store terms: %w", err)
	}
	if len(postings) > 0 {
		if err := tx.CreateInBatches(postings, insertBatch).Error; err != nil {
			return fmt.Errorf("store postings: %w", err)
		}
	}
	return nil
}

// latest notes a list under its id, with the latest newest of those that came.
func latest[L list](in map[string]L, l L) {
	h := l.head()
	if old, ok := in[string(h.ID)]; !ok || old.head().Newest < h.Newest {
		in[string(h.ID)] = l
	}
}

// addNew stores the lists that are not there yet, and moves newest of the others. Most are there and young enough: asking is cheaper than
// trying.
func addNew[L list](tx *gorm.DB, rows map[string]L) error {
	ids := make([][]byte, 0, len(rows))
	for id := range rows {
		ids = append(ids, []byte(id))
	}
	slices.SortFunc(ids, bytes.Compare)
	var behind []head
	for part := range slices.Chunk(ids, insertBatch) {
		var there []head
		if err := tx.Model(new(L)).Select("id", "newest").Where("id IN ?", part).Order("id").Find(&there).Error; err != nil {
			return err
		}
		have := make(map[string]int64, len(there))
		for _, h := range there {
			have[string(h.ID)] = h.Newest
		}
		var fresh []L
		for _, id := range part {
			newest, ok := have[string(id)]
			switch h := rows[string(id)].head(); {
			case !ok:
				fresh = append(fresh, rows[string(id)])
			case newest < h.Newest:
				behind = append(behind, h)
			}
		}
		if len(fresh) == 0 {
			continue
		}
		res := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&fresh)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected < int64(len(fresh)) { // another replica stored one of them meanwhile
			for _, l := range fresh {
				behind = append(behind, l.head())
			}
		}
	}
	slices.SortFunc(behind, func(a, b head) int { return bytes.Compare(a.ID, b.ID) })
	for _, h := range behind {
		if err := tx.Model(new(L)).Where("id = ? AND newest < ?", h.ID, h.Newest).Update("newest", h.Newest).Error; err != nil {
			return err
		}
	}
	return nil
}

// removeUnused removes the lists whose records are all gone, after a pruning of records up to a time. It holds off whoever indexes.
func removeUnused(tx *gorm.DB, upTo int64) error {
	if !database.IsSQLite(tx) {
		if err := tx.Exec("LOCK TABLE audit_facets IN SHARE ROW EXCLUSIVE MODE").Error; err != nil {
			return fmt.Errorf("lock facets: %w", err)
		}
	}
	for _, statement := range []string{
		"DELETE FROM audit_facets WHERE newest <= ? AND NOT EXISTS (SELECT 1 FROM audit_events AS e WHERE e.facet = audit_facets.id)",
		"DELETE FROM audit_sources WHERE newest <= ? AND NOT EXISTS (SELECT 1 FROM audit_events AS e WHERE e.source = audit_sources.source AND e.source <> '' AND e.facet = audit_sources.facet)",
		"DELETE FROM audit_terms WHERE newest <= ? AND NOT EXISTS (SELECT 1 FROM audit_postings AS p WHERE p.term = audit_terms.id)",
	} {
		if err := tx.Exec(statement, newestFor(upTo)).Error; err != nil {
			return fmt.Errorf("remove what no record has any more: %w", err)
		}
	}
	return nil
}
