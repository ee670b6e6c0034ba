package chattemplate

import (
	"errors"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// attribute is x.name: a key of a dictionary, or a field of the loop variable. What does not exist is undefined, as in Jinja.
func attribute(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	return field(args.Args[0], args.Args[1].String())
}

func field(v *exec.Value, name string) *exec.Value {
	switch x := v.Interface().(type) {
	case map[string]any:
		return value(x[name])
	case *exec.Dict:
		return x.Get(exec.AsValue(name))
	case exec.AttributeGetter: // the loop variable
		found, _ := x.GetAttribute(name)
		return found
	}
	return exec.AsValue(nil)
}

// item is x[key]. Negative indexes count from the end.
func item(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	v, key := args.Args[0], args.Args[1]
	if v.IsNil() {
		return exec.AsValue(errors.New("an undefined value has no items"))
	}
	if key.IsString() {
		return field(v, key.String())
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
		out := make([]*exec.Value, 0, utf8.RuneCountInString(s))
		for _, r := range s {
			out = append(out, exec.AsValue(string(r)))
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
