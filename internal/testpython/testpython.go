// Package testpython makes the Python environments that tests and benchmarks use: one for each set of pinned packages, in the user's cache
// directory, so that what a developer has installed changes nothing.
package testpython

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/testcache"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// override names an interpreter that has every package, for whoever cannot reach a package index.
const override = "SLUICE_TEST_PYTHON"

// newest asks for the newest versions of the day in place of the pinned ones: what clients will have tomorrow.
const newest = "SLUICE_NEWEST"

// pins are files of exact versions, of what is wanted and of what it brings.
//
//go:embed requirements/*.txt
var pins embed.FS

// Python returns the interpreter of the environment with the packages of requirements/NAME.txt. Where it is not there and cannot be made,
// the test is skipped; it fails if SLUICE_REQUIRE has "python", or the part that the test is about. In the short form, which is the race
// detector's, it is skipped: programs of others find no races that our own clients do not find, and wait for a server ten times as slow.
func Python(t testing.TB, name, part string) string {
	t.Helper()
	if testing.Short() {
		t.Skipf("the Python packages %s are not run in the short form", name)
	}
	python, err := Environment(t.Context(), name)
	switch {
	case err == nil:
		return python
	case testmodel.Required("python") || testmodel.Required(part):
		t.Fatalf("the Python packages %s are required (SLUICE_REQUIRE): %v", name, err)
	default:
		t.Skipf("the Python packages %s are not there and cannot be fetched, so this test is skipped; connect to a package index once, or name an interpreter that has them in %s: %v", name, override, err)
	}
	return ""
}

// Environment returns the interpreter of the environment with the packages of requirements/NAME.txt, and makes it if it is not there yet.
// Several processes may ask at once: one makes it, the others wait.
func Environment(ctx context.Context, name string) (string, error) {
	if python := os.Getenv(override); python != "" {
		return python, nil
	}
	wanted, err := pins.ReadFile("requirements/" + name + ".txt")
	if err != nil {
		return "", fmt.Errorf("read the pinned versions: %w", err)
	}
	if os.Getenv(newest) != "" {
		wanted = unpinned(wanted, time.Now())
	}
	root, err := testcache.Root("python")
	if err != nil {
		return "", err
	}
	return environment(ctx, root, "python3", name, wanted)
}

// unpinned is a list without its versions. The day is in it, so that every day has an environment of its own.
func unpinned(wanted []byte, now time.Time) []byte {
	out := []byte("# newest of " + now.UTC().Format(time.DateOnly) + "\n")
	for line := range bytes.Lines(wanted) {
		name, _, _ := bytes.Cut(line, []byte("=="))
		out = append(append(out, bytes.TrimSpace(name)...), '\n')
	}
	return out
}

// environment makes an environment below root. Other pins, and another Python, get one of their own.
func environment(ctx context.Context, root, base, name string, wanted []byte) (string, error) {
	about, err := exec.CommandContext(ctx, base, "-c", "import sys; print(sys.version, sys.base_prefix)").Output()
	if err != nil {
		return "", fmt.Errorf("start %s: %w", base, err)
	}
	dir, err := testcache.Folder(root, name, append(about, wanted...), func(dir string) error { return install(ctx, base, dir, name, wanted) })
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "bin", "python"), nil
}

// install makes an environment. What a process that was killed has left there is begun anew.
func install(ctx context.Context, base, dir, name string, wanted []byte) error {
	if err := testcache.Run(ctx, base, "-m", "venv", "--clear", dir); err != nil {
		return fmt.Errorf("make a virtual environment (Debian: apt-get install python3-venv): %w", err)
	}
	list := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(list, wanted, 0o600); err != nil {
		return fmt.Errorf("write the pinned versions: %w", err)
	}
	pip := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--only-binary", ":all:", "-r", list}
	if err := testcache.Run(ctx, filepath.Join(dir, "bin", "python"), pip...); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}
