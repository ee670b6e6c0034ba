package server_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// revealPolicy has values seen again by these rules.
func revealPolicy(second int, rules string) string {
	return fmt.Sprintf(`schema: 2
name: reveals
models: ["*"]
collections: ["*"]
record: masked
entities:
  default: {request: token, passage: token, answer: observe}
  api_secret: {answer: redact}
  cn_mobile: {answer: token}
grades: {default: 3, cn_resident_id: 4, bank_card: 5}
reveal:
  keep: 1h
  second: %d
  rules:
%s`, second, rules)
}

const usualRules = `    - {roles: [compliance, platform_admin], purposes: [complaint], classes: ["*"], grade: 4, show: clear}
    - {roles: [developer], classes: [cn_mobile], grade: 3, show: partial}
`

func (in *installation) publish(policy string) {
	in.t.Helper()
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": policy}, new(any))
}

var pseudonym = regexp.MustCompile(`⟦[^⟧]*⟧`)

// said chats in a conversation, and returns the id of the request and the pseudonyms that the engine saw in it.
func (in *installation) said(session, text string) (request string, tokens []string) {
	in.t.Helper()
	r := in.send(http.MethodPost, "/v1/chat/completions", in.started.Welcome.APIKey.Reveal(),
		`{"model":"scripted","messages":[{"role":"user","content":`+quote(text)+`}]}`, "X-Sluice-Session", session)
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	all := in.scripted.Requests()
	last := all[len(all)-1].Messages
	return r.header.Get("X-Request-Id"), pseudonym.FindAllString(last[len(last)-1].Content, -1)
}

// revealed asks to see values.
func (in *installation) revealed(session string, body map[string]any) (adminapi.RevealAnswer, reply) {
	in.t.Helper()
	if _, ok := body["purpose"]; !ok {
		body["purpose"] = "complaint"
	}
	r := in.send(http.MethodPost, "/api/v1/reveal", session, body)
	var a adminapi.RevealAnswer
	if r.status == http.StatusOK {
		r.decode(in.t, &a)
	}
	return a, r
}

// shown is how the first value of an answer came, and the value.
func shown(a adminapi.RevealAnswer) string {
	if len(a.Values) == 0 {
		return "nothing"
	}
	v := a.Values[0]
	if v.Value == nil {
		return string(v.Shown)
	}
	return string(v.Shown) + " " + *v.Value
}

// refused reports a reply that is not the refusal wanted.
func (in *installation) refused(r reply, status int, code string) {
	in.t.Helper()
	if r.status != status || !strings.Contains(string(r.body), `"`+code+`"`) {
		in.t.Errorf("%d %s, want %d %s", r.status, r.body, status, code)
	}
}

// TestReveal: an application chats with a phone number, and people ask for it afterwards: by conversation and by request, as far as their
// roles and purposes go, after a restart too, and never across tenants. The records say what was shown of what for which purpose.
func TestReveal(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.publish(revealPolicy(20, usualRules))
	people := map[string]string{}
	for _, role := range []string{"compliance", "developer", "security_admin", "auditor"} {
		people[role] = in.signIn(role)
	}
	const mobile = "13800138000"
	request, tokens := in.said("case-17", "我的手机是"+mobile+"，请回电。")
	if len(tokens) != 1 {
		t.Fatalf("the engine saw %q", tokens)
	}
	for role, want := range map[string]string{"compliance": `{"items":["complaint"]}`, "developer": `{"items":[]}`} {
		if r := in.send(http.MethodGet, "/api/v1/reveal/purposes", people[role], nil); r.status != http.StatusOK || strings.TrimSpace(string(r.body)) != want {
			t.Errorf("purposes of %s: %d %s", role, r.status, r.body)
		}
	}
	byTokens := func() map[string]any { return map[string]any{"session": "case-17", "tokens": tokens} }
	for role, want := range map[string]string{"compliance": "clear " + mobile, "developer": "partial 138****8000", "security_admin": "token"} {
		if a, r := in.revealed(people[role], byTokens()); shown(a) != want {
			t.Errorf("%s: %s, %d %s", role, shown(a), r.status, r.body)
		}
	}
	_, r := in.revealed(people["auditor"], byTokens())
	in.refused(r, http.StatusForbidden, "not_allowed")
	in.records(request, 2)
	text := "号码" + tokens[0] + "，⟦手机·22222⟧"
	a, r := in.revealed(people["compliance"], map[string]any{"request": request, "text": text})
	if a.Text == nil || *a.Text != "号码"+mobile+"，⟦手机·22222⟧" || len(a.Values) != 2 || a.Values[1].Shown != adminapi.RevealedValueShownUnknown || a.Values[1].Class != nil {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r.header.Get("Cache-Control") != "no-store" {
		t.Error("the answer may be cached")
	}
	in.revealIsRecorded(r.header.Get("X-Request-Id"), "request/"+request, strings.Trim(strings.Split(tokens[0], "·")[1], "⟧"), mobile)

	for name, change := range map[string]map[string]any{
		"purpose": {"purpose": "curiosity"}, "session": {"session": "case-18"}, "tokens": {"tokens": []string{"nonsense"}},
	} {
		body := byTokens()
		for k, v := range change {
			body[k] = v
		}
		want := map[string]string{"purpose": "token", "session": "unknown", "tokens": "unknown"}[name]
		if a, r := in.revealed(people["compliance"], body); shown(a) != want {
			t.Errorf("other %s: %s, %d %s", name, shown(a), r.status, r.body)
		}
	}
	for _, bad := range []map[string]any{
		{"tokens": tokens},
		{"session": "s", "request": "r", "tokens": tokens},
		{"session": "s"},
		{"session": "s", "text": "x", "tokens": tokens},
		{"session": "s", "text": "x", "purpose": " "},
		{"session": "s", "text": "x", "other": 1},
	} {
		if _, r := in.revealed(people["compliance"], bad); r.status != http.StatusBadRequest {
			t.Errorf("%v: %d %s", bad, r.status, r.body)
		}
	}
	_, r = in.revealed(people["compliance"], map[string]any{"request": "none", "tokens": tokens})
	in.refused(r, http.StatusNotFound, "not_found")

	// The officer of another tenant, with the same name of a conversation and the same token, sees nothing, and may not ask in this one.
	stranger := in.officerOf("bank")
	if a, r := in.revealed(stranger, byTokens()); shown(a) != "unknown" {
		t.Errorf("another tenant's officer: %s, %d %s", shown(a), r.status, r.body)
	}
	body := byTokens()
	body["tenant"] = "demo"
	_, r = in.revealed(stranger, body)
	in.refused(r, http.StatusForbidden, "not_allowed")
	_, r = in.revealed(stranger, map[string]any{"request": request, "tokens": tokens})
	in.refused(r, http.StatusNotFound, "not_found")

	in.restart()
	if a, r := in.revealed(people["compliance"], byTokens()); shown(a) != "clear "+mobile {
		t.Errorf("after a restart: %s, %d %s", shown(a), r.status, r.body)
	}
	if _, again := in.said("case-17", "再说一遍："+mobile); !slices.Equal(again, tokens) {
		t.Errorf("%q became %q", tokens, again)
	}
	erase := map[string]any{"session": "case-17"}
	if r := in.send(http.MethodPost, "/api/v1/reveal/erasures", people["developer"], erase); r.status != http.StatusForbidden {
		t.Errorf("a developer erases: %d", r.status)
	}
	if r := in.send(http.MethodPost, "/api/v1/reveal/erasures", people["compliance"], erase); r.status != http.StatusOK || !strings.Contains(string(r.body), `"values":1`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if a, _ := in.revealed(people["compliance"], byTokens()); shown(a) != "unknown" {
		t.Errorf("erased: %s", shown(a))
	}
}

// revealIsRecorded looks at both records of a reveal: the first says all of it.
func (in *installation) revealIsRecorded(id, target, code, secret string) {
	in.t.Helper()
	for _, e := range in.records(id, 2) {
		text := string(e.raw)
		for _, want := range []string{`"admin.reveal"`, `"` + target + `"`, `"purpose":"complaint"`, `"shown":"-/unknown 1, cn_mobile/clear 1"`, `"codes_clear":"` + code + `"`} {
			if !strings.Contains(text, want) {
				in.t.Errorf("%s: no %s in %s", e.Stage, want, text)
			}
		}
		if strings.Contains(text, secret) {
			in.t.Errorf("the record holds the value: %s", text)
		}
	}
}

// officerOf makes a tenant with a compliance officer, who signs in.
func (in *installation) officerOf(tenant string) string {
	in.t.Helper()
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": tenant, "name": tenant}, new(any))
	const password = "correct horse battery staple"
	in.admin(http.MethodPost, "/users", map[string]any{"tenant": tenant, "name": "officer-" + tenant, "password": password, "roles": []string{"compliance"}}, new(any))
	var s struct {
		AccessToken string `json:"access_token"`
	}
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "officer-" + tenant, "password": password}).decode(in.t, &s)
	return s.AccessToken
}

// TestRevealByManyAndOften: many values need somebody else; one person sees so many in an hour; and looking into many conversations raises the
// alarm.
func TestRevealByManyAndOften(t *testing.T) {
	t.Parallel()
	soc := listen(t)
	in := start(t, setup{extra: "governance: {reveal: {per_hour: 7, sweep_sessions: 2}}\n" + soc.config()})
	in.publish(revealPolicy(3, usualRules))
	officer, boss, developer := in.signIn("compliance"), in.signIn("security_admin"), in.signIn("developer")
	_, tokens := in.said("s1", "电话13800138000、13900139001和13700137002。")
	if len(tokens) != 3 {
		t.Fatalf("%q", tokens)
	}
	body := func() map[string]any {
		return map[string]any{"session": "s1", "tokens": tokens, "purpose": "complaint"}
	}
	_, r := in.revealed(officer, body())
	in.refused(r, http.StatusForbidden, "approval_required")
	var asked adminapi.RevealApproval
	in.send(http.MethodPost, "/api/v1/reveal/approvals", officer, body()).decode(t, &asked)
	if asked.Id == "" || len(asked.Shown) != 1 || asked.Shown[0].Count != 3 || asked.AskedBy != "user-compliance" || asked.ApprovedAt != nil {
		t.Fatalf("%+v", asked)
	}
	with := func(id string) map[string]any {
		b := body()
		b["approval"] = id
		return b
	}
	approve := func(who, id string) reply {
		return in.send(http.MethodPost, "/api/v1/reveal/approvals/"+id+"/approve", who, nil)
	}
	_, r = in.revealed(officer, with(asked.Id))
	in.refused(r, http.StatusConflict, "conflict")
	in.refused(approve(officer, asked.Id), http.StatusForbidden, "not_allowed")
	var own adminapi.RevealApproval // somebody who may both ask and approve does not approve the own request
	in.admin(http.MethodPost, "/reveal/approvals", body(), &own)
	in.refused(approve(in.token, own.Id), http.StatusForbidden, "second_person_required")
	for who, n := range map[string]int{officer: 1, boss: 2, developer: 0} {
		var list adminapi.RevealApprovalList
		in.send(http.MethodGet, "/api/v1/reveal/approvals", who, nil).decode(t, &list)
		if len(list.Items) != n {
			t.Errorf("%d approvals listed, want %d", len(list.Items), n)
		}
	}
	if r := approve(boss, asked.Id); r.status != http.StatusOK || !strings.Contains(string(r.body), "user-security-admin") {
		t.Errorf("%d %s", r.status, r.body)
	}
	recorded := func(r reply, approval string) bool {
		return strings.Contains(string(in.records(r.header.Get("X-Request-Id"), 2)[0].raw), `"approval":"`+approval+`"`)
	}
	if a, r := in.revealed(developer, with(asked.Id)); shown(a) != "partial 138****8000" || recorded(r, asked.Id) {
		t.Errorf("%d %s, or it is said to have spent an approval", r.status, r.body)
	}
	a, r := in.revealed(officer, with(asked.Id))
	if len(a.Values) != 3 || shown(a) != "clear 13800138000" || !recorded(r, asked.Id) {
		t.Errorf("%d %s, or it is not said to have spent the approval", r.status, r.body)
	}
	_, r = in.revealed(officer, with(asked.Id))
	in.refused(r, http.StatusConflict, "conflict")

	two := func(session string) map[string]any {
		return map[string]any{"session": session, "tokens": tokens[:2]}
	}
	if a, r := in.revealed(officer, two("s1")); len(a.Values) != 2 {
		t.Errorf("%d %s", r.status, r.body)
	}
	_, r = in.revealed(officer, two("s1")) // small requests are one large one
	in.refused(r, http.StatusForbidden, "approval_required")
	in.publish(revealPolicy(20, usualRules))
	if a, r := in.revealed(officer, two("s1")); len(a.Values) != 2 {
		t.Errorf("%d %s", r.status, r.body)
	}
	_, r = in.revealed(officer, two("s1"))
	in.refused(r, http.StatusTooManyRequests, "reveal_limit_exceeded")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}

	var last reply
	for _, session := range []string{"s2", "s3"} {
		_, last = in.revealed(officer, two(session))
	}
	id := last.header.Get("X-Request-Id")
	alarmed := slices.ContainsFunc(in.records(id, 3), func(e auditEvent) bool {
		return e.Action == "governance.reveal_sweep" && strings.Contains(string(e.raw), `"sessions":"3"`)
	})
	metrics := string(in.send(http.MethodGet, "/metrics", operationsToken, nil).body)
	if !alarmed || !strings.Contains(metrics, "sluice_governance_reveal_sweeps_total 1\n") || !strings.Contains(in.logs.String(), "unusually many conversations") {
		t.Error("no alarm")
	}
	soc.waitFor(t, "governance.reveal_sweep")
	if !strings.Contains(metrics, `sluice_governance_reveal_values_total{shown="clear"} 7`) {
		t.Error("the values are not counted")
	}
}

// TestRevealAfterTheSignInIsOld: signing in again helps; a renewed session does not.
func TestRevealAfterTheSignInIsOld(t *testing.T) {
	t.Parallel()
	in := start(t, setup{extra: "governance: {reveal: {fresh: 2s}}\n"})
	in.publish(revealPolicy(1000, usualRules))
	_, tokens := in.said("s1", "电话13800138000。")
	officer := in.signIn("compliance")
	body := map[string]any{"session": "s1", "tokens": tokens, "purpose": "complaint"}
	var r reply
	eventually(t, "the sign-in to be too old", func() bool {
		_, r = in.revealed(officer, body)
		return r.status != http.StatusOK
	})
	in.refused(r, http.StatusForbidden, "reauthenticate")
	if !strings.Contains(string(r.body), "Sign in again") {
		t.Errorf("%s", r.body)
	}
	eventually(t, "a fresh sign-in to help", func() bool { // sign-ins have whole seconds, and this one may come late
		var s struct {
			AccessToken string `json:"access_token"`
		}
		in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "user-compliance", "password": "correct horse battery staple"}).decode(t, &s)
		a, _ := in.revealed(s.AccessToken, body)
		return shown(a) == "clear 13800138000"
	})
}

// TestRevealMatrix asks as every role for values of every class of a text, for every purpose, and holds each answer against the rules as the
// test reads them.
func TestRevealMatrix(t *testing.T) {
	t.Parallel()
	type rule struct {
		roles, purposes, classes []string
		grade                    int
		show                     string
	}
	rules := []rule{
		{[]string{"compliance"}, []string{"complaint", "court_order"}, []string{"*"}, 4, "clear"},
		{[]string{"compliance", "developer"}, nil, []string{"cn_mobile", "email"}, 3, "partial"},
		{[]string{"developer"}, []string{"debug"}, []string{"email"}, 2, "clear"}, // its grade is too low for the class
		{[]string{"security_admin"}, []string{"complaint"}, []string{"bank_card"}, 5, "partial"},
		{[]string{"platform_admin", "security_admin"}, []string{"court_order"}, []string{"person", "bank_card"}, 5, "clear"},
		{[]string{"auditor", "application", "system_admin", "witness"}, nil, []string{"*"}, 5, "clear"}, // who lack the permission to ask
	}
	grades := map[string]int{"cn_resident_id": 4, "bank_card": 5}
	values := map[string]string{ // by class, in the order of the text below
		"cn_mobile": "13800138000", "email": "zhangwei@example.com", "cn_resident_id": "11010519491231002X", "bank_card": "6222600260001072444", "person": "欧阳建国",
	}
	var text strings.Builder
	for _, r := range rules {
		quoted := `"` + strings.Join(r.classes, `", "`) + `"`
		fmt.Fprintf(&text, "    - {roles: [%s], purposes: [%s], classes: [%s], grade: %d, show: %s}\n",
			strings.Join(r.roles, ", "), strings.Join(r.purposes, ", "), quoted, r.grade, r.show)
	}
	in := start(t, setup{extra: "governance: {reveal: {per_hour: 10000}}\n"})
	in.publish(revealPolicy(20, text.String()))
	_, tokens := in.said("s1", fmt.Sprintf("姓名：%s，手机%s，邮箱%s，身份证号%s，银行卡号%s。", values["person"], values["cn_mobile"], values["email"], values["cn_resident_id"], values["bank_card"]))
	if len(tokens) != len(values) {
		t.Fatalf("the engine saw %q", tokens)
	}
	cells := 0
	for _, role := range access.Roles() {
		if role.ID == "break_glass" { // no account holds it; TestBreakGlass looks at it
			continue
		}
		credential := in.started.Welcome.APIKey.Reveal()
		if role.ID != "application" {
			credential = in.signIn(role.ID)
		}
		for _, purpose := range []string{"complaint", "court_order", "debug", "else"} {
			a, r := in.revealed(credential, map[string]any{"session": "s1", "tokens": tokens, "purpose": purpose})
			switch {
			case role.ID == "application":
				if r.status != http.StatusForbidden {
					t.Errorf("an API key: %d", r.status)
				}
				continue
			case !slices.Contains(role.Permissions, access.MaskingReveal):
				in.refused(r, http.StatusForbidden, "not_allowed")
				continue
			case r.status != http.StatusOK || len(a.Values) != len(values):
				t.Fatalf("%s for %s: %d %s", role.ID, purpose, r.status, r.body)
			}
			for _, v := range a.Values {
				want, grade := "token", 3
				if g, ok := grades[*v.Class]; ok {
					grade = g
				}
				for _, x := range rules {
					fits := slices.Contains(x.roles, role.ID) && (len(x.purposes) == 0 || slices.Contains(x.purposes, purpose)) &&
						(x.classes[0] == "*" || slices.Contains(x.classes, *v.Class)) && grade <= x.grade
					if fits && (x.show == "clear" || want == "token") {
						want = x.show
					}
				}
				value := ""
				if v.Value != nil {
					value = *v.Value
				}
				cells++
				if string(v.Shown) != want || *v.Grade != grade || (want == "clear") != (value == values[*v.Class]) || (want == "token") != (v.Value == nil) {
					t.Errorf("%s for %s: %s of grade %d is shown as %s %q, want %s", role.ID, purpose, *v.Class, *v.Grade, v.Shown, value, want)
				}
			}
		}
	}
	if cells < 4*4*len(values) {
		t.Errorf("only %d cells", cells)
	}
}

// TestReplicasShareValues: what one replica gave a pseudonym another shows, on a database that both use.
func TestReplicasShareValues(t *testing.T) {
	t.Parallel()
	url := dbtest.PostgresURL(t)
	a := start(t, setup{database: url})
	a.publish(revealPolicy(20, usualRules))
	officer := a.signIn("compliance")
	key, err := os.ReadFile(a.cfg.MasterKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "keys", "master.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, setup{dir: dir, database: url})
	_, tokens := a.said("s1", "电话13800138000。")
	if got, r := b.revealed(officer, map[string]any{"session": "s1", "tokens": tokens}); shown(got) != "clear 13800138000" {
		t.Errorf("%s: %d %s", shown(got), r.status, r.body)
	}
}

// TestRevealedValuesAreNowhere: values that may be seen again, of requests and of answers, whole and streamed, shown and not, are in no log,
// metric or record, and in clear in no byte of the data directory. The value that the answer brought leaves as a pseudonym, which can be shown.
func TestRevealedValuesAreNowhere(t *testing.T) {
	t.Parallel()
	const brought, mobile, id = "13912345678", "13800138000", "11010519491231002X"
	in := start(t, setup{plan: func(_ int, req *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{req.Messages[len(req.Messages)-1].Content + "，或 " + brought + "。"}}
	}})
	in.publish(revealPolicy(1000, usualRules))
	officer := in.signIn("compliance")
	var token string
	for _, extra := range []string{"", `,"stream":true`} {
		r := in.send(http.MethodPost, "/v1/chat/completions", in.started.Welcome.APIKey.Reveal(),
			`{"model":"scripted"`+extra+`,"messages":[{"role":"user","content":"手机 `+mobile+`，身份证 `+id+`"}]}`, "X-Sluice-Session", "planted-session")
		got := answerText(t, r.body)
		token = pseudonym.FindString(got)
		if r.status != http.StatusOK || !strings.Contains(got, mobile) || !strings.Contains(got, id) || strings.Contains(got, brought) || token == "" {
			t.Fatalf("%d: the caller got %q", r.status, got)
		}
	}
	a, r := in.revealed(officer, map[string]any{"session": "planted-session", "text": "再打 " + token})
	if a.Text == nil || *a.Text != "再打 "+brought {
		t.Errorf("%d %s", r.status, r.body)
	}
	in.revealed(officer, map[string]any{"session": "planted-session", "tokens": []string{token}, "purpose": "else"})
	in.records(r.header.Get("X-Request-Id"), 2)
	places := map[string][]byte{"the metrics": in.send(http.MethodGet, "/metrics", operationsToken, nil).body}
	look := func(when string) {
		t.Helper()
		places["the log"] = []byte(in.logs.String())
		files := 0
		err := filepath.WalkDir(in.cfg.Data, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files++
				places[path], err = os.ReadFile(path)
			}
			return err
		})
		if err != nil || files < 4 {
			t.Fatalf("%d files, %v", files, err)
		}
		for place, content := range places {
			for _, secret := range []string{brought, mobile, id, "planted-session"} {
				if bytes.Contains(content, []byte(secret)) {
					t.Errorf("%s %s contains %q", when, place, secret)
				}
			}
		}
	}
	look("running:") // with the write-ahead log of the database
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	look("stopped:")
}

// TestNobodyMaySeeSoNothingIsKept: without rules no value is stored.
func TestNobodyMaySeeSoNothingIsKept(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	_, tokens := in.said("s1", "电话13800138000。")
	if a, r := in.revealed(in.signIn("compliance"), map[string]any{"session": "s1", "tokens": tokens}); shown(a) != "unknown" {
		t.Errorf("%s: %d %s", shown(a), r.status, r.body)
	}
	if !strings.Contains(string(in.send(http.MethodGet, "/metrics", operationsToken, nil).body), `sluice_governance_vault_values_total{result="stored"} 0`) {
		t.Error("a value was stored")
	}
}
