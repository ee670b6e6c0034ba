package dbtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// serverChild, when set, makes the test binary a process that starts a server and waits to be killed.
const serverChild = "SLUICE_DBTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(serverChild) != "" {
		if _, err := server(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString("started\n")
		select {} // until the parent kills it
	}
	os.Exit(m.Run())
}

// A test binary that is killed leaves neither a server nor files behind, also where the user of the server may not remove its own
// directory from the one above.
func TestNothingIsLeftBehind(t *testing.T) {
	Postgres(t) // skips or fails without PostgreSQL
	dir := t.TempDir()
	for up := dir; up != filepath.Clean(os.TempDir()); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil { // the user of the server must get there
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), serverChild+"=1", "SLUICE_TEST_POSTGRES=", "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 64)); n == 0 {
		t.Fatalf("the child did not start its server: %v", err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) == 0 {
		t.Fatalf("the child's server is not in %s: %v", dir, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the killed process left %v", left)
		case <-tick.C:
		}
	}
}
