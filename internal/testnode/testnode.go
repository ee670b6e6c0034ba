// Package testnode makes the Node packages that tests use: a folder for each set of pinned packages, in the user's cache directory, so that what a
// developer has installed changes nothing.
package testnode

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/testcache"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// newest asks for the newest versions of the day in place of the pinned ones.
const newest = "SLUICE_NEWEST"

// pins are the lists of exact versions, with the digests of what is downloaded.
//
//go:embed packages/*/*.json
var pins embed.FS

// Script returns the interpreter, and a copy of the script (a module, or TypeScript's subset of it) that finds the packages of packages/NAME. Where they
// are not there and cannot be fetched, the test is skipped; it fails if SLUICE_REQUIRE has "node", or the part that the test is about. In the
// short form it is skipped, as Python's are.
func Script(t testing.TB, name, part, script string) (node, copied string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("the Node packages %s are not run in the short form", name)
	}
	root, err := testcache.Root("node")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := packages(t.Context(), root, "npm", name)
	switch {
	case err == nil:
	case testmodel.Required("node") || testmodel.Required(part):
		t.Fatalf("the Node packages %s are required (SLUICE_REQUIRE): %v", name, err)
	default:
		t.Skipf("the Node packages %s are not there and cannot be fetched, so this test is skipped; install npm (Node 20) and connect to a package index once: %v", name, err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	// Modules are looked for beside the file that asks for them.
	place := t.TempDir()
	copied = filepath.Join(place, filepath.Base(script))
	if err := os.WriteFile(copied, text, 0o600); err != nil { //nolint:gosec // below a folder of the test's
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "node_modules"), filepath.Join(place, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return "node", copied
}

// packages returns the folder with the packages of packages/NAME, and makes it if it is not there yet. Other pins, and another Node, get one of their own.
func packages(ctx context.Context, root, npm, name string) (string, error) {
	about, err := exec.CommandContext(ctx, npm, "version", "--json").Output()
	if err != nil {
		return "", fmt.Errorf("start %s: %w", npm, err)
	}
	files := map[string][]byte{}
	for _, f := range []string{"package.json", "package-lock.json"} {
		if files[f], err = pins.ReadFile("packages/" + name + "/" + f); err != nil {
			return "", fmt.Errorf("read the pinned versions: %w", err)
		}
		about = append(about, files[f]...)
	}
	if os.Getenv(newest) != "" {
		if err := unpin(files); err != nil {
			return "", fmt.Errorf("read the pinned versions: %w", err)
		}
		about = append(about, "newest of "+time.Now().UTC().Format(time.DateOnly)...) // every day has a folder of its own
	}
	return testcache.Folder(root, name, about, func(dir string) error { return install(ctx, npm, dir, name, files) })
}

// unpin has the list ask for the newest versions, and drops the lock.
func unpin(files map[string][]byte) error {
	var list struct {
		Name         string            `json:"name"`
		Private      bool              `json:"private"`
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(files["package.json"], &list); err != nil {
		return err
	}
	for name := range list.Dependencies {
		list.Dependencies[name] = "latest"
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	files["package.json"] = raw
	delete(files, "package-lock.json")
	return nil
}

// install fetches the packages: exactly those of the lock where there is one. No script of theirs runs.
func install(ctx context.Context, npm, dir, name string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	for f, text := range files {
		if err := os.WriteFile(filepath.Join(dir, f), text, 0o600); err != nil {
			return fmt.Errorf("write the pinned versions: %w", err)
		}
	}
	// One of the packages asks for a newer Node than Debian has, and works with this one.
	how := "ci"
	if files["package-lock.json"] == nil {
		how = "install"
	}
	args := []string{"--prefix", dir, how, "--ignore-scripts", "--engine-strict=false", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"}
	if err := testcache.Run(ctx, npm, args...); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}
