package ragcmd

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func TestReadKnown(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(path, []byte("\ufeff张三 \r\n\ncompany\t星语 呢喃\n李四: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := readKnown(path)
	var got []string
	for _, k := range known {
		class := "-"
		if k.Class != nil {
			class = *k.Class
		}
		got = append(got, class+"="+k.Value)
	}
	if want := []string{"-=张三", "company=星语 呢喃", "-=李四: x"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestIngestWaitsForLimits: a document that meets a limit is sent again when the server says; one that meets a budget is not.
func TestIngestWaitsForLimits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := 0
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/session") {
			_, _ = w.Write([]byte(`{"access_token": "t"}`))
			return
		}
		asked++
		if asked == 2 {
			_, _ = w.Write([]byte(`{"name": "a.txt", "version": "v1"}`))
			return
		}
		if asked == 1 {
			w.Header().Set("Retry-After", "1")
		}
		if asked == 4 { // others are being read
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code": "documents_busy", "detail": "busy"}`))
			return
		}
		if asked == 5 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code": "documents_busy", "detail": "busy"}`))
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"code": "c", "detail": "too much"}`))
	}))
	t.Cleanup(up.Close)
	r, err := (&cli.App{Environ: []string{"SLUICE_ADMIN_PASSWORD=p"}}).Login(t.Context(), cli.RemoteFlags{URL: up.URL, User: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	f := &ragFlags{collection: "kb"}
	if d, err := add(t.Context(), r, f, source{path, "a.txt"}); err != nil || d.Version != "v1" || asked != 2 {
		t.Errorf("%+v, %v after %d requests", d, err, asked)
	}
	if _, err := add(t.Context(), r, f, source{path, "a.txt"}); err == nil || asked != 3 {
		t.Errorf("%v after %d requests", err, asked)
	}
	if _, err := add(t.Context(), r, f, source{path, "a.txt"}); err == nil || asked != 5 {
		t.Errorf("where others are being read: %v after %d requests", err, asked)
	}
}

// TestConflictsConcernOneFile: a document that conflicts with its access rule does not keep the others of a folder back.
func TestConflictsConcernOneFile(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		http.StatusBadRequest: true, http.StatusConflict: true, http.StatusRequestEntityTooLarge: true,
		http.StatusForbidden: false, http.StatusNotFound: false, http.StatusServiceUnavailable: false,
	} {
		if got := ofFile(&cli.ProblemError{Status: status}); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}
