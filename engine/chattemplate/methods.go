package chattemplate

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// method is receiver.name(args…): the receiver and the name come first in args.
func method(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	receiver, name := args.Args[0], args.Args[1].String()
	rest := &exec.VarArgs{Args: args.Args[2:], KwArgs: args.KwArgs}
	b := budgetOf(e)
	if err := b.spend(shallowSize(receiver, 0, 0)); err != nil {
		return b.fail(err)
	}
	for _, a := range rest.Args {
		if err := b.spend(sizeOf(a, b.work, 0)); err != nil {
			return b.fail(err)
		}
	}
	if receiver.IsString() {
		return stringMethod(b, receiver.String(), name, rest)
	}
	switch x := receiver.Interface().(type) {
	case map[string]any, *exec.Dict:
		return dictMethod(receiver, name, rest)
	case exec.AttributeGetter: // loop.cycle and loop.changed
		found, _ := x.GetAttribute(name)
		if run, ok := found.Interface().(func(*exec.VarArgs) *exec.Value); ok {
			return run(rest)
		}
	}
	return exec.AsValue(errors.New("there is no such method"))
}

func dictMethod(receiver *exec.Value, name string, args *exec.VarArgs) *exec.Value {
	keys, values := pairs(receiver)
	switch name {
	case "get":
		if len(args.Args) == 0 {
			break
		}
		if found := field(receiver, args.Args[0].String()); !found.IsNil() || len(args.Args) < 2 {
			return found
		}
		return args.Args[1]
	case "keys":
		return exec.AsValue(keys)
	case "values":
		return exec.AsValue(values)
	case "items":
		return exec.AsValue(zip(keys, values))
	}
	return exec.AsValue(errors.New("there is no such method of a dictionary"))
}

// pairs returns the keys and values of a dictionary: in order of a literal, sorted for others.
func pairs(v *exec.Value) (keys, values exec.ValuesList) {
	switch x := v.Interface().(type) {
	case *exec.Dict:
		for _, p := range x.Pairs {
			keys, values = append(keys, p.Key), append(values, p.Value)
		}
	case map[string]any:
		names := make([]string, 0, len(x))
		for k := range x {
			names = append(names, k)
		}
		slices.Sort(names)
		for _, k := range names {
			keys, values = append(keys, exec.AsValue(k)), append(values, value(x[k]))
		}
	}
	return keys, values
}

func zip(keys, values exec.ValuesList) exec.ValuesList {
	out := exec.ValuesList{}
	for i := range keys {
		out = append(out, exec.AsValue(exec.ValuesList{keys[i], values[i]}))
	}
	return out
}

// stringMethod follows Python's str.
func stringMethod(b *budget, s, name string, args *exec.VarArgs) *exec.Value {
	arg := func(i int) string {
		if i < len(args.Args) && args.Args[i].IsString() {
			return args.Args[i].String()
		}
		return ""
	}
	switch name {
	case "strip":
		return exec.AsValue(strings.TrimFunc(s, cut(args)))
	case "lstrip":
		return exec.AsValue(strings.TrimLeftFunc(s, cut(args)))
	case "rstrip":
		return exec.AsValue(strings.TrimRightFunc(s, cut(args)))
	case "upper":
		return exec.AsValue(strings.ToUpper(s))
	case "lower":
		return exec.AsValue(strings.ToLower(s))
	case "capitalize":
		return exec.AsValue(capitalize(s))
	case "title":
		return exec.AsValue(title(s))
	case "removeprefix":
		return exec.AsValue(strings.TrimPrefix(s, arg(0)))
	case "removesuffix":
		return exec.AsValue(strings.TrimSuffix(s, arg(0)))
	case "startswith", "endswith":
		return affix(s, name == "endswith", args)
	case "find":
		if i := strings.Index(s, arg(0)); i >= 0 {
			return exec.AsValue(utf8.RuneCountInString(s[:i]))
		}
		return exec.AsValue(-1)
	case "count":
		return exec.AsValue(strings.Count(s, arg(0)))
	case "split", "rsplit":
		return split(b, s, name == "rsplit", args)
	case "splitlines":
		return texts(b, strings.Split(strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n"))
	case "replace":
		return replace(b, s, arg(0), arg(1))
	case "join":
		if len(args.Args) == 1 {
			return joined(b, args.Args[0], s)
		}
	}
	return exec.AsValue(errors.New("there is no such method of a string"))
}

// cut says which characters the strip methods remove: white space, or those of the argument.
func cut(args *exec.VarArgs) func(rune) bool {
	if len(args.Args) > 0 && args.Args[0].IsString() {
		set := args.Args[0].String()
		return func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	return isSpace
}

// isSpace is Python's idea of white space: Unicode's and four separators.
func isSpace(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) }

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[n:])
}

func title(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		first := !inWord
		inWord = unicode.IsLetter(r)
		if first {
			return unicode.ToTitle(r)
		}
		return unicode.ToLower(r)
	}, s)
}

func affix(s string, atEnd bool, args *exec.VarArgs) *exec.Value {
	has := strings.HasPrefix
	if atEnd {
		has = strings.HasSuffix
	}
	if len(args.Args) != 1 {
		return exec.AsValue(errors.New("startswith and endswith take one argument"))
	}
	if args.Args[0].IsString() {
		return exec.AsValue(has(s, args.Args[0].String()))
	}
	for _, a := range children(args.Args[0]) {
		if a.IsString() && has(s, a.String()) {
			return exec.AsValue(true)
		}
	}
	return exec.AsValue(false)
}

func split(b *budget, s string, fromRight bool, args *exec.VarArgs) *exec.Value {
	if len(args.Args) == 0 || args.Args[0].IsNil() {
		return texts(b, strings.FieldsFunc(s, isSpace))
	}
	sep, limit := args.Args[0].String(), -1
	if len(args.Args) > 1 {
		limit = args.Args[1].Integer()
	}
	if sep == "" {
		return exec.AsValue(errors.New("the separator of split is empty"))
	}
	parts := strings.Split(s, sep)
	if limit >= 0 && len(parts) > limit+1 {
		if fromRight {
			n := len(parts) - limit
			parts = append([]string{strings.Join(parts[:n], sep)}, parts[n:]...)
		} else {
			parts = strings.SplitN(s, sep, limit+1)
		}
	}
	return texts(b, parts)
}

func texts(b *budget, parts []string) *exec.Value {
	if err := b.spend(32 * len(parts)); err != nil {
		return b.fail(err)
	}
	out := make(exec.ValuesList, len(parts))
	for i, p := range parts {
		out[i] = exec.AsValue(p)
	}
	return exec.AsValue(out)
}

func replace(b *budget, s, from, to string) *exec.Value {
	n := strings.Count(s, from)
	if len(to) > 0 && n > b.work/len(to) {
		return b.fail(b.spend(b.work + 1))
	}
	if err := b.spend(len(s) + n*len(to)); err != nil {
		return b.fail(err)
	}
	return exec.AsValue(strings.ReplaceAll(s, from, to))
}

func joined(b *budget, list *exec.Value, sep string) *exec.Value {
	parts := children(list)
	if list.IsString() {
		return exec.AsValue(errors.New("join takes a list"))
	}
	if len(sep) > 0 && len(parts) > b.work/len(sep) {
		return b.fail(b.spend(b.work + 1))
	}
	if err := b.spend(sizeOf(list, b.work, 0) + len(parts)*len(sep)); err != nil {
		return b.fail(err)
	}
	return exec.AsValue(join(parts, sep))
}

func join(parts []*exec.Value, sep string) string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = p.String()
	}
	return strings.Join(out, sep)
}
