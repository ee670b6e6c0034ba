package governance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
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
		"classify": {"email@5", "c0d27bb0cea14e05"},
		"mask":     {"pseudonym@4", "badfb2a0d9beebcd"},
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

// codeOf is a digest of the code of a package and of those below it, as it is formatted without comments, and of their lists.
func codeOf(t *testing.T, dir string) string {
	t.Helper()
	var files, lists []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"corpus", "eval", "costs", "testdata"}, d.Name()):
			return filepath.SkipDir // they find nothing
		case strings.HasSuffix(path, ".go"):
			files = append(files, path)
		case strings.HasSuffix(path, ".txt"):
			lists = append(lists, path)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatal("no code", err)
	}
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
