package migrations

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
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
	if tx.Name() != "sqlite" { // asked here: what a released migration does must not change with other packages
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
	f := newOldSet([]string{
		r.Tenant, e.Project, e.Actor.Kind, e.Actor.ID, e.Actor.Name, r.Action, r.Stage, r.Model, r.Routed, r.Version, r.Policy, r.Rollout, r.Arm,
		r.Decision, r.Outcome, r.ErrorCode,
	}, classes)
	if err := addOnce(tx, seen, "audit_facets", f["id"].([]byte), f); err != nil {
		return err
	}
	for _, text := range oldTerms(e.Resource, e.Documents) {
		tenant := oldValue(r.Tenant)
		id := oldID("term", tenant, text)
		if err := addOnce(tx, seen, "audit_terms", id, map[string]any{"id": id, "tenant": tenant, "text": text}); err != nil {
			return err
		}
		posting := map[string]any{"term": id, "time": r.Time, "id": r.ID, "facet": f["id"]}
		if err := tx.Table("audit_postings").Create(posting).Error; err != nil {
			return err
		}
	}
	return tx.Exec("UPDATE audit_events SET facet = ? WHERE writer = ? AND seq = ?", f["id"], r.Writer, r.Seq).Error
}

func addOnce(tx *gorm.DB, seen map[string]bool, table string, id []byte, row map[string]any) error {
	if seen[string(id)] {
		return nil
	}
	seen[string(id)] = true
	return tx.Table(table).Clauses(clause.OnConflict{DoNothing: true}).Create(row).Error
}

// What follows is a copy of how records were condensed for searches at facetsVersion. It is frozen: package search goes its own way.

// newOldSet returns the row of audit_facets with these values, which are in the order of its columns, and these classes of findings.
func newOldSet(values, classes []string) map[string]any {
	names := []string{
		"tenant", "project", "actor_kind", "actor", "actor_name", "action", "stage", "model", "routed", "version", "policy", "rollout", "arm",
		"decision", "outcome", "error_code", "classes",
	}
	values = append(values, "")
	row := map[string]any{}
	for i, v := range values {
		values[i] = oldValue(v)
	}
	values[len(values)-1] = oldClasses(classes)
	for i, v := range values {
		row[names[i]] = v
	}
	row["id"] = oldID("facet", values...)
	row["text"] = strings.ToLower(strings.Join([]string{values[3], values[4], values[5], values[7], values[8], values[15], values[11], values[10]}, "\n"))
	return row
}

// oldTerms are the resource and the documents of a record, without the place in them, as they are stored.
func oldTerms(resource string, documents []string) []string {
	texts := []string{resource}
	for _, d := range documents {
		whole, _, _ := strings.Cut(d, "#")
		texts = append(texts, whole)
	}
	var out []string
	for _, text := range texts {
		t := oldValue(strings.ToLower(text))
		if text != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// oldValue is s without NUL, and cut at 512 bytes, between two runes.
func oldValue(s string) string {
	const most = 512
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// oldClasses writes classes sorted, each between newlines, "" for none.
func oldClasses(classes []string) string {
	if len(classes) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(classes))
	for i, c := range sorted {
		sorted[i] = strings.Trim(strings.ReplaceAll(oldValue(c), "\n", " "), "\n")
	}
	return "\n" + strings.Join(slices.Compact(sorted), "\n") + "\n"
}

func oldID(kind string, parts ...string) []byte {
	b := []byte("sluice/" + kind + "/v1")
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	h := sha256.Sum256(b)
	return h[:16]
}
