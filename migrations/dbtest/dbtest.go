// Package dbtest runs a store test on every database Sluice supports.
//
// SQLite gets a fresh file. PostgreSQL is a real server: the one named by SLUICE_TEST_POSTGRES, or a private cluster that the
// helper starts from the installed packages (initdb, pg_ctl) once per test binary, as another user when the tests run as root,
// since initdb refuses root. Every test gets a database of its own. Without PostgreSQL the sub-test skips with a notice, unless
// SLUICE_REQUIRE names "postgres": then it fails.
package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
)

// Each runs test as the sub-tests "sqlite" and "postgres", each with an empty, migrated database that is closed at the end.
func Each(t *testing.T, test func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, Postgres(t)) })
}

// SQLite returns a fresh migrated SQLite database.
func SQLite(t testing.TB) *gorm.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	SQLiteFile(t, path)
	return open(t, "sqlite:"+path)
}

// SQLiteFile writes a fresh migrated SQLite database to path.
func SQLiteFile(t testing.TB, path string) {
	t.Helper()
	b, err := sqliteTemplate()
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Postgres returns a fresh migrated database on a real PostgreSQL server.
func Postgres(t testing.TB) *gorm.DB {
	t.Helper()
	// A server that is not ours would keep the template after the tests.
	if os.Getenv("SLUICE_TEST_POSTGRES") != "" {
		return open(t, PostgresURL(t))
	}
	return open(t, postgresURL(t, postgresTemplate))
}

// PostgresURL returns the URL of a fresh, empty database on a real PostgreSQL server; it is dropped when the test ends.
func PostgresURL(t testing.TB) string {
	t.Helper()
	return postgresURL(t, func() (string, error) { return "template1", nil })
}

// postgresURL returns the URL of a copy of the database that template names.
func postgresURL(t testing.TB, template func() (string, error)) string {
	t.Helper()
	base, err := server()
	if err != nil {
		if Required("postgres") {
			t.Fatalf("PostgreSQL is required (SLUICE_REQUIRE) but cannot be used: %v", err)
		}
		t.Skipf("PostgreSQL is not available, this half of the test is skipped: %v", err)
	}
	admin, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(base), MaxConnections: 2})
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("t_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), counter.Add(1))
	from, err := template()
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Exec("CREATE DATABASE " + name + " TEMPLATE " + from).Error; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.Exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)").Error
		_ = database.Close(admin)
	})
	to, err := at(base, name)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// at returns the URL of another database of the server at base.
func at(base, name string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Backup copies the PostgreSQL database at rawURL, which [PostgresURL] returned and nobody may be connected to, and returns what puts the
// copy back in its place; connections that are open then are cut.
func Backup(t testing.TB, rawURL string) (restore func()) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	base, err := server()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(base), MaxConnections: 2})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	kept := name + "_copy"
	run := func(statement string) {
		t.Helper()
		if err := admin.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE DATABASE " + kept + " TEMPLATE " + name)
	t.Cleanup(func() {
		_ = admin.Exec("DROP DATABASE IF EXISTS " + kept + " WITH (FORCE)").Error
		_ = database.Close(admin)
	})
	return func() {
		t.Helper()
		run("DROP DATABASE " + name + " WITH (FORCE)")
		run("CREATE DATABASE " + name + " TEMPLATE " + kept)
	}
}

// Required reports whether SLUICE_REQUIRE names part: then a missing part is a failure, not a skip.
func Required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("SLUICE_REQUIRE"), ","), part)
}

// Programs skips the test unless every program can be started by its name, and fails it if SLUICE_REQUIRE names the one that is missing.
func Programs(t testing.TB, names ...string) {
	t.Helper()
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if Required(name) {
			t.Fatalf("%s is required (SLUICE_REQUIRE) but not installed", name)
		}
		missing = append(missing, name)
	}
	if len(missing) > 0 {
		t.Skipf("this test is skipped, since these programs are not installed: %s", strings.Join(missing, ", "))
	}
}

func open(t testing.TB, rawURL string) *gorm.DB {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(rawURL), MaxConnections: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close(db) })
	if _, err := migrations.Apply(t.Context(), db); err != nil { // a copy of a template has them
		t.Fatal(err)
	}
	return db
}

// migrated brings the schema of the empty database at rawURL to the latest version and closes it.
func migrated(rawURL string) error {
	ctx := context.Background()
	db, err := database.Open(ctx, database.Config{URL: keyring.Inline(rawURL), MaxConnections: 2})
	if err != nil {
		return err
	}
	_, err = migrations.Apply(ctx, db)
	return errors.Join(err, database.Close(db))
}

// makeSQLiteTemplate returns the file of an empty migrated database. Each test gets a copy: under the race detector the migrations alone take
// a second.
func makeSQLiteTemplate() ([]byte, error) {
	dir, err := os.MkdirTemp("", "sluice-sqlite-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "template.db")
	if err = migrated("sqlite:" + path); err == nil {
		if _, left := os.Stat(path + "-wal"); left == nil {
			err = errors.New("the template's write-ahead log was not taken into the file")
		}
	}
	b, rerr := os.ReadFile(path)
	return b, errors.Join(err, rerr, os.RemoveAll(dir))
}

// makePostgresTemplate returns the name of an empty migrated database on the server that ends with this process.
func makePostgresTemplate() (string, error) {
	const name = "migrated"
	base, err := server()
	if err != nil {
		return "", err
	}
	admin, err := database.Open(context.Background(), database.Config{URL: keyring.Inline(base), MaxConnections: 2})
	if err != nil {
		return "", err
	}
	err = admin.Exec("CREATE DATABASE " + name).Error
	if err = errors.Join(err, database.Close(admin)); err != nil {
		return "", err
	}
	to, err := at(base, name)
	if err != nil {
		return "", err
	}
	return name, migrated(to)
}

//nolint:gochecknoglobals // the one server of a test binary, and what its databases are copies of
var (
	counter          atomic.Int64
	server           = sync.OnceValues(installedServer)
	sqliteTemplate   = sync.OnceValues(makeSQLiteTemplate)
	postgresTemplate = sync.OnceValues(makePostgresTemplate)
	// lifelines are held here because a collected pipe would be closed.
	lifelines sync.Map
)

// installedServer returns the URL of the maintenance database of the server that tests use.
func installedServer() (string, error) {
	if u := os.Getenv("SLUICE_TEST_POSTGRES"); u != "" {
		return u, nil
	}
	bin, err := binDir()
	if err != nil {
		return "", err
	}
	return startServer("", bin)
}

// Cluster starts a cluster with the programs in the folder bin of tree, which brings its own libraries and extensions, and returns the URL of its maintenance
// database. It lives as long as the test binary, as the other does. Where the server has to run as another user, who may not read
// tree, it is linked to where that user may.
func Cluster(tree, bin string) (string, error) { return startServer(tree, bin) }

// startServer returns the URL of the maintenance database of a cluster of our own. It lives as long as the test binary: watchdogs stop it and
// remove its files when this process is gone, however it ended.
func startServer(tree, bin string) (_ string, err error) {
	dir, err := os.MkdirTemp("", "sluice-pg-")
	if err != nil {
		return "", err
	}
	cred, err := unprivileged(dir)
	if err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	switch {
	case tree == "":
	case cred == nil:
		bin = filepath.Join(tree, bin)
	default:
		if err := link(tree, filepath.Join(dir, "programs")); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
		bin = filepath.Join(dir, "programs", bin)
	}
	lifeline, err := watch(bin, dir, cred)
	if err != nil {
		return "", errors.Join(fmt.Errorf("start watchdog: %w", err), os.RemoveAll(dir))
	}
	lifelines.Store(dir, lifeline)
	defer func() {
		if err != nil {
			_ = lifeline.Close() // the watchdog removes what is there so far
		}
	}()
	run := func(name string, args ...string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		return nil
	}
	data := filepath.Join(dir, "data")
	if err := run("initdb", "-D", data, "-U", "sluice", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C", "--wal-segsize=4"); err != nil {
		return "", err
	}
	// Sockets only, in a directory of our own: no port to collide on. The log stays small, since every test binary has such a cluster and a
	// database of 7 MiB per test passes through it.
	opts := "-c listen_addresses='' -c unix_socket_directories=" + dir +
		" -c fsync=off -c full_page_writes=off -c synchronous_commit=off -c max_connections=200 -c shared_buffers=32MB" +
		" -c wal_level=minimal -c max_wal_senders=0 -c min_wal_size=8MB -c max_wal_size=64MB"
	if err := run("pg_ctl", "-D", data, "-l", filepath.Join(dir, "log"), "-o", opts, "-w", "-t", "60", "start"); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return "", fmt.Errorf("%w\n%s", err, log)
	}
	return "postgres://sluice@/postgres?host=" + url.QueryEscape(dir), nil
}

// watch starts two shells that outlive this process, whatever ends it. The first reads a pipe whose other end only this process holds, and
// stops the server when that ends. The second waits for the first in the same way and removes the files: it runs as our own user, since
// the server's may not be allowed to remove its directory from the one above.
func watch(bin, dir string, cred *syscall.Credential) (lifeline io.Closer, err error) {
	stopped, running, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = stopped.Close(), running.Close() }()
	stop := exec.CommandContext(context.Background(), "sh", "-c", `cat; [ ! -f "$2/data/postmaster.pid" ] || "$1/pg_ctl" -D "$2/data" -m immediate stop`, "sh", bin, dir)
	stop.Dir, stop.Stdout = dir, running
	stop.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setsid: true}
	sweep := exec.CommandContext(context.Background(), "sh", "-c", `cat >/dev/null; rm -rf "$1"`, "sh", dir)
	sweep.Stdin = stopped
	sweep.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := sweep.Start(); err != nil {
		return nil, err
	}
	end, err := stop.StdinPipe()
	if err == nil {
		err = stop.Start()
	}
	return end, err
}

// link makes hard links of the files of a tree, or copies where the file systems differ. Everybody may read them.
func link(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.Mkdir(at, 0o755) //nolint:gosec // another user reads it
		case !e.Type().IsRegular():
			return nil
		case os.Link(path, at) == nil: //nolint:gosec // a tree of our own, in the cache
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path) //nolint:gosec // as above
		if err != nil {
			return err
		}
		return os.WriteFile(at, b, info.Mode().Perm()|0o444) //nolint:gosec // as above
	})
}

func binDir() (string, error) {
	if p, err := exec.LookPath("pg_ctl"); err == nil {
		if target, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(target), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if len(found) == 0 {
		return "", errors.New("pg_ctl not found; on Debian: apt-get install postgresql")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// unprivileged returns the credential to run the server as, nil for our own user, and gives dir to that user.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("running as root and neither the user postgres nor nobody exists")
}
