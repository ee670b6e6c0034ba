package chattemplate

import (
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// equal compares two values, texts without their marks. gonja's own comparison takes quadratic time for dictionaries.
func equal(b *budget, x, y *exec.Value) (bool, error) {
	if err := b.spend(1); err != nil {
		return false, err
	}
	switch {
	case x.IsString() && y.IsString():
		return b.bare(x.String()) == b.bare(y.String()), nil
	case x.IsDict() && y.IsDict():
		return equalDicts(b, x, y)
	case x.IsList() && y.IsList():
		l, r := children(x), children(y)
		same := len(l) == len(r)
		for i := 0; same && i < len(l); i++ {
			var err error
			if same, err = equal(b, l[i], r[i]); err != nil {
				return false, err
			}
		}
		return same, nil
	case x.IsDict() || y.IsDict() || x.IsList() || y.IsList():
		return false, nil
	}
	return x.EqualValueTo(y), nil
}

func equalDicts(b *budget, x, y *exec.Value) (bool, error) {
	keys, values := pairs(x)
	otherKeys, otherValues := pairs(y)
	if len(keys) != len(otherKeys) {
		return false, nil
	}
	others := make(map[string]*exec.Value, len(otherKeys))
	for i, k := range otherKeys {
		others[b.bare(k.String())] = otherValues[i]
	}
	for i, k := range keys {
		other, ok := others[b.bare(k.String())]
		if !ok {
			return false, nil
		}
		if same, err := equal(b, values[i], other); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// contains is "x in list".
func contains(b *budget, list, x *exec.Value) (bool, error) {
	switch {
	case list.IsString():
		return x.IsString() && strings.Contains(b.bare(list.String()), b.bare(x.String())), nil
	case list.IsDict():
		_, found := lookUp(b, list, x.String())
		return found && x.IsString(), nil
	}
	for _, item := range children(list) {
		if same, err := equal(b, x, item); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// equality is "==" or "!=".
func equality(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	b := budgetOf(e)
	for _, a := range args.Args[:2] {
		if err := b.spend(sizeOf(a, b.work, 0)); err != nil {
			return b.fail(err)
		}
	}
	same, err := equal(b, args.Args[0], args.Args[1])
	if err != nil {
		return b.fail(err)
	}
	return exec.AsValue(same == args.Args[2].Bool())
}

// comparisonTest is ours where gonja's would compare values, and nil for other tests.
func comparisonTest(name string) func(b *budget, x, y *exec.Value) (bool, error) {
	switch name {
	case "eq", "equalto", "==":
		return equal
	case "ne", "!=":
		return func(b *budget, x, y *exec.Value) (bool, error) {
			same, err := equal(b, x, y)
			return !same, err
		}
	case "in":
		return func(b *budget, x, y *exec.Value) (bool, error) { return contains(b, y, x) }
	}
	return nil
}

// compareCost bounds what gonja's comparison of v costs, which looks every key up by going through all of them.
func compareCost(v *exec.Value, limit, depth int) int {
	n := valueCost
	if d, ok := v.Interface().(*exec.Dict); ok {
		if len(d.Pairs) > limit/max(1, len(d.Pairs)) {
			return limit + 1
		}
		n += len(d.Pairs) * len(d.Pairs)
	}
	if depth > maxDepth {
		return limit + 1
	}
	for _, item := range children(v) {
		if n > limit {
			break
		}
		n += compareCost(item, limit-n, depth+1)
	}
	return n
}

// equals says whether an operator compares for equality.
func equals(kind tokens.Type) bool { return kind == tokens.Equals || kind == tokens.Ne }
