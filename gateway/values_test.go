package gateway

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stages are the types of the values that steps make.
var stages = []string{"Call", "caller", "slot", "admission", "sources", "masked", "maskedPassages", "prompt", "receipt"}

// TestStepsMakeValues: each field of a run is written by one function, and nobody reaches into a value that an earlier step has made: neither
// through the run nor by a pointer. The answer is moved on by its own methods alone.
func TestStepsMakeValues(t *testing.T) {
	files, info := checkedPackage(t)
	writers, constructors := map[string][]string{}, map[string]bool{}
	wrote := func(field, fn string) {
		if !slices.Contains(writers[field], fn) {
			writers[field] = append(writers[field], fn)
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name, of := fn.Name.Name, ""
			if fn.Recv != nil {
				of = typeName(info, fn.Recv.List[0].Type)
			}
			written := func(e ast.Expr, what string) {
				for first := true; e != nil; first = false {
					switch x := e.(type) {
					case *ast.SelectorExpr:
						holder, pointer := named(info, x.X)
						switch {
						case x.Sel.Name == "authenticated": // hands the memory of one run to the next
							return
						case holder == "run" || holder == "childCall" && inRun(info, x):
							wrote(x.Sel.Name, name)
							return
						case pointer && slices.Contains(stages, holder):
							t.Errorf("%s %s a field of a *%s, which somebody else has made", name, what, holder)
							return
						case pointer && holder == "answer" && of != "answer":
							t.Errorf("%s %s a field of an answer, which moves itself on", name, what)
						}
						e = x.X
					case *ast.IndexExpr:
						e = x.X
					case *ast.ParenExpr:
						e = x.X
					case *ast.StarExpr:
						if holder, _ := named(info, x.X); first && name != "newRun" && (holder == "run" || slices.Contains(stages, holder)) {
							t.Errorf("%s %s a whole %s", name, what, holder)
						}
						e = x.X
					default:
						return
					}
				}
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, e := range n.Lhs {
							written(e, "writes")
						}
					}
				case *ast.IncDecStmt:
					written(n.X, "writes")
				case *ast.UnaryExpr:
					if _, literal := n.X.(*ast.CompositeLit); n.Op == token.AND && !literal && of != "Call" { // the texts of a clone
						written(n.X, "gives away")
					}
				case *ast.RangeStmt:
					if n.Tok == token.ASSIGN {
						written(n.Key, "writes")
						written(n.Value, "writes")
					}
				case *ast.CompositeLit:
					if typeName(info, n.Type) == "run" {
						constructors[name] = true
					}
				}
				return true
			})
		}
	}
	want := map[string]string{
		"caller": "authenticate", "slot": "limit", "admission": "admit", "choice": "settlePlace route", "markable": "route", "demand": "route", "sources": "retrieve", "document": "read", "decoded": "decode", "masked": "mask",
		"examined": "examine", "received": "examine mask", "prompt": "reserve", "receipt": "record", "outcome": "finish settle", "steps": "runEach",
	}
	for field, by := range writers {
		if strings.Join(by, " ") != want[field] {
			t.Errorf("%s is written by %q, want %q", field, by, want[field])
		}
		delete(want, field)
	}
	if len(want) > 0 {
		t.Errorf("nobody writes %v, or this test does not see it", want)
	}
	if got := slices.Sorted(maps.Keys(constructors)); !slices.Equal(got, []string{"alone", "newChildCall", "newRun"}) {
		t.Errorf("runs are made by %q", got)
	}
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// checkedPackage returns the files of this package with the types that are its own. What comes from elsewhere has no type.
func checkedPackage(t *testing.T) ([]*ast.File, *types.Info) {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set, files := token.NewFileSet(), []*ast.File(nil)
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	_, _ = (&types.Config{Importer: noImports{}, Error: func(error) {}}).Check("gateway", set, files, info)
	return files, info
}

// named returns the name of an expression's type, and whether it is a pointer to it; "" for a type from elsewhere.
func named(info *types.Info, e ast.Expr) (name string, pointer bool) {
	typ := info.TypeOf(e)
	if p, ok := typ.(*types.Pointer); ok {
		typ, pointer = p.Elem(), true
	}
	if n, ok := typ.(*types.Named); ok {
		return n.Obj().Name(), pointer
	}
	return "", pointer
}

func typeName(info *types.Info, e ast.Expr) string {
	if e == nil {
		return ""
	}
	name, _ := named(info, e)
	return name
}

// inRun reports whether what is selected of a childCall belongs to its run.
func inRun(info *types.Info, x *ast.SelectorExpr) bool {
	typ := info.TypeOf(x.X)
	if p, ok := typ.(*types.Pointer); ok {
		typ = p.Elem()
	}
	fields := typ.Underlying().(*types.Struct)
	for i := range fields.NumFields() {
		if f := fields.Field(i); !f.Embedded() && f.Name() == x.Sel.Name {
			return false
		}
	}
	return true
}
