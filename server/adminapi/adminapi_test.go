package adminapi

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/fault"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	os.Exit(m.Run())
}

// TestRoutesMatchDocument: what is registered is what the document describes, no more and no less.
func TestRoutesMatchDocument(t *testing.T) {
	r := gin.New()
	s, err := New(Config{}, Deps{}, r, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var registered []string
	for _, route := range r.Routes() {
		registered = append(registered, route.Method+" "+route.Path)
	}
	slices.Sort(registered)
	if described := slices.Sorted(maps.Keys(s.operations)); !slices.Equal(registered, described) {
		t.Errorf("registered %q\ndescribed  %q", registered, described)
	}
}

// TestDocument holds the document to the rules its readers rely on.
func TestDocument(t *testing.T) {
	api, err := described()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for key, o := range api.operations {
		if other := ids[o.id]; other != "" || o.id == "" {
			t.Errorf("%s: operationId %q is missing or also that of %s", key, o.id, other)
		}
		ids[o.id] = key
		if o.permission != "" && !slices.Contains(access.Permissions(), o.permission) {
			t.Errorf("%s: unknown permission %q", key, o.permission)
		}
		if o.op.Summary == "" {
			t.Errorf("%s: no summary", key)
		}
		if problem := o.op.Responses.Value("default"); problem == nil || problem.Value.Content.Get("application/problem+json") == nil {
			t.Errorf("%s: no default response of application/problem+json", key)
		}
		elsewhere := o.id == "createBatch" || o.id == "storeBatchFile" || o.id == "cancelBatch" // the pipeline records these
		if writes := !strings.HasPrefix(key, "GET "); writes && !o.recorded && !elsewhere && o.id != "playgroundChat" && o.id != "previewSearch" && o.id != "readPassage" && o.id != "refreshSession" && o.id != "showInvitation" && o.id != "askSecurityKey" && o.id != "addLogCosignature" {
			t.Errorf("%s changes something and leaves no audit record", key)
		}
	}
}

// TestProblems pins how errors look (RFC 9457), in both languages, and that private text stays private.
func TestProblems(t *testing.T) {
	s := &Server{log: slog.New(slog.DiscardHandler)}
	var out strings.Builder
	for _, e := range []error{
		errors.New("plain"),
		fault.New(fault.CodeInvalidValue, "name", fault.Say("value.empty")).WithParam("name"),
		fault.New(fault.CodeInvalidKey),
		fault.New(fault.CodeRateLimited, fault.Say("level.tenant", "bank"), 60).WithRetryAfter(1234 * time.Millisecond),
		fault.New(fault.CodeDatabaseUnavailable),
		fault.New(fault.CodeMethodNotAllowed, "/api/v1/x", http.MethodPut),
		fault.New(fault.CodeConflictingRole, "auditor", "security_admin").WithParam("roles"),
	} {
		for _, lang := range []string{"en-GB,en;q=0.9,zh;q=0.1", "zh-CN,zh;q=0.9,en;q=0.5", ""} {
			rec := httptest.NewRecorder()
			c, _ := gin.CreateTestContext(rec)
			c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/x", nil)
			c.Request.Header.Set("Accept-Language", lang)
			c.Set(KeyRequestID, "r-1")
			s.Fail(c, fmt.Errorf("private: password hunter2: %w", e))
			if strings.Contains(rec.Body.String(), "hunter2") || strings.Contains(rec.Body.String(), "%!") {
				t.Errorf("%v: %s", e, rec.Body)
			}
			fmt.Fprintf(&out, "%d %s", rec.Code, rec.Header().Get("Content-Type"))
			for _, h := range []string{"Retry-After", "Www-Authenticate"} {
				if v := rec.Header().Get(h); v != "" {
					fmt.Fprintf(&out, " %s: %s", h, v)
				}
			}
			fmt.Fprintf(&out, "\n%s\n\n", rec.Body)
		}
	}
	const file = "testdata/problems.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || out.String() != string(want) {
		t.Errorf("errors look different from %s (%v); if that is meant, run the test with -update:\n%s", file, err, out.String())
	}
}
