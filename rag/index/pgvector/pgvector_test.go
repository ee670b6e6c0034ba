package pgvector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/indextest"
	"github.com/sluice-project/sluice/rag/index/pgvector"
	"github.com/sluice-project/sluice/rag/index/pgvector/pgvectortest"
)

var counter atomic.Int64

func count(t testing.TB, url, query string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func server(t testing.TB, url string, with func(*pgvector.Config)) *pgvector.Server {
	t.Helper()
	cfg := pgvector.Config{URL: keyring.Inline(url), Timeout: time.Minute}
	if with != nil {
		with(&cfg)
	}
	s, err := pgvector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func made(t testing.TB, s *pgvector.Server, name string, dim int) *pgvector.Index {
	t.Helper()
	x, err := s.Index(name, dim)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := server(t, pgvectortest.Database(t), nil)
	indextest.Run(t, indextest.Config{Recall: 1, New: func(t *testing.T, dim int) index.Index {
		return made(t, s, fmt.Sprint(t.Name(), dim, counter.Add(1)), dim)
	}})
}

func random(rng *rand.Rand, dim int) []float32 {
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// TestLargeFilters: filters of many ranges, as wide as ids go, give the answer of the same filter id by id.
func TestLargeFilters(t *testing.T) {
	t.Parallel()
	url := pgvectortest.Database(t)
	x := made(t, server(t, url, nil), "exact", 32)
	rng := rand.New(rand.NewPCG(1, 2))
	const n, step = 800, 1 << 22 // ids up to 2³²
	var entries []index.Entry
	for i := range uint32(n) {
		entries = append(entries, index.Entry{ID: i * step, Vector: random(rng, 32)})
	}
	if err := x.Upsert(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	for _, share := range []float64{1, 0.1} {
		for range 5 {
			few, many, most := roaring.New(), roaring.New(), roaring.New()
			for _, e := range entries {
				if rng.Float64() < share {
					few.Add(e.ID)
					many.Add(e.ID)
				}
			}
			for range 9_000 { // the ids of nothing
				many.Add(rng.Uint32()/step*step + 1 + rng.Uint32N(step-1))
			}
			most.Or(few)
			for range 100 { // many ids, in more ranges than are looked through one by one
				at := uint64(rng.Uint32()/step*step + 1 + rng.Uint32N(step/2))
				most.AddRange(at, at+20_000)
			}
			q := index.Query{Vector: random(rng, 32), Allowed: few, TopK: 10}
			best, err := x.Search(t.Context(), q)
			if err != nil || len(best) != 10 {
				t.Fatalf("%v, %v", best, err)
			}
			for _, q.Allowed = range []*roaring.Bitmap{most, many} {
				got, err := x.Search(t.Context(), q)
				if err != nil || fmt.Sprint(got) != fmt.Sprint(best) {
					t.Fatalf("%v, %v; id by id %v", got, err, best)
				}
			}
		}
	}
}

// TestStartsEmpty: what an earlier process left under the name is not found, the earlier process notices, and closing leaves nothing.
func TestStartsEmpty(t *testing.T) {
	t.Parallel()
	url := pgvectortest.Database(t)
	first, second := made(t, server(t, url, nil), "c", 2), made(t, server(t, url, nil), "c", 3)
	if err := first.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: []float32{1, 0}}}); err != nil {
		t.Fatal(err)
	}
	all := roaring.BitmapOf(1, 2)
	hits, err := second.Search(t.Context(), index.Query{Vector: []float32{1, 0, 0}, Allowed: all, TopK: 2})
	if err != nil || len(hits) != 0 {
		t.Fatalf("%v, %v", hits, err)
	}
	if err := second.Upsert(t.Context(), []index.Entry{{ID: 2, Vector: []float32{1, 0, 0}}}); err != nil {
		t.Fatal(err)
	}
	_, err = first.Search(t.Context(), index.Query{Vector: []float32{1, 0}, Allowed: all, TopK: 2})
	for _, err := range []error{
		err, first.Upsert(t.Context(), []index.Entry{{ID: 3, Vector: []float32{1, 0}}}), first.Delete(t.Context(), []uint32{2}),
	} {
		if !errors.Is(err, index.ErrLost) {
			t.Errorf("an index that was taken: %v", err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if hits, err = second.Search(t.Context(), index.Query{Vector: []float32{1, 0, 0}, Allowed: all, TopK: 2}); err != nil || len(hits) != 1 {
		t.Errorf("the earlier process closed the index of the later: %v, %v", hits, err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, url, "SELECT (SELECT count(*) FROM pg_tables WHERE tablename LIKE 'sluice_vectors_%') + (SELECT count(*) FROM sluice_vector_indexes)"); n != 0 {
		t.Errorf("%d left", n)
	}
}

// TestServerForgets: a server that comes back with less than it confirmed is found out, be it a change, the table or everything.
func TestServerForgets(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]string{
		"a change":   "UPDATE sluice_vector_indexes SET version = version - 1",
		"the table":  "DO $$ BEGIN EXECUTE (SELECT 'DROP TABLE ' || tablename FROM pg_tables WHERE tablename LIKE 'sluice_vectors_%'); END $$",
		"everything": "DROP SCHEMA public CASCADE; CREATE SCHEMA public",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgvectortest.Database(t)
			x := made(t, server(t, url, nil), "c", 1)
			for id := range uint32(2) {
				if err := x.Upsert(t.Context(), []index.Entry{{ID: id, Vector: []float32{1}}}); err != nil {
					t.Fatal(err)
				}
			}
			pgvectortest.Run(t, url, harm)
			if err := x.Upsert(t.Context(), []index.Entry{{ID: 2, Vector: []float32{1}}}); !errors.Is(err, index.ErrLost) {
				t.Errorf("hidden by the next change: %v", err)
			}
			for range 2 {
				if hits, err := x.Search(t.Context(), index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(0, 1), TopK: 2}); !errors.Is(err, index.ErrLost) {
					t.Errorf("%v, %v", hits, err)
				}
			}
		})
	}
}

// TestCommitIsLost: where the answer to a commit does not come, what it is about cannot be searched until it was changed again; the rest can.
func TestCommitIsLost(t *testing.T) {
	t.Parallel()
	socket, at, through := pgvectortest.Elsewhere(t, pgvectortest.Database(t))
	var cut atomic.Bool
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := new(net.Dialer).DialContext(context.Background(), "unix", socket)
			if err != nil {
				_ = client.Close()
				return
			}
			go func() { _, _ = io.Copy(client, behind); _ = client.Close() }()
			go func() {
				defer behind.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := client.Read(buf)
					if err != nil {
						return
					}
					if cut.Load() && strings.Contains(strings.ToLower(string(buf[:n])), "commit") {
						_ = client.Close()
						_, _ = behind.Write(buf[:n])
						_, _ = io.Copy(io.Discard, behind) // until it was carried out
						return
					}
					if _, err := behind.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	x := made(t, server(t, through, nil), "c", 1)
	for id := range uint32(2) {
		if err := x.Upsert(t.Context(), []index.Entry{{ID: id, Vector: []float32{1}}}); err != nil {
			t.Fatal(err)
		}
	}
	search := func(ids ...uint32) ([]index.Hit, error) {
		return x.Search(t.Context(), index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(ids...), TopK: 9})
	}
	cut.Store(true)
	for _, err := range []error{x.Delete(t.Context(), []uint32{1}), x.Upsert(t.Context(), []index.Entry{{ID: 2, Vector: []float32{1}}})} {
		if !errors.Is(err, index.ErrUnavailable) {
			t.Fatalf("a commit without an answer: %v", err)
		}
	}
	cut.Store(false)
	for id, unknown := range map[uint32]bool{0: false, 1: true, 2: true} {
		if _, err := search(0, id); errors.Is(err, index.ErrUnavailable) != unknown {
			t.Errorf("a search for %d: %v", id, err)
		}
	}
	if err := errors.Join(x.Delete(t.Context(), []uint32{1}), x.Upsert(t.Context(), []index.Entry{{ID: 2, Vector: []float32{-1}}})); err != nil {
		t.Fatal(err)
	}
	if hits, err := search(0, 1, 2); err != nil || len(hits) != 2 || hits[1].Score != -1 {
		t.Errorf("%v, %v", hits, err)
	}
}

// TestServerIsGone: whatever is asked while the server cannot be reached is an error, not an empty answer, and shows no password; when it is back, what
// it had is there.
func TestServerIsGone(t *testing.T) {
	t.Parallel()
	real := pgvectortest.Database(t)
	socket, at, through := pgvectortest.Elsewhere(t, real)
	x := made(t, server(t, through, nil), "c", 1)
	all := index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(0, 1), TopK: 2}
	gone := func() {
		t.Helper()
		_, err := x.Search(t.Context(), all)
		for _, err := range []error{err, x.Upsert(t.Context(), []index.Entry{{ID: 1, Vector: []float32{1}}}), x.Delete(t.Context(), []uint32{0})} {
			if !errors.Is(err, index.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("without a server: %v", err)
			}
		}
	}
	gone()
	if err := os.Symlink(socket, at); err != nil {
		t.Fatal(err)
	}
	if err := x.Upsert(t.Context(), []index.Entry{{ID: 0, Vector: []float32{1}}}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	pgvectortest.Run(t, real, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	gone()
	if err := os.Symlink(socket, at); err != nil {
		t.Fatal(err)
	}
	if hits, err := x.Search(t.Context(), all); err != nil || len(hits) != 1 {
		t.Errorf("after it is back: %v, %v", hits, err)
	}
}

// TestServerIsSlow: a search that gets no answer in time is an error, and so is a change, of which nothing is left.
func TestServerIsSlow(t *testing.T) {
	t.Parallel()
	url := pgvectortest.Database(t)
	x := made(t, server(t, url, nil), "c", 1)
	if err := x.Upsert(t.Context(), []index.Entry{{ID: 0, Vector: []float32{1}}}); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "BEGIN; LOCK TABLE sluice_vector_indexes IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := x.Search(ctx, index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(0), TopK: 1}); !errors.Is(err, index.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a slow search: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := x.Upsert(ctx, []index.Entry{{ID: 1, Vector: []float32{1}}}); !errors.Is(err, index.ErrUnavailable) {
		t.Errorf("a slow change: %v", err)
	}
	if _, err := c.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	hits, err := x.Search(t.Context(), index.Query{Vector: []float32{1}, Allowed: roaring.BitmapOf(0, 1), TopK: 2})
	if err != nil || len(hits) != 1 {
		t.Errorf("%v, %v", hits, err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	const ok = "postgres://u:hunter2@h/d"
	for _, c := range []pgvector.Config{
		{},
		{URL: keyring.Inline("sqlite:x")},
		{URL: keyring.Inline("postgres://u:hunter2@h:x/d")},
		{URL: keyring.Inline(ok), MaxConnections: -1},
		{URL: keyring.Inline(ok), Timeout: -1},
	} {
		if _, err := pgvector.New(c); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s := server(t, ok, nil)
	for name, dim := range map[string]int{"": 1, "a": 0, "b": 16_001} {
		if _, err := s.Index(name, dim); err == nil {
			t.Errorf("%q of %d components", name, dim)
		}
	}
}

// BenchmarkSearch searches a table of 100,000 by how much of it is allowed.
func BenchmarkSearch(b *testing.B) {
	const n, dim = 100_000, 128
	url := pgvectortest.Database(b)
	rng := rand.New(rand.NewPCG(1, 1))
	var entries []index.Entry
	for i := range uint32(n) {
		centre := rand.New(rand.NewPCG(uint64(i%1000), 2))
		v := random(centre, dim)
		for j := range v {
			v[j] += float32(rng.NormFloat64())
		}
		entries = append(entries, index.Entry{ID: i, Vector: v})
	}
	x := made(b, server(b, url, func(c *pgvector.Config) { c.Timeout = 10 * time.Minute }), "exact", dim)
	began := time.Now()
	if err := x.Upsert(b.Context(), entries); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d vectors stored in %s", n, time.Since(began))
	for _, share := range []float64{1, 0.1, 0.01, 0.001} {
		allowed := roaring.New()
		for _, e := range entries {
			if share == 1 || rng.Float64() < share {
				allowed.Add(e.ID)
			}
		}
		b.Run(fmt.Sprintf("%g%%", share*100), func(b *testing.B) {
			for b.Loop() {
				if _, err := x.Search(b.Context(), index.Query{Vector: entries[rng.IntN(n)].Vector, Allowed: allowed, TopK: 200}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
