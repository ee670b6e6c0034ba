package jsonschema

import (
	"math/big"
	"strings"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// Numbers without bounds have at most so many digits before the point and as many after it: integers then fit 64 bits, and a model
// that repeats a digit comes to an end.
const plainDigits = 18

// maxListed bounds the multiples that are listed one by one, and maxModulus the divisors that digits are counted by.
const (
	maxListed  = 2000
	maxModulus = 100
)

func digits(lo, hi rune) grammar.Regexp { return grammar.Chars(grammar.Range{Lo: lo, Hi: hi}) }

func anyDigit() grammar.Regexp { return digits('0', '9') }

func optional(re grammar.Regexp) grammar.Regexp { return grammar.Times(re, 0, 1) }

// wholes matches integers of 1 to n digits without leading zeros and without sign; zero only if it is asked for.
func wholes(n int, zero bool) grammar.Regexp {
	re := grammar.Concat(digits('1', '9'), grammar.Times(anyDigit(), 0, n-1))
	if zero {
		re = grammar.Alternate(grammar.Text("0"), re)
	}
	return re
}

// signed matches a number and its negative, but no "-0".
func signed(whole func(zero bool) grammar.Regexp) grammar.Regexp {
	return grammar.Alternate(whole(true), grammar.Concat(grammar.Text("-"), whole(false)))
}

// form returns the spelling of numbers of the shape without regard to bounds.
func (x *numberShape) form() grammar.Regexp {
	before, after := plainDigits, plainDigits
	for _, b := range []bound{x.low, x.high} {
		if b.value != nil {
			whole, fraction := decimal(new(big.Rat).Abs(b.value))
			before, after = max(before, len(whole)+1), max(after, len(fraction)+1)
		}
	}
	if x.types&typeFraction == 0 {
		return signed(func(zero bool) grammar.Regexp { return wholes(before, zero) })
	}
	fraction := grammar.Concat(grammar.Text("."), grammar.Times(anyDigit(), 1, after))
	if x.types == typeFraction {
		significant := grammar.Concat(grammar.Text("."), grammar.Times(anyDigit(), 0, after-1), digits('1', '9'), grammar.Times(grammar.Text("0"), 0, -1))
		return grammar.Concat(optional(grammar.Text("-")), wholes(before, true), grammar.Intersect(fraction, significant))
	}
	number := grammar.Concat(optional(grammar.Text("-")), wholes(before, true), optional(fraction))
	if x.bounded() {
		return number
	}
	exponent := grammar.Concat(grammar.Chars(grammar.Range{Lo: 'e', Hi: 'e'}, grammar.Range{Lo: 'E', Hi: 'E'}),
		optional(grammar.Chars(grammar.Range{Lo: '+', Hi: '+'}, grammar.Range{Lo: '-', Hi: '-'})), grammar.Times(anyDigit(), 1, 2))
	return grammar.Concat(number, optional(exponent))
}

// bounded reports whether digits alone must show which number it is.
func (x *numberShape) bounded() bool {
	return x.low.value != nil || x.high.value != nil || len(x.exclude) > 0 || len(x.multiples) > 0
}

// decimal returns the digits of a number that is not negative before and after the point, without trailing zeros.
func decimal(r *big.Rat) (whole, fraction string) {
	s := r.FloatString(2 * maxDigits)
	whole, fraction, _ = strings.Cut(s, ".")
	return whole, strings.TrimRight(fraction, "0")
}

// number returns the expression of the shape; ok is false if the digits must be counted, which takes rules.
func (c *compiler) number(x *numberShape) (re grammar.Regexp, ok bool, err error) {
	parts := []grammar.Regexp{x.form()}
	if x.low.value != nil {
		parts = append(parts, atLeast(x.low))
	}
	if x.high.value != nil {
		parts = append(parts, atMost(x.high))
	}
	for _, e := range x.exclude {
		parts = append(parts, grammar.Not(spellings(e)))
	}
	if len(x.multiples) > 0 {
		re, ok, err := c.multiples(x)
		if err != nil || !ok {
			return re, ok, err
		}
		parts = append(parts, re)
	}
	return grammar.Intersect(parts...), true, nil
}

// spellings matches the spellings of a number without exponent.
func spellings(r *big.Rat) grammar.Regexp {
	whole, fraction := decimal(new(big.Rat).Abs(r))
	zeros := grammar.Times(grammar.Text("0"), 0, -1)
	var re grammar.Regexp
	if fraction == "" {
		re = grammar.Concat(grammar.Text(whole), optional(grammar.Concat(grammar.Text(".0"), zeros)))
	} else {
		re = grammar.Concat(grammar.Text(whole+"."+fraction), zeros)
	}
	switch r.Sign() {
	case -1:
		return grammar.Concat(grammar.Text("-"), re)
	case 0:
		return grammar.Concat(optional(grammar.Text("-")), re)
	}
	return re
}

// atLeast matches decimals, of any length, that are above the bound or, if it is not open, the bound.
func atLeast(b bound) grammar.Regexp {
	minus := grammar.Text("-")
	if b.value.Sign() > 0 {
		return above(b.value, b.open)
	}
	negative := grammar.Concat(minus, below(new(big.Rat).Abs(b.value), b.open))
	if b.value.Sign() < 0 {
		return grammar.Alternate(positive(), negative)
	}
	if b.open {
		return above(b.value, true)
	}
	return grammar.Alternate(positive(), grammar.Concat(minus, zeroForm()))
}

// atMost is the mirror image of atLeast.
func atMost(b bound) grammar.Regexp {
	minus := grammar.Text("-")
	switch b.value.Sign() {
	case 1:
		return grammar.Alternate(below(b.value, b.open), grammar.Concat(minus, positive()))
	case -1:
		return grammar.Concat(minus, above(new(big.Rat).Abs(b.value), b.open))
	}
	if b.open {
		return grammar.Concat(minus, above(b.value, true))
	}
	return grammar.Alternate(zeroForm(), grammar.Concat(minus, positive()))
}

// zeroForm matches zero without sign.
func zeroForm() grammar.Regexp {
	return grammar.Concat(grammar.Text("0"), optional(grammar.Concat(grammar.Text("."), grammar.Times(grammar.Text("0"), 1, -1))))
}

// positive matches every decimal without sign, zero included.
func positive() grammar.Regexp {
	return grammar.Concat(grammar.Times(anyDigit(), 1, -1), optional(anyFraction()))
}

func anyFraction() grammar.Regexp {
	return grammar.Concat(grammar.Text("."), grammar.Times(anyDigit(), 1, -1))
}

// above matches decimals without sign that are at least r, or more if open.
func above(r *big.Rat, open bool) grammar.Regexp {
	whole, fraction := decimal(r)
	more, rest := grammar.Times(anyDigit(), 0, -1), grammar.Times(anyDigit(), 1, -1)
	choices := []grammar.Regexp{grammar.Concat(digits('1', '9'), grammar.Times(anyDigit(), len(whole), -1), optional(anyFraction()))}
	for i := range whole {
		if d := rune(whole[i]); d < '9' {
			choices = append(choices, grammar.Concat(grammar.Text(whole[:i]), digits(d+1, '9'), grammar.Times(anyDigit(), len(whole)-i-1, len(whole)-i-1),
				optional(anyFraction())))
		}
	}
	for i := range fraction {
		if d := rune(fraction[i]); d < '9' {
			choices = append(choices, grammar.Concat(grammar.Text(whole+"."+fraction[:i]), digits(d+1, '9'), more))
		}
	}
	same := whole
	if fraction != "" {
		same += "." + fraction
	}
	switch {
	case !open && fraction == "":
		choices = append(choices, grammar.Concat(grammar.Text(same), optional(grammar.Concat(grammar.Text("."), rest))))
	case !open:
		choices = append(choices, grammar.Concat(grammar.Text(same), more))
	default:
		if fraction == "" {
			same += "."
		}
		choices = append(choices, grammar.Concat(grammar.Text(same), more, digits('1', '9'), more))
	}
	return grammar.Alternate(choices...)
}

// below matches decimals without sign that are at most r, or less if open.
func below(r *big.Rat, open bool) grammar.Regexp {
	whole, fraction := decimal(r)
	more, zeros := grammar.Times(anyDigit(), 0, -1), grammar.Times(grammar.Text("0"), 1, -1)
	var choices []grammar.Regexp
	if len(whole) > 1 {
		choices = append(choices, grammar.Concat(wholes(len(whole)-1, true), optional(anyFraction())))
	}
	for i := range whole {
		first := rune('0')
		if i == 0 && len(whole) > 1 {
			first = '1'
		}
		if d := rune(whole[i]); d > first {
			choices = append(choices, grammar.Concat(grammar.Text(whole[:i]), digits(first, d-1), grammar.Times(anyDigit(), len(whole)-i-1, len(whole)-i-1),
				optional(anyFraction())))
		}
	}
	for i := range fraction { // a shorter fraction that agrees so far is less
		if d := rune(fraction[i]); d > '0' {
			choices = append(choices, grammar.Concat(grammar.Text(whole+"."+fraction[:i]), digits('0', d-1), more))
		}
		if i > 0 {
			choices = append(choices, grammar.Text(whole+"."+fraction[:i]))
		}
	}
	if fraction != "" {
		choices = append(choices, grammar.Text(whole))
	}
	switch {
	case open:
	case fraction == "":
		choices = append(choices, grammar.Text(whole), grammar.Concat(grammar.Text(whole+"."), zeros))
	default:
		choices = append(choices, grammar.Concat(grammar.Text(whole+"."+fraction), optional(zeros)))
	}
	return grammar.Alternate(choices...)
}

// emptyNumber reports whether the shape provably allows no number.
func (c *compiler) emptyNumber(x *numberShape) (bool, error) {
	if x.low.value != nil && x.high.value != nil {
		if order := x.low.value.Cmp(x.high.value); order > 0 || (order == 0 && (x.low.open || x.high.open)) {
			return true, nil
		}
	}
	re, ok, err := c.number(x)
	if err != nil || !ok {
		return false, err
	}
	return c.matchesNothing(re)
}

// multiples returns the expression of the multiples that the shape demands.
func (c *compiler) multiples(x *numberShape) (re grammar.Regexp, ok bool, err error) {
	step := x.step()
	if x.types == typeFraction && step.IsInt() {
		return grammar.Alternate(), true, nil
	}
	if list := x.list(step); list != nil {
		return grammar.Alternate(list...), true, nil
	}
	if x.types&typeFraction == 0 || step.IsInt() {
		return byLastDigits(step.Num())
	}
	if re := byFraction(step); re != nil {
		return *re, true, nil
	}
	at := x.multiples[len(x.multiples)-1].at
	return re, false, refuse(at, fault.Say("jsonschema.multiple_of_fraction", maxListed))
}

// step returns the least common multiple of the multiples; of integers, the least whole one.
func (x *numberShape) step() *big.Rat {
	num, den := big.NewInt(1), big.NewInt(0)
	for _, m := range x.multiples {
		g := new(big.Int).GCD(nil, nil, num, m.of.Num())
		num = new(big.Int).Div(new(big.Int).Mul(num, m.of.Num()), g)
		den = new(big.Int).GCD(nil, nil, den, m.of.Denom())
	}
	if x.types&typeFraction == 0 {
		den = big.NewInt(1)
	}
	return new(big.Rat).SetFrac(num, den)
}

// list returns the multiples between the bounds, or nil if there is no bound or too many.
func (x *numberShape) list(step *big.Rat) []grammar.Regexp {
	if x.low.value == nil || x.high.value == nil {
		return nil
	}
	first := new(big.Rat).Quo(x.low.value, step)
	i := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(first.Num()), first.Denom())) // rounded up
	last := new(big.Rat).Quo(x.high.value, step)
	count := new(big.Int).Sub(new(big.Int).Div(last.Num(), last.Denom()), i)
	if !count.IsInt64() || count.Int64() > maxListed {
		return nil
	}
	out := []grammar.Regexp{}
	for k := int64(0); k <= count.Int64(); k++ {
		v := new(big.Rat).Mul(step, new(big.Rat).SetInt(new(big.Int).Add(i, big.NewInt(k))))
		out = append(out, spellings(v))
	}
	return out
}

// byLastDigits matches the multiples of a divisor of a power of ten; ok is false for others.
func byLastDigits(m *big.Int) (re grammar.Regexp, ok bool, err error) {
	more, ten := grammar.Times(anyDigit(), 0, -1), big.NewInt(1)
	for k := 0; k <= plainDigits; k++ {
		if new(big.Int).Mod(ten, m).Sign() == 0 {
			ends, few := endings(m, ten, k)
			if !few {
				break
			}
			long := grammar.Concat(more, ends)
			short := []grammar.Regexp{long}
			for v := new(big.Int); v.Cmp(ten) < 0; v.Add(v, m) { // fewer than k digits
				short = append(short, grammar.Text(v.String()))
			}
			return grammar.Concat(optional(grammar.Text("-")), grammar.Alternate(short...)), true, nil
		}
		ten.Mul(ten, big.NewInt(10))
	}
	return re, false, nil
}

// endings matches the last k digits of the multiples of m, which divides ten to the k.
func endings(m, ten *big.Int, k int) (re grammar.Regexp, few bool) {
	if new(big.Int).Div(ten, m).Cmp(big.NewInt(maxListed)) > 0 {
		return re, false
	}
	var ends []grammar.Regexp
	for v := new(big.Int); v.Cmp(ten) < 0; v.Add(v, m) {
		s := v.String()
		if k == 0 {
			s = ""
		}
		ends = append(ends, grammar.Text(strings.Repeat("0", max(0, k-len(s)))+s))
	}
	return grammar.Alternate(ends...), true
}

// byFraction matches the multiples of a step that divides one: only the fraction matters. It is nil for other steps.
func byFraction(step *big.Rat) *grammar.Regexp {
	inverse := new(big.Rat).Inv(step)
	if !inverse.IsInt() {
		return nil
	}
	zeros := grammar.Times(grammar.Text("0"), 0, -1)
	whole := grammar.Concat(optional(grammar.Text("-")), grammar.Times(anyDigit(), 1, -1))
	_, fraction := decimal(step)
	var re grammar.Regexp
	switch {
	case new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(fraction))), nil)).Cmp(step) == 0:
		re = grammar.Concat(whole, optional(grammar.Concat(grammar.Text("."), grammar.Times(anyDigit(), 1, len(fraction)))))
	case inverse.Num().Cmp(big.NewInt(maxListed)) > 0:
		return nil
	default:
		ends := []grammar.Regexp{grammar.Text(""), grammar.Concat(grammar.Text(".0"), zeros)}
		for v := new(big.Rat).Set(step); v.Cmp(big.NewRat(1, 1)) < 0; v.Add(v, step) {
			_, f := decimal(v)
			ends = append(ends, grammar.Concat(grammar.Text("."+f), zeros))
		}
		re = grammar.Concat(whole, grammar.Alternate(ends...))
	}
	return &re
}
