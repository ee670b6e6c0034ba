package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// logServer has the operations of a log behind it, without the chain that asks who calls.
func logServer(t *testing.T, w checkpoint.Witness) (*audit.Log, func(method, path, body string) *httptest.ResponseRecorder) {
	t.Helper()
	log, err := audit.Open(audit.Config{Dir: filepath.Join(t.TempDir(), "audit"), Witnesses: []string{w.Key()}}, dbtest.SQLite(t),
		keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef")), nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	s := &Server{log: slog.New(slog.DiscardHandler), deps: Deps{Audit: log}}
	r := gin.New()
	r.GET("/checkpoint", s.GetLogCheckpoint)
	r.GET("/tile/*path", s.GetLogTile)
	r.POST("/cosignatures", s.AddLogCosignature)
	return log, func(method, path, body string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		return rec
	}
}

func newWitness(t *testing.T, name string) checkpoint.Witness {
	t.Helper()
	w, err := checkpoint.NewWitness(name, bytes.Repeat([]byte(name[:1]), 32), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestLogOperations reads a log as a witness does: checkpoint, tiles, cosignature.
func TestLogOperations(t *testing.T) {
	w := newWitness(t, "w.example")
	log, ask := logServer(t, w)
	if rec := ask(http.MethodGet, "/checkpoint", ""); rec.Code != http.StatusNotFound {
		t.Errorf("an empty log: %d %s", rec.Code, rec.Body)
	}
	for range 300 {
		if _, err := log.Append(t.Context(), audit.Event{Stage: audit.StageAction, Tenant: "demo", Action: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := log.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	rec := ask(http.MethodGet, "/checkpoint", "")
	note := rec.Body.String()
	if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(note, "\n300\n") {
		t.Fatalf("%d %s", rec.Code, note)
	}
	for _, c := range []struct {
		path   string
		status int
		hashes int
		cached bool
	}{
		{"0/000", 200, 256, true},
		{"0/000.p/7", 200, 7, false},
		{"0/001.p/44", 200, 44, false},
		{"1/000.p/1", 200, 1, false},
		{"0/001.p/45", 404, 0, false},
		{"0/001", 404, 0, false},
		{"0/x001/000", 404, 0, false},
		{"0/x123/x456/789.p/1", 404, 0, false},
		{"data/000", 400, 0, false},
		{"-1/000", 400, 0, false},
		{"8/000", 400, 0, false},
		{"0/0", 400, 0, false},
		{"0/000.p/0", 400, 0, false},
		{"0/000.p/256", 400, 0, false},
		{"0/000/", 400, 0, false},
		{"0//000", 400, 0, false},
		{"", 400, 0, false},
		{"0/../0/000", 400, 0, false},
		{"0/x999/x999/x999/x999/x999/x999/999", 400, 0, false},
	} {
		rec := ask(http.MethodGet, "/tile/"+c.path, "")
		if rec.Code != c.status || c.status == 200 && rec.Body.Len() != 32*c.hashes {
			t.Errorf("%s: %d, %d bytes", c.path, rec.Code, rec.Body.Len())
		}
		if cached := strings.Contains(rec.Header().Get("Cache-Control"), "immutable"); cached != c.cached {
			t.Errorf("%s: Cache-Control %q", c.path, rec.Header().Get("Cache-Control"))
		}
	}
	line, err := w.Cosign(note)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if rec := ask(http.MethodPost, "/cosignatures", note+line); rec.Code != http.StatusNoContent {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	}
	if got := ask(http.MethodGet, "/checkpoint", "").Body.String(); got != note+line {
		t.Errorf("it shows\n%s\nwant\n%s", got, note+line)
	}
	stranger, err := newWitness(t, "x.example").Cosign(note)
	if err != nil {
		t.Fatal(err)
	}
	if rec := ask(http.MethodPost, "/cosignatures", note+stranger); rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "audit.witnesses") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// FuzzTilePath: every path that is read is the one way to write its tile, and is a hash tile of height 8.
func FuzzTilePath(f *testing.F) {
	for _, p := range []string{"0/000", "1/x001/x234/067.p/8", "63/000", "data/000", "0/x999/x999/x999/x999/x999/x999/999", "0/-01", "00/000", "0/000.p/255", "+1/000", ""} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		tile, err := parseTile(path)
		if err != nil {
			return
		}
		if tile.H != 8 || tile.L < 0 || tile.N < 0 || tile.W < 1 || tile.W > 256 || tile.Path() != "tile/8/"+path {
			t.Errorf("%q is read as %+v", path, tile)
		}
		if again, err := parseTile(strings.TrimPrefix(tile.Path(), "tile/8/")); err != nil || again != tile {
			t.Errorf("%q: %+v, %v", path, again, err)
		}
	})
}

// TestReportSaysWhereVerificationBegins: the records below were pruned.
func TestReportSaysWhereVerificationBegins(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(reportView(verify.Report{OK: true, Least: 768}))
	if err != nil || !strings.Contains(string(b), `"least_index":768`) {
		t.Errorf("%s, %v", b, err)
	}
}
