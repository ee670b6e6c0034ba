package search

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestArmSumsTimes generates as many answers of a rollout as SLUICE_BENCH_ARMS says in each database, ten to a conversation, half in each arm, and prints
// how long it takes to sum up both arms: over every record, for the first time, after a minute of 100 requests a second, and when nothing came.
func TestArmSumsTimes(t *testing.T) {
	rows, err := strconv.ParseInt(os.Getenv("SLUICE_BENCH_ARMS"), 10, 64)
	if err != nil || rows < 1000 {
		t.Skip("SLUICE_BENCH_ARMS says how many answers to generate")
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			url := "sqlite:" + filepath.Join(t.TempDir(), "bench.db")
			series := "WITH RECURSIVE s(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM s WHERE n < %d) "
			if kind == "postgres" {
				url, series = dbtest.PostgresURL(t), "WITH s AS (SELECT generate_series(%d::bigint, %d::bigint) AS n) "
			}
			db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(url)})
			must(t, err)
			t.Cleanup(func() { _ = database.Close(db) })
			_, err = migrations.Apply(t.Context(), db)
			must(t, err)
			if kind == "postgres" {
				must(t, db.Exec("SELECT audit_partition(?)", benchStart).Error)
			} else {
				must(t, db.Exec("PRAGMA cache_size = -64000").Error)
			}
			for _, index := range []string{"tenant", "facet", "session"} { // of no use here
				must(t, db.Exec("DROP INDEX audit_events_"+index).Error)
			}
			add := func(from, to int64) {
				blob := map[string]string{"sqlite": "X'00'", "postgres": "'x'::bytea"}[kind]
				must(t, db.Exec(fmt.Sprintf(series+`INSERT INTO audit_events (writer, seq, id, request, stage, time, tenant, project, actor_kind, actor, session, source, action,
					resource, model, routed, version, policy, rollout, arm, decision, outcome, error_code, status, prompt_tokens, completion_tokens, cost, first_token, total,
					payload, leaf_hash, on_behalf_of, facet)
					SELECT 'w', n, 'id-' || n, 'r-' || n, 'outcome', %d + n, 't' || (n %% 30), '', '', '', 's-' || (n / 10), '', '', '', '', '', '', '', 'ro-1',
					CASE WHEN n / 10 %% 2 = 0 THEN 'stable' ELSE 'candidate' END, 'allow', CASE WHEN n %% 200 = 0 THEN 'failed' ELSE 'ok' END, '', 200, 10, n %% 300, n %% 5000,
					1000 + n * 7919 %% 100000, 10000 + n * 7919 %% 1000000, %s, %s, '', %s FROM s`, from, to-1, benchStart, blob, blob, blob)).Error)
			}
			for at := int64(0); at < rows; at += benchChunk {
				add(at, min(at+benchChunk, rows))
			}
			if kind == "postgres" {
				must(t, db.Exec("VACUUM ANALYZE").Error)
			}
			r := NewReader(db, nil)
			measure := func(what string, sum func(arm string) error) {
				start := time.Now()
				for _, arm := range []string{"stable", "candidate"} {
					must(t, sum(arm))
				}
				fmt.Printf("%s, %d answers: %s: %.0f ms\n", kind, rows, what, ms(time.Since(start)))
			}
			kept := func(arm string) error {
				_, err := r.ArmSums(t.Context(), "ro-1", arm, benchStart)
				return err
			}
			measure("every record", func(arm string) error {
				_, err := r.FullArmSums(t.Context(), "ro-1", arm, benchStart)
				return err
			})
			measure("first time", kept)
			add(rows, rows+6000)
			measure("6,000 came", kept)
			measure("none came", kept)
		})
	}
}
