package chattemplate

import (
	"errors"
	"math"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// Names of the functions that rewritten expressions call. No template can write them.
const (
	fnCharge    = "\x00charge"
	fnCompared  = "\x00compared"
	fnEquality  = "\x00equality"
	fnRounds    = "\x00rounds"
	fnAttribute = "\x00attribute"
	fnItem      = "\x00item"
	fnSlice     = "\x00slice"
	fnMethod    = "\x00method"
	fnNumbers   = "\x00numbers"
	fnVariable  = "\x00variable"
	fnPresence  = "\x00presence"
)

// functions are what a template can call by name, and what rewritten expressions call.
func functions() map[string]any {
	return map[string]any{
		fnCharge:          charge,
		fnCompared:        compared,
		fnEquality:        equality,
		fnRounds:          rounds,
		fnAttribute:       attribute,
		fnItem:            item,
		fnSlice:           slice,
		fnMethod:          method,
		fnVariable:        variableTest,
		fnPresence:        presenceTest,
		fnNumbers + "*":   multiply,
		fnNumbers + "**":  power,
		"raise_exception": raise,
		"strftime_now":    strftimeNow,
		"namespace":       namespace,
		"dict":            namespace,
		"range":           rangeList,
	}
}

// fail remembers the first error of ours, since gonja loses the type of errors on their way out.
func (b *budget) fail(err error) *exec.Value {
	if b.failed == nil {
		b.failed = err
	}
	return exec.AsValue(err)
}

// charge pays for the size of its argument and returns it.
func charge(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	b := budgetOf(e)
	v := args.First()
	if err := b.spend(sizeOf(v, b.work, 0)); err != nil {
		return b.fail(err)
	}
	return v
}

// compared pays for a value that is compared, and takes its marks out.
func compared(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	v := charge(e, args)
	if v.IsError() {
		return v
	}
	return budgetOf(e).bareValue(v)
}

// rounds pays for a loop over its first argument whose body costs the second.
func rounds(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	b := budgetOf(e)
	v, body := args.Args[0], args.Args[1].Integer()
	if v.IsString() {
		list, failed := elements(e, v)
		if failed != nil {
			return failed
		}
		v = exec.AsValue(exec.ValuesList(list))
	}
	if v.IsDict() { // whose keys it goes through
		keys, _ := pairs(v)
		v = exec.AsValue(keys)
	}
	n := len(children(v))
	if body <= 0 || n > b.work/body {
		return b.fail(b.spend(b.work + 1))
	}
	if err := b.spend(n * body); err != nil {
		return b.fail(err)
	}
	return v
}

func multiply(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	l, r := args.Args[0], args.Args[1]
	switch {
	case l.IsInteger() && r.IsInteger():
		return exec.AsValue(l.Integer() * r.Integer())
	case l.IsNumber() && r.IsNumber():
		return exec.AsValue(l.Float() * r.Float())
	case l.IsString() && r.IsInteger():
		return repeat(budgetOf(e), l.String(), r.Integer())
	}
	return exec.AsValue(errors.New("only numbers can be multiplied"))
}

func repeat(b *budget, s string, n int) *exec.Value {
	if n <= 0 || s == "" {
		return exec.AsValue("")
	}
	if n > b.work/len(s) {
		return b.fail(b.spend(b.work + 1))
	}
	if err := b.spend(n * len(s)); err != nil {
		return b.fail(err)
	}
	out := make([]byte, 0, n*len(s))
	for range n {
		out = append(out, s...)
	}
	return exec.AsValue(string(out))
}

func power(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	if !args.Args[0].IsNumber() || !args.Args[1].IsNumber() {
		return exec.AsValue(errors.New("only numbers have powers"))
	}
	return exec.AsValue(math.Pow(args.Args[0].Float(), args.Args[1].Float()))
}

func raise(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	message := "no reason given"
	if len(args.Args) > 0 && args.Args[0].IsString() {
		message = args.Args[0].String()
	}
	return budgetOf(e).fail(&raisedError{message})
}

func namespace(_ *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	ns := map[string]any{}
	for name, v := range args.KwArgs {
		ns[name] = v.Interface()
	}
	return exec.AsValue(ns)
}

func rangeList(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	bounds := []int{0, 0, 1}
	for _, a := range args.Args {
		if !a.IsInteger() {
			return exec.AsValue(errors.New("range takes integers"))
		}
	}
	switch a := args.Args; len(a) {
	case 1:
		bounds[1] = a[0].Integer()
	case 2, 3:
		for i := range a {
			bounds[i] = a[i].Integer()
		}
	default:
		return exec.AsValue(errors.New("range takes one to three integers"))
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return exec.AsValue(errors.New("the step of a range cannot be zero"))
	}
	b := budgetOf(e)
	list := []any{}
	for i := start; (step > 0 && i < stop) || (step < 0 && i > stop); i += step {
		if err := b.spend(16); err != nil {
			return b.fail(err)
		}
		list = append(list, i)
	}
	return exec.AsValue(list)
}

// strftimeNow formats the time of the rendering in UTC, with the directives chat templates use.
func strftimeNow(e *exec.Evaluator, args *exec.VarArgs) *exec.Value {
	if len(args.Args) != 1 || !args.Args[0].IsString() {
		return exec.AsValue(errors.New("strftime_now takes one format"))
	}
	b := budgetOf(e)
	format := args.Args[0].String()
	if err := b.spend(16 * len(format)); err != nil {
		return b.fail(err)
	}
	now := b.date.UTC()
	var out []byte
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out = append(out, format[i])
			continue
		}
		i++
		if format[i] == '-' && i+1 < len(format) {
			i++
			out = append(out, trimZero(directive(now, format[i]))...)
			continue
		}
		out = append(out, directive(now, format[i])...)
	}
	return exec.AsValue(string(out))
}

func trimZero(s string) string {
	if len(s) > 1 && s[0] == '0' {
		return s[1:]
	}
	return s
}

func directive(t time.Time, c byte) string {
	layouts := map[byte]string{
		'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon",
		'I': "03", 'p': "PM", 'y': "06", 'Z': "MST", 'F': "2006-01-02", 'T': "15:04:05", 'j': "002",
	}
	if layout, ok := layouts[c]; ok {
		return t.Format(layout)
	}
	if c == '%' {
		return "%"
	}
	return "%" + string(c)
}
