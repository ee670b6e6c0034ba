package gateway

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/fault"
)

// tableRow is a row of the table in the comment of the package.
type tableRow struct {
	name     string
	refusals []string // statuses, ordered
}

// stepTable reads the table; the row with the number n is at n-1.
func stepTable(t *testing.T) []tableRow {
	t.Helper()
	kinds := map[string]fault.Kind{}
	for k := fault.Internal; k <= fault.Method; k++ {
		name := ""
		for word := range strings.SplitSeq(k.String(), "_") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		kinds[name] = k
	}
	text := source(t, "doc.go")
	table := text[strings.Index(text, "//\t 1"):strings.Index(text, "//\n// Each step makes")]
	var out []tableRow
	number := regexp.MustCompile(`^//\t([ \d]\d)  (\w+) `)
	for line := range strings.Lines(table) {
		if m := number.FindStringSubmatch(line); m != nil {
			if out = append(out, tableRow{name: m[2]}); strings.TrimSpace(m[1]) != strconv.Itoa(len(out)) {
				t.Errorf("step %s has the number %s, and is row %d", m[2], m[1], len(out))
			}
		}
		cut := strings.LastIndex(strings.TrimSpace(line), "   ") // of the two last columns
		if cut < 0 {
			continue
		}
		row := &out[len(out)-1]
		for _, word := range strings.FieldsFunc(line[cut:], func(r rune) bool { return strings.ContainsRune(", \n", r) }) {
			if k, ok := kinds[word]; ok {
				row.refusals = append(row.refusals, strconv.Itoa(k.Status()))
			}
		}
	}
	for i := range out {
		slices.Sort(out[i].refusals)
	}
	return out
}

func source(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stepsInCode reads the package: what its steps are called, and which each function takes, in the order of the text.
func stepsInCode(t *testing.T) (names, methods map[string]string, taken map[string][]string) {
	t.Helper()
	names, methods, taken = map[string]string{}, map[string]string{}, map[string][]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
				if lit, ok := v.Values[0].(*ast.CompositeLit); ok && isStep(lit.Type) {
					names[v.Names[0].Name] = strings.Trim(lit.Elts[0].(*ast.BasicLit).Value, `"`)
					methods[lit.Elts[1].(*ast.SelectorExpr).Sel.Name] = v.Names[0].Name
				}
			}
			return true
		})
	}
	for _, f := range parsed {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				var given []ast.Expr
				switch name := sel.Sel.Name; {
				case name == "newRun":
					taken[fn.Name.Name] = append(taken[fn.Name.Name], "newRun")
				case name == "runSteps":
					given = call.Args[1:]
				case name == "runEach":
					if lit, ok := call.Args[1].(*ast.CompositeLit); ok {
						given = lit.Elts
					} else if fn.Name.Name != "runSteps" {
						t.Errorf("%s takes steps that nobody can read", fn.Name.Name)
					}
				case methods[name] != "" && isRun(sel.X):
					taken[fn.Name.Name] = append(taken[fn.Name.Name], "method "+name)
				}
				for _, g := range given {
					taken[fn.Name.Name] = append(taken[fn.Name.Name], g.(*ast.Ident).Name)
				}
				return true
			})
		}
	}
	return names, methods, taken
}

func isStep(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "step"
}

func isRun(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "r"
}

// TestStepTable: the table of the package comment is the only one. Whatever in the package takes steps takes them in that order and by these names, and
// whoever makes a run takes some.
func TestStepTable(t *testing.T) {
	table := stepTable(t)
	if len(table) != 14 {
		t.Fatalf("the table has %d steps", len(table))
	}
	number := map[string]int{"authorize": 2} // it is authenticate, taken again, and the end of decode
	for i, row := range table {
		number[row.name] = i + 1
	}
	names, _, taken := stepsInCode(t)
	for v, name := range names {
		if number[name] == 0 {
			t.Errorf("the step %s is called %q, which the table does not know", v, name)
		}
	}
	for fn, steps := range taken {
		if slices.Equal(steps, []string{"newRun"}) {
			t.Errorf("%s makes a run and takes no step", fn)
		}
		at := 0
		for _, s := range steps {
			if s == "newRun" {
				continue
			}
			if method, ok := strings.CutPrefix(s, "method "); ok { // a step that another one takes by itself
				if fn+" "+method != "authorize authenticate" && fn+" "+method != "retrieve mask" {
					t.Errorf("%s calls the step %s, where nobody times it", fn, method)
				}
				continue
			}
			if n := number[names[s]]; n <= at {
				t.Errorf("%s takes %s out of the order of the table", fn, s)
			} else {
				at = n
			}
		}
	}
	want := []string{"newRun", "authorize", "takeSlot", "admit", "pickRoute", "retrieve", "maskTexts", "reserve", "record"}
	if !slices.Equal(taken["Chat"], want) {
		t.Errorf("a chat takes %q", taken["Chat"])
	}
	for _, fn := range []string{"Chat", "Embed", "Score", "Moderate", "read", "Authenticate", "Ingest", "embedQuestion", "Models"} {
		if len(taken[fn]) == 0 {
			t.Errorf("%s takes no step, or is not read", fn)
		}
	}
}

// TestStepTimes: a step's time goes into one field of the record, and Server-Timing and the comment of the package call it by the name of that field.
func TestStepTimes(t *testing.T) {
	table := stepTable(t)
	said := regexp.MustCompile(`(?s)under these names: (.*?)\.\n`).FindStringSubmatch(source(t, "doc.go"))
	if said == nil {
		t.Fatal("the comment says no names")
	}
	numbers := map[string][]int{} // of steps, by the name of their time
	var order []string
	for _, m := range regexp.MustCompile(`(\w+) \(([\d, ]+)\)`).FindAllStringSubmatch(strings.ReplaceAll(said[1], "\n// ", " "), -1) {
		for n := range strings.SplitSeq(m[2], ", ") {
			i, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			numbers[m[1]] = append(numbers[m[1]], i)
		}
		order = append(order, m[1])
	}
	timed := map[string]bool{}
	for _, s := range []step{authenticate, authorize, takeSlot, admit, pickRoute, retrieve, readDocument, maskTexts, reserve, record} {
		var steps audit.Steps
		*s.took(&steps) = 1
		v, name := reflect.ValueOf(steps), ""
		for i := range v.NumField() {
			if v.Field(i).Int() == 1 {
				name = v.Type().Field(i).Tag.Get("json")
			}
		}
		timed[name] = true
		row := 1 + slices.IndexFunc(table, func(r tableRow) bool { return r.name == s.name || s.name == "authorize" && r.name == "decode" })
		if !slices.Contains(numbers[name], row) {
			t.Errorf("the time of %s, step %d, is called %q; the comment says that of %v", s.name, row, name, numbers[name])
		}
	}
	if !maps.Equal(timed, setOf(order)) {
		t.Errorf("steps have the times %v, the comment says %v", timed, order)
	}
	var header []string
	text := source(t, "../server/httpapi/render.go")
	for _, m := range regexp.MustCompile(`\{"(\w+)", s\.(\w+)`).FindAllStringSubmatch(text[strings.Index(text, "func timing("):], -1) {
		if f, ok := reflect.TypeFor[audit.Steps]().FieldByName(m[2]); !ok || f.Tag.Get("json") != m[1] {
			t.Errorf("Server-Timing calls %s %q", m[2], m[1])
		}
		header = append(header, m[1])
	}
	if !slices.Equal(header, order) {
		t.Errorf("Server-Timing lists %v, the comment %v", header, order)
	}
}

func setOf(names []string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// TestRequestPathPicture: the picture shows every step with its number, its name and the statuses of its refusals.
func TestRequestPathPicture(t *testing.T) {
	table := stepTable(t)
	picture := source(t, "../docs/request-path.svg")
	boxes := regexp.MustCompile(`y="27">(\d+)(?:–(\d+))? ([^<]+)</text><text class="zh"[^>]*>[^<]+</text>(?:<text class="side"[^>]*>([^<]+)<)?`).FindAllStringSubmatch(picture, -1)
	next := 1
	for _, b := range boxes {
		var names, statuses []string
		from, _ := strconv.Atoi(b[1])
		to := from
		if b[2] != "" {
			to, _ = strconv.Atoi(b[2])
		}
		if from != next && (from != 6 || next != 5) { // 5 is none yet
			t.Fatalf("the box %q follows step %d", b[3], next-1)
		}
		for _, row := range table[from-1 : to] {
			names, statuses = append(names, row.name), append(statuses, row.refusals...)
		}
		slices.Sort(statuses)
		if label, _, _ := strings.Cut(b[3], ":"); label != strings.Join(names, ", ") {
			t.Errorf("the box of steps %d to %d is %q, the table has %q", from, to, b[3], names)
		}
		if shown, want := fmt.Sprint(regexp.MustCompile(`\d+`).FindAllString(b[4], -1)), fmt.Sprint(slices.Compact(statuses)); shown != want {
			t.Errorf("%q shows the statuses %s, the table has %s", b[3], shown, want)
		}
		next = to + 1
	}
	if next != len(table)+1 {
		t.Errorf("the picture ends before step %d", next)
	}
}

// TestArchitectureOfThePath: what ARCHITECTURE.md says of the path has the table's numbers.
func TestArchitectureOfThePath(t *testing.T) {
	_, text, _ := strings.Cut(source(t, "../ARCHITECTURE.md"), "\n## The request path\n")
	text, _, _ = strings.Cut(text, "\n## ")
	if want := fmt.Sprintf("no SQL between steps 1 and %d ", len(stepTable(t))); !strings.Contains(text, want) {
		t.Errorf("it does not say %q", want)
	}
	for _, link := range []string{"docs/request-path.svg", "gateway/doc.go"} {
		if !strings.Contains(text, "("+link+")") {
			t.Errorf("it does not lead to %s", link)
		}
	}
}
