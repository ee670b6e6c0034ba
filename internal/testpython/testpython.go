// Package testpython makes the Python environments that tests and benchmarks use: one for each set of pinned packages, in the user's cache
// directory, so that what a developer has installed changes nothing.
package testpython

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// override names an interpreter that has every package, for whoever cannot reach a package index.
const override = "SLUICE_TEST_PYTHON"

// pins are files of exact versions, of what is wanted and of what it brings.
//
//go:embed requirements/*.txt
var pins embed.FS

// Python returns the interpreter of the environment with the packages of requirements/NAME.txt. Where it is not there and cannot be made,
// the test is skipped; it fails if SLUICE_REQUIRE has "python", or the part that the test is about.
func Python(t testing.TB, name, part string) string {
	t.Helper()
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
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	return environment(ctx, filepath.Join(cache, "sluice", "python"), "python3", name, wanted)
}

// environment makes an environment below root. Other pins, and another Python, get one of their own.
func environment(ctx context.Context, root, base, name string, wanted []byte) (string, error) {
	about, err := exec.CommandContext(ctx, base, "-c", "import sys; print(sys.version, sys.base_prefix)").Output()
	if err != nil {
		return "", fmt.Errorf("start %s: %w", base, err)
	}
	sum := sha256.Sum256(append(about, wanted...))
	dir := filepath.Join(root, name+"-"+hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	python, ready := filepath.Join(dir, "bin", "python"), filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return python, nil
	}
	// What a process that was killed has left is begun anew.
	if err := run(ctx, base, "-m", "venv", "--clear", dir); err != nil {
		return "", fmt.Errorf("make a virtual environment (Debian: apt-get install python3-venv): %w", err)
	}
	list := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(list, wanted, 0o600); err != nil {
		return "", fmt.Errorf("write the pinned versions: %w", err)
	}
	if err := run(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--only-binary", ":all:", "-r", list); err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		return "", fmt.Errorf("mark the environment: %w", err)
	}
	return python, nil
}

// lock waits until no other process has the file locked.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}

// run runs a command and returns the last of what it said if it fails.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
}
