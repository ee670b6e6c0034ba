package server_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// retired are private words that an engineer would not search for, and what replaces them. No identifier may contain one as a whole word.
var retired = map[string]string{
	"aside": "side text, or claimed", "asides": "side texts", "calm": "default", "departure": "outgoing", "facet": "attribute set", "facets": "attribute sets",
	"foretell": "estimate", "harvest": "sample outputs", "hire": "spawn", "inforce": "active, or effective", "intake": "ingest", "letin": "admit",
	"misfit": "violation", "oblige": "forced", "outlet": "output", "patience": "timeout", "shelf": "collection index", "shelves": "collection indexes",
	"slab": "aligned", "standing": "share state", "standings": "share states", "surrender": "take free", "vault": "pseudonym store, content store or key store",
	"vaults": "stores", "warrant": "signature", "warranted": "signed",
}

// retiredInText are those of them that mean nothing else in a sentence: comments and texts for people must not have them either.
var retiredInText = []string{"facet", "facets", "foretell", "misfit", "shelf", "shelves"}

// retiredStays are names that stay: the API, the tables, the configuration and the error codes keep theirs, and recorded migrations do.
var retiredStays = []string{
	"CodeVaultFull", "CodeVaultUnavailable", // error codes
	"Vault",                               // the key governance.vault of the configuration, and the pseudonyms of one request in mask
	"NewVault",                            // of mask
	"WitnessStanding", "witnessStandings", // a schema of openapi.yaml
	"Standing",                    // of audit
	"Facet",                       // a column
	"facetsVersion", "fillFacets", // of a migration, named for its table
}

// retiredFolders are not held to the list: a released migration is never edited.
var retiredFolders = []string{"migrations/facets"}

// camelWords are the words of an identifier: a run of capitals is one.
var camelWords = regexp.MustCompile(`[A-Z]+(?:[^A-Za-z]|$)|[A-Z]?[a-z]+|[A-Z]+`)

func retiredIn(identifier string) (string, bool) {
	words := camelWords.FindAllString(identifier, -1)
	for i, w := range words {
		for _, w := range []string{w, w + strings.Join(words[i+1:min(i+2, len(words))], "")} { // "in force" is two
			if _, ok := retired[strings.ToLower(w)]; ok {
				return strings.ToLower(w), true
			}
		}
	}
	return "", false
}

// goFiles calls visit with every Go file of the repository, tests and generators included.
func goFiles(t *testing.T, visit func(name string, source []byte)) {
	t.Helper()
	n := 0
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && (base == "node_modules" || base == "testdata" || strings.HasPrefix(base, ".") && base != ".") {
			return fs.SkipDir
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, ".gen.go") {
			return nil
		}
		source, err := fs.ReadFile(root, name)
		n++
		visit(name, source)
		return err
	})
	if err != nil || n < 500 {
		t.Fatalf("%d Go files found: %v", n, err)
	}
}

func TestRetiredWords(t *testing.T) {
	text := regexp.MustCompile(`(?i)\b(` + strings.Join(retiredInText, "|") + `)\b`)
	goFiles(t, func(name string, source []byte) {
		if slices.ContainsFunc(retiredFolders, func(f string) bool { return strings.HasPrefix(name, f) }) || name == "server/glossary_test.go" {
			return
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range tree.Comments {
			if w := text.FindString(group.Text()); w != "" {
				t.Errorf("%s: the word %q is retired; write %s", set.Position(group.Pos()), w, retired[strings.ToLower(w)])
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !slices.Contains(retiredStays, id.Name) {
				if w, found := retiredIn(id.Name); found {
					t.Errorf("%s: %s has the retired word %q; the glossary says %s", set.Position(id.Pos()), id.Name, w, retired[w])
				}
			}
			return true
		})
	})
	for _, name := range []string{"internal/message/en.txt", "README.md", "docs/guides/application.md", "web/src/locales/en.json"} {
		source, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Error(err)
		}
		for i, line := range bytes.Split(source, []byte("\n")) {
			if w := text.Find(line); w != nil {
				t.Errorf("%s:%d: the word %q is retired; write %s", name, i+1, w, retired[strings.ToLower(string(w))])
			}
		}
	}
}

// tableUnder returns the rows of the first table under a heading of ARCHITECTURE.md, without its head.
func tableUnder(t *testing.T, heading string) [][]string {
	t.Helper()
	source, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(source), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("ARCHITECTURE.md has no section %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var out [][]string
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			out = append(out, cells)
		}
	}
	if len(out) < 3 {
		t.Fatalf("the table under %q has no rows", heading)
	}
	return out[2:]
}

func TestGlossary(t *testing.T) {
	rows := tableUnder(t, "Glossary")
	if len(rows) > 40 {
		t.Errorf("%d terms, at most 40: the product needs no more words of its own", len(rows))
	}
	last := ""
	for _, r := range rows {
		if len(r) != 3 || r[0] == "" || r[1] == "" {
			t.Errorf("%q: a row has a term, its meaning and its Chinese term", r)
			continue
		}
		if !strings.ContainsFunc(r[2], func(c rune) bool { return unicode.Is(unicode.Han, c) }) {
			t.Errorf("%s: %q is no Chinese term", r[0], r[2])
		}
		if strings.ToLower(r[0]) <= last {
			t.Errorf("%s stands behind %s: the terms are sorted", r[0], last)
		}
		last = strings.ToLower(r[0])
	}
}

// mapped returns the folders that the table of ARCHITECTURE.md names. In the first cell of a row the first path is whole and the others stand
// beside it; in the second, a path with a slash at its end is below it, and a path from the root is itself.
func mapped(t *testing.T) map[string]int {
	quoted := regexp.MustCompile("`([a-zA-Z0-9_/.\\- ]+)`")
	out := map[string]int{}
	for _, r := range tableUnder(t, "Tree") {
		base := ""
		for _, m := range quoted.FindAllStringSubmatch(r[0], -1) {
			folder := strings.TrimSuffix(m[1], "/")
			if base == "" {
				base = folder
			} else if path.Dir(base) != "." {
				folder = path.Join(path.Dir(base), folder)
			}
			out[folder]++
		}
		for _, m := range quoted.FindAllStringSubmatch(strings.Join(r[1:], "|"), -1) {
			for _, name := range strings.Fields(m[1]) {
				top, _, inside := strings.Cut(name, "/")
				switch below, whole := strings.CutSuffix(name, "/"); {
				case inside && isFolder(top) && isFolder(name):
					out[path.Clean(name)]++
				case whole:
					out[path.Join(base, below)]++
				}
			}
		}
	}
	return out
}

func isFolder(name string) bool {
	info, err := os.Stat(filepath.Join("..", name))
	return err == nil && info.IsDir()
}

// TestMapOfImportsNamesEveryFolder holds the map of ARCHITECTURE.md to the tree: one place for each folder with Go code, and for the console,
// the deployment and the documents.
func TestMapOfImportsNamesEveryFolder(t *testing.T) {
	named := mapped(t)
	for folder, n := range named {
		if !isFolder(folder) {
			t.Errorf("ARCHITECTURE.md names the folder %s, which does not exist", folder)
		}
		if n > 1 {
			t.Errorf("ARCHITECTURE.md names the folder %s in %d places", folder, n)
		}
	}
	folders := map[string]bool{"web": true, "deploy": true, "docs": true}
	goFiles(t, func(name string, _ []byte) {
		if !strings.Contains(name, "/_") {
			folders[path.Dir(name)] = true
		}
	})
	for folder := range folders {
		if named[folder] == 0 {
			t.Errorf("ARCHITECTURE.md does not name the folder %s; add it to the table under Tree", folder)
		}
	}
}
