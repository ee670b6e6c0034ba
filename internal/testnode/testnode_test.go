package testnode

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPins: every version is exact, and of everything that is downloaded the digest is known.
func TestPins(t *testing.T) {
	sets, err := pins.ReadDir("packages")
	if err != nil || len(sets) < 3 {
		t.Fatalf("%d sets, %v", len(sets), err)
	}
	exact := regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	for _, set := range sets {
		var wanted struct{ Dependencies map[string]string }
		var lock struct {
			Packages map[string]struct {
				Version, Integrity string
				Dependencies       map[string]string
			}
		}
		for file, into := range map[string]any{"package.json": &wanted, "package-lock.json": &lock} {
			raw, err := pins.ReadFile("packages/" + set.Name() + "/" + file)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, into); err != nil {
				t.Fatalf("%s of %s: %v", file, set.Name(), err)
			}
		}
		for name, version := range wanted.Dependencies {
			if !exact.MatchString(version) || lock.Packages["node_modules/"+name].Version != version {
				t.Errorf("%s: %s is %s", set.Name(), name, version)
			}
		}
		for name, p := range lock.Packages {
			if name != "" && (!exact.MatchString(p.Version) || !strings.HasPrefix(p.Integrity, "sha512-")) {
				t.Errorf("%s: %s is %+v", set.Name(), name, p)
			}
		}
	}
}

// TestPackagesAreMadeOnce: another time nothing is fetched, what failed is tried again, and without npm there are none.
func TestPackagesAreMadeOnce(t *testing.T) {
	dir := t.TempDir()
	npm, calls, offline := filepath.Join(dir, "npm"), filepath.Join(dir, "calls"), filepath.Join(dir, "offline")
	script := `#!/bin/sh
[ "$1" = version ] && { echo '{"node": "99"}'; exit; }
[ -e ` + offline + ` ] && { echo "trying"; echo "no route to host" >&2; exit 1; }
[ -s "$2/package-lock.json" ] && echo "$3 $4" >> ` + calls + `
`
	if err := os.WriteFile(npm, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(offline, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "cache")
	if _, err := packages(t.Context(), root, npm, "openai-6"); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("offline: %v", err)
	}
	if err := os.Remove(offline); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := packages(t.Context(), root, npm, "openai-6"); err != nil {
			t.Error(err)
		}
	}
	if raw, err := os.ReadFile(calls); err != nil || string(raw) != "ci --ignore-scripts\n" {
		t.Errorf("npm was told %q, %v", raw, err)
	}
	if _, err := packages(t.Context(), root, filepath.Join(dir, "none"), "openai-6"); err == nil {
		t.Error("without npm there are no packages")
	}
	if _, err := packages(t.Context(), root, npm, "nothing"); err == nil {
		t.Error("a set without pins was made")
	}
}

// TestPackages makes what the tests use: a script finds the packages, and they are those that are pinned.
func TestPackages(t *testing.T) {
	for name, imported := range map[string]string{"openai-6": "openai", "openai-7": "openai", "anthropic-1": "@anthropic-ai/sdk"} {
		t.Run(name, func(t *testing.T) {
			_, major, _ := strings.Cut(name, "-")
			file := filepath.Join(t.TempDir(), "script.mjs")
			text := `import { VERSION } from "` + imported + `/version"; process.stdout.write(VERSION);`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			node, copied := Script(t, name, "node", file)
			if out, err := exec.CommandContext(t.Context(), node, copied).CombinedOutput(); err != nil || !strings.HasPrefix(string(out), major+".") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
