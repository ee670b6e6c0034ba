package server_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit/witness"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestAuditStatus: what the page of the log shows at a glance, with the database there and away; looking leaves no record; the auditor of a
// tenant sees nothing of another.
func TestAuditStatus(t *testing.T) {
	t.Parallel()
	key, err := witness.Key(witness.Config{Dir: t.TempDir(), Name: "w.example"})
	if err != nil {
		t.Fatal(err)
	}
	in := start(t, setup{extra: "audit: {modes: {demo: best-effort, bank: strict}, witnesses: ['" + key + "']}\n"})
	in.someRequests()
	status := func() (s adminapi.AuditStatus) {
		in.admin(http.MethodGet, "/audit/status", nil, &s)
		return s
	}
	eventually(t, "everything to be sealed", func() bool {
		s := status()
		return s.Checkpoint.Size > 0 && s.Unsealed != nil && *s.Unsealed == 0 && *s.Waiting == 0
	})
	eventually(t, "the first reconciliation", func() bool { return status().Reconciliation.FinishedAt != nil })
	s := status()
	if !s.Whole || s.OldestWaiting != nil || len(s.Problems) != 0 || s.Checkpoint.Root == nil || s.Checkpoint.SeenAt == nil || s.Reconciliation.Open != 0 ||
		s.Verification != nil || s.Retention.RecordsDays != 190 || s.Retention.Archives || s.Retention.LeastIndex == nil || *s.Retention.LeastIndex != 0 {
		t.Errorf("%+v", s)
	}
	if s.Witnesses == nil || len(*s.Witnesses) != 1 || (*s.Witnesses)[0].Behind != s.Checkpoint.Size || (*s.Witnesses)[0].Time != nil {
		t.Errorf("witnesses: %+v", s.Witnesses)
	}
	if want := []adminapi.AuditMode{{Mode: "strict"}, {Tenant: "bank", Mode: "strict"}, {Tenant: "demo", Mode: "best-effort"}}; !slices.Equal(s.Modes, want) {
		t.Errorf("modes: %+v", s.Modes)
	}
	if again := status(); again.Checkpoint.Size != s.Checkpoint.Size {
		t.Errorf("looking left a record: %d, then %d", s.Checkpoint.Size, again.Checkpoint.Size)
	}
	in.verify()
	if v := status().Verification; v == nil || !v.Ok || v.Records == 0 {
		t.Errorf("verification: %+v", v)
	}

	db, err := database.Open(t.Context(), in.cfg.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	if err := db.Exec("ALTER TABLE audit_writers RENAME TO away").Error; err != nil {
		t.Fatal(err)
	}
	in.issueKey(map[string]any{"name": "while the table is away"})
	eventually(t, "records to wait", func() bool {
		s := status()
		return len(s.Problems) == 1 && s.Problems[0].Code == adminapi.Database && *s.Waiting > 0 && s.OldestWaiting != nil && s.Unsealed == nil && s.Checkpoint.Size > 0
	})
	if err := db.Exec("ALTER TABLE away RENAME TO audit_writers").Error; err != nil {
		t.Fatal(err)
	}
	eventually(t, "the records to arrive", func() bool { s := status(); return len(s.Problems) == 0 && *s.Waiting == 0 })

	const secret = "correct horse battery staple"
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	in.admin(http.MethodPost, "/users", map[string]any{"tenant": "bank", "name": "checker", "password": secret, "roles": []string{"auditor"}}, new(any))
	var session struct {
		AccessToken string `json:"access_token"`
	}
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "checker", "password": secret}).decode(t, &session)
	own := in.send(http.MethodGet, "/api/v1/audit/status", session.AccessToken, nil)
	var theirs adminapi.AuditStatus
	own.decode(t, &theirs)
	if theirs.Whole || theirs.Waiting != nil || theirs.Unsealed != nil || !slices.Equal(theirs.Modes, []adminapi.AuditMode{{Tenant: "bank", Mode: "strict"}}) || strings.Contains(string(own.body), "demo") {
		t.Errorf("the auditor of a tenant sees %s", own.body)
	}
	for method, path := range map[string]string{"GET": "/api/v1/audit/reconciliation", "POST": "/api/v1/audit/reconciliation"} {
		if r := in.send(method, path, session.AccessToken, nil); r.status != http.StatusForbidden {
			t.Errorf("%s %s by the auditor of a tenant: %d", method, path, r.status)
		}
	}
	if r := in.send(http.MethodGet, "/api/v1/audit/status?tenant=demo", session.AccessToken, nil); r.status != http.StatusForbidden {
		t.Errorf("the state of another tenant: %d", r.status)
	}
}

// TestReconciliationOverHTTP: somebody changes the books; a comparison on demand says so to whoever asks, to a metric and to the command line.
func TestReconciliationOverHTTP(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": dbtest.PostgresURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := start(t, setup{database: url(t)})
			in.someRequests()
			eventually(t, "the usage to be billed", func() bool { return in.usage("").Requests > 0 })
			view := func(query string) (r adminapi.Reconciliation) {
				in.admin(http.MethodGet, "/audit/reconciliation"+query, nil, &r)
				return r
			}
			db, err := database.Open(t.Context(), in.cfg.Database)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = database.Close(db) }()
			change := func(by string) {
				t.Helper()
				if err := db.Exec("UPDATE billing_usage SET cost = cost " + by + " WHERE request = (SELECT MIN(request) FROM billing_usage)").Error; err != nil {
					t.Fatal(err)
				}
				if r := in.admin(http.MethodPost, "/audit/reconciliation", nil, nil); r.status != http.StatusAccepted {
					t.Fatalf("%d %s", r.status, r.body)
				}
			}
			change("+ 1")
			eventually(t, "the finding", func() bool { return view("").Open["sums"] == 1 })
			r := view("?limit=1")
			if len(r.Items) != 1 || r.Items[0].Kind != "sums" || r.Items[0].Tenant != "demo" || r.Items[0].Detail["books_requests"] != r.Items[0].Detail["records_requests"] || r.Next != nil || r.Currency == nil || *r.Currency != "CNY" {
				t.Errorf("%+v", r)
			}
			eventually(t, "the metric", func() bool {
				return strings.Contains(string(in.send(http.MethodGet, "/metrics", operationsToken, nil).body), `sluice_audit_findings{kind="sums"} 1`)
			})
			if found, err := server.Reconcile(t.Context(), in.cfg, 10, slog.New(slog.DiscardHandler)); err != nil || found.Open["sums"] != 1 || len(found.Items) != 1 || found.Currency == nil {
				t.Errorf("the command beside the server: %+v, %v", found, err)
			}
			change("- 1")
			eventually(t, "it to be over", func() bool { return len(view("").Open) == 0 })
			if r := view("?all=true"); len(r.Items) != 1 || r.Items[0].ClosedAt == nil || r.Items[0].Repair != nil {
				t.Errorf("%+v", r)
			}
			if err := in.stop(); err != nil {
				t.Fatal(err)
			}
			if found, err := server.Reconcile(t.Context(), in.cfg, 10, slog.New(slog.DiscardHandler)); err != nil || len(found.Open) != 0 {
				t.Errorf("the command on a stopped installation: %+v, %v", found, err)
			}
		})
	}
}
