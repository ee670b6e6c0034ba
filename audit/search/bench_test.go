package search

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const (
	benchStart  = int64(1_750_000_000_000_000)
	benchSpan   = 190 * 24 * int64(time.Hour/time.Microsecond)
	benchEpochs = 20     // a policy and a model version each
	benchSlots  = 10_000 // drawn records of an epoch, which the generated ones repeat
	benchRuns   = 20
	benchChunk  = 250_000
)

// TestQueryTimes generates as many records as SLUICE_BENCH_ROWS says in each database, asks for first and deep pages, and prints how long they
// take. Records are generated inside the database, from drawn ones, with indexes built afterwards; their payloads are short, since no
// search looks into them before it has its page. SLUICE_BENCH_DATABASE limits it to sqlite or postgres.
func TestQueryTimes(t *testing.T) {
	rows, err := strconv.ParseInt(os.Getenv("SLUICE_BENCH_ROWS"), 10, 64)
	if err != nil || rows < 1000 {
		t.Skip("SLUICE_BENCH_ROWS says how many records to generate; see make bench-audit-query")
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		if only := os.Getenv("SLUICE_BENCH_DATABASE"); only != "" && only != kind {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			url := "sqlite:" + filepath.Join(t.TempDir(), "bench.db")
			if kind == "postgres" {
				url = dbtest.PostgresURL(t)
			}
			db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(url)})
			must(t, err)
			t.Cleanup(func() { _ = database.Close(db) })
			_, err = migrations.Apply(t.Context(), db)
			must(t, err)
			benchQueries(t, db, rows)
		})
	}
}

func benchQueries(t *testing.T, db *gorm.DB, rows int64) {
	begin := time.Now()
	g := generate(t, db, rows)
	took := time.Since(begin)
	var sets int64
	must(t, db.Model(&setRow{}).Count(&sets).Error)
	fmt.Printf("\n%s: %d records, %d attribute sets, %.0f bytes a record in the database, generated at %.0f records/s\n\n| question | first page p50, ms | p99 | records | deep page p50 | p99 | records |\n|---|---|---|---|---|---|---|\n",
		db.Name(), rows, sets, float64(g.size(t))/float64(rows), float64(rows)/took.Seconds())
	r := NewReader(db, nil)
	worst := time.Duration(0)
	for _, q := range g.questions() {
		line := "| " + q.name
		for _, deep := range []bool{false, true} {
			ask := q.Query
			if deep {
				ask.Cursor = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d ~", benchStart+benchSpan/3))
			}
			times, n := make([]time.Duration, 0, benchRuns), 0
			for i := range benchRuns + 1 {
				start := time.Now()
				page, err := r.Search(t.Context(), ask)
				must(t, err)
				if i > 0 { // the first warms up
					times = append(times, time.Since(start))
				}
				n = len(page.Events)
			}
			slices.Sort(times)
			worst = max(worst, times[len(times)-1])
			line += fmt.Sprintf(" | %.1f | %.1f | %d", ms(times[len(times)/2]), ms(times[len(times)-1]), n)
		}
		fmt.Println(line + " |")
	}
	fmt.Printf("\nworst: %.1f ms\n", ms(worst))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// question is a query with a name.
type question struct {
	name string
	Query
}

// generator fills a database.
type generator struct {
	db     *gorm.DB
	sqlite bool
	rows   int64
	step   int64
	r      *rand.Rand
}

func generate(t *testing.T, db *gorm.DB, rows int64) *generator {
	g := &generator{db: db, sqlite: database.IsSQLite(db), rows: rows, step: max(1, benchSpan/rows), r: rand.New(rand.NewPCG(1, 2))}
	if g.sqlite {
		g.exec(t, "PRAGMA cache_size = -64000")
	} else {
		g.exec(t, "SET maintenance_work_mem = '512MB'")
		for at := benchStart; at <= benchStart+benchSpan; at += 24 * int64(time.Hour/time.Microsecond) {
			g.exec(t, "SELECT audit_partition(?)", at)
		}
	}
	g.templates(t)
	restore := g.dropIndexes(t)
	g.records(t)
	for _, sql := range restore {
		g.exec(t, sql)
	}
	g.lists(t)
	g.rare(t)
	for _, table := range []string{"bench_slots", "bench_kinds", "bench_terms"} {
		g.exec(t, "DROP TABLE "+table)
	}
	if g.sqlite {
		g.exec(t, "PRAGMA wal_checkpoint(TRUNCATE)")
	} else {
		g.exec(t, "VACUUM ANALYZE")
	}
	return g
}

func (g *generator) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if err := g.db.WithContext(context.WithoutCancel(t.Context())).Exec(sql, args...).Error; err != nil {
		t.Fatalf("%.200s: %v", sql, err)
	}
}

// draw makes up one record of an epoch: fifty tenants of very different sizes, two thousand actors, each with an address of
// its own and one that all share, a dozen models and classes.
func (g *generator) draw(epoch int) record.Event {
	zipf := func(n int) int { return min(int(float64(n)*g.r.Float64()*g.r.Float64()*g.r.Float64()), n-1) }
	tenant, own := zipf(50), zipf(40)
	actor := tenant*40 + own
	source := fmt.Sprintf("10.0.%d.%d", actor/250, actor%250)
	if g.r.IntN(10) == 0 { // through a proxy that all share
		source = "10.0.9.9"
	}
	e := record.Event{
		Tenant: fmt.Sprintf("tenant-%02d", tenant), Project: fmt.Sprintf("project-%d", actor%7), Stage: record.StageOutcome, Policy: strconv.Itoa(epoch + 1),
		Actor:  record.Actor{Kind: "key", ID: fmt.Sprintf("key-%04d", actor), Name: fmt.Sprintf("application %d of team %d", actor, actor%90)},
		Action: []string{"chat.completions", "chat.completions", "chat.completions", "embeddings", "rag.search", "completions"}[g.r.IntN(6)],
		Source: source, Outcome: "ok", Decision: "allow", Status: 200,
	}
	model := (actor + zipf(6)) % 12
	e.Model = record.Model{Asked: fmt.Sprintf("model-%d", model), Routed: fmt.Sprintf("model-%d@%d", model, epoch/3), Version: strconv.Itoa(epoch / 3)}
	switch n := g.r.IntN(1000); {
	case n < 450:
		e.Stage, e.Outcome = record.StageAdmitted, ""
	case n < 470:
		e.Outcome, e.Decision, e.ErrorCode, e.Status = "refused", "refuse", []string{"blocked_request", "budget_exceeded"}[g.r.IntN(2)], 403
	case n < 480:
		e.Outcome, e.ErrorCode, e.Status = "failed", "engine_unavailable", 502
	}
	for range g.r.IntN(3) * g.r.IntN(2) {
		e.Findings = append(e.Findings, record.Finding{Class: fmt.Sprintf("class-%d", (actor+zipf(12))%12)})
	}
	return e
}

// templates stores what the generated records repeat: drawn records, which of them a slot stands for, and documents.
func (g *generator) templates(t *testing.T) {
	blob := map[bool]string{true: "BLOB", false: "BYTEA"}[g.sqlite]
	g.exec(t, "CREATE TABLE bench_kinds (k BIGINT PRIMARY KEY, facet "+blob+`, stage TEXT, tenant TEXT, project TEXT, actor TEXT, source TEXT, action TEXT,
		model TEXT, routed TEXT, version TEXT, policy TEXT, decision TEXT, outcome TEXT, error_code TEXT, status BIGINT)`)
	g.exec(t, "CREATE TABLE bench_slots (slot BIGINT PRIMARY KEY, k BIGINT)")
	g.exec(t, "CREATE TABLE bench_terms (tenant TEXT, n BIGINT, id "+blob+", PRIMARY KEY (tenant, n))")
	kinds, sets := map[string]int{}, map[string]*setRow{}
	var kindRows, slotRows []map[string]any
	for slot := range benchEpochs * benchSlots {
		e := g.draw(slot / benchSlots)
		f := attributesOf(&e)
		id := f.id()
		k, ok := kinds[string(id)]
		if !ok {
			k = len(kinds)
			kinds[string(id)] = k
			sets[string(id)] = &setRow{Head: head{ID: id}, Attributes: f, Text: f.text()}
			kindRows = append(kindRows, map[string]any{
				"k": k, "facet": id, "stage": f.Stage, "tenant": f.Tenant, "project": f.Project, "actor": f.Actor, "source": e.Source, "action": f.Action,
				"model": f.Model, "routed": f.Routed, "version": f.Version, "policy": f.Policy, "decision": f.Decision, "outcome": f.Outcome,
				"error_code": f.ErrorCode, "status": e.Status,
			})
		}
		slotRows = append(slotRows, map[string]any{"slot": slot, "k": k})
	}
	terms := map[string]*termRow{}
	var termRows []map[string]any
	for tenant := range 50 {
		for n := range 100 {
			term := termsOf(fmt.Sprintf("tenant-%02d", tenant), "", nil, []string{fmt.Sprintf("handbook/chapter-%d-%d@3#1", tenant, n)})[0]
			terms[string(term.id())] = &termRow{Head: head{ID: term.id()}, Tenant: term.Tenant, Text: term.Text}
			termRows = append(termRows, map[string]any{"tenant": term.Tenant, "n": n, "id": term.id()})
		}
	}
	must(t, g.db.Transaction(func(tx *gorm.DB) error {
		for _, b := range []struct {
			table string
			rows  []map[string]any
		}{{"bench_kinds", kindRows}, {"bench_slots", slotRows}, {"bench_terms", termRows}} {
			for part := range slices.Chunk(b.rows, 1000) {
				if err := tx.Table(b.table).Create(part).Error; err != nil {
					return err
				}
			}
		}
		if err := addNew(tx, sets); err != nil {
			return err
		}
		return addNew(tx, terms)
	}))
}

// dropIndexes drops what a table of records has beside its primary key, and returns the statements that make it again.
func (g *generator) dropIndexes(t *testing.T) []string {
	query := "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'audit_events' AND sql IS NOT NULL"
	if !g.sqlite {
		query = "SELECT indexname AS name, indexdef AS sql FROM pg_indexes WHERE tablename = 'audit_events' AND indexname <> 'audit_events_pkey'"
	}
	var indexes []struct{ Name, SQL string }
	must(t, g.db.Raw(query).Scan(&indexes).Error)
	if len(indexes) < 6 {
		t.Fatalf("only %d indexes found", len(indexes))
	}
	var out []string
	for _, i := range indexes {
		if strings.Contains(i.SQL, "(writer, seq") {
			continue
		}
		g.exec(t, "DROP INDEX "+i.Name)
		out = append(out, strings.Replace(i.SQL, "ON ONLY ", "ON ", 1))
	}
	return out
}

// records generates the records, their positions and postings, a chunk at a time.
func (g *generator) records(t *testing.T) {
	id, blob, leaf := "printf('%08x-0000-7000-8000-%012x', i, (i * 7919) % 1000003)", "CAST(%s AS BLOB)", "zeroblob(32)"
	if !g.sqlite {
		id, blob = "lpad(to_hex(i), 8, '0') || '-0000-7000-8000-' || lpad(to_hex((i * 7919) % 1000003), 12, '0')", "convert_to(%s, 'UTF8')"
		leaf = "decode(repeat('00', 32), 'hex')"
	}
	payload := fmt.Sprintf(blob, `'{"schema":2,"id":"' || `+id+` || '","stage":"' || k.stage || '","time":' || (?+0 + i * ?) || '}'`)
	if !g.sqlite {
		payload = strings.Replace(payload, "(?+0 + i * ?)", "(?::bigint + i * ?::bigint)", 1)
	}
	number := map[bool]string{true: "?+0", false: "?::bigint"}[g.sqlite]
	series := "WITH RECURSIVE s(i) AS (SELECT " + number + " UNION ALL SELECT i + 1 FROM s WHERE i < " + number + ") "
	if !g.sqlite {
		series = "WITH s AS (SELECT i FROM generate_series(?::bigint, ?::bigint) AS i) "
	}
	slot := fmt.Sprintf("(i * %d / (%s + 1)) * %d + (i * 48271) %% %d", benchEpochs, number, benchSlots, benchSlots)
	for lo := int64(1); lo <= g.rows; lo += benchChunk {
		hi := min(lo+benchChunk-1, g.rows)
		g.exec(t, series+`INSERT INTO audit_events (writer, seq, id, request, stage, time, tenant, project, actor_kind, actor, session, source, action, resource, model,
			routed, version, policy, rollout, arm, decision, outcome, error_code, status, prompt_tokens, completion_tokens, cost, first_token, total, payload,
			leaf_hash, on_behalf_of, facet)
			SELECT 'w', i, `+id+`, 'req-' || (i / 2), k.stage, `+number+` + i * `+number+`, k.tenant, k.project, 'key', k.actor, 'session-' || (i / 16), k.source, k.action, '', k.model,
			k.routed, k.version, k.policy, '', '', k.decision, k.outcome, k.error_code, k.status, 300, 120, 45000, 0, 0, `+payload+`, `+leaf+`,
			CASE WHEN i % 3 = 0 THEN 'person-' || ((i * 31) % 100003) ELSE '' END, k.facet
			FROM s CROSS JOIN bench_slots AS b CROSS JOIN bench_kinds AS k WHERE b.slot = `+slot+` AND k.k = b.k`,
			lo, hi, benchStart, g.step, benchStart, g.step, g.rows)
		g.exec(t, series+"INSERT INTO audit_leaves (idx, writer, seq, leaf_hash, time) SELECT i - 1, 'w', i, "+leaf+", "+number+" + i * "+number+" FROM s", lo, hi, benchStart, g.step)
		g.exec(t, `INSERT INTO audit_postings (term, time, id, facet) SELECT t.id, e.time, e.id, e.facet FROM audit_events AS e JOIN bench_terms AS t
			ON t.tenant = e.tenant AND t.n = (e.seq / 20) % 100 WHERE e.writer = 'w' AND e.seq BETWEEN ? AND ? AND e.seq % 20 = 0 AND e.action = 'rag.search'`, lo, hi)
	}
}

// lists brings the lists up to date, as the migration does that made them.
func (g *generator) lists(t *testing.T) {
	id := "CAST(lower(hex(facet)) || source AS BLOB)"
	if !g.sqlite {
		id = "convert_to(encode(facet, 'hex') || source, 'UTF8')"
	}
	g.exec(t, "UPDATE audit_facets SET oldest = COALESCE((SELECT (MIN(e.time) / 3600000000 - 1) * 3600000000 FROM audit_events AS e WHERE e.facet = audit_facets.id), 0), newest = COALESCE((SELECT (MAX(e.time) / 3600000000 + 1) * 3600000000 FROM audit_events AS e WHERE e.facet = audit_facets.id), 0)")
	g.exec(t, "UPDATE audit_terms SET oldest = COALESCE((SELECT (MIN(p.time) / 3600000000 - 1) * 3600000000 FROM audit_postings AS p WHERE p.term = audit_terms.id), 0), newest = COALESCE((SELECT (MAX(p.time) / 3600000000 + 1) * 3600000000 FROM audit_postings AS p WHERE p.term = audit_terms.id), 0)")
	g.exec(t, "INSERT INTO audit_sources (id, source, facet, oldest, newest) SELECT "+id+", source, facet, (MIN(time) / 3600000000 - 1) * 3600000000, (MAX(time) / 3600000000 + 1) * 3600000000 FROM audit_events WHERE source <> '' GROUP BY source, facet")
}

// rare stores a few records with values that no other has, all of them old.
func (g *generator) rare(t *testing.T) {
	for i := range 30 {
		e := g.draw(0)
		e.ID, e.Request = fmt.Sprintf("rare-%d", i), fmt.Sprintf("rare-%d", i)
		e.Time = benchStart + benchSpan/8*int64(i%2) + int64(i)
		e.Tenant, e.Outcome, e.Action = "tenant-00", "aborted", "key.create"
		e.Actor.ID, e.Model.Asked, e.Findings = "key-rare", "model-rare", []record.Finding{{Class: "class-rare"}}
		payload := fmt.Appendf(nil, `{"schema":2,"id":%q,"request":%q,"stage":"outcome","time":%d,"tenant":"tenant-00","actor":{"kind":"key","id":"key-rare"},"action":"key.create","resource":"thing-rare","model":{"asked":"model-rare"},"findings":[{"direction":"request","class":"class-rare","action":"masked","count":1}],"outcome":"aborted"}`,
			e.ID, e.Request, e.Time)
		if bytes.Contains(payload, []byte("%!")) {
			t.Fatal(string(payload))
		}
		stored, err := record.Decode(payload)
		must(t, err)
		l := ListsOf(&stored)
		must(t, g.db.Transaction(func(tx *gorm.DB) error {
			row := map[string]any{
				"writer": "rare", "seq": i + 1, "id": e.ID, "request": e.Request, "stage": "outcome", "time": e.Time, "tenant": "tenant-00", "actor_kind": "key",
				"actor": e.Actor.ID, "action": e.Action, "resource": "thing-rare", "model": e.Model.Asked, "outcome": e.Outcome, "payload": payload,
				"leaf_hash": make([]byte, 32), "facet": l.Set(),
			}
			for _, name := range []string{"project", "session", "source", "routed", "version", "policy", "rollout", "arm", "decision", "error_code", "on_behalf_of"} {
				row[name] = ""
			}
			for _, name := range []string{"status", "prompt_tokens", "completion_tokens", "cost", "first_token", "total"} {
				row[name] = 0
			}
			if err := tx.Table("audit_events").Create(row).Error; err != nil {
				return err
			}
			return Add(tx, []*Lists{&l})
		}))
	}
}

func (g *generator) size(t *testing.T) int64 {
	var n int64
	query := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
	if !g.sqlite {
		query = "SELECT pg_database_size(current_database())"
	}
	must(t, g.db.Raw(query).Scan(&n).Error)
	return n
}

// questions are what the console and the API can ask, alone and together, with values that are frequent, rare, only old, and nobody's.
func (g *generator) questions() []question {
	month := benchSpan / 6
	middle := benchStart + benchSpan/2
	return []question{
		{"everything", Query{}},
		{"large tenant", Query{Tenant: "tenant-00"}},
		{"small tenant", Query{Tenant: "tenant-48"}},
		{"no such tenant", Query{Tenant: "nobody"}},
		{"time range", Query{From: middle, To: middle + month}},
		{"tenant, time range", Query{Tenant: "tenant-03", From: middle, To: middle + month}},
		{"frequent actor", Query{Actor: "key-0000"}},
		{"rare actor", Query{Actor: "key-rare"}},
		{"actor, time range", Query{Actor: "key-0041", From: middle, To: middle + month}},
		{"tenant, actor of another", Query{Tenant: "tenant-00", Actor: "key-0041"}},
		{"frequent action", Query{Action: "chat.completions"}},
		{"rare action", Query{Action: "key.create"}},
		{"stage", Query{Stage: record.StageAdmitted}},
		{"outcome ok", Query{Outcome: "ok"}},
		{"outcome failed", Query{Outcome: "failed"}},
		{"outcome failed, time range", Query{Outcome: "failed", From: middle, To: middle + month}},
		{"outcome aborted", Query{Outcome: "aborted"}},
		{"tenant, outcome failed", Query{Tenant: "tenant-00", Outcome: "failed"}},
		{"tenant, outcome failed, rare model", Query{Tenant: "tenant-00", Outcome: "failed", Model: "model-rare"}},
		{"model", Query{Model: "model-4"}},
		{"rare model", Query{Model: "model-rare"}},
		{"no such model", Query{Model: "nobody"}},
		{"model, outcome refused", Query{Model: "model-4", Outcome: "refused"}},
		{"only old policy", Query{Policy: "1"}},
		{"tenant, only old policy", Query{Tenant: "tenant-00", Policy: "1"}},
		{"only old version", Query{Version: "0"}},
		{"project", Query{Project: "project-3"}},
		{"class", Query{Class: "class-5"}},
		{"rare class", Query{Class: "class-rare"}},
		{"no such class", Query{Class: "nobody"}},
		{"tenant, class", Query{Tenant: "tenant-00", Class: "class-5"}},
		{"tenant, rare class", Query{Tenant: "tenant-00", Class: "class-rare"}},
		{"tenant, class, outcome failed", Query{Tenant: "tenant-01", Class: "class-5", Outcome: "failed"}},
		{"class, time range", Query{Class: "class-5", From: middle, To: middle + month}},
		{"text of many", Query{Text: "application"}},
		{"text of some", Query{Text: "TEAM 41"}},
		{"text of few", Query{Text: "key-rare"}},
		{"text of nobody", Query{Text: "no such text"}},
		{"text of a document", Query{Text: "chapter-7-33"}},
		{"text of many documents", Query{Text: "handbook"}},
		{"text of a request", Query{Text: "req-100000"}},
		{"tenant, text", Query{Tenant: "tenant-00", Text: "team 7"}},
		{"tenant, text of a document", Query{Tenant: "tenant-00", Text: "chapter-0-7"}},
		{"tenant, text of nobody", Query{Tenant: "tenant-00", Text: "no such text"}},
		{"text, outcome failed", Query{Text: "team 7", Outcome: "failed"}},
		{"text of a document, outcome failed", Query{Text: "chapter-0-7", Outcome: "failed"}},
		{"person", Query{OnBehalfOf: "person-500"}},
		{"no such person", Query{OnBehalfOf: "nobody"}},
		{"tenant, person", Query{Tenant: "tenant-00", OnBehalfOf: "person-500"}},
		{"request", Query{Request: "req-100000"}},
		{"session", Query{Session: "session-1000"}},
		{"source", Query{Source: "10.0.0.0"}},
		{"source, outcome failed", Query{Source: "10.0.0.0", Outcome: "failed"}},
		{"source, rare class", Query{Source: "10.0.0.0", Class: "class-rare"}},
		{"source of many keys", Query{Source: "10.0.9.9"}},
		{"source of many keys, outcome failed", Query{Source: "10.0.9.9", Outcome: "failed"}},
		{"source, text of a document", Query{Source: "10.0.9.9", Text: "chapter-7-33"}},
	}
}
