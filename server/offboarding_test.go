package server_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	proofs "github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/offboard"
)

// leaving is a tenant with something of every kind that an erasure has to find.
type leaving struct {
	tenant string
	key    issuedKey
	plain  []string // what it said, called or wrote
}

// settled makes a tenant with accounts, keys, a policy, a budget, documents, and a conversation whose texts and values are kept.
func (in *installation) settled(tenant, mobile string) leaving {
	in.t.Helper()
	l := leaving{tenant: tenant, plain: []string{mobile, tenant + "-key-canary", tenant + "-policy-canary", tenant + "-document-canary", tenant + "-text-canary", tenant + "-budget-canary", tenant + "-project-canary", tenant + "-file-canary"}}
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": tenant, "name": "The " + tenant}, new(any))
	in.newAccount(tenant+"-person", map[string]any{"tenant": tenant}, "developer")
	in.newAccount(tenant+"-owner", map[string]any{"tenant": tenant}, "auditor")
	project := tenant + "-budget-canary"
	in.admin(http.MethodPost, "/projects", map[string]any{"tenant": tenant, "id": project, "name": "Shop"}, new(any))
	l.key = in.issueKey(map[string]any{"name": tenant + "-key-canary", "tenant": tenant, "project": project})
	policy := strings.Replace(revealPolicy(20, usualRules), "name: reveals", "name: reveals # "+tenant+"-policy-canary", 1)
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": policy, "tenant": tenant}, new(any))
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": strings.Replace(policy, "-policy-", "-project-", 1), "tenant": tenant, "project": project}, new(any))
	in.admin(http.MethodPut, "/budgets", map[string]any{"tenant": tenant, "project": project, "period": "month", "limit_nano": 5_000_000_000}, new(any))
	in.admin(http.MethodPut, "/budgets", map[string]any{"tenant": tenant, "period": "month", "limit_nano": 5_000_000_000}, new(any))
	in.admin(http.MethodPost, "/rag/collections?tenant="+tenant, map[string]string{"name": "kb", "tenant": tenant}, new(any))
	in.admin(http.MethodPost, "/rag/collections/kb/documents?tenant="+tenant, map[string]string{"name": "a.txt", "text": "The " + tenant + "-document-canary is about trees."}, new(any))
	r := in.send(http.MethodPost, "/v1/chat/completions", l.key.secret, `{"model":"scripted","user":"p1","messages":[{"role":"user","content":`+quote(tenant+"-text-canary 我的手机是"+mobile+"。")+`}]}`, "X-Sluice-Session", "s1")
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	in.makeBatch(l.key.secret, in.mustUpload(l.key.secret, tenant+"-file-canary").ID, "/v1/chat/completions") // which fails, and stays
	in.admin(http.MethodPost, "/access-reviews", map[string]any{"tenant": tenant, "name": "autumn", "owner": tenant + "-owner", "due_at": time.Now().UTC().AddDate(0, 1, 0)}, new(any))
	return l
}

// sealedOf returns the bytes by which rows of a tenant would be found in files: digests, ciphertexts and wrapped keys.
func (in *installation) sealedOf(tenant string) (found [][]byte) {
	in.t.Helper()
	db, err := database.Open(in.t.Context(), in.cfg.Database)
	if err != nil {
		in.t.Fatal(err)
	}
	defer database.Close(db)
	for column, from := range map[string]string{
		"wrapped": "vault_keys WHERE tenant = ?", "sealed": "vault_values WHERE scope IN (SELECT scope FROM vault_scopes WHERE tenant = ?)", "CAST(wrapped AS BLOB)": "audit_subject_keys WHERE tenant = ?",
		"ciphertext": "audit_contents WHERE key_id IN (SELECT id FROM audit_subject_keys WHERE tenant = ?)", "CAST(password_hash AS BLOB)": "identity_users WHERE tenant = ?",
		"CAST(digest AS BLOB)": "identity_keys WHERE tenant = ?", "CAST(rag_versions.sealed AS BLOB)": "rag_versions WHERE collection IN (SELECT id FROM rag_collections WHERE tenant = ?)",
		"file_blobs.wrapped": "file_blobs WHERE tenant = ?", "file_chunks.sealed": "file_chunks WHERE blob IN (SELECT id FROM file_blobs WHERE tenant = ?)", "metadata": "batch_batches WHERE tenant = ?",
		"vector": "rag_chunks WHERE document IN (SELECT d.id FROM rag_documents AS d JOIN rag_collections AS c ON c.id = d.collection WHERE c.tenant = ?)",
	} {
		var rows [][]byte
		if err := db.Raw("SELECT "+column+" FROM "+from, tenant).Scan(&rows).Error; err != nil || len(rows) == 0 {
			in.t.Fatalf("%s: %d rows, %v", from, len(rows), err)
		}
		for _, b := range rows {
			found = append(found, b[:min(len(b), 64)])
		}
	}
	return found
}

func (in *installation) offboarding(tenant string) (o adminapi.Offboarding) {
	in.t.Helper()
	in.admin(http.MethodGet, "/tenants/"+tenant+"/offboarding", nil, &o)
	return o
}

// TestATenantLeaves: a tenant gets an export that others can check, and is erased past a hold that a second person lets pass. No file has anything of it any
// more but what the certificate says that stays; the other tenant has everything, and goes on.
func TestATenantLeaves(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true, extra: "offboarding: {export_texts: true}\n"})
	bank, shop := in.settled("bank", "13800138000"), in.settled("shop", "13900139001")
	one, two := in.signInAs("one", "platform_admin"), in.signInAs("two", "platform_admin")
	const at = "/api/v1/tenants/bank/offboarding"
	why := map[string]string{"reason": "the contract has ended"}
	conflict := func(what string, r reply) {
		t.Helper()
		wantProblem(t, what, r, http.StatusConflict, "conflict")
	}
	conflict("an active tenant", in.send(http.MethodPost, at, in.token, why))
	conflict("the operator", in.send(http.MethodPost, "/api/v1/tenants/demo/offboarding", in.token, why))
	in.admin(http.MethodPost, "/tenants/bank/suspend", why, nil)
	wantProblem(t, "one that was not begun", in.send(http.MethodPost, at+"/decline-export", in.token, why), http.StatusNotFound, "not_found")
	var o adminapi.Offboarding
	in.admin(http.MethodPost, "/tenants/bank/offboarding", why, &o)
	conflict("without an export", in.send(http.MethodPost, at+"/erase", one, map[string]string{"plan": o.Plan}))
	wantProblem(t, "values that are not permitted", in.send(http.MethodPost, at+"/export", in.token, map[string]bool{"values": true}), http.StatusConflict, "conflict")

	parcel := in.send(http.MethodPost, at+"/export", in.token, map[string]bool{"texts": true})
	files := in.checkParcel(parcel.body)
	for name, canary := range map[string]string{
		"policies/1.yaml": "bank-policy-canary", "policies/project-bank-budget-canary-1.yaml": "bank-project-canary", "projects.jsonl": `"name":"Shop"`, "keys.jsonl": "bank-key-canary", "users.jsonl": "bank-person", "texts.jsonl": "bank-text-canary", "usage.jsonl": `"model":"scripted"`, "documents.jsonl": `"a.txt"`,
	} {
		if !strings.Contains(string(files[name]), canary) {
			t.Errorf("%s lacks %s: %s", name, canary, files[name])
		}
	}
	documents := ""
	for name, text := range files {
		if strings.HasPrefix(name, "documents/") {
			documents += string(text)
		}
		for _, foreign := range append([]string{"shop", "argon2"}, shop.plain...) {
			if name != "audit/evidence.zip" && bytes.Contains(text, []byte(foreign)) {
				t.Errorf("%s has %s", name, foreign)
			}
		}
	}
	if !strings.Contains(documents, "bank-document-canary") {
		t.Errorf("the documents: %q", documents)
	}
	o = in.offboarding("bank")
	if o.State != adminapi.OffboardingStateExported || *o.ExportFiles != int64(len(files)) {
		t.Errorf("%+v", o)
	}

	traces := in.sealedOf("bank")
	kept := in.sealedOf("shop")
	in.admin(http.MethodPost, "/audit/holds", map[string]any{"tenant": "bank", "reason": "case 17"}, new(any))
	erase := func(who, approval string) reply {
		return in.send(http.MethodPost, at+"/erase", who, map[string]string{"plan": o.Plan, "approval": approval})
	}
	wantProblem(t, "a tenant that is held", in.send(http.MethodPost, at+"/erase", one, map[string]string{"plan": o.Plan}), http.StatusConflict, "legal_hold")
	var asked adminapi.ErasureApproval
	in.send(http.MethodPost, at+"/approvals", one, why).decode(t, &asked)
	conflict("before it is approved", erase(one, asked.Id))
	wantProblem(t, "who asked", in.send(http.MethodPost, approvalsPath+"/"+asked.Id+"/approve?tenant=bank", one, nil), http.StatusForbidden, "second_person_required")
	if r := in.send(http.MethodPost, approvalsPath+"/"+asked.Id+"/approve?tenant=bank", two, nil); r.status != http.StatusOK || asked.Kind != adminapi.ErasureApprovalKindTenant {
		t.Fatalf("%d %s", r.status, r.body)
	}
	conflict("somebody else than who asked", erase(two, asked.Id))
	if r := erase(one, asked.Id); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	eventually(t, "the erasure", func() bool { o = in.offboarding("bank"); return o.State == adminapi.OffboardingStateErased })
	in.checkErased(o, asked.Id)

	for what, r := range map[string]reply{
		"resumed":    in.send(http.MethodPost, "/api/v1/tenants/bank/resume", in.token, map[string]any{"since": o.SuspendedAt}),
		"an account": in.send(http.MethodPost, "/api/v1/users", in.token, map[string]any{"tenant": "bank", "name": "new", "password": longPassword, "roles": []string{"developer"}}),
		"moved":      in.send(http.MethodPost, "/api/v1/tenants/bank/move", in.token, map[string]string{"organisation": "default"}),
		"a project":  in.send(http.MethodPost, "/api/v1/projects", in.token, map[string]string{"tenant": "bank", "id": "new", "name": "New"}),
		"a service":  in.send(http.MethodPost, "/api/v1/service-accounts", in.token, map[string]any{"tenant": "bank", "name": "new", "roles": []string{"application"}}),
		"a person":   in.send(http.MethodPost, "/api/v1/invitations", in.token, map[string]any{"tenant": "bank", "name": "new", "roles": []string{"developer"}}),
		"a budget":   in.send(http.MethodPut, "/api/v1/budgets", in.token, map[string]any{"tenant": "bank", "project": "new", "period": "month", "limit_nano": 1}),
		"a key":      in.send(http.MethodPost, "/api/v1/keys", in.token, map[string]any{"tenant": "bank", "name": "new"}),
		"a policy":   in.send(http.MethodPost, "/api/v1/policies", in.token, map[string]string{"tenant": "bank", "yaml": revealPolicy(20, usualRules)}),
		"begun anew": in.send(http.MethodPost, at, in.token, why),
		"its id":     in.send(http.MethodPost, "/api/v1/tenants", in.token, map[string]string{"id": "bank", "name": "Another"}),
	} {
		if r.status != http.StatusConflict {
			t.Errorf("%s: %d %s", what, r.status, r.body)
		}
	}
	if r := in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "bank-person", "password": longPassword}); r.status != http.StatusUnauthorized {
		t.Errorf("an account of it signs in: %d %s", r.status, r.body)
	}
	if got := string(in.admin(http.MethodGet, "/audit/records?tenant=bank&action=chat.completions", nil, nil).body); !strings.Contains(got, bank.key.id) {
		t.Errorf("its records are not found: %s", got)
	}
	in.goesOn(shop)
	if v := in.verify(); !v.Report.OK {
		t.Errorf("%+v", v)
	}
	in.namesStayInRecords(bank.tenant + "-key-canary")
	in.forgotten(bank, traces, shop, kept)
}

// checkParcel verifies an export as its reader does, and returns its files.
func (in *installation) checkParcel(b []byte) map[string][]byte {
	in.t.Helper()
	v, err := checkpoint.NewVerifier(in.logKey())
	if err != nil {
		in.t.Fatal(err)
	}
	r, err := proofs.VerifyParcel(bytes.NewReader(b), int64(len(b)), v)
	if err != nil || !r.OK || r.Manifest.Kind != offboard.ExportKind {
		in.t.Fatalf("%+v, %v: %.200s", r, err, b)
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		in.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range r.Manifest.Files {
		open, err := z.Open(f.Name)
		if err != nil {
			in.t.Fatal(err)
		}
		if out[f.Name], err = io.ReadAll(open); err != nil {
			in.t.Fatal(err)
		}
	}
	bundle := out["audit/evidence.zip"]
	if got, err := proofs.VerifyBundle(in.t.Context(), bytes.NewReader(bundle), int64(len(bundle)), v, checkpoint.Witnesses{}, nil); err != nil || !got.OK {
		in.t.Errorf("the evidence bundle: %+v, %v", got, err)
	}
	return out
}

// checkErased holds the certificate against the offboarding and against its sealed record.
func (in *installation) checkErased(o adminapi.Offboarding, approval string) {
	in.t.Helper()
	for _, c := range o.Counts {
		if c.Now != 0 && !c.Stays {
			in.t.Errorf("%+v", c)
		}
	}
	raw := in.admin(http.MethodGet, "/tenants/bank/offboarding/certificate", nil, nil)
	var said offboard.Report
	if err := json.Unmarshal(raw.body, &said); err != nil {
		in.t.Fatal(err)
	}
	before := map[string]int64{}
	for _, c := range said.Gone {
		before[c.Table] = c.Before
	}
	for table, least := range map[string]int64{
		"audit_contents": 2, "audit_subject_keys": 1, "vault_keys": 1, "vault_values": 1, "rag_documents": 1, "rag_versions": 1, "rag_chunks": 1, "identity_users": 1, "identity_keys": 1, "identity_projects": 1, "policy_documents": 2, "billing_budgets": 2,
		"access_reviews": 1, "erasure_approvals": 1, "identity_sessions": 1, "file_files": 1, "file_blobs": 1, "file_chunks": 1, "batch_batches": 1,
	} {
		if before[table] < least {
			in.t.Errorf("%s: %d rows before", table, before[table])
		}
	}
	if len(said.Keys) != 2 || said.Documents[0] != 1 || said.Approval != approval || len(said.Holds) != 1 || said.ExportDigest == "" {
		in.t.Errorf("%+v", said)
	}
	sum := sha256.Sum256(raw.body)
	record := string(in.admin(http.MethodGet, "/audit/records?tenant=bank&action=offboarding.erased", nil, nil).body)
	if !strings.Contains(record, hex.EncodeToString(sum[:])) || !strings.Contains(record, raw.header.Get("X-Sluice-Record")) || !strings.Contains(record, `"rows_after":"0"`) {
		in.t.Errorf("the record: %s", record)
	}
	for lang, words := range map[string][]string{"en": {"Certificate of erasure", "rows of the tenant and 2 data keys were destroyed", "tax and commercial law", "the contract has ended"}, "zh": {"租户擦除证明", "税法与商法"}} {
		text := string(in.send(http.MethodGet, "/api/v1/tenants/bank/offboarding/certificate?format=md", in.token, nil, "Accept-Language", lang).body)
		for _, w := range words {
			if !strings.Contains(text, w) {
				in.t.Errorf("the certificate lacks %q:\n%s", w, text)
			}
		}
	}
	if pdf := in.send(http.MethodGet, "/api/v1/tenants/bank/offboarding/certificate?format=pdf", in.token, nil); !bytes.HasPrefix(pdf.body, []byte("%PDF")) {
		in.t.Errorf("%d %.100s", pdf.status, pdf.body)
	}
}

// goesOn checks that the other tenant is served as before: an answer with its values put back, and its documents.
func (in *installation) goesOn(l leaving) {
	in.t.Helper()
	r := in.send(http.MethodPost, "/v1/chat/completions", l.key.secret, `{"model":"scripted","user":"p1","messages":[{"role":"user","content":"hello again"}]}`, "X-Sluice-Session", "s1")
	found := in.send(http.MethodPost, "/v1/rag/search", l.key.secret, map[string]any{"collection": "kb", "query": "trees"})
	if r.status != http.StatusOK || !strings.Contains(string(found.body), l.tenant+"-document-canary") {
		in.t.Errorf("%d %s, %s", r.status, r.body, found.body)
	}
	var users adminapi.UserPage
	in.admin(http.MethodGet, "/users?tenant="+l.tenant, nil, &users)
	if len(users.Items) != 2 {
		in.t.Errorf("%+v", users)
	}
}

// namesStayInRecords searches every table for the name of a key, which the records and the books of what it was used for have, and nothing else.
func (in *installation) namesStayInRecords(name string) {
	in.t.Helper()
	db, err := database.Open(in.t.Context(), in.cfg.Database)
	if err != nil {
		in.t.Fatal(err)
	}
	defer database.Close(db)
	var tables, found []string
	if err := db.Raw("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name").Scan(&tables).Error; err != nil {
		in.t.Fatal(err)
	}
	for _, table := range tables {
		var all []map[string]any
		if err := db.Table(table).Find(&all).Error; err != nil {
			in.t.Fatal(err)
		}
		if strings.Contains(fmt.Sprintf("%s", all), name) {
			found = append(found, table)
		}
	}
	if want := []string{"audit_events", "audit_facets", "audit_terms", "billing_usage"}; len(found) == 0 || slices.ContainsFunc(found, func(t string) bool { return !slices.Contains(want, t) }) {
		in.t.Errorf("%s is in %v", name, found)
	}
}

// forgotten searches every file of the stopped server.
func (in *installation) forgotten(gone leaving, traces [][]byte, other leaving, kept [][]byte) {
	in.t.Helper()
	if err := in.stop(); err != nil {
		in.t.Fatal(err)
	}
	files := in.sinks(nil)
	everywhere := func(b []byte) (places []string) {
		for place, content := range files {
			if bytes.Contains(content, b) {
				places = append(places, place)
			}
		}
		return places
	}
	for i, b := range traces {
		if places := everywhere(b); places != nil {
			in.t.Errorf("what was encrypted or hashed of the tenant, %d of %d, is in %v", i, len(traces), places)
		}
	}
	for _, word := range append(gone.plain, gone.key.secret) {
		inRecords := word == gone.tenant+"-budget-canary" || word == gone.tenant+"-key-canary" // a project, and the name of whoever acted
		if places := everywhere([]byte(word)); places != nil && !inRecords {
			in.t.Errorf("%s is in %v", word, places)
		}
	}
	for i, b := range kept {
		if everywhere(b) == nil {
			in.t.Errorf("what is of the other tenant, %d of %d, is gone", i, len(kept))
		}
	}
	if everywhere([]byte(other.tenant+"-key-canary")) == nil {
		in.t.Error("the search finds nothing at all")
	}
}

// erasureNeedsTwo lets a compliance officer begin to offboard the suspended tenant bank, with separated duties: neither he alone nor a system administrator erases it, and an approval is good
// for the plan that it was given for.
func (in *installation) erasureNeedsTwo(com, sec, sys string) {
	in.t.Helper()
	const at = "/api/v1/tenants/bank/offboarding"
	why := map[string]string{"reason": "the contract has ended"}
	var o adminapi.Offboarding
	in.send(http.MethodPost, at, com, why).decode(in.t, &o)
	in.send(http.MethodPost, at+"/decline-export", com, why).decode(in.t, &o)
	plan := map[string]string{"plan": o.Plan}
	wantProblem(in.t, "one person", in.send(http.MethodPost, at+"/erase", com, plan), http.StatusForbidden, "act_approval_required")
	wantProblem(in.t, "an export by one person", in.send(http.MethodPost, at+"/export", com, map[string]bool{}), http.StatusForbidden, "act_approval_required")
	wantProblem(in.t, "who runs the installation", in.send(http.MethodPost, at+"/erase", sys, plan), http.StatusForbidden, "not_allowed")
	given := in.approved(http.MethodPost, at+"/erase", com, sec, plan)
	wantProblem(in.t, "another plan than the approved one", in.send(http.MethodPost, at+"/erase", com, map[string]string{"plan": strings.Repeat("0", 64)}, "X-Sluice-Approval", given), http.StatusConflict, "conflict")
	in.send(http.MethodPost, at+"/decline-export", com, map[string]string{"reason": "another one"}).decode(in.t, &o)
	wantProblem(in.t, "what has changed since", in.send(http.MethodPost, at+"/erase", com, plan, "X-Sluice-Approval", given), http.StatusConflict, "conflict")
}
