package server_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCommentsLinkToWhatExists: a link of a comment, such as [audit.Log.Append], leads to a name of this package or of another one of the project.
func TestCommentsLinkToWhatExists(t *testing.T) {
	t.Parallel()
	type comment struct{ dir, at, text string }
	var comments []comment
	names := map[string]map[string]bool{} // by folder: T, T.M and T.F
	folders := map[string][]string{}      // by the name of the package
	fset := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), "_") || d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if names[dir] == nil {
			names[dir] = map[string]bool{}
			folders[strings.TrimSuffix(file.Name.Name, "_test")] = append(folders[strings.TrimSuffix(file.Name.Name, "_test")], dir)
		}
		for _, decl := range file.Decls {
			declared(decl, names[dir])
		}
		for _, group := range file.Comments {
			if !ast.IsGenerated(file) {
				comments = append(comments, comment{dir, fset.Position(group.Pos()).String(), group.Text()})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// leads reports whether a folder has a name; that of a method or field may be one of an embedded type.
	leads := func(dir, name string) bool {
		outer, _, inner := strings.Cut(name, ".")
		return names[dir][name] || inner && names[dir][outer+".*"]
	}
	link := regexp.MustCompile(`\[((?:[a-z]\w*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?)\]`)
	n := 0
	for _, c := range comments {
		for _, m := range link.FindAllStringSubmatch(c.text, -1) {
			name := m[1]
			if strings.ToUpper(name) == name {
				continue // a mark, such as [DONE]
			}
			n++
			if leads(c.dir, name) {
				continue
			}
			known, found := false, false
			if pkg, rest, ok := strings.Cut(name, "."); ok && strings.ToLower(pkg[:1]) == pkg[:1] {
				for _, dir := range folders[pkg] {
					known, found = true, found || leads(dir, rest)
				}
				if !known {
					continue // of the standard library, or a module
				}
			}
			if !found {
				t.Errorf("%s: [%s] leads nowhere", c.at, name)
			}
		}
	}
	if n < 300 {
		t.Errorf("only %d links were found", n)
	}
}

// declared adds what a declaration names. An embedded type is T.*, since its own names are not looked up.
func declared(decl ast.Decl, to map[string]bool) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		to[d.Name.Name] = true
		if d.Recv == nil {
			return
		}
		of := d.Recv.List[0].Type
		if p, ok := of.(*ast.StarExpr); ok {
			of = p.X
		}
		if g, ok := of.(*ast.IndexExpr); ok {
			of = g.X
		}
		if id, ok := of.(*ast.Ident); ok {
			to[id.Name+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					to[name.Name] = true
				}
			case *ast.TypeSpec:
				to[s.Name.Name] = true
				ast.Inspect(s.Type, func(node ast.Node) bool {
					if f, ok := node.(*ast.Field); ok {
						for _, name := range f.Names {
							to[s.Name.Name+"."+name.Name] = true
						}
						if len(f.Names) == 0 {
							to[s.Name.Name+".*"] = true
						}
					}
					return true
				})
			}
		}
	}
}
