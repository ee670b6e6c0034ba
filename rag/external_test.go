package rag

import (
	"bytes"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/pgvector"
	"github.com/sluice-project/sluice/rag/index/pgvector/pgvectortest"
)

// TestIndexServerIsGone: with an index on a server that is gone, what is asked and taken in is an error; when it is back everything is there, also what
// another replica took in meanwhile, and permissions hold. A new start fills the index from the tables.
func TestIndexServerIsGone(t *testing.T) {
	t.Parallel()
	direct := pgvectortest.Database(t)
	socket, at, through := pgvectortest.Elsewhere(t, direct)
	servers, err := pgvector.New(pgvector.Config{URL: keyring.Inline(through), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	db, e := dbtest.SQLite(t), newHashed()
	start := func() *library {
		s, err := New(Config{}, db, keyring.FromBytes(bytes.Repeat([]byte{7}, 32)), e.Model(), slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.newIndex = func(dim int) index.Index {
			x, err := servers.Index("replica/kb", dim)
			if err != nil {
				t.Error(err)
			}
			return x
		}
		if err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return &library{s, e}
	}
	up := func() {
		t.Helper()
		if err := os.Symlink(socket, at); err != nil {
			t.Fatal(err)
		}
	}
	down := func() {
		t.Helper()
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		pgvectortest.Run(t, direct, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	}
	q := Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5}
	s := start()
	up()
	create(t, s, "acme", "kb")
	ingest(t, s, "kb", "a.txt", "first words")
	ingest(t, s, "kb", "b.txt", "secret words", "hr")
	wantTexts(t, find(t, s, "kb", "words"), "first words")

	down()
	_, err = s.Search(t.Context(), q)
	wantCode(t, err, fault.CodeRetrievalFailed)
	_, err = s.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("second words")})
	wantCode(t, err, fault.CodeRetrievalFailed)
	ingest(t, service(t, db, e), "kb", "c.txt", "third words") // a replica with an index in memory
	if err := s.follow(t.Context()); err == nil {
		t.Error("following succeeded without the server")
	}

	up()
	follow(t, s)
	wantTexts(t, find(t, s, "kb", "words third"), "third words", "first words")
	wantTexts(t, find(t, start(), "kb", "words third"), "third words", "first words")
	_, err = s.Search(t.Context(), q) // the new start took the index
	wantCode(t, err, fault.CodeRetrievalFailed)
}
