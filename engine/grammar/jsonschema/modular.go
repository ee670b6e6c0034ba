package jsonschema

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// modular writes the whole multiples of a number between bounds: rules for "so many digits remain, of which the first so many must not
// fall below, or not rise above, those of a bound, and what is written so far leaves this remainder".
func (e *emitter) modular(x *numberShape) (grammar.Node, error) {
	step := x.step()
	at := x.multiples[len(x.multiples)-1].at
	if step.Num().Cmp(big.NewInt(maxModulus)) > 0 || len(x.exclude) > 0 {
		return grammar.Node{}, refuse(at, fault.Say("jsonschema.multiple_of_number", maxModulus, maxListed))
	}
	w := &digitWriter{e: e, at: at, modulus: int(step.Num().Int64()), states: map[string]grammar.Node{}}
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(plainDigits), nil)
	for _, b := range []bound{x.low, x.high} {
		if b.value != nil {
			most = maxInt(most, new(big.Int).Mul(big.NewInt(10), ceil(new(big.Rat).Abs(b.value))))
		}
	}
	low, high := new(big.Int).Neg(most), most // both included
	if x.low.value != nil {
		low = ceil(x.low.value)
		if x.low.open && x.low.value.IsInt() {
			low.Add(low, big.NewInt(1))
		}
	}
	if x.high.value != nil {
		high = new(big.Int).Neg(ceil(new(big.Rat).Neg(x.high.value)))
		if x.high.open && x.high.value.IsInt() {
			high.Sub(high, big.NewInt(1))
		}
	}
	zero, one := new(big.Int), big.NewInt(1)
	plus, err := w.between(maxInt(low, zero), high)
	if err != nil {
		return plus, err
	}
	minus, err := w.between(maxInt(new(big.Int).Neg(high), one), new(big.Int).Neg(low))
	return e.b.Or(plus, e.b.Seq(e.b.Literal("-"), minus)), err
}

func maxInt(a, b *big.Int) *big.Int {
	if a.Cmp(b) >= 0 {
		return a
	}
	return b
}

func ceil(r *big.Rat) *big.Int {
	down := new(big.Int).Div(new(big.Int).Neg(r.Num()), r.Denom())
	return down.Neg(down)
}

type digitWriter struct {
	e       *emitter
	at      string
	modulus int
	states  map[string]grammar.Node
}

// between writes the multiples from low to high, neither negative.
func (w *digitWriter) between(low, high *big.Int) (grammar.Node, error) {
	if low.Cmp(high) > 0 {
		return w.e.nothing(), nil
	}
	var choices []grammar.Node
	lo, hi := low.String(), high.String()
	for n := len(lo); n <= len(hi); n++ {
		from, to := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		if n == len(lo) {
			from = lo
		}
		if n == len(hi) {
			to = hi
		}
		way, err := w.state(from, to, n, 0)
		if err != nil {
			return way, err
		}
		choices = append(choices, way)
	}
	return w.e.b.Or(choices...), nil
}

// state writes n more digits. from and to are what the bounds demand of them, or "" if the digits before decide already.
func (w *digitWriter) state(from, to string, n, remainder int) (grammar.Node, error) {
	if n == 0 {
		if remainder == 0 {
			return w.e.b.Seq(), nil
		}
		return w.e.nothing(), nil
	}
	key := fmt.Sprint(from, " ", to, " ", n, " ", remainder)
	if node, ok := w.states[key]; ok {
		return node, nil
	}
	rule, err := w.e.rule(w.at)
	if err != nil {
		return rule, err
	}
	w.states[key] = rule
	first, last := byte('0'), byte('9')
	if from != "" {
		first = from[0]
	}
	if to != "" {
		last = to[0]
	}
	var choices []grammar.Node
	for d := first; d <= last; d++ {
		nextFrom, nextTo := "", ""
		if from != "" && d == first {
			nextFrom = from[1:]
		}
		if to != "" && d == last {
			nextTo = to[1:]
		}
		if strings.Trim(nextFrom, "0") == "" { // a lower bound of zeros demands nothing
			nextFrom = ""
		}
		if strings.Trim(nextTo, "9") == "" {
			nextTo = ""
		}
		next, err := w.state(nextFrom, nextTo, n-1, (remainder*10+int(d-'0'))%w.modulus)
		if err != nil {
			return next, err
		}
		choices = append(choices, w.e.b.Seq(w.e.b.Literal(string(rune(d))), next))
	}
	w.e.b.Define(rule, w.e.b.Or(choices...))
	return rule, nil
}
