package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestLabelledFiles: what an answer said becomes a file with the label of that answer, over HTTP; the label of nobody else is taken, and what was made
// here is known again.
func TestLabelledFiles(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, new(any))
	dev, other := in.newAccount("dev", nil, "developer"), in.newAccount("other", map[string]any{"tenant": "bank"}, "developer")
	auditor := in.newAccount("aud", nil, "auditor")

	answer := in.send(http.MethodPost, "/api/v1/playground/chat/completions", dev.token, map[string]any{"model": "scripted", "messages": []map[string]string{{"role": "user", "content": "trees?"}}})
	var got struct {
		Sluice struct {
			Label struct{ AIGC adminapi.AIGC }
		}
	}
	if err := json.Unmarshal(answer.body, &got); err != nil || got.Sluice.Label.AIGC.ProduceID != answer.header.Get("X-Request-Id") {
		t.Fatalf("%d %s %v", answer.status, answer.body, err)
	}
	x := got.Sluice.Label.AIGC
	turns := []map[string]string{{"role": "user", "text": "trees?"}, {"role": "assistant", "text": "| Tree | Age |\n|---|---|\n| Oak | 300 |"}}
	read := func(token, name string, content []byte) adminapi.LabelsFound {
		t.Helper()
		r := in.send(http.MethodPost, "/api/v1/labels/read", token, map[string]any{"name": name, "content": content})
		var found adminapi.LabelsFound
		if err := json.Unmarshal(r.body, &found); err != nil || r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return found
	}
	var pdf []byte
	for _, format := range []string{"md", "html", "txt", "json", "docx", "pdf", "xlsx"} {
		r := in.send(http.MethodPost, "/api/v1/labels/answers", dev.token, map[string]any{"format": format, "title": "Trees", "turns": turns, "label": x})
		if r.status != http.StatusOK || r.header.Get("X-Sluice-Label-Visible") != "yes" {
			t.Errorf("%s: %d %s", format, r.status, r.body)
			continue
		}
		found := read(auditor.token, "answer."+format, r.body)
		if found.Kind != format || len(found.Labels) != 1 || !found.Labels[0].MadeHere || *found.Labels[0].Label != x {
			t.Errorf("%s: %+v", format, found)
		}
		switch credentials := r.header.Get("X-Sluice-Content-Credentials"); {
		case format == "pdf":
			if c := found.ContentCredentials; credentials != "written" || c == nil || c.State != "trusted" || *c.Signer != "Sluice" || c.Earlier != 0 {
				t.Errorf("content credentials: %q %+v", credentials, c)
			}
			pdf = r.body
		case credentials != "no_place" || found.ContentCredentials != nil:
			t.Errorf("%s: content credentials %q", format, credentials)
		}
		if abroad := read(other.token, "answer."+format, r.body); abroad.Labels[0].MadeHere {
			t.Errorf("%s: made for another tenant", format)
		}
	}

	// The verdict says that this very file was labelled here, and of a file of which one byte was changed that it is another one.
	judge := func(token string, content []byte) adminapi.ProvenanceVerdict {
		t.Helper()
		r := in.send(http.MethodPost, "/api/v1/audit/provenance", token, map[string]any{"name": "answer.pdf", "content": content})
		var v adminapi.ProvenanceVerdict
		if err := json.Unmarshal(r.body, &v); err != nil || r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return v
	}
	if v := judge(auditor.token, pdf); v.Marks.Credentials.Reason != "credentials_own" || v.Conclusion != "issued_here" && v.Conclusion != "derived" || v.Requests[0].Id != x.ProduceID {
		t.Errorf("%+v", v)
	}
	changed := bytes.Clone(pdf)
	changed[bytes.Index(changed, []byte("stream"))+16] ^= 1
	if v := judge(auditor.token, changed); v.Marks.Credentials.Reason != "credentials_changed" || *v.Marks.Credentials.Code != "assertion.dataHash.mismatch" {
		t.Errorf("%+v", v.Marks.Credentials)
	}
	root, err := c2pa.ParseCertificates(in.send(http.MethodGet, "/api/v1/labels/certificate", dev.token, nil).body)
	if err != nil {
		t.Fatal(err)
	}
	if carried, err := labelfile.FindCredentials(labelfile.PDF, pdf); err != nil || carried == nil || c2pa.Check(pdf, *carried, c2pa.Anchors{Certificates: root}).State != c2pa.Trusted {
		t.Errorf("the published certificate does not prove the file: %v", err)
	}

	mark := func(token string, body map[string]any) reply {
		return in.send(http.MethodPost, "/api/v1/labels/files", token, body)
	}
	marked := mark(dev.token, map[string]any{"name": "a.txt", "content": []byte("hello"), "label": x})
	if marked.status != http.StatusOK {
		t.Fatalf("%d %s", marked.status, marked.body)
	}
	wantProblem(t, "a second label", mark(dev.token, map[string]any{"name": "a.txt", "content": marked.body, "label": x}), http.StatusConflict, "conflict")
	if name := marked.header.Get("Content-Disposition"); !strings.Contains(name, "a.txt") {
		t.Errorf("the file is called %s", name)
	}
	passed := mark(other.token, map[string]any{"name": "a.txt", "content": marked.body, "propagate": true})
	found, err := labelfile.Read(labelfile.Text, passed.body)
	if err != nil || len(found.Marks) != 1 || found.Marks[0].Label.ContentPropagator != "Sluice" || found.Marks[0].Label.ProduceID != x.ProduceID {
		t.Errorf("%d %+v %v", passed.status, found, err)
	}
	if abroad, home := read(other.token, "a.txt", passed.body).Labels[0], read(dev.token, "a.txt", passed.body).Labels[0]; abroad.MadeHere || !abroad.PassedOnHere || !home.MadeHere || home.PassedOnHere {
		t.Errorf("passed on: %+v %+v", abroad, home)
	}
	invented := x
	invented.ContentPropagator = "Example Bank"
	wantProblem(t, "an invented propagator", mark(dev.token, map[string]any{"name": "a.txt", "content": []byte("hello"), "label": invented}), http.StatusBadRequest, "invalid_value")
	wantProblem(t, "a text that is too large", in.send(http.MethodPost, "/api/v1/labels/answers", dev.token, map[string]any{"format": "docx", "turns": []map[string]string{{"role": "assistant", "text": strings.Repeat("x", 1<<20)}}, "label": x}), http.StatusBadRequest, "invalid_value")
	wantProblem(t, "of another tenant", mark(other.token, map[string]any{"name": "a.txt", "content": []byte("hello"), "label": x}), http.StatusBadRequest, "invalid_value")
	forged := x
	forged.ProduceID = "0194b3c2-7e7b-7c2a-9d1f-3f1f5b8a0001"
	wantProblem(t, "altered", in.send(http.MethodPost, "/api/v1/labels/answers", dev.token, map[string]any{"format": "md", "turns": turns, "label": forged}), http.StatusBadRequest, "invalid_value")
	wantProblem(t, "no label", mark(dev.token, map[string]any{"name": "a.txt", "content": []byte("hello")}), http.StatusBadRequest, "missing_required_parameter")
	wantProblem(t, "a program", mark(dev.token, map[string]any{"name": "a", "content": []byte("\x7fELF\x00"), "label": x}), http.StatusBadRequest, "invalid_value")
	wantProblem(t, "an auditor", mark(auditor.token, map[string]any{"name": "a.txt", "content": []byte("hello"), "label": x}), http.StatusForbidden, "not_allowed")
	eventually(t, "the record", func() bool {
		records := string(in.admin(http.MethodGet, "/audit/records?request="+marked.header.Get("X-Request-Id"), nil, nil).body)
		return strings.Contains(records, "admin.labelFile") && strings.Contains(records, x.ProduceID) && strings.Contains(records, fmt.Sprintf("%x", sha256.Sum256(marked.body)))
	})
}
