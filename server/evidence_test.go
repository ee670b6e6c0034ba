package server_test

import (
	"archive/zip"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	bundle "github.com/sluice-project/sluice/audit/evidence"
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
	m, err := server.Export(t.Context(), in.cfg, f, audit.Export{}, slog.New(slog.DiscardHandler))
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
