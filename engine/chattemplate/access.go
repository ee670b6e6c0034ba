package chattemplate

import (
	"errors"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// attribute is x.name: a key of a dictionary, or a field of the loop variable. What does not exist is undefined, as in Jinja.
func attribute(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	return field(budgetOf(e), args.Args[0], args.Args[1].String())
}

func field(b *budget, v *exec.Value, name string) *exec.Value {
	found, _ := lookUp(b, v, name)
	return found
}

// lookUp also says whether the key is there.
func lookUp(b *budget, v *exec.Value, name string) (*exec.Value, bool) {
	name = b.bare(name)
	switch x := v.Interface().(type) {
	case map[string]any:
		found, ok := x[name]
		return value(found), ok
	case *exec.Dict:
		if err := b.spend(len(x.Pairs)); err != nil {
			return b.fail(err), false
		}
		for _, p := range x.Pairs {
			if p.Key.IsString() && b.bare(p.Key.String()) == name {
				return p.Value, true
			}
		}
	case exec.AttributeGetter: // the loop variable
		found, _ := x.GetAttribute(name)
		return found, !found.IsNil()
	}
	return exec.AsValue(nil), false
}

// variableTest is "x is none", "x is defined" and the like of a variable: its value, its name and the test's.
func variableTest(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	return tested(args.Args[0], e.Environment.Context.Has(args.Args[1].String()), args.Args[2].String())
}

// presenceTest is such a test of x.key: x, the key and the test's name.
func presenceTest(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	holder, key := args.Args[0], args.Args[1]
	if key.IsString() {
		v, exists := lookUp(budgetOf(e), holder, key.String())
		return tested(v, exists, args.Args[2].String())
	}
	v := exec.AsValue(nil)
	if !holder.IsNil() {
		v = item(e, args)
	}
	return tested(v, !v.IsNil() && !v.IsError(), args.Args[2].String())
}

func tested(v *exec.Value, exists bool, test string) *exec.Value {
	switch test {
	case "defined":
		return exec.AsValue(exists)
	case "undefined":
		return exec.AsValue(!exists)
	case "iterable", "sequence": // what is undefined is an empty one
		return exec.AsValue(!exists || v.IsIterable())
	}
	return exec.AsValue(exists && v.IsNil())
}

// item is x[key]. Negative indexes count from the end.
func item(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	v, key := args.Args[0], args.Args[1]
	if v.IsNil() {
		return exec.AsValue(errors.New("an undefined value has no items"))
	}
	if key.IsString() {
		return field(budgetOf(e), v, key.String())
	}
	if !key.IsInteger() {
		return exec.AsValue(errors.New("an index is a number or a string"))
	}
	if x, ok := v.Interface().([]any); ok { // the messages, which a template may index in every round of a loop over them
		if i, ok := position(key.Integer(), len(x)); ok {
			return value(x[i])
		}
		return exec.AsValue(nil)
	}
	list, failed := elements(e, v)
	if failed != nil {
		return failed
	}
	if i, ok := position(key.Integer(), len(list)); ok {
		return list[i]
	}
	return exec.AsValue(nil)
}

func position(i, n int) (int, bool) {
	if i < 0 {
		i += n
	}
	return i, i >= 0 && i < n
}

// slice is x[start:stop:step].
func slice(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	v := args.Args[0]
	list, failed := elements(e, v)
	if failed != nil {
		return failed
	}
	step := 1
	if s := args.Args[3]; !s.IsNil() {
		step = s.Integer()
	}
	if step == 0 {
		return exec.AsValue(errors.New("the step of a slice cannot be zero"))
	}
	first, last := 0, len(list)
	if step < 0 {
		first, last = len(list)-1, -1
	}
	start, stop := edge(args.Args[1], first, len(list), step), edge(args.Args[2], last, len(list), step)
	out := exec.ValuesList{}
	for i := start; (step > 0 && i < stop) || (step < 0 && i > stop); i += step {
		out = append(out, list[i])
	}
	if v.IsString() {
		return exec.AsValue(join(out, ""))
	}
	return exec.AsValue(out)
}

// edge clamps one bound of a slice as Python does.
func edge(v *exec.Value, otherwise, n, step int) int {
	if v.IsNil() {
		return otherwise
	}
	i := v.Integer()
	if i < 0 {
		i += n
	}
	if step < 0 {
		return max(-1, min(i, n-1))
	}
	return max(0, min(i, n))
}

// elements returns what x[i] counts: the elements of a list or the characters of a string.
func elements(e *exec.Evaluator, v *exec.Value) ([]*exec.Value, *exec.Value) {
	b := budgetOf(e)
	if v.IsString() {
		s := v.String()
		if err := b.spend(16 * len(s)); err != nil {
			return nil, b.fail(err)
		}
		t := b.text(s)
		out := make([]*exec.Value, 0, utf8.RuneCountInString(t.bare))
		for i := 0; i < len(t.bare); {
			_, n := utf8.DecodeRuneInString(t.bare[i:])
			out = append(out, exec.AsValue(t.cut(i, i+n)))
			i += n
		}
		return out, nil
	}
	if !v.IsList() {
		return nil, exec.AsValue(errors.New("only lists and strings can be indexed"))
	}
	list := children(v)
	if err := b.spend(len(list)); err != nil {
		return nil, b.fail(err)
	}
	return list, nil
}
