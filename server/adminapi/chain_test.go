package adminapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestAnActThatPanicsHasFailed: what a handler did before it broke is recorded as failed, and the panic goes on to the edge.
func TestAnActThatPanicsHasFailed(t *testing.T) {
	log, err := audit.Open(audit.Config{Dir: filepath.Join(t.TempDir(), "audit")}, dbtest.SQLite(t),
		keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef")), nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	s := &Server{log: slog.New(slog.DiscardHandler), deps: Deps{Audit: log}}
	r := gin.New()
	r.POST("/x", func(c *gin.Context) {
		defer s.panicked(c)
		s.act(c, operation{id: "breakIt", path: "/x"}, identity.Principal{Tenant: "demo", Kind: "user", ID: "u1"}, "demo", c.Next)
	}, func(*gin.Context) { panic("broken") })
	rec := httptest.NewRecorder()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic ended here")
			}
		}()
		r.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", http.NoBody))
	}()
	if rec.Code != http.StatusInternalServerError {
		t.Errorf("answered %d", rec.Code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := log.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	page, err := log.Search(ctx, search.Query{Action: "admin.breakIt"})
	if err != nil || len(page.Events) != 2 {
		t.Fatalf("%d records, %v", len(page.Events), err)
	}
	if e := page.Events[0]; e.Stage != audit.StageOutcome || e.Outcome != "failed" || e.Status != 500 || e.ErrorCode != "internal_error" {
		t.Errorf("%+v", e)
	}
}
