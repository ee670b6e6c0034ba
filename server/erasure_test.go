package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	proofs "github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
)

const (
	erasuresPath  = "/api/v1/audit/erasures"
	previewPath   = erasuresPath + "/preview"
	approvalsPath = erasuresPath + "/approvals"
)

// saidAs chats for a person in a conversation, and returns the pseudonyms that the engine saw.
func (in *installation) saidAs(person, session, text string) []string {
	in.t.Helper()
	r := in.send(http.MethodPost, "/v1/chat/completions", in.started.Welcome.APIKey.Reveal(),
		`{"model":"scripted","user":`+quote(person)+`,"messages":[{"role":"user","content":`+quote(text)+`}]}`, "X-Sluice-Session", session)
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	in.records(r.header.Get("X-Request-Id"), 2)
	all := in.scripted.Requests()
	last := all[len(all)-1].Messages
	return pseudonym.FindAllString(last[len(last)-1].Content, -1)
}

// sees is what an officer is shown of a conversation.
func (in *installation) sees(officer, session string, tokens []string) string {
	in.t.Helper()
	a, r := in.revealed(officer, map[string]any{"session": session, "tokens": tokens})
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	return shown(a)
}

func (in *installation) preview(who string, body map[string]any) (p adminapi.ErasurePreview) {
	in.t.Helper()
	r := in.send(http.MethodPost, previewPath, who, body)
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	r.decode(in.t, &p)
	return p
}

func codes(stays []adminapi.ErasureStay) (out []string) {
	for _, s := range stays {
		out = append(out, string(s.Code))
	}
	return out
}

// TestErasureReachesValues: a person who was erased is erased in the pseudonym store, too. What the preview says is what happens; the record, with its
// proof, is the certificate; and who comes back is kept anew.
func TestErasureReachesValues(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{"sqlite": func(*testing.T) string { return "" }, "postgres": func(t *testing.T) string { return dbtest.PostgresURL(t) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := start(t, setup{database: database(t)})
			in.publish(revealPolicy(20, usualRules))
			officer := in.signIn("compliance")
			stay := []string{"records", "documents", "others", "fingerprints", "backups", "remote", "callers"}
			if name == "postgres" {
				stay = slices.Insert(stay, 4, "wal")
			}
			mine := in.saidAs("alice", "s1", "我的手机是13800138000。")
			his := in.saidAs("bob", "s2", "我的手机是13900139001。")
			in.saidAs("alice", "s3", "没有号码。")
			if got := in.sees(officer, "s1", mine); got != "clear 13800138000" {
				t.Fatal(got)
			}
			before := in.preview(officer, map[string]any{"subject": "alice"})
			if before.Goes != (adminapi.ErasureFigures{Keys: 1, Contents: 4, Values: 1, Conversations: 1}) || before.Records != 4 || before.Newest == nil || len(before.Holds) != 0 ||
				!slices.Equal(codes(before.Stays), stay) {
				t.Errorf("%+v", before)
			}
			if again := in.preview(officer, map[string]any{"digest": before.Subject}); again.Goes != before.Goes {
				t.Errorf("a look destroyed something: %+v", again)
			}
			if nobody := in.preview(officer, map[string]any{"subject": "nobody"}); nobody.Goes != (adminapi.ErasureFigures{}) || nobody.Records != 0 {
				t.Errorf("%+v", nobody)
			}
			var done adminapi.Erasure
			r := in.send(http.MethodPost, erasuresPath, officer, map[string]any{"digest": before.Subject})
			if r.decode(t, &done); r.status != http.StatusCreated || *done.Keys != 1 || *done.Contents != 4 || *done.Values != 1 || *done.Conversations != 1 || done.Override != nil ||
				!slices.Equal(codes(*done.Stays), codes(before.Stays)) {
				t.Errorf("%d %s", r.status, r.body)
			}
			for session, want := range map[string]string{"s1": "unknown", "s2": "clear 13900139001"} {
				tokens := map[string][]string{"s1": mine, "s2": his}[session]
				if got := in.sees(officer, session, tokens); got != want {
					t.Errorf("%s: %s, want %s", session, got, want)
				}
			}
			in.certificate(officer, done, stay)
			for tenant, want := range map[string]int{"*": http.StatusBadRequest, "none": http.StatusNotFound} {
				for _, path := range []string{erasuresPath, previewPath} {
					if r := in.send(http.MethodPost, path, in.token, map[string]any{"subject": "alice", "tenant": tenant}); r.status != want {
						t.Errorf("%s in %s: %d %s", path, tenant, r.status, r.body)
					}
				}
			}
			acts := in.eventsOf(r.header.Get("X-Request-Id"), 2)
			if d := acts[1].Detail; d["values"] != "1" || d["conversations"] != "1" || d["erasure"] != done.Record || d["certificate"] != *done.Certificate {
				t.Errorf("%+v", acts[1])
			}
			mine = in.saidAs("alice", "s1", "我的手机是13800138000。")
			if got := in.sees(officer, "s1", mine); got != "clear 13800138000" {
				t.Errorf("a turn behind the erasure: %s", got)
			}
			in.mustUpload(in.started.Welcome.APIKey.Reveal(), `{"custom_id":"alice"}`)
			if p := in.preview(officer, map[string]any{"subject": "alice"}); !slices.Equal(codes(p.Stays), slices.Insert(slices.Clone(stay), 2, "files")) {
				t.Errorf("with a file: %v", codes(p.Stays))
			}
			if v := in.verify(); v.Status != "finished" || !v.Report.OK {
				t.Errorf("%+v", v)
			}
		})
	}
}

// certificate checks what proves an erasure to others: the record of it says the same, and its proof holds.
func (in *installation) certificate(who string, done adminapi.Erasure, stays []string) {
	in.t.Helper()
	var p adminapi.AuditProof
	r := in.send(http.MethodGet, "/api/v1/audit/records/"+deref(done.Certificate)+"/proof", who, nil)
	if r.decode(in.t, &p); r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	proof := proofs.Proof{Record: p.Record, Index: p.Index, Checkpoint: p.Checkpoint}
	for _, h := range p.Hashes {
		hash, err := tlog.ParseHash(h)
		if err != nil {
			in.t.Fatal(err)
		}
		proof.Hashes = append(proof.Hashes, hash)
	}
	e, err := proofs.VerifyProof(p.VerifierKey, proof)
	if err != nil || e.Action != "audit.erased" || e.Resource != done.Subject || e.Detail["erasure"] != done.Record || e.Detail["values"] != "1" || e.Detail["conversations"] != "1" || e.Detail["keys"] != "1" ||
		e.Detail["contents"] != "4" || e.Detail["stays"] != strings.Join(stays, " ") {
		in.t.Errorf("%+v, %v", e, err)
	}
}

// TestErasureOnAnotherReplica: one replica remembers the values of a conversation, another erases the person. The next turn on the first is
// stored anew, so that it can be shown.
func TestErasureOnAnotherReplica(t *testing.T) {
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
	b.started.Welcome = a.started.Welcome
	const text = "我的手机是13800138000。"
	tokens := b.saidAs("alice", "s1", text)
	b.saidAs("alice", "s1", text) // known
	if r := a.send(http.MethodPost, erasuresPath, officer, map[string]any{"subject": "alice"}); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := b.sees(officer, "s1", tokens); got != "unknown" {
		t.Errorf("%s", got)
	}
	b.saidAs("alice", "s1", text)
	if got := a.sees(officer, "s1", tokens); got != "clear 13800138000" {
		t.Errorf("a turn behind the erasure was not stored: %s", got)
	}
}

// TestHeldErasure: a hold on any record of a person refuses the erasure of the person, and of the values of a conversation with the person, over
// the API and on the command line. An approval lets exactly one erasure pass exactly these holds, once; every other one is refused.
func TestHeldErasure(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.publish(revealPolicy(20, usualRules))
	officer, auditor := in.signIn("compliance"), in.signIn("auditor")
	tokens := in.saidAs("alice", "s1", "我的手机是13800138000。")
	in.saidAs("bob", "s2", "我的手机是13900139001。")
	var hold adminapi.Hold
	in.send(http.MethodPost, "/api/v1/audit/holds", officer, map[string]any{"reason": "case 17", "subject": "alice"}).decode(t, &hold)
	alice := in.preview(officer, map[string]any{"subject": "alice"})
	if hold.Subject == nil || *hold.Subject != alice.Subject || len(alice.Holds) != 1 || alice.Holds[0].Id != hold.Id || deref(alice.Holds[0].Reason) != "case 17" ||
		alice.Holds[0].Records != 2 || len(alice.Holds[0].Examples) != 2 {
		t.Fatalf("%+v, %+v", hold, alice)
	}
	person := func(extra ...string) map[string]any { return with(map[string]any{"subject": "alice"}, extra...) }
	values := func(extra ...string) map[string]any { return with(map[string]any{"session": "s1"}, extra...) }
	erase := func(body map[string]any) reply { return in.send(http.MethodPost, erasuresPath, officer, body) }
	eraseValues := func(body map[string]any) reply {
		return in.send(http.MethodPost, "/api/v1/reveal/erasures", officer, body)
	}
	held := func(r reply) {
		t.Helper()
		in.refused(r, http.StatusConflict, "legal_hold")
		if s := string(r.body); !strings.Contains(s, hold.Id) || !strings.Contains(s, "case 17") {
			t.Errorf("%s", s)
		}
	}
	held(erase(person()))
	held(eraseValues(values()))
	if _, err := server.Erase(t.Context(), in.cfg, "demo", "alice", slog.New(slog.DiscardHandler)); !fault.Is(err, fault.CodeHeld) {
		t.Errorf("%v", err)
	}
	eventually(t, "the records of what a command was refused", func() bool {
		r := in.send(http.MethodGet, "/api/v1/audit/records?action=admin.eraseSubject&outcome=refused", auditor, nil)
		return strings.Contains(string(r.body), `"command"`) && strings.Contains(string(r.body), alice.Subject) && strings.Contains(string(r.body), "legal_hold")
	})
	if p := in.preview(officer, values()); len(p.Holds) != 1 || p.Goes.Values != 1 || p.Goes.Keys != 0 {
		t.Errorf("%+v", p)
	}
	if p := in.preview(officer, map[string]any{"session": "s2"}); len(p.Holds) != 0 || p.Goes.Values != 1 {
		t.Errorf("another's conversation: %+v", p)
	}

	ask := func(who string, body map[string]any) (a adminapi.ErasureApproval, r reply) {
		t.Helper()
		r = in.send(http.MethodPost, approvalsPath, who, body)
		if r.status == http.StatusCreated {
			r.decode(t, &a)
		}
		return a, r
	}
	decide := func(who, id, what string, body any) reply {
		return in.send(http.MethodPost, approvalsPath+"/"+id+"/"+what, who, body)
	}
	boss := in.signInAs("boss", "platform_admin")
	_, r := ask(officer, map[string]any{"subject": "bob", "reason": "x"})
	in.refused(r, http.StatusConflict, "conflict") // no hold covers it
	_, r = ask(auditor, person("reason", "x"))
	in.refused(r, http.StatusForbidden, "not_allowed")
	asked, r := ask(officer, person("reason", "a court wants it"))
	if asked.Kind != "person" || asked.Target != alice.Subject || !slices.Equal(asked.Holds, []string{hold.Id}) || asked.Goes != alice.Goes || asked.AskedBy != "user-compliance" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	refuse := func(id string) {
		t.Helper()
		in.refused(erase(person("approval", id)), http.StatusConflict, "conflict")
	}
	refuse(asked.Id) // not given yet
	in.refused(decide(officer, asked.Id, "approve", nil), http.StatusForbidden, "second_person_required")
	in.refused(decide(in.token, asked.Id, "approve", nil), http.StatusForbidden, "second_person_required") // created the officer
	in.refused(decide(auditor, asked.Id, "approve", nil), http.StatusForbidden, "not_allowed")
	if r := decide(boss, asked.Id, "approve", nil); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	refuse("none")
	in.refused(eraseValues(values("approval", asked.Id)), http.StatusConflict, "conflict")                                             // of another erasure
	in.refused(in.send(http.MethodPost, erasuresPath, boss, person("approval", asked.Id)), http.StatusConflict, "conflict")            // of another asker
	in.refused(in.send(http.MethodPost, "/api/v1/reveal/approvals/"+asked.Id+"/approve", boss, nil), http.StatusNotFound, "not_found") // of another kind

	var second adminapi.Hold // another hold makes it void, until it is gone
	in.send(http.MethodPost, "/api/v1/audit/holds", officer, map[string]any{"reason": "case 18", "from": "2020-01-01T00:00:00Z"}).decode(t, &second)
	refuse(asked.Id)
	if got := in.sees(officer, "s1", tokens); got != "clear 13800138000" {
		t.Errorf("a refused erasure destroyed something: %s", got)
	}
	in.send(http.MethodPost, "/api/v1/audit/holds/"+second.Id+"/release", officer, map[string]any{"reason": "closed"})
	refuse(asked.Id) // it goes on binding who released it
	in.send(http.MethodPost, "/api/v1/audit/holds", officer, map[string]any{"reason": "case 19", "from": "2020-01-01T00:00:00Z"}).decode(t, &second)
	in.send(http.MethodPost, "/api/v1/audit/holds/"+second.Id+"/release", boss, map[string]any{"reason": "closed"})
	asked = in.pastOwnHold(officer, boss, alice, hold, ask, decide)

	r = erase(person("approval", asked.Id))
	var done adminapi.Erasure
	if r.decode(t, &done); r.status != http.StatusCreated || *done.Values != 1 || done.Override == nil || done.Override.Approval != asked.Id || done.Override.ApprovedBy != "boss" ||
		!slices.Contains(done.Override.Holds, hold.Id) || len(done.Override.Holds) != 2 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := in.sees(officer, "s1", tokens); got != "unknown" {
		t.Errorf("%s", got)
	}
	var record struct {
		Event struct{ Detail map[string]string }
	}
	in.send(http.MethodGet, "/api/v1/audit/records/"+done.Record, auditor, nil).decode(t, &record)
	if d := record.Event.Detail; d["approval"] != asked.Id || d["approved_by"] != "boss" || !strings.Contains(d["holds"], hold.Id) {
		t.Errorf("%+v", record)
	}
	refuse(asked.Id) // spent

	tokens = in.saidAs("alice", "s1", "我的手机是13800138000。")
	of, r := ask(officer, values("reason", "the customer wants it"))
	if of.Kind != "values" || of.Target == alice.Subject {
		t.Fatalf("%d %s", r.status, r.body)
	}
	decide(boss, of.Id, "approve", nil)
	r = eraseValues(values("approval", of.Id))
	var gone adminapi.ErasedValues
	if r.decode(t, &gone); r.status != http.StatusOK || gone.Values != 1 || gone.Override == nil || gone.Override.Approval != of.Id {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, act := range in.eventsOf(r.header.Get("X-Request-Id"), 2) { // the first one, too, which is there before anything is destroyed
		if act.Action != "admin.eraseValues" || act.Detail["approved_by"] != "boss" || act.Detail["approval"] != of.Id || !strings.Contains(act.Detail["holds"], hold.Id) {
			t.Errorf("%+v", act)
		}
	}
	if got := in.sees(officer, "s1", tokens); got != "unknown" {
		t.Errorf("%s", got)
	}
	in.declined(officer, boss, decide, ask, person)
	for _, e := range in.allRecords(auditor) {
		if strings.Contains(e, `"alice"`) || strings.Contains(e, "13800138000") {
			t.Errorf("a record names somebody: %s", e)
		}
	}
	if v := in.verify(); v.Status != "finished" || !v.Report.OK {
		t.Errorf("%+v", v)
	}
}

// pastOwnHold: the hold that the officer has released himself is among those that the approval lets pass.
func (in *installation) pastOwnHold(officer, boss string, alice adminapi.ErasurePreview, hold adminapi.Hold,
	ask func(string, map[string]any) (adminapi.ErasureApproval, reply), decide func(who, id, what string, body any) reply,
) adminapi.ErasureApproval {
	in.t.Helper()
	p := in.preview(officer, map[string]any{"subject": "alice"})
	if len(p.Holds) != 2 || p.Holds[0].Id != hold.Id || p.Holds[0].ReleasedAt != nil || p.Holds[1].ReleasedAt == nil || deref(p.Holds[1].Reason) != "case 18" {
		in.t.Errorf("%+v", p)
	}
	if p := in.preview(boss, map[string]any{"subject": "alice"}); len(p.Holds) != 2 || deref(p.Holds[1].Reason) != "case 19" {
		in.t.Errorf("%+v", p)
	}
	asked, r := ask(officer, map[string]any{"digest": alice.Subject, "reason": "a court wants it"})
	if len(asked.Holds) != 2 {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	if r := decide(boss, asked.Id, "approve", nil); r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	return asked
}

// TestAHoldOfAllTenants: officers of a tenant neither read why the operator holds what is of all, nor let an erasure pass it; who may place such
// holds does.
func TestAHoldOfAllTenants(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	officer, second := in.signIn("compliance"), in.signInAs("second", "compliance")
	in.saidAs("alice", "s1", "hello")
	var hold adminapi.Hold
	in.admin(http.MethodPost, "/audit/holds", map[string]any{"tenant": "*", "reason": "a secret", "from": "2020-01-01T00:00:00Z"}, &hold)
	body := map[string]any{"subject": "alice"}
	if p := in.preview(officer, body); len(p.Holds) != 1 || p.Holds[0].Id != hold.Id || p.Holds[0].Reason != nil || p.Holds[0].CreatedBy != nil {
		t.Errorf("%+v", p.Holds)
	}
	if p := in.preview(in.token, body); len(p.Holds) != 1 || deref(p.Holds[0].Reason) != "a secret" || deref(p.Holds[0].CreatedBy) != "admin" {
		t.Errorf("%+v", p.Holds)
	}
	r := in.send(http.MethodPost, erasuresPath, officer, body)
	in.refused(r, http.StatusConflict, "legal_hold")
	if s := string(r.body); !strings.Contains(s, hold.Id) || strings.Contains(s, "a secret") {
		t.Error(s)
	}
	var asked adminapi.ErasureApproval
	in.send(http.MethodPost, approvalsPath, officer, map[string]any{"subject": "alice", "reason": "x"}).decode(t, &asked)
	in.refused(in.send(http.MethodPost, approvalsPath+"/"+asked.Id+"/approve", second, nil), http.StatusForbidden, "not_allowed")
	in.refused(in.send(http.MethodPost, erasuresPath, officer, map[string]any{"subject": "alice", "approval": asked.Id}), http.StatusConflict, "conflict")
	if r := in.send(http.MethodPost, approvalsPath+"/"+asked.Id+"/approve", in.signInAs("boss", "platform_admin"), nil); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := in.send(http.MethodPost, erasuresPath, officer, map[string]any{"subject": "alice", "approval": asked.Id}); r.status != http.StatusCreated {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func deref(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// declined: what was declined lets nothing pass, and the asker sees who declined it and why.
func (in *installation) declined(officer, boss string, decide func(who, id, what string, body any) reply,
	ask func(string, map[string]any) (adminapi.ErasureApproval, reply), person func(...string) map[string]any,
) {
	in.t.Helper()
	no, _ := ask(officer, person("reason", "again"))
	in.refused(decide(boss, no.Id, "decline", map[string]any{}), http.StatusBadRequest, "missing_required_parameter")
	in.refused(decide(officer, no.Id, "decline", map[string]any{"reason": "mine"}), http.StatusForbidden, "second_person_required")
	r := decide(boss, no.Id, "decline", map[string]any{"reason": "the case is open"})
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	if acts := in.eventsOf(r.header.Get("X-Request-Id"), 2); acts[1].Detail["reason"] != "the case is open" || acts[1].Resource != no.Id || acts[1].Action != "admin.declineErasure" {
		in.t.Errorf("%+v", acts[1])
	}
	in.refused(decide(boss, no.Id, "approve", nil), http.StatusConflict, "conflict")
	in.refused(in.send(http.MethodPost, erasuresPath, officer, person("approval", no.Id)), http.StatusConflict, "conflict")
	var list adminapi.ErasureApprovalList
	in.send(http.MethodGet, approvalsPath, officer, nil).decode(in.t, &list)
	if a := list.Items[0]; a.Id != no.Id || a.DeclinedBy == nil || *a.DeclinedBy != "boss" || *a.DeclineReason != "the case is open" || a.DeclinedAt == nil {
		in.t.Errorf("%+v", a)
	}
}

// allRecords are the records that an auditor sees, as JSON.
func (in *installation) allRecords(who string) (out []string) {
	in.t.Helper()
	var page struct {
		Items []json.RawMessage
		Next  string
	}
	for path := "/api/v1/audit/records?limit=200"; ; path = "/api/v1/audit/records?limit=200&cursor=" + page.Next {
		page.Next = ""
		in.send(http.MethodGet, path, who, nil).decode(in.t, &page)
		for _, x := range page.Items {
			out = append(out, string(x))
		}
		if page.Next == "" {
			return out
		}
	}
}

func with(body map[string]any, extra ...string) map[string]any {
	for i := 0; i < len(extra); i += 2 {
		body[extra[i]] = extra[i+1]
	}
	return body
}

// TestDeclinedReveal: an approval of a reveal can be declined by whoever may give it.
func TestDeclinedReveal(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.publish(revealPolicy(2, usualRules))
	officer, boss := in.signIn("compliance"), in.signIn("security_admin")
	_, tokens := in.said("s1", "电话13800138000、13900139001和13700137002。")
	body := func(extra ...string) map[string]any {
		return with(map[string]any{"session": "s1", "tokens": tokens, "purpose": "complaint"}, extra...)
	}
	var asked adminapi.RevealApproval
	in.send(http.MethodPost, "/api/v1/reveal/approvals", officer, body()).decode(t, &asked)
	decline := func(who, id string, body any) reply {
		return in.send(http.MethodPost, "/api/v1/reveal/approvals/"+id+"/decline", who, body)
	}
	in.refused(decline(officer, asked.Id, map[string]any{"reason": "x"}), http.StatusForbidden, "not_allowed")
	if r := in.send(http.MethodPost, "/api/v1/reveal/approvals/"+asked.Id+"/approve", boss, nil); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	r := decline(boss, asked.Id, map[string]any{"reason": "too many"}) // one that was given is taken back
	if r.status != http.StatusOK || !strings.Contains(string(r.body), "too many") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if acts := in.eventsOf(r.header.Get("X-Request-Id"), 2); acts[1].Detail["reason"] != "too many" {
		t.Errorf("%+v", acts[1])
	}
	_, r = in.revealed(officer, body("approval", asked.Id))
	in.refused(r, http.StatusConflict, "conflict")
	if s := string(r.body); !strings.Contains(s, "declined by user-security-admin: too many") {
		t.Errorf("%s", s)
	}
	in.refused(decline(boss, asked.Id, map[string]any{"reason": "again"}), http.StatusConflict, "conflict")
	in.refused(decline(boss, "none", map[string]any{"reason": "x"}), http.StatusNotFound, "not_found")
}

// TestExportOfAPeriod: how many records a bundle would hold is told before, and a bundle holds those of its period.
func TestExportOfAPeriod(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	auditor := in.signIn("auditor")
	in.saidAs("alice", "s1", "hello")
	size := func(query string) (n adminapi.ExportSize, r reply) {
		r = in.send(http.MethodGet, "/api/v1/audit/export/size"+query, auditor, nil)
		if r.status == http.StatusOK {
			r.decode(t, &n)
		}
		return n, r
	}
	all, _ := size("")
	if all.Records < 2 || all.More {
		t.Errorf("%+v", all)
	}
	if none, _ := size("?to=2020-01-01T00:00:00Z"); none.Records != 0 {
		t.Errorf("%+v", none)
	}
	if later, _ := size("?from=2100-01-01T00:00:00Z"); later.Records != 0 {
		t.Errorf("%+v", later)
	}
	_, r := size("?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z")
	in.refused(r, http.StatusBadRequest, "invalid_value")
	_, r = size("?tenant=other")
	in.refused(r, http.StatusForbidden, "not_allowed")
}
