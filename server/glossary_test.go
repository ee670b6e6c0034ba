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
	"adopt": "recover", "adopted": "recovered", "adoption": "recovery", "adopts": "recovers", "along": "with", "aside": "side text, or claimed",
	"asides": "side texts", "booked": "billed", "calm": "default", "companyless": "without a company", "departure": "outgoing", "facet": "attribute set",
	"facets": "attribute sets", "fed": "computed, or inputs", "foretell": "estimate", "harvest": "sample outputs", "hire": "spawn",
	"inforce": "active, or effective", "intake": "ingest", "letin": "admit", "misfit": "violation", "oblige": "forced", "outlet": "output",
	"patience": "timeout", "scouted": "prepared", "shelf": "collection index", "shelves": "collection indexes", "slab": "aligned",
	"standing": "share state", "standings": "share states", "surrender": "take free",
	"vault": "pseudonym store, content store, key store or long-term store", "vaulted": "kept long-term", "vaults": "stores",
	"warrant": "signature", "warranted": "signed",
}

// retiredThere are ordinary words that one folder, and what is below it, used in a sense of its own.
var retiredThere = []struct{ folder, words, instead string }{
	{"audit", "pin pins pinned", "cache, or checkpoint cache"},
	{"audit", "way", "link, or network"},
	{"billing", "slice slices", "budget lease"},
	{"governance", "quiet", "discard"},
	{"gateway", "quiet", "discard"},
	{"rag", "piece pieces", "chunk"},
	{"server/adminapi", "look looks looked", "evaluation, or request"},
	{"workflows", "look looks looked", "evaluation"},
	{"workflows", "quiet", "silent"},
	{"web/src", "look looks looked seen", "evaluation, request or preview"},
}

// retiredInText are those of them that mean nothing else in a sentence: comments and texts for people must not have them either.
var retiredInText = []string{
	"adopt", "adopted", "adoption", "adopts", "booked", "facet", "facets", "foretell", "misfit", "shelf", "shelves", "vault", "vaults", "warrant",
	"warranted",
}

// retiredChinese are terms that differ from the Chinese column of the glossary.
var retiredChinese = map[string]string{
	"保管库": "长期留存库", "保险库": "假名库", "价目表": "价格表", "价格簿": "价格表", "化名": "假名", "回单": "回执", "对帐": "对账",
	"法律保留": "法律保全", "见证人": "见证方", "证据袋": "证据包", "诉讼保留": "法律保全", "金丝雀": "灰度发布", "预占": "预留", "首字超时": "首 token 超时",
}

// retiredStays are names that stay, and why.
var retiredStays = map[string]string{
	"CodeVaultFull":        "an error code",
	"CodeVaultUnavailable": "an error code",
	"Facet":                "a column",
	"Look":                 "a field of openapi.yaml",
	"LookUpSubject":        "an operation of openapi.yaml",
	"LookPath":             "of os/exec",
	"Looks":                "a field of openapi.yaml, and of recorded workflows",
	"Vault":                "the key governance.vault of the configuration",
	"WitnessStanding":      "a schema of openapi.yaml",
	"adoptCommand":         "the command sluice audit adopt",
	"facetsVersion":        "of a released migration, named for its table",
	"fillFacets":           "of a released migration, named for its table",
	"witnessStandings":     "a schema of openapi.yaml",
}

// retiredFolders are not held to the list: a released migration is never edited.
var retiredFolders = []string{"migrations/facets"}

// camelWords are the words of an identifier: a run of capitals is one.
var camelWords = regexp.MustCompile(`[A-Z]+(?:[^A-Za-z]|$)|[A-Z]?[a-z]+|[A-Z]+`)

// retiredIn returns the first retired word of an identifier in a folder, and what replaces it.
func retiredIn(folder, identifier string) (word, instead string) {
	words := camelWords.FindAllString(identifier, -1)
	for i, w := range words {
		for _, w := range []string{w, w + strings.Join(words[i+1:min(i+2, len(words))], "")} { // "in force" is two
			w = strings.ToLower(w)
			if instead := retired[w]; instead != "" {
				return w, instead
			}
			for _, r := range retiredThere {
				if (folder == r.folder || strings.HasPrefix(folder, r.folder+"/")) && slices.Contains(strings.Fields(r.words), w) {
					return w, r.instead
				}
			}
		}
	}
	return "", ""
}

// files calls visit with every file below a folder of the repository, without what was downloaded, built or is test data. Golden files count.
func files(t *testing.T, folder string, visit func(name string, source []byte)) {
	t.Helper()
	if testing.Short() { // as sources does
		t.Skip("reads the whole source")
	}
	root := os.DirFS("..")
	err := fs.WalkDir(root, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if base == "node_modules" || base == "dist" || base == "testdata" && path.Dir(name) != "server/cmd/sluice" || strings.HasPrefix(base, ".") && base != "." {
				return fs.SkipDir
			}
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err == nil {
			visit(name, source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goFiles calls visit with every Go file of the repository, tests and generators included.
func goFiles(t *testing.T, visit func(name string, source []byte)) {
	t.Helper()
	n := 0
	files(t, ".", func(name string, source []byte) {
		if path.Ext(name) == ".go" && !strings.HasSuffix(name, ".gen.go") {
			n++
			visit(name, source)
		}
	})
	if n < 500 {
		t.Fatalf("only %d Go files found", n)
	}
}

// textWords finds the words that no text may have.
var textWords = regexp.MustCompile(`(?i)\b(` + strings.Join(retiredInText, "|") + `)\b`)

// quotedNames are what a text may quote: code, keys, and the command whose name stays.
var quotedNames = regexp.MustCompile("`[^`]*`" + `|\b\w+(\.\w+)+|audit adopt\b|help for adopt\b|^\s+adopt\b|https?://\S+`)

// retiredIdentifiers returns the identifiers of a Go file that have a retired word, by their first place.
func retiredIdentifiers(folder string, tree *ast.File) map[string]token.Pos {
	imported := map[string]bool{}
	for _, im := range tree.Imports {
		imported[path.Base(strings.Trim(im.Path.Value, `"`))] = true // slices is a package, too
	}
	out := map[string]token.Pos{}
	ast.Inspect(tree, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !imported[id.Name] {
			if w, _ := retiredIn(folder, id.Name); w != "" && out[id.Name] == token.NoPos {
				out[id.Name] = id.Pos()
			}
		}
		return true
	})
	return out
}

func TestRetiredWords(t *testing.T) {
	stays := map[string]bool{}
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
			if w := textWords.FindString(quotedNames.ReplaceAllString(group.Text(), "")); w != "" {
				t.Errorf("%s: the word %q is retired; write %s", set.Position(group.Pos()), w, retired[strings.ToLower(w)])
			}
		}
		for id, at := range retiredIdentifiers(path.Dir(name), tree) {
			if retiredStays[id] != "" {
				stays[id] = true
				continue
			}
			w, instead := retiredIn(path.Dir(name), id)
			t.Errorf("%s: %s has the retired word %q; the glossary says %s", set.Position(at), id, w, instead)
		}
	})
	for id, why := range retiredStays {
		if !stays[id] {
			t.Errorf("%s (%s) is nowhere any more: take it off the list of what stays", id, why)
		}
	}
}

// TestRetiredWordsOfTheConsole reads what the console calls things. What stands behind a dot, stands before a colon or has an underscore is a
// field of the API.
func TestRetiredWordsOfTheConsole(t *testing.T) {
	noise := regexp.MustCompile("(?s)/\\*.*?\\*/|//[^\n]*|'(?:[^'\\\\\n]|\\\\.)*'|\"(?:[^\"\\\\\n]|\\\\.)*\"")
	identifier := regexp.MustCompile(`\.?[A-Za-z_$][\w$]*\??:?`)
	files(t, "web/src", func(name string, source []byte) {
		if ext := path.Ext(name); ext != ".ts" && ext != ".tsx" || name == "web/src/api/schema.d.ts" {
			return
		}
		for _, id := range identifier.FindAllString(string(noise.ReplaceAll(source, []byte("''"))), -1) {
			if strings.HasPrefix(id, ".") || strings.HasSuffix(id, ":") || strings.Contains(id, "_") || id == "Outlet" { // of react-router
				continue
			}
			if w, instead := retiredIn(path.Dir(name), id); w != "" {
				t.Errorf("%s: %s has the retired word %q; the glossary says %s", name, id, w, instead)
			}
		}
	})
}

// TestRetiredWordsInTexts reads what people read: catalogues, guides, decisions, pictures, help, and what the API and the configuration say
// of themselves. The key of a line is a name, and names stay.
func TestRetiredWordsInTexts(t *testing.T) {
	key := regexp.MustCompile(`^\s*"?[\w.]+"?:`)
	texts := 0
	files(t, ".", func(name string, source []byte) {
		switch path.Ext(name) {
		case ".md", ".svg", ".golden":
		case ".txt":
			if path.Dir(name) != "internal/message" {
				return
			}
		case ".json":
			if path.Dir(name) != "web/src/locales" {
				return
			}
		case ".yaml":
			if dir := path.Dir(name); dir != "server/adminapi" && dir != "server/config" && dir != "deploy" && dir != "governance" {
				return
			}
		default:
			return
		}
		texts++
		for i, line := range bytes.Split(source, []byte("\n")) {
			line = quotedNames.ReplaceAll(key.ReplaceAll(line, nil), nil)
			if w := textWords.Find(line); w != nil {
				t.Errorf("%s:%d: the word %q is retired; write %s", name, i+1, w, retired[strings.ToLower(string(w))])
			}
			for w, instead := range retiredChinese {
				if bytes.Contains(line, []byte(w)) {
					t.Errorf("%s:%d: %s is retired; the glossary says %s", name, i+1, w, instead)
				}
			}
		}
	})
	if texts < 40 {
		t.Errorf("only %d texts were found: the test looks in the wrong place", texts)
	}
}

// TestRetiredWordsAreFound holds the search to words that it must find, and to some that mean something else.
func TestRetiredWordsAreFound(t *testing.T) {
	for _, c := range []struct{ folder, identifier, want string }{
		{"gateway", "newVaultFor", "vault"},
		{"web/src/pages", "useInForce", "inforce"},
		{"audit/seal", "pinNewest", "pin"},
		{"audit", "way", "way"},
		{"rag/chunk", "piece", "piece"},
		{"workflows", "lastLook", "look"},
		{"billing", "takeSlice", "slice"},
		{"engine/tokenizer", "piece", ""},
		{"auditor", "pin", ""},
		{"internal/testpython", "pins", ""},
		{"gateway", "lookup", ""},
		{"audit", "away", ""},
	} {
		if w, _ := retiredIn(c.folder, c.identifier); w != c.want {
			t.Errorf("%s in %s: found %q, want %q", c.identifier, c.folder, w, c.want)
		}
	}
	for text, want := range map[string]string{
		"kept in the vault": "vault", "raise governance.vault.per_tenant": "", "run sluice audit adopt DIR": "", "the `vault` kind": "", "was adopted": "adopted",
	} {
		if w := textWords.FindString(quotedNames.ReplaceAllString(text, "")); w != want {
			t.Errorf("%q: found %q, want %q", text, w, want)
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
	if len(rows) > 42 {
		t.Errorf("%d terms, at most 42: the product needs no more words of its own", len(rows))
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
