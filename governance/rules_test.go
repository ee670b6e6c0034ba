package governance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
)

// TestRulesHaveAVersion holds the code of the detectors, without comments, and their lists against the version that records name. If it fails: raise version in
// classify (Detector in mask) when any text may now be read otherwise, which is nearly always, and write the new pair here.
func TestRulesHaveAVersion(t *testing.T) {
	for dir, want := range map[string]struct{ detector, code string }{
		"classify": {"email@5", "7ce8a3abc1e60706"},
		"mask":     {"pseudonym@4", "629bbb823cfb67d8"},
	} {
		detector := mask.Detector
		if dir == "classify" {
			detector = classify.Detector(classify.Email)
		}
		if got := codeOf(t, dir); detector != want.detector || got != want.code {
			t.Errorf("package %s: %s with the code %s, want %s with %s", dir, detector, got, want.detector, want.code)
		}
	}
	seen := map[string]bool{}
	for _, c := range classify.Classes() {
		name, version, ok := strings.Cut(classify.Detector(c), "@")
		if !ok || name != string(c) || version == "" || seen[name] {
			t.Errorf("detector %q of %s", classify.Detector(c), c)
		}
		seen[name] = true
	}
}

// codeOf is a digest of a package's code as it is formatted without comments.
func codeOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no code", err)
	}
	more, err := filepath.Glob(filepath.Join(dir, "lexicon", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Glob(filepath.Join(dir, "lexicon", "data", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, more...)
	slices.Sort(files)
	var code bytes.Buffer
	for _, f := range lists {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if err := printer.Fprint(&code, fset, parsed); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256(bytes.Join(bytes.Fields(code.Bytes()), []byte(" ")))
	return hex.EncodeToString(sum[:8])
}
