// Package devtest finds the Temporal CLI for tests. It is a leaf.
package devtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Binary returns the path of the Temporal CLI: SLUICE_TEST_TEMPORAL, else "temporal" on PATH, else the one that "sluice pull"
// keeps in the user's cache. Without one the test skips, unless SLUICE_REQUIRE names "temporal": then it fails.
func Binary(t testing.TB) string {
	t.Helper()
	tries := []string{os.Getenv("SLUICE_TEST_TEMPORAL"), "temporal"}
	if home, err := os.UserHomeDir(); err == nil {
		pulled, _ := filepath.Glob(filepath.Join(home, ".cache", "sluice", "programs", "temporal-*", "temporal"))
		tries = append(tries, pulled...)
	}
	for _, name := range tries {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	if slices.Contains(strings.Split(os.Getenv("SLUICE_REQUIRE"), ","), "temporal") {
		t.Fatalf("the Temporal CLI is required (SLUICE_REQUIRE) but in none of %q", tries)
	}
	t.Skip("the Temporal CLI is not available, so this test is skipped; set SLUICE_TEST_TEMPORAL to its path")
	return ""
}
