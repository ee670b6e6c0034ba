package qdrant_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/testpython"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/external"
	"github.com/sluice-project/sluice/rag/index/flat"
	"github.com/sluice-project/sluice/rag/index/indextest"
	"github.com/sluice-project/sluice/rag/index/qdrant"
)

var counter atomic.Int64

// local starts Qdrant's local mode behind a front that speaks its REST interface, and returns its address.
func local(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testpython.Python(t, "qdrant", "qdrant"), filepath.Join("testdata", "local.py"))
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.WaitDelay = 10 * time.Second
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server said:\n%s", said.String()[max(0, said.Len()-4000):])
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the server did not start: %v\n%s", err, said.String())
	}
	return strings.TrimSpace(line)
}

func server(t *testing.T, url string, timeout time.Duration) *qdrant.Server {
	t.Helper()
	s, err := qdrant.New(qdrant.Config{ClientConfig: external.ClientConfig{URL: url, Key: keyring.Inline("hunter2"), Timeout: timeout}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func made(t *testing.T, s *qdrant.Server, name string, dim int) *qdrant.Index {
	t.Helper()
	x, err := s.Index(name, dim)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestLocalMode runs the suite of rag/index against the vendor's local mode, which takes minutes of Python, and compares it with an exact index here, in every
// form of a filter.
func TestLocalMode(t *testing.T) {
	if os.Getenv("SLUICE_TEST_LONG") == "" {
		t.Skip("the vendor's local mode is for SLUICE_TEST_LONG: it takes minutes")
	}
	t.Parallel()
	s := server(t, local(t), time.Minute)
	startsEmpty(t, s)
	indextest.Run(t, indextest.Config{Recall: 1, New: func(t *testing.T, dim int) index.Index {
		return made(t, s, fmt.Sprint(t.Name(), dim, counter.Add(1)), dim)
	}})
	const dim = 6
	x, truth := made(t, s, "c", dim), flat.New(dim)
	rng := rand.New(rand.NewPCG(3, 4))
	vector := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(rng.IntN(3) - 1) // many scores are equal
		}
		return v
	}
	for range 10 {
		var entries []index.Entry
		for range 60 {
			entries = append(entries, index.Entry{ID: 7 * rng.Uint32N(100), Vector: vector()})
		}
		gone := []uint32{7 * rng.Uint32N(100), 7 * rng.Uint32N(100), 1}
		for _, x := range []index.Index{x, truth} {
			if err := errors.Join(x.Upsert(t.Context(), entries), x.Delete(t.Context(), gone)); err != nil {
				t.Fatal(err)
			}
		}
		ranges, ids := roaring.New(), roaring.New()
		for range 3 {
			at := uint64(rng.Uint32N(700))
			ranges.AddRange(at, at+200)
		}
		for range 400 { // more ranges than a filter has
			ids.Add(rng.Uint32N(700))
		}
		for _, allowed := range []*roaring.Bitmap{ranges, ids} {
			q := index.Query{Vector: vector(), Allowed: allowed, TopK: 8}
			want, err := truth.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := x.Search(t.Context(), q)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%v, %v; want %v", got, err, want)
			}
			for i := range got {
				if math.Abs(float64(got[i].Score-want[i].Score)) > 1e-6 {
					t.Errorf("%v, not %v", got, want)
				}
			}
		}
	}
}

// TestContract runs it against the server of these tests, which reads filters and counts as the documentation has it.
func TestContract(t *testing.T) {
	t.Parallel()
	indextest.Run(t, indextest.Config{Recall: 1, New: func(t *testing.T, dim int) index.Index {
		return made(t, server(t, newFake(t).URL, time.Minute), "c", dim)
	}})
	startsEmpty(t, server(t, newFake(t).URL, time.Minute))
}

// startsEmpty: what an earlier process left under the name is not found, and that process notices.
func startsEmpty(t *testing.T, s *qdrant.Server) {
	t.Helper()
	first, second, all := made(t, s, "taken", 2), made(t, s, "taken", 3), roaring.BitmapOf(1, 2)
	if err := first.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: []float32{1, 0}}}); err != nil {
		t.Fatal(err)
	}
	if hits, err := second.Search(t.Context(), index.Query{Vector: []float32{1, 0, 0}, Allowed: all, TopK: 2}); err != nil || len(hits) != 0 {
		t.Fatalf("%v, %v", hits, err)
	}
	if err := second.Upsert(t.Context(), []index.Entry{{ID: 2, Vector: []float32{1, 0, 0}}}); err != nil {
		t.Fatal(err)
	}
	_, err := first.Search(t.Context(), index.Query{Vector: []float32{1, 0}, Allowed: all, TopK: 2})
	for _, err := range []error{err, first.Upsert(t.Context(), []index.Entry{{ID: 3, Vector: []float32{1, 0}}}), first.Delete(t.Context(), []uint32{2})} {
		if !errors.Is(err, index.ErrLost) {
			t.Errorf("an index that was taken: %v", err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if hits, err := second.Search(t.Context(), index.Query{Vector: []float32{1, 0, 0}, Allowed: all, TopK: 2}); err != nil || len(hits) != 1 {
		t.Errorf("the earlier process closed the index of the later: %v, %v", hits, err)
	}
}

// TestLargeFilters: filters of ranges, of ids, and of more ids than one request takes give the same answer as comparing here.
func TestLargeFilters(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	x, truth := made(t, server(t, f.URL, time.Minute), "c", 8), flat.New(8)
	rng := rand.New(rand.NewPCG(1, 2))
	var entries []index.Entry
	for i := range uint32(2000) {
		v := make([]float32, 8)
		for j := range v {
			v[j] = float32(rng.IntN(3) - 1) // many scores are equal
		}
		entries = append(entries, index.Entry{ID: i * 1000, Vector: v})
	}
	if err := errors.Join(x.Upsert(t.Context(), entries), truth.Upsert(t.Context(), entries)); err != nil {
		t.Fatal(err)
	}
	for _, ids := range []int{50, 5000, 250_000} {
		allowed := roaring.New()
		for range ids {
			allowed.Add(rng.Uint32N(2_000_000))
		}
		for range 600 {
			allowed.Add(rng.Uint32N(2000) * 1000)
		}
		q := index.Query{Vector: entries[7].Vector, Allowed: allowed, TopK: 20}
		want, err := truth.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		f.requests.Store(0)
		got, err := x.Search(t.Context(), q)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%v, %v", got, err)
		}
		for i := range got {
			if got[i].ID != want[i].ID {
				t.Errorf("%d ids: %v, not %v", ids, got[i], want[i])
			}
		}
		if parts := f.requests.Load(); ids == 250_000 && parts < 3 {
			t.Errorf("%d requests", parts)
		}
	}
}

// TestFaults: every request fails once before it is carried out, once after, and once comes too late. Nothing is answered that is not so, and what
// was in doubt is right after it was changed again.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(w http.ResponseWriter, carryOut func()){
		"before":   func(w http.ResponseWriter, _ func()) { w.WriteHeader(http.StatusServiceUnavailable) },
		"after":    func(_ http.ResponseWriter, carryOut func()) { carryOut(); panic(http.ErrAbortHandler) },
		"nonsense": func(w http.ResponseWriter, carryOut func()) { carryOut(); _, _ = io.WriteString(w, `{"result":7}`) },
		"redirect": func(w http.ResponseWriter, _ func()) {
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := int64(1); n < 15; n++ {
				f := newFake(t)
				x := made(t, server(t, f.URL, time.Minute), "c", 1)
				f.fail(n, how)
				var failed error
				must := func(act func() error) {
					t.Helper()
					err := act()
					if err != nil {
						if !errors.Is(err, index.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
							t.Fatalf("request %d: %v", n, err)
						}
						failed = errors.Join(failed, err)
						if err = act(); err != nil {
							t.Fatalf("request %d, again: %v", n, err)
						}
					}
				}
				for id := range uint32(2) {
					must(func() error { return x.Upsert(t.Context(), []index.Entry{{ID: id, Vector: []float32{1}}}) })
				}
				must(func() error { return x.Delete(t.Context(), []uint32{0}) })
				must(func() error {
					hits, err := x.Search(t.Context(), index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(0, 1), TopK: 2})
					if err == nil && (len(hits) != 1 || hits[0].ID != 1) {
						t.Errorf("request %d: %v", n, hits)
					}
					return err
				})
				must(x.Close)
				if left := f.names(); len(left) > 0 {
					t.Errorf("request %d: %v is left", n, left)
				}
			}
		})
	}
}

// TestDoubt: what a failed change was about cannot be searched, the rest can.
func TestDoubt(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	x := made(t, server(t, f.URL, time.Minute), "c", 1)
	if err := x.Upsert(t.Context(), []index.Entry{{ID: 0, Vector: []float32{1}}}); err != nil {
		t.Fatal(err)
	}
	f.fail(2, func(_ http.ResponseWriter, carryOut func()) { carryOut(); panic(http.ErrAbortHandler) })
	if err := x.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: []float32{1}}}); !errors.Is(err, index.ErrUnavailable) {
		t.Fatal(err)
	}
	search := func(ids ...uint32) error {
		_, err := x.Search(t.Context(), index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(ids...), TopK: 2})
		return err
	}
	if err := search(0); err != nil {
		t.Errorf("what is not in doubt: %v", err)
	}
	if err := search(0, 1); !errors.Is(err, index.ErrUnavailable) {
		t.Errorf("what is in doubt: %v", err)
	}
	if err := x.Delete(t.Context(), []uint32{1}); err != nil {
		t.Fatal(err)
	}
	if err := search(0, 1); err != nil {
		t.Errorf("after it was changed again: %v", err)
	}
}

// TestServerForgets: a server that comes back without the last change, or without the collection, is found out.
func TestServerForgets(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*fake){"a change": (*fake).undo, "everything": (*fake).drop} {
		f := newFake(t)
		x := made(t, server(t, f.URL, time.Minute), "c", 1)
		for id := range uint32(2) {
			if err := x.Upsert(t.Context(), []index.Entry{{ID: id, Vector: []float32{1}}}); err != nil {
				t.Fatal(err)
			}
		}
		harm(f)
		if err := x.Upsert(t.Context(), []index.Entry{{ID: 2, Vector: []float32{1}}}); !errors.Is(err, index.ErrLost) {
			t.Errorf("%s hidden by the next: %v", name, err)
		}
		if hits, err := x.Search(t.Context(), index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(0), TopK: 2}); !errors.Is(err, index.ErrLost) {
			t.Errorf("%s: %v, %v", name, hits, err)
		}
	}
}

// TestSlowServer: an answer that does not come in time is an error.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	x := made(t, server(t, f.URL, time.Second), "c", 1)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	f.fail(1, func(http.ResponseWriter, func()) { <-hang })
	if _, err := x.Search(t.Context(), index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(0), TopK: 2}); !errors.Is(err, index.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	key := keyring.Inline("hunter2")
	for _, c := range []external.ClientConfig{
		{}, {URL: "ftp://h"}, {URL: "http://u:hunter2@h"}, {URL: "http://h", Key: key}, {URL: "https://h?x=hunter2"}, {URL: "https://h", Timeout: -1}, {URL: "https://h", CAFile: "/none"},
	} {
		if _, err := qdrant.New(qdrant.Config{ClientConfig: c}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, url := range []string{"https://h/qdrant", "http://127.0.0.1:6333", "http://[::1]:6333"} {
		if _, err := qdrant.New(qdrant.Config{ClientConfig: external.ClientConfig{URL: url, Key: key}}); err != nil {
			t.Error(err)
		}
	}
}

// TestTLS: certificates of the configured authority are trusted, and no others.
func TestTLS(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	secure := httptest.NewTLSServer(f.Config.Handler)
	t.Cleanup(secure.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for ca, fine := range map[string]bool{"": false, file: true} {
		s, err := qdrant.New(qdrant.Config{ClientConfig: external.ClientConfig{URL: secure.URL, Key: keyring.Inline("hunter2"), CAFile: ca}})
		if err != nil {
			t.Fatal(err)
		}
		if err := made(t, s, "c", 1).Upsert(t.Context(), []index.Entry{{ID: 1, Vector: []float32{1}}}); (err == nil) != fine {
			t.Errorf("%q: %v", ca, err)
		}
	}
}

// fake keeps collections in memory and answers as the documentation of the REST interface has it.
type fake struct {
	*httptest.Server

	requests atomic.Int64

	mu          sync.Mutex
	collections map[string]map[uint64]fakePoint
	before      map[uint64]fakePoint // the last change
	failAt      int64
	failHow     func(w http.ResponseWriter, carryOut func())
}

type fakePoint struct {
	Vector  []float32
	Payload map[string]int64
}

func newFake(t *testing.T) *fake {
	f := &fake{collections: map[string]map[uint64]fakePoint{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

// fail makes the nth request from now on fail.
func (f *fake) fail(n int64, how func(w http.ResponseWriter, carryOut func())) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt, f.failHow = f.requests.Load()+n, how
}

func (f *fake) names() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.collections {
		out = append(out, name)
	}
	return out
}

func (f *fake) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.collections)
}

func (f *fake) undo() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.collections {
		f.collections[name] = f.before
	}
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	n := f.requests.Add(1)
	f.mu.Lock()
	at, how := f.failAt, f.failHow
	f.mu.Unlock()
	if n == at {
		how(w, func() { f.answer(httptest.NewRecorder(), r) })
		return
	}
	f.answer(w, r)
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var result any = true
	var known bool
	var name string
	if len(at) > 1 {
		name = at[1]
		_, known = f.collections[name]
	}
	switch what := r.Method + " " + strings.Join(at[min(2, len(at)):], "/"); {
	case r.Header.Get("Api-Key") != "hunter2":
		w.WriteHeader(http.StatusForbidden)
		return
	case len(at) == 1:
		type one struct {
			Name string `json:"name"`
		}
		var all []one
		for name := range f.collections {
			all = append(all, one{name})
		}
		result = map[string]any{"collections": all}
	case what == "PUT " && !known:
		f.collections[name] = map[uint64]fakePoint{}
	case !known:
		w.WriteHeader(http.StatusNotFound)
		return
	case what == "DELETE ":
		delete(f.collections, name)
	case what == "PUT index":
	case what == "POST points/batch":
		f.change(name, r)
	case what == "POST points/query/batch":
		result = f.query(name, r)
	default:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"result": result, "status": "ok", "time": 0})
}

func (f *fake) change(name string, r *http.Request) {
	var in struct {
		Operations []struct {
			Upsert struct {
				Points []struct {
					ID uint64
					fakePoint
				}
			}
			Delete struct{ Points []uint64 }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		panic(err)
	}
	next := map[uint64]fakePoint{}
	f.before = f.collections[name]
	for id, p := range f.before {
		next[id] = p
	}
	for _, o := range in.Operations {
		for _, p := range o.Upsert.Points {
			next[p.ID] = p.fakePoint
		}
		for _, id := range o.Delete.Points {
			delete(next, id)
		}
	}
	f.collections[name] = next
}

func (f *fake) query(name string, r *http.Request) any {
	type condition struct {
		HasID []uint64 `json:"has_id"`
		Key   string
		Range struct {
			Gte *int64
			Lte *int64
		}
	}
	var in struct {
		Searches []struct {
			Query  []float32
			Filter struct{ Should, Must []condition }
			Params struct{ Exact bool }
			Limit  int
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		panic(err)
	}
	type hit struct {
		ID      uint64           `json:"id"`
		Score   float32          `json:"score"`
		Payload map[string]int64 `json:"payload"`
	}
	type answer struct {
		Points []hit `json:"points"`
	}
	var out []answer
	for _, s := range in.Searches {
		ids := map[uint64]bool{}
		for _, c := range s.Filter.Must {
			for _, id := range c.HasID {
				ids[id] = true
			}
		}
		meets := func(id uint64, c condition) bool {
			if c.HasID != nil {
				return ids[id]
			}
			n, has := f.collections[name][id].Payload[c.Key]
			return has && n >= *c.Range.Gte && n <= *c.Range.Lte
		}
		var hits []hit
		for id, p := range f.collections[name] {
			ok := slices.ContainsFunc(s.Filter.Should, func(c condition) bool { return meets(id, c) }) || len(s.Filter.Should) == 0
			for _, c := range s.Filter.Must {
				ok = ok && meets(id, c)
			}
			if !ok {
				continue
			}
			h := hit{ID: id, Payload: p.Payload}
			for i := range s.Query {
				h.Score += s.Query[i] * p.Vector[i]
			}
			hits = append(hits, h)
		}
		rand.Shuffle(len(hits), func(i, j int) { hits[i], hits[j] = hits[j], hits[i] })
		slices.SortStableFunc(hits, func(a, b hit) int { return int(1e9 * (b.Score - a.Score)) })
		out = append(out, answer{hits[:min(s.Limit, len(hits))]})
	}
	return out
}
