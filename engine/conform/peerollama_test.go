package conform_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

const (
	ollamaVersion = "0.17.4"
	// ollamaHeaders is a module that has a header which the module of Ollama leaves out, since modules carry no vendored folders. The other two are packages of
	// Debian: nlohmann-json3-dev and libstb-dev.
	ollamaHeaders = "github.com/gen2brain/malgo"
)

// ollama returns the program, which is built once from its Go module and its C++ and kept in the user's cache. Where that cannot be done, the test is skipped; it
// fails if SLUICE_REQUIRE has "peers".
func ollama(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "sluice", "programs", "ollama-v"+ollamaVersion)
	program := filepath.Join(dir, "ollama")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if err := buildOllama(dir, program); err != nil {
		if testmodel.Required("peers") {
			t.Fatalf("Ollama is required (SLUICE_REQUIRE) and cannot be built: %v", err)
		}
		t.Skipf("Ollama cannot be built here: %v", err)
	}
	return program
}

func buildOllama(dir, program string) error {
	for _, header := range []string{"/usr/include/nlohmann/json.hpp", "/usr/include/stb/stb_image.h"} {
		if _, err := os.Stat(header); err != nil {
			return fmt.Errorf("a header is missing (Debian: nlohmann-json3-dev, libstb-dev): %w", err)
		}
	}
	include := filepath.Join(dir, "include")
	if err := os.MkdirAll(include, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module peer\n\ngo 1.26\n"), 0o600); err != nil {
		return err
	}
	if _, err := goTool(dir, nil, "get", "github.com/ollama/ollama@v"+ollamaVersion, ollamaHeaders+"@v0.11.23"); err != nil {
		return err
	}
	headers, err := goTool(dir, nil, "list", "-m", "-f", "{{.Dir}}", ollamaHeaders)
	if err != nil {
		return err
	}
	if err := os.Symlink(headers, filepath.Join(include, "miniaudio")); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	flags := "-O2 -g0"
	if runtime.GOARCH == "amd64" { // by itself the module's code keeps to the oldest processors, and is ten times as slow
		flags += " -mavx2 -mfma -mf16c"
	}
	env := []string{"CGO_ENABLED=1", "CGO_CFLAGS=" + flags, "CGO_CXXFLAGS=" + flags + " -I" + include}
	link := "-s -w -X github.com/ollama/ollama/version.Version=" + ollamaVersion
	_, err = goTool(dir, env, "build", "-mod=mod", "-trimpath", "-ldflags", link, "-o", program, "github.com/ollama/ollama")
	return err
}

// goTool runs the Go command and returns what it prints.
func goTool(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("go", args...) //nolint:gosec,noctx // the test's own arguments; a build may take a quarter of an hour
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, said.String()[max(0, said.Len()-500):])
	}
	return strings.TrimSpace(string(out)), nil
}

// startOllama starts Ollama with a model of our own; it asks for none outside.
func startOllama(t *testing.T) running {
	t.Helper()
	program, model := ollama(t), testmodel.Path(t, testmodel.SmolLM2)
	prof, err := profiles(t).Get("ollama")
	if err != nil {
		t.Fatal(err)
	}
	address, home := "127.0.0.1:"+freePort(t), t.TempDir()
	env := []string{
		"OLLAMA_HOST=" + address, "OLLAMA_MODELS=" + filepath.Join(home, "models"), "OLLAMA_NO_CLOUD=1", "OLLAMA_NOPRUNE=1", "OLLAMA_CONTEXT_LENGTH=1024", "HOME=" + home,
	}
	up := launch(t, env, program, "serve")
	up.url = "http://" + address
	becomeReady(t, prof, up)
	about := filepath.Join(home, "Modelfile")
	if err := os.WriteFile(about, []byte("FROM "+model+"\nPARAMETER num_thread 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "create", "river", "-f", about) //nolint:gosec // the test's own program
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("create the model: %v: %s", err, out)
	}
	return up
}
