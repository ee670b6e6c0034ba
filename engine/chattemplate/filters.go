package chattemplate

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// filters are ours where gonja's differ from Jinja or can grow data, and gonja's for the rest. Each pays for its input.
func filters() map[string]exec.FilterFunction {
	all := map[string]exec.FilterFunction{
		"capitalize": mapping(capitalize),
		"count":      length,
		"dictsort":   dictSort,
		"items": func(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
			return exec.AsValue(zip(pairs(in)))
		},
		"join":    joinFilter,
		"length":  length,
		"list":    listFilter,
		"lower":   mapping(strings.ToLower),
		"replace": replaceFilter,
		"string":  onText(func(_ *budget, s string) string { return s }),
		"title":   mapping(title),
		"tojson":  toJSON,
		"trim":    onText(func(b *budget, s string) string { return trim(b.text(s), isSpace, true, true) }),
		"upper":   mapping(strings.ToUpper),
	}
	for _, name := range []string{
		"abs", "d", "default", "first", "float", "int", "last", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "safe",
		"select", "selectattr", "sort", "unique",
	} {
		all[name], _ = builtins.Filters.Get(name)
	}
	for _, name := range []string{"float", "int"} {
		all[name] = onBare(all[name])
	}
	for _, name := range []string{"first", "last", "reverse"} {
		all[name] = onElements(all[name])
	}
	// These look at the elements of a list, not into them.
	for _, name := range []string{
		"count", "d", "default", "first", "items", "last", "length", "list", "map", "reject", "rejectattr", "reverse", "select", "selectattr",
	} {
		all[name] = charged(all[name], shallowSize)
	}
	for _, name := range []string{"max", "min", "sort", "unique"} {
		all[name] = charged(all[name], compareCost)
	}
	for _, name := range []string{
		"abs", "capitalize", "float", "int", "join", "lower", "max", "min", "replace", "round", "safe", "sort", "string", "title", "tojson",
		"trim", "unique", "upper", "dictsort",
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

func onText(f func(b *budget, s string) string) exec.FilterFunction {
	return func(e *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
		if in.IsError() {
			return in
		}
		return exec.AsValue(f(budgetOf(e), in.String()))
	}
}

// mapping is a filter that changes a text character by character.
func mapping(f func(string) string) exec.FilterFunction {
	return onText(func(b *budget, s string) string { return b.mapped(s, f) })
}

// onBare is gonja's filter on a value without marks.
func onBare(f exec.FilterFunction) exec.FilterFunction {
	return func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
		return f(e, budgetOf(e).bareValue(in), args)
	}
}

// onElements is gonja's filter, for which a text is the list of its characters.
func onElements(f exec.FilterFunction) exec.FilterFunction {
	return func(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
		if !in.IsString() || budgetOf(e).mark == "" {
			return f(e, in, args)
		}
		list, failed := elements(e, in)
		if failed != nil {
			return failed
		}
		return f(e, exec.AsValue(exec.ValuesList(list)), args)
	}
}

func length(e *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
	if in.IsString() {
		return exec.AsValue(utf8.RuneCountInString(budgetOf(e).bare(in.String())))
	}
	if in.IsList() || in.IsDict() {
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

// dictSort is the pairs of a dictionary, ordered by key whatever its case.
func dictSort(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	if !in.IsDict() || len(args.Args)+len(args.KwArgs) > 0 {
		return exec.AsValue(errors.New("dictsort takes a dictionary and no arguments"))
	}
	b := budgetOf(e)
	list := zip(pairs(in))
	name := func(pair *exec.Value) string {
		return strings.ToLower(b.bare(pair.Interface().(exec.ValuesList)[0].String()))
	}
	slices.SortStableFunc(list, func(x, y *exec.Value) int { return cmp.Compare(name(x), name(y)) })
	return exec.AsValue(list)
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
	b := budgetOf(e)
	return replace(b, b.text(in.String()), b.bare(args.Args[0].String()), args.Args[1].String())
}

// toJSON writes what Python's json.dumps does, without escaping other scripts, as Hugging Face renders.
func toJSON(e *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	w := &jsonWriter{b: budgetOf(e)}
	if v, ok := args.KwArgs["indent"]; ok && v.IsInteger() {
		w.indent = min(max(v.Integer(), 0), 16)
	}
	if v, ok := args.KwArgs["sort_keys"]; ok {
		w.sorted = v.IsTrue()
	}
	if v, ok := args.KwArgs["ensure_ascii"]; ok {
		w.ascii = v.IsTrue()
	}
	w.comma, w.colon = ", ", ": "
	if w.indent > 0 {
		w.comma = ","
	}
	if v, ok := args.KwArgs["separators"]; ok {
		if parts := children(v); len(parts) == 2 {
			w.comma, w.colon = parts[0].String(), parts[1].String()
		}
	}
	if err := w.value(in, 0); err != nil {
		return exec.AsValue(err)
	}
	if err := w.b.spend(w.out.Len()); err != nil {
		return w.b.fail(err)
	}
	return exec.AsValue(w.b.cover(w.out.String())) // as a whole: an escape has tokens of its own
}

// tests are gonja's that say something about a value without running anything else.
func tests() *exec.TestSet {
	set := map[string]exec.TestFunction{}
	for _, name := range testNames() {
		run, _ := builtins.Tests.Get(name)
		set[name] = chargedTest(run, comparisonTest(name))
	}
	return exec.NewTestSet(set)
}

func chargedTest(run exec.TestFunction, ours func(b *budget, x, y *exec.Value) (bool, error)) exec.TestFunction {
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
		if ours != nil {
			if len(args.Args) != 1 {
				return false, errors.New("a comparison takes one argument")
			}
			same, err := ours(b, in, args.Args[0])
			if err != nil {
				_ = b.fail(err)
			}
			return same, err
		}
		bare := &exec.VarArgs{KwArgs: args.KwArgs}
		for _, a := range args.Args {
			bare.Args = append(bare.Args, b.bareValue(a))
		}
		return f(e.Environment.Context, b.bareValue(in), bare)
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
