package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/config"
)

// evidence are the tables that the audit log vouches for. Everything else in the database may change without its notice, but
// for billed usage, which is compared with the records: other concerns' tables, the bookkeeping of shipping, indexes, triggers, free pages and old copies in the slack of pages.
var evidence = []string{"audit_events", "audit_leaves", "audit_hashes", "audit_checkpoints"}

// TestTamper: after real requests the log verifies while the server runs and after it stopped, on both databases; one changed byte
// in a record makes it fail and name the record.
func TestTamper(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		tamper(t, setup{})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		tamper(t, setup{database: dbtest.PostgresURL(t)})
	})
}

func tamper(t *testing.T, s setup) {
	in := start(t, s)
	receipts := in.someRequests()
	if v := in.verify(); v.Status != "finished" || !v.Report.OK {
		t.Fatalf("running: %+v", v)
	}
	if r := check(t, in.cfg); !r.OK || r.Records == 0 {
		t.Fatalf("running, from outside: %+v", r)
	}
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	if r := check(t, in.cfg); !r.OK || r.Unsealed != 0 || r.Sealed < int64(2*len(receipts)) {
		t.Fatalf("stopped: %+v", r)
	}
	db, err := database.Open(t.Context(), in.cfg.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	// Whoever tampers has the rights to switch the guards off.
	guards := []string{"ALTER TABLE audit_events DISABLE TRIGGER ALL"}
	if database.IsSQLite(db) {
		guards = nil
		if err := db.Raw("SELECT 'DROP TRIGGER ' || name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit_events'").Scan(&guards).Error; err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range guards {
		if err := db.Exec(q).Error; err != nil {
			t.Fatal(err)
		}
	}
	tamperWithUsage(t, in.cfg, db)
	for _, id := range receipts {
		var payload []byte
		if err := db.Raw("SELECT payload FROM audit_events WHERE id = ?", id).Row().Scan(&payload); err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(payload)
		changed[rand.IntN(len(changed))] ^= 1 << rand.IntN(8)
		for _, step := range []struct {
			payload []byte
			ok      bool
		}{{changed, false}, {payload, true}} {
			if err := db.Exec("UPDATE audit_events SET payload = ? WHERE id = ?", step.payload, id).Error; err != nil {
				t.Fatal(err)
			}
			r := check(t, in.cfg)
			if r.OK != step.ok || !step.ok && !names(r, id) {
				t.Errorf("record %s, intact %v: %+v", id, step.ok, r)
			}
		}
	}
}

// tamperWithUsage edits the ledger behind the records' backs.
func tamperWithUsage(t *testing.T, cfg *config.Config, db *gorm.DB) {
	t.Helper()
	var request, outcome string
	if err := db.Raw("SELECT u.request, e.id FROM billing_usage u JOIN audit_events e ON e.request = u.request AND e.stage = 'outcome' ORDER BY u.request LIMIT 1").
		Row().Scan(&request, &outcome); err != nil {
		t.Fatal(err)
	}
	columns := "digest, tenant, project, api_key, actor, action, model, model_version, at, prompt_tokens, cached_tokens, completion_tokens, " +
		"estimated, cost, currency, price_book, energy, energy_method, outcome, recorded_at"
	insert := "INSERT INTO billing_usage (request, " + columns + ") SELECT ?, " + columns + " FROM billing_usage WHERE request = ?"
	for _, c := range []struct {
		name, record, cause string
		do, undo            string
		doArgs, undoArgs    []any
	}{
		{"cost", outcome, "cost", "UPDATE billing_usage SET cost = cost - 1 WHERE request = ?", "UPDATE billing_usage SET cost = cost + 1 WHERE request = ?", []any{request}, []any{request}},
		{"tenant", outcome, "tenant", "UPDATE billing_usage SET tenant = tenant || 'x' WHERE request = ?", "UPDATE billing_usage SET tenant = 'demo' WHERE request = ?", []any{request}, []any{request}},
		{"invented", "", "invented", insert, "DELETE FROM billing_usage WHERE request = ?", []any{"invented", request}, []any{"invented"}},
		{"moved", outcome, "not billed", "UPDATE billing_usage SET request = ? WHERE request = ?", "UPDATE billing_usage SET request = ? WHERE request = ?", []any{"moved", request}, []any{request, "moved"}},
	} {
		if err := db.Exec(c.do, c.doArgs...).Error; err != nil {
			t.Fatal(err)
		}
		r := check(t, cfg)
		if !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool {
			return p.Kind == "usage" && p.Record == c.record && strings.Contains(p.Cause, c.cause)
		}) || r.OK {
			t.Errorf("%s: %+v", c.name, r)
		}
		if err := db.Exec(c.undo, c.undoArgs...).Error; err != nil {
			t.Fatal(err)
		}
		if r := check(t, cfg); !r.OK {
			t.Errorf("%s undone: %+v", c.name, r.Problems)
		}
	}
}

// TestFlippedBytes flips one bit at many random places of a stopped installation's files. What changes the evidence, seen by a
// reader that uses no index, must never verify; a flip inside a record must name it. A flip that changes no evidence (see evidence)
// may pass.
func TestFlippedBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("verifies hundreds of times")
	}
	t.Parallel()
	in := start(t, setup{})
	in.someRequests()
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)

	path := filepath.Join(in.cfg.Data, "sluice.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	intact := dump(t, in.cfg)
	places := make([]int, 0, 256)
	for range 80 {
		places = append(places, random.IntN(len(whole)))
	}
	owner := map[int]string{} // the record whose payload lies at a place
	for id, payload := range payloads(t, in.cfg) {
		for at := 0; ; { // SQLite may hold old copies too; which is alive shows when it is changed
			i := bytes.Index(whole[at:], payload)
			if i < 0 {
				break
			}
			place := at + i + random.IntN(len(payload))
			owner[place], places = id, append(places, place)
			// Ten bytes in front of the id lies the name of the writer, of which SQLite keeps a copy in an index.
			if writer := bytes.LastIndex(whole[:i], []byte(id)) - 10; writer > 0 {
				owner[writer], places = id, append(places, writer)
			}
			at += i + len(payload)
		}
	}
	harmful := 0
	for _, place := range places {
		flip(t, path, whole, place, random)
		now := dump(t, in.cfg)
		changed := now != intact
		r, err := verifyFiles(t, in.cfg)
		switch id := owner[place]; {
		case changed && err == nil && r.OK:
			t.Errorf("byte %d of the database was changed and nobody noticed:\n%s", place, cmp.Diff(strings.Split(intact, "\n"), strings.Split(now, "\n")))
		case changed && id != "" && err == nil && !names(r, id):
			t.Errorf("byte %d lies in record %s, but the report names others: %+v", place, id, r.Problems)
		case changed:
			harmful++
		}
	}
	restore(t, path, whole)
	if r := check(t, in.cfg); !r.OK {
		t.Fatalf("restored: %+v", r)
	}
	if harmful < 20 {
		t.Errorf("only %d of %d flips touched evidence: the test proves little", harmful, len(places))
	}
	t.Logf("%d of %d flips touched evidence", harmful, len(places))
	in.flipFiles(random)
}

// flipFiles does the same to the segments of the write-ahead log and to the checkpoint files.
func (in *installation) flipFiles(random *rand.Rand) {
	t := in.t
	t.Helper()
	files, err := filepath.Glob(filepath.Join(in.cfg.Audit.Dir, "*", "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			place := random.IntN(len(whole))
			changed := flip(t, path, whole, place, random)
			if filepath.Base(filepath.Dir(path)) == "checkpoints" && sameNotes(whole, changed) {
				continue
			}
			if r, err := verifyFiles(t, in.cfg); err == nil && r.OK {
				t.Errorf("byte %d of %s was changed and nobody noticed", place, path)
			}
		}
		restore(t, path, whole)
	}
	if r := check(t, in.cfg); !r.OK {
		t.Fatalf("restored: %+v", r)
	}
}

// sameNotes reports whether two checkpoint files say the same. The last digit of a signature in base64 has two bits without a
// meaning, and the last line of checkpoints.log counts when its newline is written; until then only the file "latest" has it.
func sameNotes(a, b []byte) bool {
	return canonical(string(bytes.TrimSuffix(a, []byte("\n")))) == canonical(string(b[:len(bytes.TrimSuffix(a, []byte("\n")))])) ||
		len(a) == len(b) && bytes.Equal(a[:len(a)-1], b[:len(b)-1])
}

// canonical writes the signatures of a note anew.
func canonical(note string) string {
	var last string
	if json.Unmarshal([]byte(note), &last) == nil {
		note = last
	}
	words := strings.Fields(note)
	for i, w := range words {
		if raw, err := base64.StdEncoding.DecodeString(w); err == nil {
			words[i] = base64.StdEncoding.EncodeToString(raw)
		}
	}
	return strings.Join(words, " ")
}

// someRequests makes real records: chats of both kinds, a refusal, administrative acts. It returns receipts of chats.
func (in *installation) someRequests() []string {
	in.t.Helper()
	var receipts []string
	for i := range 8 {
		r := in.chat(map[string]any{"model": "scripted", "stream": i%2 == 0, "messages": []any{
			map[string]string{"role": "user", "content": fmt.Sprintf("question %d from 13800138000", i)},
		}})
		if r.status != http.StatusOK {
			in.t.Fatalf("%d %s", r.status, r.body)
		}
		receipts = append(receipts, r.header.Get("X-Sluice-Receipt"))
	}
	in.chat(map[string]any{"model": "nothing", "messages": []any{map[string]string{"role": "user", "content": "x"}}})
	in.issueKey(map[string]any{"name": "another"})
	eventually(in.t, "the records to be sealed", func() bool {
		r := check(in.t, in.cfg)
		return r.Unsealed == 0 && r.Sealed >= int64(2*len(receipts))
	})
	return receipts
}

// verifyFiles does what `sluice audit verify` does.
func verifyFiles(t *testing.T, cfg *config.Config) (verify.Report, error) {
	t.Helper()
	keys, err := keyring.Open(cfg.MasterKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := audit.VerifierKey(cfg.Audit.Config, keys)
	if err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(t.Context(), cfg.Database)
	if err != nil {
		return verify.Report{}, err
	}
	defer func() { _ = database.Close(db) }()
	return verify.Run(t.Context(), server.VerifySource(cfg, db, verifier), nil)
}

func check(t *testing.T, cfg *config.Config) verify.Report {
	t.Helper()
	r, err := verifyFiles(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(r verify.Report, id string) bool {
	return slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Record == id })
}

// dump returns the evidence as a reader sees it who scans the tables, or the error that stops the reader.
func dump(t *testing.T, cfg *config.Config) string {
	t.Helper()
	db, err := database.Open(t.Context(), cfg.Database)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = database.Close(db) }()
	var out strings.Builder
	for _, table := range evidence {
		rows, err := db.Raw("SELECT * FROM " + table + " NOT INDEXED").Rows()
		if err != nil {
			return err.Error()
		}
		columns, err := rows.Columns()
		if err != nil {
			return err.Error()
		}
		for rows.Next() {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err.Error()
			}
			for i, v := range values {
				if note, ok := v.(string); ok && columns[i] == "note" {
					v = canonical(note)
				}
				fmt.Fprintf(&out, "%s=%T:%v ", columns[i], v, v)
			}
			out.WriteByte('\n')
		}
		if err := rows.Err(); err != nil {
			return err.Error()
		}
		_ = rows.Close()
	}
	return out.String()
}

// payloads returns the canonical bytes of every record by id.
func payloads(t *testing.T, cfg *config.Config) map[string][]byte {
	t.Helper()
	db, err := database.Open(t.Context(), cfg.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	var rows []struct {
		ID      string
		Payload []byte
	}
	if err := db.Raw("SELECT id, payload FROM audit_events").Scan(&rows).Error; err != nil || len(rows) == 0 {
		t.Fatalf("%d records, %v", len(rows), err)
	}
	out := map[string][]byte{}
	for _, r := range rows {
		out[r.ID] = r.Payload
	}
	return out
}

// flip writes whole to path with one random bit changed at place, and returns what it wrote.
func flip(t *testing.T, path string, whole []byte, place int, random *rand.Rand) []byte {
	t.Helper()
	b := bytes.Clone(whole)
	b[place] ^= 1 << random.IntN(8)
	restore(t, path, b)
	return b
}

func restore(t *testing.T, path string, b []byte) {
	t.Helper()
	for _, suffix := range []string{"-wal", "-shm"} { // of a reader that found the file broken
		_ = os.Remove(path + suffix)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
