package ragcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// collectionServer is a server with one collection.
type collectionServer struct {
	docs   map[string]string // names by id
	bodies map[string]string // by name
	sent   []string          // names that were brought, ids that were deleted
	failAt int               // how many more are taken before the server fails; 0: all
	n      int
}

func (s *collectionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, id, _ := strings.Cut(r.URL.Path, "/documents/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/session"):
		_, _ = w.Write([]byte(`{"access_token": "t"}`))
	case r.Method == http.MethodGet:
		var items []string
		for id, name := range s.docs {
			items = append(items, fmt.Sprintf(`{"id": %q, "name": %q, "version": %q}`, id, name, "v-"+s.bodies[name]))
		}
		_, _ = fmt.Fprintf(w, `{"items": [%s]}`, strings.Join(items, ","))
	case r.Method == http.MethodDelete && s.docs[id] == "":
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code": "not_found", "detail": "none"}`))
	case r.Method == http.MethodDelete:
		s.sent = append(s.sent, "-"+s.docs[id])
		delete(s.docs, id)
		w.WriteHeader(http.StatusNoContent)
	default:
		var in struct {
			Name    string
			Content []byte
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		if s.failAt > 0 {
			if s.failAt--; s.failAt == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte(`{"code": "database_unavailable", "detail": "down"}`))
				return
			}
		}
		s.sent = append(s.sent, in.Name)
		s.bodies[in.Name] = string(in.Content)
		for id, name := range s.docs {
			if name == in.Name {
				_, _ = fmt.Fprintf(w, `{"id": %q, "name": %q, "version": %q}`, id, in.Name, "v-"+s.bodies[in.Name])
				return
			}
		}
		s.n++
		id := fmt.Sprintf("id-%d", s.n)
		s.docs[id] = in.Name
		_, _ = fmt.Fprintf(w, `{"id": %q, "name": %q, "version": %q}`, id, in.Name, "v-"+s.bodies[in.Name])
	}
}

// TestSync: only what is new or was changed is sent, also after a sync that was interrupted; what is gone is deleted if that is asked for, and only what a sync has
// brought; a dry run changes nothing; a folder without files, or the notes of another collection, are refused.
func TestSync(t *testing.T) {
	t.Parallel()
	s := &collectionServer{docs: map[string]string{"id-x": "other.txt", "id-y": "gone-before.txt"}, bodies: map[string]string{"other.txt": "x"}}
	up := httptest.NewServer(s)
	t.Cleanup(up.Close)
	dir := t.TempDir()
	file := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sync := func(args ...string) (string, error) {
		t.Helper()
		s.sent = nil
		var out bytes.Buffer
		cmd := RAG(&cli.App{Stdout: &out, Stderr: &out, Environ: []string{"SLUICE_ADMIN_PASSWORD=p", "LANG=C"}})
		cmd.SetArgs(append([]string{"sync", dir, "--collection", "kb", "--url", up.URL, "--user", "admin"}, args...))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	wants := func(step string, err error, want ...string) {
		t.Helper()
		if slices.Sort(s.sent); err != nil || !slices.Equal(s.sent, want) {
			t.Errorf("%s: %q, %v; want %q", step, s.sent, err, want)
		}
	}
	if _, err := sync("--delete"); err == nil || len(s.sent) > 0 {
		t.Errorf("an empty folder: %q, %v", s.sent, err)
	}
	for _, name := range []string{"a.txt", "b.txt", "c.txt", "d.txt"} {
		file(name, "first "+name)
	}
	_, err := sync("--dry-run")
	wants("a dry run", err)
	s.failAt = 3
	if _, err := sync(); err == nil || len(s.sent) != 2 {
		t.Errorf("a server that fails: %q, %v", s.sent, err)
	}
	_, err = sync()
	wants("after the interruption", err, "c.txt", "d.txt")
	_, err = sync("--delete")
	wants("again", err)
	file("b.txt", "changed")
	if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	out, err := sync()
	wants("without --delete", err, "b.txt")
	if !strings.Contains(out, "a.txt") {
		t.Errorf("what is gone is not said: %s", out)
	}
	_, err = sync("--delete", "--dry-run")
	wants("a dry run that deletes", err)
	_, err = sync("--delete")
	wants("with --delete", err, "-a.txt")
	_, err = sync("--delete")
	wants("after the deletion", err)
	if len(s.docs) != 5 {
		t.Errorf("the collection has %v", s.docs)
	}
	s.bodies["c.txt"] = "of somebody else" // who has brought another version
	_, err = sync()
	wants("a version of somebody else", err, "c.txt")
	// What somebody has deleted and brought again under the name is not deleted.
	for id, name := range s.docs {
		if name == "d.txt" {
			delete(s.docs, id)
		}
	}
	s.docs["id-z"] = "d.txt"
	if err := os.Remove(filepath.Join(dir, "d.txt")); err != nil {
		t.Fatal(err)
	}
	_, err = sync("--delete")
	wants("a document of somebody else", err)
	if s.docs["id-z"] == "" {
		t.Error("a document of somebody else is deleted")
	}
	for _, bad := range []string{`{"collection":"kb2","documents":{}}`, `{`, `{}`, `{"collection":"kb"}`} {
		file(stateName, bad)
		if _, err := sync("--delete"); err == nil || len(s.sent) > 0 {
			t.Errorf("notes %s: %q, %v", bad, s.sent, err)
		}
	}
}

func TestReadTerms(t *testing.T) {
	t.Parallel()
	terms, err := readTerms([]byte("\ufeffterm,synonyms\n住房公积金,公积金, HPF ,\n\n,,\n'=x,\"a,b\"\n'em,all\n"), "f")
	if got := fmt.Sprint(terms); err != nil || got != "[{[公积金 HPF] 住房公积金} {[a,b] =x} {[all] 'em}]" {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "a\n", ",b\n", "term,synonyms\n", "a,b\nc\n", "a,\"b\n", "\xff,a\n"} {
		if terms, err := readTerms([]byte(bad), "f"); err == nil {
			t.Errorf("%q: %v", bad, terms)
		}
	}
}
