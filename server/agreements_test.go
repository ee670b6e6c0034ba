package server_test

import (
	"encoding/csv"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// agreementPolicy has answers go without a visible label only under an agreement.
const agreementPolicy = "schema: 2\nname: agreements\nmodels: ['*']\ncollections: ['*']\nlabel: metadata\nvisible_label: agreement\nentities: {default: {request: token, passage: token, answer: observe}}\n"

const visibleLabel = "（内容由人工智能生成）"

// agreements is an installation with two replicas, of which the second demands agreements of everybody, and the people of an agreement.
type agreements struct {
	*installation

	replica      *installation
	sec, officer account
	key          issuedKey
	text         string // digest
}

func startAgreements(t *testing.T) agreements {
	t.Helper()
	url := dbtest.PostgresURL(t)
	plan := func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"你好，世界"}}
	}
	a := start(t, setup{database: url, plan: plan})
	master, err := os.ReadFile(a.cfg.MasterKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "keys", "master.key"), master, 0o600); err != nil {
		t.Fatal(err)
	}
	in := agreements{installation: a, sec: a.newAccount("sec", nil, "security_admin"), officer: a.newAccount("officer", nil, "compliance")}
	in.key = a.issueKey(map[string]any{"name": "press"})
	in.replica = start(t, setup{dir: dir, database: url, plan: plan, overrides: map[string]any{"label.require_agreement": true}})
	var list adminapi.LabelAgreementPage
	a.send(http.MethodGet, "/api/v1/labels/agreements", in.sec.token, nil).decode(t, &list)
	in.text = list.Text.Digest
	if list.Labelling.VisibleLabel != "application" || !strings.Contains(list.Text.Body, "第九条") {
		t.Errorf("%+v", list)
	}
	return in
}

// unlabelled reports whether an answer of a replica has no visible label; request is that of the answer.
func (in *agreements) unlabelled(at *installation, more string) (request string, without bool) {
	in.t.Helper()
	r := at.send(http.MethodPost, "/v1/chat/completions", in.key.secret, `{"model":"scripted","messages":[{"role":"user","content":"hello"}]`+more+`}`)
	if r.status != http.StatusOK || r.header.Get("X-Sluice-AI-Label") == "" {
		in.t.Fatalf("%d %s: the implicit label is %q", r.status, r.body, r.header.Get("X-Sluice-AI-Label"))
	}
	return r.header.Get("X-Request-Id"), !strings.Contains(string(r.body), visibleLabel)
}

// ask asks for an agreement of the key.
func (in *agreements) ask(who string, more map[string]any) reply {
	body := map[string]any{
		"recipient": "Example Press", "contact": "legal@example.com", "reference": "C-7", "purpose": "drafts for editors", "key": in.key.id,
		"until": time.Now().AddDate(0, 6, 0), "text_digest": in.text,
	}
	for k, v := range more {
		body[k] = v
	}
	return in.send(http.MethodPost, "/api/v1/labels/agreements", who, body)
}

// TestLabelAgreements walks Article 9 over HTTP: what is asked for is not in force before a second person approves it; then answers go without a visible label, and
// their records name the agreement; a revocation ends that at once, on another replica, too; the authorities get the record of it.
func TestLabelAgreements(t *testing.T) {
	t.Parallel()
	in := startAgreements(t)
	if _, without := in.unlabelled(in.installation, ""); !without {
		t.Error("an installation that is as it came puts a visible label in")
	}
	if _, without := in.unlabelled(in.replica, ""); without {
		t.Error("a replica that demands agreements of everybody leaves the visible label out")
	}
	var list adminapi.LabelAgreementPage
	in.replica.send(http.MethodGet, "/api/v1/labels/agreements", in.sec.token, nil).decode(t, &list)
	if l := list.Labelling; l.VisibleLabel != "agreement" || l.RequiredBy == nil || *l.RequiredBy != "configuration" {
		t.Errorf("%+v", l)
	}
	in.publish(agreementPolicy)
	if _, without := in.unlabelled(in.installation, ""); without {
		t.Error("no agreement, and no visible label")
	}
	in.everyDialect(t)
	wantProblem(t, "an officer asks", in.ask(in.officer.token, nil), http.StatusForbidden, "not_allowed")
	wantProblem(t, "another text", in.ask(in.sec.token, map[string]any{"text_digest": strings.Repeat("0", 64)}), http.StatusConflict, "conflict")
	wantProblem(t, "another key", in.ask(in.sec.token, map[string]any{"key": "nobody's"}), http.StatusNotFound, "not_found")
	var a adminapi.LabelAgreement
	asked := in.ask(in.sec.token, nil)
	asked.decode(t, &a)
	path := "/api/v1/labels/agreements/" + a.Id
	wantProblem(t, "who asked for it", in.send(http.MethodPost, path+"/approve", in.sec.token, nil), http.StatusForbidden, "second_person_required")
	if _, without := in.unlabelled(in.installation, ""); without || a.State != adminapi.AgreementAsked {
		t.Errorf("nobody has approved it: %+v", a)
	}
	in.send(http.MethodPost, path+"/approve", in.officer.token, nil).decode(t, &a)
	if a.State != adminapi.AgreementActive || *a.ApprovedName != "officer" || a.AskedName != "sec" {
		t.Errorf("%+v", a)
	}
	var request string
	eventually(t, "the agreement to be in force", func() (without bool) {
		request, without = in.unlabelled(in.installation, "")
		return without
	})
	events := in.eventsOf(request, 2)
	if len(events) != 2 || events[0].Detail["label_agreement"] != a.Id || events[1].Detail["label_agreement"] != a.Id || events[1].Label == "" {
		t.Errorf("the records say %+v", events)
	}
	eventually(t, "the other replica to know", func() bool { _, without := in.unlabelled(in.replica, ""); return without })
	if _, without := in.unlabelled(in.installation, `,"stream":true`); !without {
		t.Error("a stream has a visible label")
	}
	other := in.issueKey(map[string]any{"name": "other"})
	if r := in.send(http.MethodPost, "/v1/chat/completions", other.secret, `{"model":"scripted","messages":[{"role":"user","content":"hello"}]}`); !strings.Contains(string(r.body), visibleLabel) {
		t.Errorf("another key: %s", r.body)
	}
	in.revokeAndExport(t, path, a)
}

// everyDialect holds each dialect to the rule where an agreement is demanded and none is in force: texts have the label, and a form that takes none is refused.
func (in *agreements) everyDialect(t *testing.T) {
	t.Helper()
	const messages = `"model":"scripted","messages":[{"role":"user","content":"hello"}],"stream":false`
	for path, c := range map[string]struct{ body, form, field string }{
		"/v1/chat/completions": {messages, `"response_format":{"type":"json_object"}`, "response_format"},
		"/v1/completions":      {`"model":"scripted","prompt":"hello"`, `"guided_choice":["a","b"]`, "guided_choice"},
		"/v1/messages":         {messages + `,"max_tokens":99`, `"output_config":{"format":{"type":"json_schema","schema":{"type":"string"}}}`, "output_config.format"},
		"/v1/responses":        {`"model":"scripted","input":"hello"`, `"text":{"format":{"type":"json_object"}}`, "text.format"},
		"/api/chat":            {messages, `"format":"json"`, "format"},
		"/api/generate":        {`"model":"scripted","prompt":"hello","stream":false`, `"format":"json"`, "format"},
	} {
		if r := in.send(http.MethodPost, path, in.key.secret, "{"+c.body+"}"); r.status != http.StatusOK || !strings.Contains(string(r.body), visibleLabel) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
		r := in.send(http.MethodPost, path, in.key.secret, "{"+c.body+","+c.form+"}")
		if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), c.field) || !strings.Contains(string(r.body), "sluice label agreements") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func (in *agreements) revokeAndExport(t *testing.T, path string, a adminapi.LabelAgreement) {
	t.Helper()
	wantProblem(t, "without a reason", in.send(http.MethodPost, path+"/revoke", in.officer.token, map[string]string{"reason": " "}), http.StatusBadRequest, "missing_required_parameter")
	revoked := in.send(http.MethodPost, path+"/revoke", in.officer.token, map[string]string{"reason": "the purpose has changed"})
	if revoked.status != http.StatusOK {
		t.Errorf("revoked: %d %s", revoked.status, revoked.body)
	}
	eventually(t, "the agreement to be revoked", func() bool { _, without := in.unlabelled(in.installation, ""); return !without })
	eventually(t, "the other replica to know", func() bool { _, without := in.unlabelled(in.replica, ""); return !without })
	for r, action := range map[string]string{revoked.header.Get("X-Request-Id"): "admin.revokeLabelAgreement"} {
		if e := in.eventsOf(r, 2); e[len(e)-1].Action != action || e[len(e)-1].Resource != a.Id || e[len(e)-1].Detail["reason"] != "the purpose has changed" {
			t.Errorf("%+v", e)
		}
	}
	period := "from=" + a.AskedAt.Add(-time.Hour).Format(time.RFC3339) + "&to=" + a.AskedAt.Add(time.Hour).Format(time.RFC3339)
	export := "/api/v1/labels/agreements/export?" + period
	wantProblem(t, "who may not read records", in.send(http.MethodGet, export, in.sec.token, nil), http.StatusForbidden, "not_allowed")
	var record adminapi.LabelAgreementRecord
	eventually(t, "the records to be counted", func() bool {
		in.send(http.MethodGet, export, in.officer.token, nil).decode(t, &record)
		if len(record.Agreements) != 1 || record.Agreements[0].Answers < 3 {
			return false
		}
		var found struct{ Items []any }
		in.send(http.MethodGet, record.Agreements[0].Records+"&limit=200", in.officer.token, nil).decode(t, &found)
		return int64(len(found.Items)) == record.Agreements[0].Answers
	})
	use := record.Agreements[0]
	if x := use.Agreement; x.Id != a.Id || x.State != adminapi.AgreementRevoked || *x.Reason != "the purpose has changed" || !strings.Contains(*x.Text, "Article 9") || use.FirstAt == nil || use.LastAt.Before(*use.FirstAt) {
		t.Errorf("%+v", use)
	}
	table := in.send(http.MethodGet, export+"&format=csv", in.officer.token, nil)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(table.body), "\ufeff"))).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][0] != a.Id || rows[1][4] != "Example Press" || len(rows[0]) != len(rows[1]) {
		t.Errorf("%q, %v", rows, err)
	}
	wantProblem(t, "a period that ends before it begins", in.send(http.MethodGet, "/api/v1/labels/agreements/export?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", in.officer.token, nil), http.StatusBadRequest, "invalid_value")
	if v := in.verify(); !v.Report.OK {
		t.Errorf("the log does not verify: %+v", v.Report.Problems)
	}
}
