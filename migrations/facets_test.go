package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestOldRecordsAreIndexed puts records where the release before left them and applies the rest: what they are searched by is then what
// verification computes from their payloads, and they cannot be changed.
func TestOldRecordsAreIndexed(t *testing.T) {
	for name, url := range map[string]func() string{
		"sqlite":   func() string { return "sqlite:" + filepath.Join(t.TempDir(), "old.db") },
		"postgres": func() string { return dbtest.PostgresURL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(url())})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = database.Close(db) })
			if err := migrations.ApplyTo(t.Context(), db, 10); err != nil {
				t.Fatal(err)
			}
			for n := range 30 {
				if err := db.Table("audit_events").Create(oldRow(t, n)).Error; err != nil {
					t.Fatal(err)
				}
			}
			if _, err := migrations.Apply(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			keys := keyring.FromBytes(make([]byte, 32))
			key, err := audit.VerifierKey(audit.Config{}, keys)
			if err != nil {
				t.Fatal(err)
			}
			r, err := verify.Run(t.Context(), verify.Source{DB: db, VerifierKey: key}, nil)
			if err != nil || !r.OK || r.Records != 30 {
				t.Errorf("%+v, %v", r, err)
			}
			var facets, postings int64
			db.Table("audit_facets").Count(&facets)
			db.Table("audit_postings").Count(&postings)
			if facets != 2 || postings != 60 {
				t.Errorf("%d facets, %d postings", facets, postings)
			}
			if got := indexDigest(t, db); got != "99db06959d2c86c22c875bbcad5c8386a9204174e015993900f91eaca915dec8" {
				t.Errorf("the rows are others than those of the release that made them: %s", got)
			}
			if err := db.Exec("UPDATE audit_events SET tenant = 'x'").Error; err == nil {
				t.Error("records can be changed")
			}
		})
	}
}

// indexDigest is over all rows that the migration made.
func indexDigest(t *testing.T, db *gorm.DB) string {
	t.Helper()
	sum := sha256.New()
	for _, query := range []string{
		"SELECT * FROM audit_facets ORDER BY id", "SELECT * FROM audit_terms ORDER BY id", "SELECT * FROM audit_postings ORDER BY term, time, id",
		"SELECT id, facet FROM audit_events ORDER BY id",
	} {
		var rows []map[string]any
		if err := db.Raw(query).Scan(&rows).Error; err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			for _, name := range slices.Sorted(maps.Keys(row)) {
				if name == "oldest" || name == "newest" { // of a later migration
					continue
				}
				fmt.Fprintf(sum, "%s %q\n", name, fmt.Sprint(row[name]))
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// oldRow is a record as the release before stored it.
func oldRow(t *testing.T, n int) map[string]any {
	t.Helper()
	e := recordtest.Sample(n)
	e.Schema, e.ID, e.Salt = 2, e.Request, "00"
	e.Actor.Name = []string{"a\x00b", "Ünïcode"}[n%2]
	e.Model.Asked = strings.Repeat("长", 100*(n%2+1))
	payload, err := record.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	leaf := tlog.RecordHash(payload)
	return map[string]any{
		"writer": "w", "seq": n + 1, "id": e.ID, "request": e.Request, "stage": string(e.Stage), "time": e.Time, "tenant": e.Tenant, "project": e.Project,
		"actor_kind": e.Actor.Kind, "actor": e.Actor.ID, "session": e.Session, "source": e.Source, "action": e.Action, "resource": e.Resource,
		"model": e.Model.Asked, "routed": e.Model.Routed, "version": e.Model.Version, "policy": e.Policy, "rollout": e.Rollout, "arm": e.Arm,
		"decision": e.Decision, "outcome": e.Outcome, "error_code": e.ErrorCode, "status": e.Status, "prompt_tokens": e.Usage.PromptTokens,
		"completion_tokens": e.Usage.CompletionTokens, "cost": e.Usage.Cost, "first_token": e.Latency.FirstToken, "total": e.Latency.Total,
		"payload": payload, "leaf_hash": leaf[:],
	}
}
