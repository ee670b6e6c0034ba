package server_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayStay are the skips that no machine of ours can turn into a failure, with the words they skip with.
var mayStay = []string{
	"cannot become another user", // needs root, which a developer is not
	"cannot mount a file system", // likewise; its other half runs everywhere
	"needs /proc",                // Linux
	"owners on Windows",          // the product runs there without them
	"an interpreter was named",   // by whoever runs the tests: CI names none
}

// TestNoSilentSkips: a test of the audit log, of the server, of the schema or of what all share may be left out in the short run, or where a program is missing
// that SLUICE_REQUIRE can demand. Anything else would let CI pass without having looked.
func TestNoSilentSkips(t *testing.T) {
	found := 0
	for _, root := range []string{"../audit", "../server", "../migrations", "../internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				skips, allowed := skipsIn(f)
				found += len(skips)
				for _, words := range skips {
					if !allowed && !slices.ContainsFunc(mayStay, func(s string) bool { return strings.Contains(words, s) }) {
						t.Errorf("%s: %s skips with %q: demand what is missing with dbtest.Programs or dbtest.Required, or skip in the short run only", path, f.Name, words)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 8 {
		t.Errorf("only %d skips were found: the test looks in the wrong place", found)
	}
}

// skipsIn returns the words of each skip in f, and whether f asks what is required, or for the short run, the long run or a
// benchmark of its own, or is a fuzz target.
func skipsIn(f *ast.FuncDecl) (skips []string, allowed bool) {
	allowed = strings.HasPrefix(f.Name.Name, "Fuzz")
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			allowed = allowed || strings.Contains(n.Value, "SLUICE_TEST_LONG") || strings.Contains(n.Value, "SLUICE_BENCH")
		case *ast.SelectorExpr:
			allowed = allowed || n.Sel.Name == "Required" || n.Sel.Name == "Short"
		case *ast.Ident:
			allowed = allowed || n.Name == "Required"
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || called.Sel.Name != "Skip" && called.Sel.Name != "Skipf" && called.Sel.Name != "SkipNow" {
				break
			}
			words := ""
			if len(n.Args) > 0 {
				if text, ok := n.Args[0].(*ast.BasicLit); ok {
					words = text.Value
				}
			}
			skips = append(skips, words)
		}
		return true
	})
	return skips, allowed
}
