package chattemplate

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// filters are ours where gonja's differ from Jinja or can grow data, and gonja's for the rest. Each pays for its input.
func filters() map[string]exec.FilterFunction {
	all := map[string]exec.FilterFunction{
		"capitalize": onText(capitalize),
		"count":      length,
		"items": func(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
			return exec.AsValue(zip(pairs(in)))
		},
		"join":    joinFilter,
		"length":  length,
		"list":    listFilter,
		"lower":   onText(strings.ToLower),
		"replace": replaceFilter,
		"string":  onText(func(s string) string { return s }),
		"title":   onText(title),
		"tojson":  toJSON,
		"trim":    onText(func(s string) string { return strings.TrimFunc(s, isSpace) }),
		"upper":   onText(strings.ToUpper),
	}
	for _, name := range []string{
		"abs", "d", "default", "first", "float", "int", "last", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "safe",
		"select", "selectattr", "sort", "unique",
	} {
		all[name], _ = builtins.Filters.Get(name)
	}
	// These look at the elements of a list, not into them.
	for _, name := range []string{
		"count", "d", "default", "first", "items", "last", "length", "list", "map", "reject", "rejectattr", "reverse", "select", "selectattr",
	} {
		all[name] = charged(all[name], shallowSize)
	}
	for _, name := range []string{
		"abs", "capitalize", "float", "int", "join", "lower", "max", "min", "replace", "round", "safe", "sort", "string", "title", "tojson",
		"trim", "unique", "upper",
	} {
		all[name] = charged(all[name], sizeOf)
	}
	return all
}

func charged(f exec.FilterFunction, size func(v *exec.Value, limit, depth int) int) exec.FilterFunction {
	return func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
		b := budgetOf(e)
		if err := b.spend(size(in, b.work, 0)); err != nil {
			return b.fail(err)
		}
		for _, a := range args.Args {
			if err := b.spend(sizeOf(a, b.work, 0)); err != nil {
				return b.fail(err)
			}
		}
		return f(e, in, args)
	}
}

func shallowSize(v *exec.Value, _, _ int) int {
	if v != nil && !v.IsNil() && (v.IsString() || v.IsList() || v.IsDict()) {
		return 1 + v.Len()
	}
	return 1
}

func onText(f func(string) string) exec.FilterFunction {
	return func(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
		if in.IsError() {
			return in
		}
		return exec.AsValue(f(in.String()))
	}
}

func length(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
	if in.IsString() || in.IsList() || in.IsDict() {
		return exec.AsValue(in.Len())
	}
	return exec.AsValue(errors.New("only texts, lists and dictionaries have a length"))
}

func listFilter(e *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
	if in.IsDict() {
		keys, _ := pairs(in)
		return exec.AsValue(keys)
	}
	list, failed := elements(e, in)
	if failed != nil {
		return failed
	}
	return exec.AsValue(exec.ValuesList(list))
}

func joinFilter(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	sep := ""
	if len(args.Args) > 0 {
		sep = args.Args[0].String()
	}
	return joined(budgetOf(e), in, sep)
}

func replaceFilter(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	if len(args.Args) != 2 {
		return exec.AsValue(errors.New("replace takes two arguments"))
	}
	return replace(budgetOf(e), in.String(), args.Args[0].String(), args.Args[1].String())
}

// toJSON writes what Python's json.dumps does, without escaping other scripts, as Hugging Face renders.
func toJSON(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	indent := 0
	if v, ok := args.KwArgs["indent"]; ok && v.IsInteger() {
		indent = min(max(v.Integer(), 0), 16)
	}
	w := &jsonWriter{indent: indent, b: budgetOf(e)}
	if err := w.value(in, 0); err != nil {
		return exec.AsValue(err)
	}
	return exec.AsValue(w.out.String())
}

type jsonWriter struct {
	out    strings.Builder
	indent int
	b      *budget
}

func (w *jsonWriter) value(v *exec.Value, depth int) error {
	if err := w.b.spend(depth * w.indent); err != nil || depth > maxDepth {
		return errors.Join(err, errors.New("the value nests too deeply"))
	}
	switch {
	case v.IsNil():
		w.out.WriteString("null")
	case v.IsString():
		return w.text(v.String())
	case v.IsBool():
		w.out.WriteString(strconv.FormatBool(v.Bool()))
	case v.IsInteger():
		w.out.WriteString(strconv.Itoa(v.Integer()))
	case v.IsFloat():
		w.out.WriteString(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	case v.IsDict():
		keys, values := pairs(v)
		return w.list("{", "}", keys, values, depth)
	case v.IsList():
		return w.list("[", "]", nil, children(v), depth)
	default:
		return errors.New("the value has no JSON form")
	}
	return nil
}

func (w *jsonWriter) list(open, end string, keys, values []*exec.Value, depth int) error {
	w.out.WriteString(open)
	for i, v := range values {
		if i > 0 {
			w.out.WriteString(",")
		}
		w.line(depth+1, i > 0)
		if keys != nil {
			if err := w.text(keys[i].String()); err != nil {
				return err
			}
			w.out.WriteString(": ")
		}
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	if len(values) > 0 {
		w.line(depth, false)
	}
	w.out.WriteString(end)
	return nil
}

// line begins a line, or writes the space after a comma when there is no indentation.
func (w *jsonWriter) line(depth int, afterComma bool) {
	if w.indent > 0 {
		w.out.WriteString("\n" + strings.Repeat(" ", depth*w.indent))
	} else if afterComma {
		w.out.WriteString(" ")
	}
}

func (w *jsonWriter) text(s string) error {
	if err := w.b.spend(len(s)); err != nil {
		return err
	}
	var line strings.Builder
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	// Go escapes the two line separators; Python with ensure_ascii=False writes them as they are.
	out := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(line.String(), "\n"))
	w.out.WriteString(out)
	return nil
}

// tests are gonja's that say something about a value without running anything else.
func tests() *exec.TestSet {
	set := map[string]exec.TestFunction{}
	for _, name := range testNames() {
		run, _ := builtins.Tests.Get(name)
		set[name] = chargedTest(run)
	}
	return exec.NewTestSet(set)
}

func chargedTest(run exec.TestFunction) exec.TestFunction {
	f, _ := run.(func(*exec.Context, *exec.Value, *exec.VarArgs) (bool, error))
	return func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) (bool, error) {
		b := budgetOf(e)
		size := shallowSize(in, 0, 0)
		if len(args.Args) > 0 { // a comparison
			size = sizeOf(in, b.work, 0) + sizeOf(args.Args[0], b.work, 0)
		}
		if err := b.spend(size); err != nil {
			_ = b.fail(err) // remembered; a test returns its error
			return false, err
		}
		return f(e.Environment.Context, in, args)
	}
}

func testNames() []string {
	return []string{
		"boolean", "defined", "divisibleby", "eq", "equalto", "==", "even", "false", "float", "ge", ">=", "gt", "greaterthan", ">", "in",
		"integer", "iterable", "le", "<=", "lt", "lessthan", "<", "mapping", "ne", "!=", "none", "number", "odd", "sequence", "string",
		"true", "undefined",
	}
}

func isTest(name string) bool { return slices.Contains(testNames(), name) }
