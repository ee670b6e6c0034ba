package server_test

import (
	"archive/zip"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit/checkpoint"
	bundle "github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/server"
)

// An auditor downloads evidence of the tenant, and the operator exports everything beside the running server. Both bundles verify with the
// public key alone, the second one shows that it is complete, and both exports are on record.
func TestEvidence(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.someRequests()
	before := in.sealedSize()
	eventually(t, "a checkpoint", func() bool { before = in.sealedSize(); return before > 2 })
	v, err := checkpoint.NewVerifier(in.logKey())
	if err != nil {
		t.Fatal(err)
	}
	check := func(z []byte) bundle.BundleReport {
		t.Helper()
		r, err := bundle.VerifyBundle(t.Context(), bytes.NewReader(z), int64(len(z)), v, checkpoint.Witnesses{}, nil)
		if err != nil || !r.OK {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	auditor := in.signIn("auditor")
	reply := in.send(http.MethodGet, "/api/v1/audit/export", auditor, nil)
	if reply.status != http.StatusOK {
		t.Fatalf("%d %s", reply.status, reply.body)
	}
	if r := check(reply.body); r.Records < before || r.Complete || r.Manifest.Tenant != "demo" || r.Manifest.By == "" {
		t.Errorf("%+v", r)
	}
	for query, status := range map[string]int{
		"?from=2030-01-01T00:00:00Z&to=2020-01-01T00:00:00Z": http.StatusBadRequest, "?from=yesterday": http.StatusBadRequest, "?tenant=other": http.StatusForbidden,
	} {
		if reply := in.send(http.MethodGet, "/api/v1/audit/export"+query, auditor, nil); reply.status != status {
			t.Errorf("%s: %d", query, reply.status)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "all.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m, err := server.Export(t.Context(), in.cfg, f, export.Selection{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if r := check(all); !r.Complete || r.Records != m.Records || !bytes.Contains(readRecords(t, all), []byte(`"action":"admin.exportAudit"`)) {
		t.Errorf("%+v", r)
	}
}

// The report of a verification is a document in the language that is asked for, the same bytes each time, of finished verifications only.
func TestVerificationReport(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.someRequests()
	v := in.verify()
	get := func(id, format, language string) reply {
		return in.send(http.MethodGet, "/api/v1/audit/verifications/"+id+"/report?format="+format, in.token, nil, "Accept-Language", language)
	}
	for format, begins := range map[string]string{"pdf": "%PDF-1.7", "docx": "PK"} {
		first, second, zh := get(v.ID, format, "en"), get(v.ID, format, "en"), get(v.ID, format, "zh-CN")
		if first.status != http.StatusOK || !bytes.HasPrefix(first.body, []byte(begins)) || !strings.HasSuffix(first.header.Get("Content-Disposition"), "."+format+`"`) {
			t.Errorf("%s: %d %v %.60q", format, first.status, first.header, first.body)
		}
		if !bytes.Equal(first.body, second.body) || bytes.Equal(first.body, zh.body) {
			t.Errorf("%s: the same report differs, or another language does not", format)
		}
	}
	if r := get(v.ID, "pdf", "zh-CN"); !bytes.Contains(r.body, []byte("/Lang (zh-CN)")) {
		t.Errorf("%.400q", r.body)
	}
	for url, status := range map[string]int{v.ID + "/report?format=md": http.StatusBadRequest, v.ID + "/report": http.StatusBadRequest, "0193a5c2-7b1e-7c3d-9f00-aabbccddeeff/report?format=pdf": http.StatusNotFound} {
		if r := in.send(http.MethodGet, "/api/v1/audit/verifications/"+url, in.token, nil); r.status != status {
			t.Errorf("%s: %d %s", url, r.status, r.body)
		}
	}
}

// readRecords unpacks the records of a bundle.
func readRecords(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := z.Open("records.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
