package server_test

import (
	"bytes"
	"encoding/json"
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

// TestProvenance: a kept answer leads to its request; the evidence convinces whoever has the public key, and whatever was changed does not.
func TestProvenance(t *testing.T) {
	in := start(t, setup{
		overrides: map[string]any{"audit.checkpoint_every": 50 * time.Millisecond},
		plan:      func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{signedText}} },
	})
	key := in.started.Welcome.APIKey.Reveal()
	r := in.send(http.MethodPost, "/v1/chat/completions", key, json.RawMessage(`{"model":"scripted","messages":[{"role":"user","content":"hello"}]}`), signature.Header, signature.HeaderJWS)
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
	t.Run("bad questions", func(t *testing.T) {
		for _, q := range []map[string]any{{}, {"text": "a", "content": "YQ==", "name": "a"}, {"content": "YQ=="}, {"text": " "}, {"text": "a", "more": 1}} {
			if r := in.send(http.MethodPost, "/api/v1/audit/provenance", auditor, q); r.status != http.StatusBadRequest {
				t.Errorf("%v: %d %s", q, r.status, r.body)
			}
		}
	})
}

// originEvidence exports the evidence of a question and checks it offline.
func (in *installation) originEvidence(t *testing.T, token string, q map[string]any, request string) []byte {
	t.Helper()
	var r reply
	eventually(t, "a sealed record", func() bool {
		r = in.send(http.MethodPost, "/api/v1/audit/provenance/evidence", token, q)
		return r.status != http.StatusConflict
	})
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
	p, err := bundle.VerifyProvenance(f, int64(len(r.body)), keys, checkpoint.Witnesses{}, func(subject []byte, beside string, keySet []byte) (bundle.ProvenanceSigned, error) {
		x, err := signature.Inspect(subject, beside, keySet)
		return bundle.ProvenanceSigned(x), err
	}, &report)
	if err != nil || !report.OK || len(p.Records) != 2 || p.Records[0].Request != request {
		t.Fatalf("%v %+v %+v", err, report, p)
	}
	if text, _ := q["text"].(string); strings.Contains(text, `"signature"`) && (p.Signature.State != signature.Authentic || p.Signature.Request != request || !p.Signature.Covers) {
		t.Errorf("the signature inside is %+v", p.Signature)
	}
	return r.body
}
