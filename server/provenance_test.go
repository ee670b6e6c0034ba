package server_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	bundle "github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/server/provenance"
)

// minutes is an answer of several sentences, in two languages.
const minutes = "The committee met on the second floor and approved the revised budget for bridges, on condition that the river survey is repeated in spring. " +
	"Three members asked for a written report on the sluice at the northern harbour, which has leaked since the storm of last November. " +
	"The treasurer will publish the figures within two weeks. 委员会还批准了修订后的桥梁预算，条件是春季重新进行河道勘测，并在三个月内提交书面报告，由财务处复核后归档备查。"

// TestProvenance: a kept answer leads to its request, by its signature or, where that was lost and the text edited, by the registry; the evidence convinces whoever has the
// public key, and whatever was changed does not.
func TestProvenance(t *testing.T) {
	in := start(t, setup{
		overrides: map[string]any{"audit.checkpoint_every": 50 * time.Millisecond},
		plan: func(_ int, req *engine.Request) enginetest.Plan {
			if req.Messages[0].Content == "minutes" {
				return enginetest.Plan{Texts: []string{minutes}}
			}
			return enginetest.Plan{Texts: []string{signedText}}
		},
	})
	key := in.started.Welcome.APIKey.Reveal()
	r := in.send(http.MethodPost, "/v1/chat/completions", key, json.RawMessage(`{"model":"scripted","messages":[{"role":"user","content":"hello"}]}`), signature.Header, string(signature.JWS))
	body, ok := signature.ParseBody(r.body)
	if !ok {
		t.Fatalf("%d %s", r.status, r.body)
	}
	request := r.header.Get("X-Request-Id")
	in.records(request, 2)
	auditor := in.signIn("auditor")
	ask := func(q map[string]any) provenance.Verdict {
		t.Helper()
		r := in.send(http.MethodPost, "/api/v1/audit/provenance", auditor, q)
		var v provenance.Verdict
		if err := json.Unmarshal(r.body, &v); err != nil || r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return v
	}
	whole := ask(map[string]any{"text": string(r.body)})
	if whole.Conclusion != provenance.Unchanged || len(whole.Requests) != 1 || whole.Requests[0].ID != request || len(whole.Requests[0].Records) != 2 {
		t.Errorf("%+v", whole)
	}
	if v := ask(map[string]any{"text": signedText, "signature": body.Signature}); v.Conclusion != provenance.Unchanged {
		t.Errorf("%+v", v)
	}
	forged := strings.Replace(signedText, "已", "未", 1)
	if v := ask(map[string]any{"text": forged, "signature": body.Signature}); v.Conclusion != provenance.OtherText || len(v.Requests) > 0 {
		t.Errorf("%+v", v)
	}
	t.Run("records", func(t *testing.T) {
		asked := 0
		eventually(t, "the records of three questions", func() bool {
			asked = 0
			in.eachRecord("action=admin.judgeProvenance", func(auditEvent, json.RawMessage) { asked++ })
			return asked >= 6
		})
		in.eachRecord("action=admin.judgeProvenance", func(e auditEvent, whole json.RawMessage) {
			if bytes.Contains(whole, []byte("parcel")) {
				t.Errorf("a record has the text: %s", whole)
			}
			if e.Stage == "outcome" && (!bytes.Contains(whole, []byte(`"conclusion":"`)) || !bytes.Contains(whole, []byte(`"resource":"`))) {
				t.Errorf("%s", whole)
			}
		})
	})
	t.Run("evidence", func(t *testing.T) { in.originEvidence(t, auditor, map[string]any{"text": string(r.body)}, request) })
	t.Run("edited", func(t *testing.T) { in.originOfEdited(t, key, auditor, ask) })
	t.Run("bad questions", func(t *testing.T) {
		for _, q := range []map[string]any{{}, {"text": "a", "content": "YQ==", "name": "a"}, {"content": "YQ=="}, {"text": " "}, {"text": "a", "more": 1}} {
			if r := in.send(http.MethodPost, "/api/v1/audit/provenance", auditor, q); r.status != http.StatusBadRequest {
				t.Errorf("%v: %d %s", q, r.status, r.body)
			}
		}
	})
}

// originOfEdited looks for what became of an answer that nobody signed.
func (in *installation) originOfEdited(t *testing.T, key, auditor string, ask func(map[string]any) provenance.Verdict) {
	r := in.send(http.MethodPost, "/v1/chat/completions", key, json.RawMessage(`{"model":"scripted","messages":[{"role":"user","content":"minutes"}]}`))
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	request := r.header.Get("X-Request-Id")
	in.records(request, 2)
	edited := strings.NewReplacer("second floor", "third floor", "The treasurer will publish the figures within two weeks. ", "", ", on", "，on", " which", "\n  which", "，", ", ", "三个月", "三 个月").Replace(minutes)
	for text, want := range map[string]struct {
		result     provenance.Result
		reason     provenance.Reason
		conclusion provenance.Conclusion
	}{
		strings.ReplaceAll(minutes, " ", "\r\n"): {provenance.Confirmed, provenance.RegistryExact, provenance.Derived},
		strings.ToUpper("> " + minutes):          {provenance.Partial, provenance.RegistryPart, provenance.Derived},
		"A page of another hand, in which one sentence is quoted. It has its own opinions on harbours and budgets, more of them than the quotation has words, and nobody would call it an answer. " +
			"It says: Three members asked for a written report on the sluice at the northern harbour, which has leaked since the storm of last November. All else, about bridges and rivers and what they cost, here was written by somebody who has never asked a model for anything at all.": {provenance.Partial, provenance.RegistryPart, provenance.Hint},
		edited: {provenance.Partial, provenance.RegistryPart, provenance.Derived},
		"They wrote of one which has leaked since the storm of last November":                                      {provenance.Indicated, provenance.RegistryWeak, provenance.Hint},
		"There is no answer of this installation that has any of these words in this order, and so none is named.": {provenance.Absent, provenance.RegistryNone, provenance.NothingFound},
		"Too short to be looked for.":                   {provenance.CannotSay, provenance.RegistryShort, provenance.TooLittle},
		strings.Repeat("The counter is open. ", 15_000): {provenance.CannotSay, provenance.RegistryLong, provenance.TooLittle},
	} {
		v := ask(map[string]any{"text": text})
		m := v.Marks.Registry
		if m.Result != want.result || m.Reason != want.reason || v.Conclusion != want.conclusion {
			t.Errorf("%.40s: %s, %+v", text, v.Conclusion, m)
		}
		if leads := want.result != provenance.Absent && want.result != provenance.CannotSay; leads != (len(v.Requests) == 1 && v.Requests[0].ID == request) || leads != (m.Verified > 0) {
			t.Errorf("%.40s: requests %+v, verified %d", text, v.Requests, m.Verified)
		}
	}
	if m := ask(map[string]any{"text": edited}).Marks.Registry; m.Verified >= m.Letters || *m.Share < 0.5 || m.Since == nil {
		t.Errorf("%+v", m)
	}
	parcel := in.originEvidence(t, auditor, map[string]any{"text": edited}, request)
	for name, change := range map[string]func(name string, b []byte) []byte{
		"another text": func(name string, b []byte) []byte {
			if strings.HasPrefix(name, bundle.ProvenanceSubject) {
				return bytes.Replace(b, []byte("third floor"), []byte("fifth floor"), 1)
			}
			return b
		},
		"another verdict": func(name string, b []byte) []byte {
			if name == bundle.ProvenanceVerdict {
				return bytes.Replace(b, []byte(`"registry_part"`), []byte(`"registry_exact"`), 1)
			}
			return b
		},
		"another request": func(_ string, b []byte) []byte { return bytes.ReplaceAll(b, []byte(request), []byte("somebody-elses")) },
	} {
		if forged := rezipped(t, parcel, change); bytes.Equal(forged, parcel) || in.convinces(t, forged) {
			t.Errorf("%s convinces", name)
		}
	}
	if !in.convinces(t, rezipped(t, parcel, func(_ string, b []byte) []byte { return b })) {
		t.Error("what was only packed anew does not convince")
	}
}

// convinces reports whether a parcel convinces whoever has the public key of the log alone.
func (in *installation) convinces(t *testing.T, parcel []byte) bool {
	t.Helper()
	keys, err := checkpoint.NewVerifier(in.logKey())
	if err != nil {
		t.Fatal(err)
	}
	f := bytes.NewReader(parcel)
	report, err := bundle.VerifyParcel(f, int64(len(parcel)), keys)
	if err != nil || !report.OK {
		return false
	}
	_, err = bundle.VerifyProvenance(f, int64(len(parcel)), keys, checkpoint.Witnesses{}, inspectSigned, &report)
	return err == nil && report.OK
}

// inspectSigned looks at the signature inside a parcel as sluice-verify does.
func inspectSigned(subject []byte, beside string, keySet []byte) (bundle.ProvenanceSigned, error) {
	x, err := signature.Inspect(subject, beside, keySet)
	return bundle.ProvenanceSigned(x), err
}

// rezipped packs a zip anew, with what change makes of its files.
func rezipped(t *testing.T, b []byte, change func(name string, text []byte) []byte) []byte {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range in.File {
		text, err := fs.ReadFile(in, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := z.Create(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(change(f.Name, text))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// originEvidence exports the evidence of a question and checks it offline.
func (in *installation) originEvidence(t *testing.T, token string, q map[string]any, request string) []byte {
	t.Helper()
	var r reply
	for _, e := range in.eventsOf(request, 2) { // evidence is asked for once: its limit is low
		eventually(t, "a sealed record", func() bool {
			return in.send(http.MethodGet, "/api/v1/audit/records/"+e.ID+"/proof", token, nil).status == http.StatusOK
		})
	}
	r = in.send(http.MethodPost, "/api/v1/audit/provenance/evidence", token, q)
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	keys, err := checkpoint.NewVerifier(in.logKey())
	if err != nil {
		t.Fatal(err)
	}
	f := bytes.NewReader(r.body)
	report, err := bundle.VerifyParcel(f, int64(len(r.body)), keys)
	if err != nil || !report.OK || report.Manifest.Kind != bundle.ProvenanceKind {
		t.Fatalf("%v %+v", err, report)
	}
	p, err := bundle.VerifyProvenance(f, int64(len(r.body)), keys, checkpoint.Witnesses{}, inspectSigned, &report)
	if err != nil || !report.OK || len(p.Records) != 2 || p.Records[0].Request != request {
		t.Fatalf("%v %+v %+v", err, report, p)
	}
	if text, _ := q["text"].(string); strings.Contains(text, `"signature"`) && (p.Signature.State != signature.Authentic || p.Signature.Request != request || !p.Signature.Covers) {
		t.Errorf("the signature inside is %+v", p.Signature)
	}
	return r.body
}
