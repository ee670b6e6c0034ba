package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/content"
	bundle "github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/server"
)

// TestNationalSuite: a server and a witness under the national suite; everything that leaves them verifies with SM2 keys and nothing else.
func TestNationalSuite(t *testing.T) {
	t.Parallel()
	in := watchSuite(t, "", content.GM)
	in.someRequests()
	in.pass()
	key := in.logKey()
	known, err := checkpoint.NewWitnesses(in.w.Key())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := checkpoint.NewVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	r := in.send(http.MethodGet, "/api/v1/audit/log/checkpoint", in.session(), nil)
	text := string(r.body)
	if _, by, err := verifier.OpenCosigned(text, known); err != nil || len(by) != 1 || !strings.Contains(text, "\nhash sha256\n\n") {
		t.Fatalf("%d %s: cosigned by %v, %v", r.status, text, by, err)
	}
	var page struct{ Items []struct{ Event audit.Event } }
	in.admin(http.MethodGet, "/audit/records?stage=outcome&limit=1", nil, &page)
	if len(page.Items) != 1 {
		t.Fatalf("%+v", page)
	}
	var proof reply
	eventually(t, "a proof of the newest record", func() bool {
		proof = in.send(http.MethodGet, "/api/v1/audit/records/"+page.Items[0].Event.ID+"/proof", in.session(), nil)
		return proof.status == http.StatusOK
	})
	var p bundle.Proof
	if err := json.Unmarshal(proof.body, &p); err != nil {
		t.Fatal(err)
	}
	if e, err := bundle.VerifyProof(key, p); err != nil || e.ID != page.Items[0].Event.ID {
		t.Errorf("%s: %v", proof.body, err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "evidence.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := server.Export(t.Context(), in.cfg, f, export.Selection{}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	report, err := bundle.VerifyBundle(t.Context(), f, info.Size(), verifier, checkpoint.Witnesses{}, nil)
	if err != nil || !report.OK || report.Manifest.Hash != "sha256" {
		t.Errorf("%+v, %v", report, err)
	}
	tiles := t.TempDir()
	tree, err := server.ExportTiles(t.Context(), in.cfg, tiles, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	note, err := os.ReadFile(filepath.Join(tiles, "checkpoint"))
	if got, oerr := verifier.Open(string(note)); err != nil || oerr != nil || got != tree || tree.Size < report.Size {
		t.Errorf("%s: %+v, %v %v", note, got, err, oerr)
	}
	if r := check(t, in.cfg); !r.OK || len(r.Witnessed) != 1 || r.Witnessed[0].Size == 0 {
		t.Errorf("%+v", r)
	}
}
