package audit

import (
	"bytes"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/facet"
)

// facetRow is what many records have in common, see package facet. Text is what a search for text looks at.
type facetRow struct {
	ID          []byte
	facet.Facet `gorm:"embedded"`
	Text        string
}

func (facetRow) TableName() string { return "audit_facets" }

// termRow is a text that few records have: a resource or a document.
type termRow struct {
	ID     []byte
	Tenant string
	Text   string
}

func (termRow) TableName() string { return "audit_terms" }

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

func termsOf(e Event) []facet.Term { return facet.Terms(e.Tenant, e.Resource, e.Documents) }

// postingsOf returns the postings of a record.
func postingsOf(e Event) []postingRow {
	id := facetOf(e).ID()
	var out []postingRow
	for _, t := range termsOf(e) {
		out = append(out, postingRow{Term: t.ID(), Time: e.Time, ID: column(e.ID), Facet: id})
	}
	return out
}

// index stores what these records are searched by, in the transaction that stores the records. Facets and terms are stored in the order of
// their ids, so that two replicas wait for each other and do not lock each other out.
func index(tx *gorm.DB, events []Event) error {
	facets, terms := map[string]facetRow{}, map[string]termRow{}
	var postings []postingRow
	for _, e := range events {
		f := facetOf(e)
		facets[string(f.ID())] = facetRow{ID: f.ID(), Facet: f, Text: f.Text()}
		for _, t := range termsOf(e) {
			terms[string(t.ID())] = termRow{ID: t.ID(), Tenant: t.Tenant, Text: t.Text}
		}
		postings = append(postings, postingsOf(e)...)
	}
	if err := addNew(tx, facets); err != nil {
		return fmt.Errorf("store facets: %w", err)
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

// addNew stores the rows that are not there yet. Most are: asking is cheaper than trying.
func addNew[R any](tx *gorm.DB, rows map[string]R) error {
	ids := make([][]byte, 0, len(rows))
	for id := range rows {
		ids = append(ids, []byte(id))
	}
	slices.SortFunc(ids, bytes.Compare)
	for part := range slices.Chunk(ids, insertBatch) {
		var there [][]byte
		if err := tx.Model(new(R)).Where("id IN ?", part).Pluck("id", &there).Error; err != nil {
			return err
		}
		for _, id := range there {
			delete(rows, string(id))
		}
		var fresh []R
		for _, id := range part {
			if r, ok := rows[string(id)]; ok {
				fresh = append(fresh, r)
			}
		}
		if len(fresh) == 0 {
			continue
		}
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&fresh).Error; err != nil {
			return err
		}
	}
	return nil
}
