package chattemplate

import (
	"fmt"
	"reflect"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// budget is the work one rendering may do. One unit is about one byte copied or one node visited.
type budget struct {
	work   int
	depth  int
	until  time.Time
	now    func() time.Time
	date   time.Time // what strftime_now says
	mark   string    // stands before every character of a caller's text; "" where nothing is marked
	ticks  int
	failed error // the first error of ours
}

// newBudget is the work that a chat may cost. Its clock stands still.
func newBudget(in Input) *budget {
	return &budget{work: baseWork + workFactor*in.size(), now: func() time.Time { return time.Time{} }}
}

// limitError says that a template did more than it may.
type limitError struct{ what, limit string }

func (e *limitError) Error() string {
	return fmt.Sprintf("the chat template exceeded the limit of its %s: %s", e.what, e.limit)
}

// raisedError is a refusal by the template itself.
type raisedError struct{ message string }

func (e *raisedError) Error() string { return e.message }

func (b *budget) spend(n int) error {
	b.work -= n + 1
	if n < 0 || b.work < 0 {
		return &limitError{"work", "it does far more than the messages need"}
	}
	b.ticks++
	if b.ticks%256 == 0 && b.now().After(b.until) {
		return &limitError{"time", maxTime.String()}
	}
	return nil
}

// budgetName is a variable that no template can write, since the lexer knows no such name.
const budgetName = "\x00budget"

func budgetOf(e *exec.Evaluator) *budget {
	v, _ := e.Environment.Context.Get(budgetName)
	b, ok := v.(*budget)
	if !ok {
		return &budget{} // nothing may be done without one
	}
	return b
}

// valueCost is the work of handling a value of any size, through reflection as gonja does.
const valueCost = 16

// sizeOf estimates what printing or comparing v costs, nested values included; it stops counting at limit.
func sizeOf(v *exec.Value, limit, depth int) int {
	if v == nil || v.IsNil() {
		return valueCost
	}
	if v.IsString() {
		return valueCost + len(v.String())
	}
	if depth > maxDepth {
		return limit + 1 // so deep only by containing itself
	}
	n := valueCost
	for _, item := range children(v) {
		n += sizeOf(item, limit-n, depth+1)
		if n > limit {
			break
		}
	}
	return n
}

// storable refuses a value that nests too deeply, or that holds the dictionary into which it is to be put. Without this check a
// template could build a value without end, and gonja, which follows values by recursion, would end the process: nothing recovers
// from an overflow of the stack.
func (b *budget) storable(v *exec.Value, into map[string]any, depth int) error {
	list := children(v)
	if err := b.spend(len(list)); err != nil {
		return err
	}
	m, ok := v.Interface().(map[string]any)
	if depth > maxDepth || ok && into != nil && reflect.ValueOf(m).Pointer() == reflect.ValueOf(into).Pointer() {
		return &limitError{"nesting", fmt.Sprintf("values %d levels deep", maxDepth)}
	}
	for _, item := range list {
		if err := b.storable(item, into, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// children returns the elements of a list, or the keys and values of a dictionary.
func children(v *exec.Value) []*exec.Value {
	switch x := v.Interface().(type) {
	case exec.ValuesList:
		return x
	case []any:
		out := make([]*exec.Value, len(x))
		for i := range x {
			out[i] = value(x[i])
		}
		return out
	case map[string]any:
		out := make([]*exec.Value, 0, 2*len(x))
		for k, item := range x {
			out = append(out, exec.AsValue(k), value(item))
		}
		return out
	case *exec.Dict:
		out := make([]*exec.Value, 0, 2*len(x.Pairs))
		for _, p := range x.Pairs {
			out = append(out, p.Key, p.Value)
		}
		return out
	}
	return nil
}

// value wraps x unless it is wrapped already.
func value(x any) *exec.Value {
	if v, ok := x.(*exec.Value); ok {
		if v == nil {
			return exec.AsValue(nil)
		}
		return v
	}
	return exec.AsValue(x)
}
