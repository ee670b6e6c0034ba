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
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// collectionServer is a server with one collection.
type collectionServer struct {
	docs   map[string]*storedDoc // by id
	sent   []string              // names that were brought, ids that were deleted
	failAt int                   // how many more are taken before the server fails; 0: all
	lose   bool                  // the next document is stored, and the answer is lost
	n      int
}

type storedDoc struct {
	name, body, version string
	labels              []string
	versions            int
	known               int
}

func (d *storedDoc) json(id string) string {
	labels, _ := json.Marshal(append([]string{}, d.labels...))
	return fmt.Sprintf(`{"id": %q, "name": %q, "version": %q, "labels": %s, "versions": %d}`, id, d.name, d.version, labels, d.versions)
}

func (s *collectionServer) named(name string) (string, *storedDoc) {
	for id, d := range s.docs {
		if d.name == name {
			return id, d
		}
	}
	return "", nil
}

func (s *collectionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, id, _ := strings.Cut(r.URL.Path, "/documents/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/session"):
		_, _ = w.Write([]byte(`{"access_token": "t"}`))
	case r.Method == http.MethodGet:
		var items []string
		for id, d := range s.docs {
			items = append(items, d.json(id))
		}
		_, _ = fmt.Fprintf(w, `{"items": [%s]}`, strings.Join(items, ","))
	case r.Method == http.MethodDelete && s.docs[id] == nil:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code": "not_found", "detail": "none"}`))
	case r.Method == http.MethodDelete:
		s.sent = append(s.sent, "-"+s.docs[id].name)
		delete(s.docs, id)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.take(w, r)
	}
}

func (s *collectionServer) take(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name    string
		Content []byte
		Labels  []string
		Known   []any
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	if s.failAt > 0 {
		if s.failAt--; s.failAt == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code": "database_unavailable", "detail": "down"}`))
			return
		}
	}
	if string(in.Content) == "refused" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"code": "invalid_document", "detail": "no"}`))
		return
	}
	s.sent = append(s.sent, in.Name)
	id, d := s.named(in.Name)
	if d == nil {
		s.n++
		id, d = fmt.Sprintf("id-%d", s.n), &storedDoc{name: in.Name}
		s.docs[id] = d
	}
	if v := fmt.Sprint("v-", string(in.Content), len(in.Known)); v != d.version {
		d.body, d.version, d.known = string(in.Content), v, len(in.Known)
		d.versions++
	}
	if len(in.Labels) > 0 {
		d.labels = in.Labels
	}
	if s.lose {
		s.lose = false
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte(d.json(id)))
}

// syncing is a folder and a collection of a server.
type syncing struct {
	*collectionServer
	t        *testing.T
	url, dir string
	home     string // has the notes
}

func newSyncing(t *testing.T) *syncing {
	s := &collectionServer{docs: map[string]*storedDoc{}}
	up := httptest.NewServer(s)
	t.Cleanup(up.Close)
	return &syncing{s, t, up.URL, t.TempDir(), t.TempDir()}
}

func (s *syncing) file(name, content string) {
	s.t.Helper()
	to := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *syncing) remove(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *syncing) link(to, name string) {
	s.t.Helper()
	if err := os.Symlink(to, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *syncing) sync(args ...string) (string, error) {
	s.t.Helper()
	s.sent = nil
	var out bytes.Buffer
	cmd := RAG(&cli.App{Stdout: &out, Stderr: &out, Environ: []string{"SLUICE_ADMIN_PASSWORD=p", "LANG=C", "HOME=" + s.home}})
	cmd.SetArgs(append([]string{"sync", s.dir, "--collection", "kb", "--url", s.url, "--user", "admin"}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(s.t.Context())
	slices.Sort(s.sent)
	return out.String(), err
}

// does syncs, and wants no error, and that to be sent.
func (s *syncing) does(step string, args []string, want ...string) {
	s.t.Helper()
	if out, err := s.sync(args...); err != nil || !slices.Equal(s.sent, want) {
		s.t.Errorf("%s: %q, %v; want %q\n%s", step, s.sent, err, want, out)
	}
}

// fails syncs, and wants an error that names something, and that to be sent.
func (s *syncing) fails(step string, args []string, says string, want ...string) {
	s.t.Helper()
	if out, err := s.sync(args...); err == nil || !strings.Contains(out+err.Error(), says) || !slices.Equal(s.sent, want) {
		s.t.Errorf("%s: %q, %v; want %q\n%s", step, s.sent, err, want, out)
	}
}

var withDelete = []string{"--delete"}

// TestSync: only what is new or was changed is sent, also after a sync that was interrupted; what is gone is deleted if that is asked for; a dry run changes nothing;
// a folder without files deletes nothing.
func TestSync(t *testing.T) {
	t.Parallel()
	s := newSyncing(t)
	s.docs["id-x"] = &storedDoc{name: "other.txt"}
	s.docs["id-y"] = &storedDoc{name: "gone-before.txt"}
	s.fails("an empty folder", withDelete, "no files")
	for _, name := range []string{"a.txt", "b.txt", "c.txt", "d/e.txt"} {
		s.file(name, "first "+name)
	}
	s.does("a dry run", []string{"--dry-run"})
	if left, err := os.ReadDir(s.home); err != nil || len(left) > 0 {
		t.Errorf("a dry run leaves %v, %v", left, err)
	}
	s.failAt = 3
	s.fails("a server that fails", nil, "2 of 4", "a.txt", "b.txt")
	s.lose = true
	s.fails("an answer that is lost", nil, "2 of 4", "c.txt")
	s.does("after the interruption", nil, "c.txt", "d/e.txt")
	s.does("again", withDelete)
	s.file("b.txt", "changed")
	s.remove("a.txt")
	if out, err := s.sync(); err != nil || !slices.Equal(s.sent, []string{"b.txt"}) || !strings.Contains(out, "a.txt") {
		t.Errorf("without --delete: %q, %v\n%s", s.sent, err, out)
	}
	s.does("a dry run that deletes", []string{"--delete", "--dry-run"})
	s.does("with --delete", withDelete, "-a.txt")
	s.does("after the deletion", withDelete)
	if len(s.docs) != 5 {
		t.Errorf("the collection has %d documents", len(s.docs))
	}
	s.file("c.txt", "refused")
	s.remove("b.txt")
	s.fails("what is refused", withDelete, "nothing was deleted")
	s.file("c.txt", "first c.txt")
	s.does("after the refusal", withDelete, "-b.txt")
}

// TestSyncSparesOthers: a document that this folder has not brought, or to which somebody has given another version, is neither changed nor deleted.
func TestSyncSparesOthers(t *testing.T) {
	t.Parallel()
	s := newSyncing(t)
	s.docs["id-x"] = &storedDoc{name: "README.md", body: "his", version: "v-his", versions: 1}
	s.file("README.md", "mine")
	s.file("a.txt", "a")
	s.file("b.txt", "b")
	s.fails("a name of somebody else", nil, "--take-over", "a.txt", "b.txt")
	s.remove("README.md")
	s.does("it is removed", withDelete)
	if s.docs["id-x"].version != "v-his" {
		t.Error("the document of somebody else is changed")
	}
	other := newSyncing(t)
	other.collectionServer, other.url = s.collectionServer, s.url
	other.file("a.txt", "a")
	other.fails("another folder with a name of this one", nil, "--take-over")
	other.does("it takes it over", []string{"--take-over"}, "a.txt")
	other.remove("a.txt")
	other.file("z.txt", "z")
	_, a := s.named("a.txt")
	a.version, a.versions = "v-later", 2
	other.does("a later version", withDelete, "z.txt")
	id, _ := s.named("b.txt")
	delete(s.docs, id)
	s.docs["id-z"] = &storedDoc{name: "b.txt"}
	s.remove("b.txt")
	s.does("a document that was brought again by somebody", withDelete, "a.txt") // the folder has a.txt, and its version was another's
	if s.docs["id-z"] == nil {
		t.Error("a document of somebody else is deleted")
	}
}

// TestSyncLabels: labels that are asked for reach documents that are unchanged otherwise.
func TestSyncLabels(t *testing.T) {
	t.Parallel()
	s := newSyncing(t)
	s.file("a.txt", "a")
	s.does("open", nil, "a.txt")
	closed := []string{"--label", "secret,hr"}
	s.does("closed", closed, "a.txt")
	s.does("still closed", closed)
	s.does("without labels", nil)
	if _, d := s.named("a.txt"); len(d.labels) != 2 {
		t.Errorf("the labels are %v", d.labels)
	}
}

// TestSyncKnown: values to mask are sent with each file, and no sync drops them.
func TestSyncKnown(t *testing.T) {
	t.Parallel()
	s := newSyncing(t)
	values := filepath.Join(t.TempDir(), "values")
	if err := os.WriteFile(values, []byte("Wang Wu\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.file("a.txt", "a")
	s.does("without values", nil, "a.txt")
	known := []string{"--known", values}
	s.does("with values", known, "a.txt")
	if _, d := s.named("a.txt"); d.known != 1 {
		t.Errorf("%d values are known", d.known)
	}
	s.does("again", known)
	s.file("a.txt", "changed")
	s.fails("without values again", nil, "--known")
}

// TestSyncLinks: no link is followed, and what stands behind one is not gone.
func TestSyncLinks(t *testing.T) {
	t.Parallel()
	s := newSyncing(t)
	secret := filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.file("a.txt", "a")
	s.file("cur/b.txt", "b")
	s.file("c.txt", "c")
	s.link(secret, "n.txt")
	if err := syscall.Mkfifo(filepath.Join(s.dir, "pipe.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.does("a folder with a link and a pipe", nil, "a.txt", "c.txt", "cur/b.txt")
	if err := os.Rename(filepath.Join(s.dir, "cur"), filepath.Join(s.dir, ".v1")); err != nil {
		t.Fatal(err)
	}
	s.link(".v1", "cur")
	s.remove("c.txt")
	s.link(secret, "c.txt")
	s.does("links in place of a folder and a file", withDelete)
	link := filepath.Join(t.TempDir(), "folder")
	if err := os.Symlink(s.dir, link); err != nil {
		t.Fatal(err)
	}
	s.dir = link
	s.does("a folder that is a link", withDelete)
}

// TestSyncDeletesFew: a large part of a folder that is not there today is deleted only if that is asked for by number.
func TestSyncDeletesFew(t *testing.T) {
	t.Parallel()
	s := newSyncing(t)
	s.file("a.txt", "a")
	for i := range fewDeleted + 1 {
		s.file(fmt.Sprintf("mount/%d.txt", i), "x")
	}
	if _, err := s.sync(); err != nil {
		t.Fatal(err)
	}
	s.remove("mount")
	s.fails("a folder that is not mounted", withDelete, "--max-delete")
	if _, err := s.sync("--delete", "--max-delete", "6"); err != nil || len(s.sent) != 6 {
		t.Errorf("asked for by number: %q, %v", s.sent, err)
	}
}

// TestSyncState: notes of another collection or server, or that no sync has written, are refused; a line that was not written to its end is none; notes name no document
// that has another name, and one sync at a time uses them.
func TestSyncState(t *testing.T) {
	t.Parallel()
	s := newSyncing(t)
	state := filepath.Join(t.TempDir(), "state")
	args := []string{"--delete", "--state", state}
	s.docs["victim"] = &storedDoc{name: "victim.txt", version: "v", versions: 1}
	s.file("a.txt", "a")
	head := func(url string) string { return fmt.Sprintf(`{"url":%q,"collection":"kb"}`, url) + "\n" }
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, says := range map[string]string{
		"": "sync has written", "{": "sync has written", "{}": "sync has written", `{"collection":"kb2"}`: "--state", head("http://another"): "--state",
		head(s.url) + "{\n": "sync has written", head(s.url) + `{"name":"../x"}` + "\n": "sync has written",
	} {
		write(text)
		s.fails("notes "+text, args, says)
	}
	write(head(s.url) + `{"name":"gone.txt","file":{"id":"victim","version":"v"}}` + "\n" + `{"name":"x.txt","file":{"id":"..","version":"v"}}` + "\n" + `{"name":"victim.txt","fi`)
	s.does("notes of another name", args, "a.txt")
	s.does("again", args)
	s.state(state)
	if s.docs["victim"] == nil {
		t.Error("a document of another name is deleted")
	}
}

// state checks that no other sync can use a state that is used.
func (s *syncing) state(path string) {
	s.t.Helper()
	used, err := openState(path, syncHead{URL: s.url, Collection: "kb"}, false)
	if err != nil || used.files["a.txt"].ID == "" || len(used.files) != 1 {
		s.t.Fatal(used, err)
	}
	s.fails("two at once", []string{"--state", path}, "another sync")
	if err := used.close(); err != nil {
		s.t.Fatal(err)
	}
}

func TestReadTerms(t *testing.T) {
	t.Parallel()
	terms, err := readTerms([]byte("\ufeffterm,synonyms\n住房公积金,公积金, HPF ,\n\n,,\n'=x,\"a,b\"\n'em,all\n"), "f")
	if got := fmt.Sprint(terms); err != nil || got != "[{[公积金 HPF] 住房公积金} {[a,b] =x} {[all] 'em}]" {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "a\n", ",b\n", "Term,Synonyms\n", "a,b\nc\n", "a,b | c\n", "a,\"b\n", "\xff,a\n"} {
		if terms, err := readTerms([]byte(bad), "f"); err == nil {
			t.Errorf("%q: %v", bad, terms)
		}
	}
}

// TestReadFAQ: what is exported is imported as it was, columns come in any order, and what cannot be meant is refused.
func TestReadFAQ(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	damaged := true
	all := []adminapi.FAQEntry{
		{Question: "=a?", Similar: []string{"b", "c | d"}, Negative: []string{"e"}, Answer: "-f\n\"g\"", Labels: []string{"x", "y"}, ValidFrom: &from, ValidUntil: &from},
		{Question: "h?", Answer: "i", InEffect: true, ValidFrom: &from},
		{Damaged: &damaged},
	}
	var table bytes.Buffer
	if err := writeFAQ(&table, all); err != nil {
		t.Fatal(err)
	}
	got, err := readFAQ(table.Bytes(), "f")
	if err != nil || len(got) != 2 || got[1].Similar != nil || got[1].Labels != nil || got[1].ValidFrom != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if e := got[0]; e.Question != "=a?" || fmt.Sprint(*e.Similar, *e.Negative, *e.Labels) != "[b c | d] [e] [x y]" || e.Answer != all[0].Answer || !e.ValidFrom.Equal(from) || !e.ValidUntil.Equal(from) {
		t.Errorf("%+v", e)
	}
	if got, err := readFAQ([]byte("\ufeffAnswer, question\n\nb,a\n"), "f"); err != nil || len(got) != 1 || got[0].Question != "a" || got[0].Answer != "b" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := readFAQ([]byte("question,answer\nfee under 1.5 t?,a\nfee under 15 t?,b\n"), "f"); err != nil || len(got) != 2 {
		t.Errorf("other numbers: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "a,b\n", "question,answer\n", "question,question,answer\na,b,c\n", "answer\na\n", "question,answer\na,\n", "question,answer,valid_from\na,b,tomorrow\n", "question,answer\n\"a\n", "question,answer\n\xff,a\n", "question,answer\nfee under 15 t?,a\nFee under 15 t,b\n"} {
		if got, err := readFAQ([]byte(bad), "f"); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
