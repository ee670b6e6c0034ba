package witness

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

const origin = "example.org/log"

// tree is a history: leaves and the hashes that tlog stores for them.
type tree struct {
	hashes []tlog.Hash
	size   int64
}

// ReadHashes implements tlog.HashReader.
func (h *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		if at >= int64(len(h.hashes)) {
			return nil, fmt.Errorf("no hash %d", at)
		}
		out[i] = h.hashes[at]
	}
	return out, nil
}

// grow appends n records; two histories with the same names are the same.
func (h *tree) grow(name string, n int) {
	for range n {
		added, err := tlog.StoredHashes(h.size, fmt.Appendf(nil, "%s %d", name, h.size), h)
		if err != nil {
			panic(err)
		}
		h.hashes, h.size = append(h.hashes, added...), h.size+1
	}
}

func (h *tree) copy() *tree { return &tree{append([]tlog.Hash{}, h.hashes...), h.size} }

func (h *tree) root(size int64) tlog.Hash {
	root, err := tlog.TreeHash(size, h)
	if err != nil {
		panic(err)
	}
	return root
}

// testLog is a log over HTTP whose every part can be made to lie or to fail.
type testLog struct {
	t      *testing.T
	server *httptest.Server
	signer checkpoint.Signer

	mu      sync.Mutex
	tree    *tree
	note    string                                              // shown in place of the checkpoint
	tile    func(path string, data []byte) []byte               // changes tiles
	before  func(out http.ResponseWriter, r *http.Request) bool // answers in place of the log
	posted  []string
	lines   map[string]string // cosignature lines by checkpoint text
	asked   []string
	refuses bool // cosignatures
}

func newTestLog(t *testing.T) *testLog {
	l := &testLog{t: t, tree: &tree{}, signer: newSigner(t, 1), lines: map[string]string{}}
	l.server = httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(l.server.Close)
	return l
}

func newSigner(t testing.TB, n byte) checkpoint.Signer {
	t.Helper()
	s, err := checkpoint.NewSigner(origin, bytes.Repeat([]byte{n}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// set changes the log under its lock.
func (l *testLog) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *testLog) serve(out http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, r.Method+" "+r.URL.Path)
	if l.before != nil && l.before(out, r) {
		return
	}
	path, isTile := strings.CutPrefix(r.URL.Path, "/log/tile/")
	switch {
	case r.URL.Path == "/log/checkpoint":
		text := l.note
		if text == "" {
			text = l.sign(l.tree)
		}
		for _, line := range strings.Split(l.lines[text], "|") {
			if line != "" {
				text = checkpoint.Add(text, line)
			}
		}
		_, _ = io.WriteString(out, text)
	case isTile:
		t, err := tlog.ParseTilePath("tile/8/" + path)
		if err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		data, err := tlog.ReadTileData(t, l.tree)
		if err != nil {
			http.NotFound(out, r)
			return
		}
		if l.tile != nil {
			data = l.tile(path, data)
		}
		_, _ = out.Write(data)
	case r.URL.Path == "/log/cosignatures":
		body, _ := io.ReadAll(r.Body)
		if l.refuses {
			http.Error(out, "not now", http.StatusServiceUnavailable)
			return
		}
		l.take(string(body))
		out.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(out, r)
	}
}

// take keeps the lines that the log did not write itself.
func (l *testLog) take(note string) {
	l.posted = append(l.posted, note)
	body, sigs, _ := strings.Cut(note, "\n\n")
	for line := range strings.Lines(sigs) {
		if !strings.HasPrefix(line, "— "+origin+" ") {
			text := l.note
			if text == "" {
				text = l.sign(l.tree)
			}
			if strings.HasPrefix(text, body+"\n\n") && !strings.Contains(l.lines[text], line) {
				l.lines[text] += line + "|"
			}
		}
	}
}

func (l *testLog) sign(h *tree) string { return l.signAs(l.signer, h.size, h.root(h.size)) }

func (l *testLog) signAs(s checkpoint.Signer, size int64, root tlog.Hash) string {
	text, err := s.Sign(checkpoint.Tree{Size: size, Root: root})
	if err != nil {
		panic(err)
	}
	return text
}

func (l *testLog) grow(name string, n int) { l.set(func() { l.tree.grow(name, n) }) }

// config watches the log from a directory.
func (l *testLog) config(dir string) Config {
	return Config{
		URL: l.server.URL + "/log", Verifier: l.signer.Verifier(), Name: "w1", Dir: dir,
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
}

// watch opens a witness whose log lines go to the returned buffer.
func (l *testLog) watch(cfg Config) (*Witness, *bytes.Buffer) {
	l.t.Helper()
	var lines bytes.Buffer
	w, err := Open(cfg, slog.New(slog.NewTextHandler(&lines, nil)))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = w.Close() })
	return w, &lines
}

// cosignedBy returns the tree of the newest note that was handed in, and who cosigned it.
func (l *testLog) cosignedBy(keys ...string) (checkpoint.Tree, []checkpoint.Cosignature) {
	l.t.Helper()
	known, err := checkpoint.NewWitnesses(strings.Join(keys, "\n"))
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.posted) == 0 {
		return checkpoint.Tree{}, nil
	}
	t, by, err := l.signer.Verifier().OpenCosigned(l.posted[len(l.posted)-1], known)
	if err != nil {
		l.t.Fatal(err)
	}
	return t, by
}

func (l *testLog) posts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.posted)
}

func remembered(t *testing.T, l *testLog, dir string) checkpoint.Tree {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, checkpointFile))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := l.signer.Verifier().Open(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
