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
		return dictMethod(b, receiver, name, rest)
	case exec.AttributeGetter: // loop.cycle and loop.changed
		found, _ := x.GetAttribute(name)
		if run, ok := found.Interface().(func(*exec.VarArgs) *exec.Value); ok {
			for _, a := range rest.Args { // which loop.changed compares
				if err := b.spend(compareCost(a, b.work, 0)); err != nil {
					return b.fail(err)
				}
			}
			return run(rest)
		}
	}
	return exec.AsValue(errors.New("there is no such method"))
}

func dictMethod(b *budget, receiver *exec.Value, name string, args *exec.VarArgs) *exec.Value {
	keys, values := pairs(receiver)
	switch name {
	case "get":
		if len(args.Args) == 0 {
			break
		}
		if found := field(b, receiver, args.Args[0].String()); !found.IsNil() || len(args.Args) < 2 {
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
	t, first := b.text(s), b.bare(arg(0))
	switch name {
	case "strip", "lstrip", "rstrip":
		return exec.AsValue(trim(t, cut(b, args), name != "rstrip", name != "lstrip"))
	case "upper":
		return exec.AsValue(b.mapped(s, strings.ToUpper))
	case "lower":
		return exec.AsValue(b.mapped(s, strings.ToLower))
	case "capitalize":
		return exec.AsValue(b.mapped(s, capitalize))
	case "title":
		return exec.AsValue(b.mapped(s, title))
	case "removeprefix":
		return exec.AsValue(t.cut(len(t.bare)-len(strings.TrimPrefix(t.bare, first)), len(t.bare)))
	case "removesuffix":
		return exec.AsValue(t.cut(0, len(strings.TrimSuffix(t.bare, first))))
	case "startswith", "endswith":
		return affix(b, t.bare, name == "endswith", args)
	case "find":
		if i := strings.Index(t.bare, first); i >= 0 {
			return exec.AsValue(utf8.RuneCountInString(t.bare[:i]))
		}
		return exec.AsValue(-1)
	case "count":
		return exec.AsValue(strings.Count(t.bare, first))
	case "split", "rsplit":
		return splitText(b, t, name == "rsplit", args)
	case "splitlines":
		return lines(b, t)
	case "replace":
		return replace(b, t, first, arg(1))
	case "join":
		if len(args.Args) == 1 {
			return joined(b, args.Args[0], s)
		}
	}
	return exec.AsValue(errors.New("there is no such method of a string"))
}

// cut says which characters the strip methods remove: white space, or those of the argument.
func cut(b *budget, args *exec.VarArgs) func(rune) bool {
	if len(args.Args) > 0 && args.Args[0].IsString() {
		set := b.bare(args.Args[0].String())
		return func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	return isSpace
}

func trim(t text, cut func(rune) bool, left, right bool) string {
	start, end := 0, len(t.bare)
	if left {
		start = end - len(strings.TrimLeftFunc(t.bare, cut))
	}
	if right {
		end = start + len(strings.TrimRightFunc(t.bare[start:], cut))
	}
	return t.cut(start, end)
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

func affix(b *budget, s string, atEnd bool, args *exec.VarArgs) *exec.Value {
	has := strings.HasPrefix
	if atEnd {
		has = strings.HasSuffix
	}
	if len(args.Args) != 1 {
		return exec.AsValue(errors.New("startswith and endswith take one argument"))
	}
	if args.Args[0].IsString() {
		return exec.AsValue(has(s, b.bare(args.Args[0].String())))
	}
	for _, a := range children(args.Args[0]) {
		if a.IsString() && has(s, b.bare(a.String())) {
			return exec.AsValue(true)
		}
	}
	return exec.AsValue(false)
}

// splitText is split and rsplit, by a separator or at white space.
func splitText(b *budget, t text, fromRight bool, args *exec.VarArgs) *exec.Value {
	limit := -1
	if len(args.Args) > 1 {
		limit = args.Args[1].Integer()
	}
	if len(args.Args) == 0 || args.Args[0].IsNil() {
		return texts(b, words(t))
	}
	sep := b.bare(args.Args[0].String())
	if sep == "" {
		return exec.AsValue(errors.New("the separator of split is empty"))
	}
	if err := b.spend(32 * strings.Count(t.bare, sep)); err != nil {
		return b.fail(err)
	}
	var ends []int // of the parts
	for i := 0; ; {
		n := strings.Index(t.bare[i:], sep)
		if n < 0 {
			break
		}
		ends = append(ends, i+n)
		i += n + len(sep)
	}
	if limit >= 0 && len(ends) > limit {
		if fromRight {
			ends = ends[len(ends)-limit:]
		} else {
			ends = ends[:limit]
		}
	}
	var parts []string
	start := 0
	for _, end := range ends {
		parts = append(parts, t.cut(start, end))
		start = end + len(sep)
	}
	return texts(b, append(parts, t.cut(start, len(t.bare))))
}

func words(t text) []string {
	var parts []string
	start := -1
	for i, r := range t.bare {
		switch {
		case isSpace(r) && start >= 0:
			parts = append(parts, t.cut(start, i))
			start = -1
		case !isSpace(r) && start < 0:
			start = i
		}
	}
	if start >= 0 {
		parts = append(parts, t.cut(start, len(t.bare)))
	}
	return parts
}

func lines(b *budget, t text) *exec.Value {
	var parts []string
	for start := 0; start < len(t.bare); {
		n := strings.IndexAny(t.bare[start:], "\r\n")
		if n < 0 {
			parts = append(parts, t.cut(start, len(t.bare)))
			break
		}
		parts = append(parts, t.cut(start, start+n))
		start += n + 1
		if t.bare[start-1] == '\r' && strings.HasPrefix(t.bare[start:], "\n") {
			start++
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

func replace(b *budget, t text, from, to string) *exec.Value {
	n := strings.Count(t.bare, from)
	if len(to) > 0 && n > b.work/len(to) {
		return b.fail(b.spend(b.work + 1))
	}
	if err := b.spend(len(t.marked) + n*len(to)); err != nil {
		return b.fail(err)
	}
	if t.at == nil {
		return exec.AsValue(strings.ReplaceAll(t.bare, from, to))
	}
	if from == "" {
		return exec.AsValue(b.cover(strings.ReplaceAll(t.bare, from, b.bare(to))))
	}
	var out strings.Builder
	start := 0
	for {
		i := strings.Index(t.bare[start:], from)
		if i < 0 {
			out.WriteString(t.cut(start, len(t.bare)))
			return exec.AsValue(out.String())
		}
		out.WriteString(t.cut(start, start+i) + to)
		start += i + len(from)
	}
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
