package migrations

import (
	"context"
	"encoding/json"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/facet"
)

// facetsVersion is the migration after which older audit records get what they are searched by.
const facetsVersion = 11

const facetsPage = 1000

// oldRecord is what is read of a payload: these names are in both versions that were written before facetsVersion, and are frozen.
type oldRecord struct {
	Project  string `json:"project"`
	Resource string `json:"resource"`
	Actor    struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"actor"`
	Findings []struct {
		Class string `json:"class"`
	} `json:"findings"`
	Documents []string `json:"documents"`
}

type oldRow struct {
	Writer, ID, Tenant, Action, Stage, Model, Routed, Version, Policy, Rollout, Arm, Decision, Outcome, ErrorCode string
	Seq, Time                                                                                                     int64
	Payload                                                                                                       []byte
}

// fillFacets fills audit_facets, audit_terms, audit_postings and audit_events.facet for the records that were there before, in one
// transaction. It costs one pass over the records, and nothing when there are none to fill.
func fillFacets(ctx context.Context, db *gorm.DB) error {
	var n int64
	if err := db.WithContext(ctx).Raw("SELECT COUNT(*) FROM (SELECT 1 FROM audit_events WHERE length(facet) = 0 LIMIT 1) AS old").Scan(&n).Error; err != nil {
		return fmt.Errorf("look for audit records to index: %w", err)
	}
	if n == 0 {
		return nil
	}
	err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		restore, err := allowUpdates(tx)
		if err != nil {
			return err
		}
		if err := fillIn(tx); err != nil {
			return err
		}
		return tx.Exec(restore).Error
	})
	if err != nil {
		return fmt.Errorf("index audit records: %w", err)
	}
	return nil
}

// allowUpdates lifts what guards audit_events for the rest of the transaction, and returns the statement that puts it back.
func allowUpdates(tx *gorm.DB) (string, error) {
	if !database.IsSQLite(tx) {
		return "ALTER TABLE audit_events ENABLE TRIGGER audit_events_no_change",
			tx.Exec("ALTER TABLE audit_events DISABLE TRIGGER audit_events_no_change").Error
	}
	var restore string
	if err := tx.Raw("SELECT sql FROM sqlite_master WHERE name = 'audit_events_no_update'").Row().Scan(&restore); err != nil {
		return "", err
	}
	return restore, tx.Exec("DROP TRIGGER audit_events_no_update").Error
}

func fillIn(tx *gorm.DB) error {
	seen := map[string]bool{}
	writer, seq := "", int64(0)
	for {
		var rows []oldRow
		err := tx.Raw("SELECT writer, seq, id, tenant, action, stage, model, routed, version, policy, rollout, arm, decision, outcome, error_code, time, payload "+
			"FROM audit_events WHERE (writer, seq) > (?, ?) AND length(facet) = 0 ORDER BY writer, seq LIMIT ?", writer, seq, facetsPage).Scan(&rows).Error
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := fillOne(tx, r, seen); err != nil {
				return fmt.Errorf("record %s: %w", r.ID, err)
			}
		}
		if len(rows) < facetsPage {
			return nil
		}
		writer, seq = rows[len(rows)-1].Writer, rows[len(rows)-1].Seq
	}
}

// fillOne indexes one record. A payload that cannot be read was tampered with: it stays without a facet, and Verify names it.
func fillOne(tx *gorm.DB, r oldRow, seen map[string]bool) error {
	var e oldRecord
	if err := json.Unmarshal(r.Payload, &e); err != nil {
		return nil //nolint:nilerr // see above
	}
	var classes []string
	for _, f := range e.Findings {
		classes = append(classes, f.Class)
	}
	f := facet.Of(facet.Facet{
		Tenant: r.Tenant, Project: e.Project, ActorKind: e.Actor.Kind, Actor: e.Actor.ID, ActorName: e.Actor.Name, Action: r.Action, Stage: r.Stage,
		Model: r.Model, Routed: r.Routed, Version: r.Version, Policy: r.Policy, Rollout: r.Rollout, Arm: r.Arm, Decision: r.Decision,
		Outcome: r.Outcome, ErrorCode: r.ErrorCode,
	}, classes)
	if err := addOnce(tx, seen, "audit_facets", f.ID(), map[string]any{
		"id": f.ID(), "tenant": f.Tenant, "project": f.Project, "actor_kind": f.ActorKind, "actor": f.Actor, "actor_name": f.ActorName,
		"action": f.Action, "stage": f.Stage, "model": f.Model, "routed": f.Routed, "version": f.Version, "policy": f.Policy, "rollout": f.Rollout,
		"arm": f.Arm, "decision": f.Decision, "outcome": f.Outcome, "error_code": f.ErrorCode, "classes": f.Classes, "text": f.Text(),
	}); err != nil {
		return err
	}
	for _, t := range facet.Terms(r.Tenant, e.Resource, e.Documents) {
		if err := addOnce(tx, seen, "audit_terms", t.ID(), map[string]any{"id": t.ID(), "tenant": t.Tenant, "text": t.Text}); err != nil {
			return err
		}
		posting := map[string]any{"term": t.ID(), "time": r.Time, "id": r.ID, "facet": f.ID()}
		if err := tx.Table("audit_postings").Create(posting).Error; err != nil {
			return err
		}
	}
	return tx.Exec("UPDATE audit_events SET facet = ? WHERE writer = ? AND seq = ?", f.ID(), r.Writer, r.Seq).Error
}

func addOnce(tx *gorm.DB, seen map[string]bool, table string, id []byte, row map[string]any) error {
	if seen[string(id)] {
		return nil
	}
	seen[string(id)] = true
	return tx.Table(table).Clauses(clause.OnConflict{DoNothing: true}).Create(row).Error
}
