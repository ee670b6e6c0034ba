package capability_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/capability"
)

// made is a condition that was made at random, with the oracle's way to evaluate it: by cases, without a tree of operators.
type made struct {
	text string
	eval func(s capability.State) capability.Truth
}

func three(b bool) capability.Truth {
	if b {
		return capability.Yes
	}
	return capability.No
}

// comparison makes a comparison.
func comparison(r *rand.Rand) made {
	switch r.IntN(4) {
	case 0:
		name := []string{"batch", "prompt_tokens", "images"}[r.IntN(3)]
		ops := []string{"==", "!=", "<", "<=", ">", ">="}
		o, limit := ops[r.IntN(len(ops))], r.IntN(4)
		return made{fmt.Sprintf("%s %s %d", name, o, limit), func(s capability.State) capability.Truth {
			v, err := strconv.Atoi(s[name])
			if err != nil {
				return capability.Unknown
			}
			return three(map[string]bool{"==": v == limit, "!=": v != limit, "<": v < limit, "<=": v <= limit, ">": v > limit, ">=": v >= limit}[o])
		}}
	case 1:
		want, no := []string{"eager", "graph"}[r.IntN(2)], r.IntN(2) == 0
		o := "=="
		if no {
			o = "!="
		}
		return made{`mode ` + o + ` "` + want + `"`, func(s capability.State) capability.Truth {
			v, ok := s["mode"]
			if !ok {
				return capability.Unknown
			}
			return three((v == want) != no)
		}}
	case 2:
		return made{`dtype in ["bf16","fp16"]`, func(s capability.State) capability.Truth {
			v, ok := s["dtype"]
			if !ok {
				return capability.Unknown
			}
			return three(v == "bf16" || v == "fp16")
		}}
	}
	n := r.IntN(3)
	return made{fmt.Sprintf(`version.engine >= "0.%d"`, n), func(s capability.State) capability.Truth {
		v, ok := s["version.engine"]
		if !ok {
			return capability.Unknown
		}
		minor, _ := strconv.Atoi(strings.TrimPrefix(v, "0."))
		return three(minor >= n)
	}}
}

func randomCondition(r *rand.Rand, depth int) made {
	if depth == 0 || r.IntN(3) == 0 {
		return comparison(r)
	}
	a := randomCondition(r, depth-1)
	if r.IntN(3) == 0 {
		return made{"not (" + a.text + ")", func(s capability.State) capability.Truth {
			switch a.eval(s) {
			case capability.Yes:
				return capability.No
			case capability.No:
				return capability.Yes
			default:
				return capability.Unknown
			}
		}}
	}
	b, and := randomCondition(r, depth-1), r.IntN(2) == 0
	word, strong := "or", capability.Yes
	if and {
		word, strong = "and", capability.No
	}
	return made{"(" + a.text + ") " + word + " (" + b.text + ")", func(s capability.State) capability.Truth {
		x, y := a.eval(s), b.eval(s)
		switch {
		case x == strong || y == strong:
			return strong
		case x == capability.Unknown || y == capability.Unknown:
			return capability.Unknown
		default:
			return x
		}
	}}
}

func randomState(r *rand.Rand) capability.State {
	s := capability.State{}
	for name, v := range map[string]string{
		"batch": strconv.Itoa(r.IntN(4)), "mode": []string{"eager", "graph"}[r.IntN(2)], "dtype": []string{"bf16", "int8"}[r.IntN(2)],
		"version.engine": "0." + strconv.Itoa(r.IntN(3)),
	} {
		if r.IntN(3) > 0 {
			s[name] = v
		}
	}
	return s
}

func parse(t *testing.T, text string) capability.Condition {
	t.Helper()
	c, err := capability.ParseCondition(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

// TestConditionsAgainstOracle: random conditions have the value that the oracle finds, and their text reads back as the same condition.
func TestConditionsAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[capability.Truth]int{}
	for range 5000 {
		m := randomCondition(r, 4)
		c := parse(t, m.text)
		s := randomState(r)
		want := m.eval(s)
		if got := c.Eval(s); got != want {
			t.Fatalf("%s in %v is %d, want %d", m.text, s, got, want)
		}
		if again := parse(t, c.String()); again.Eval(s) != want {
			t.Fatalf("%s reads back otherwise", m.text)
		}
		seen[want]++
	}
	for _, v := range []capability.Truth{capability.No, capability.Unknown, capability.Yes} {
		if seen[v] < 100 {
			t.Errorf("the value %d came %d times: the test tries too little", v, seen[v])
		}
	}
}

func TestConditionPrecedence(t *testing.T) {
	s := capability.State{"batch": "1", "mode": "graph", "version.cann": "8.0.RC2", "role": "decode"}
	for text, want := range map[string]capability.Truth{
		``:                                     capability.Yes,
		`true`:                                 capability.Yes,
		`batch == 1 or batch == 2 and false`:   capability.Yes,
		`(batch == 1 or batch == 2) and false`: capability.No,
		`not batch == 2`:                       capability.Yes,
		`not not batch == 1`:                   capability.Yes,
		`version.cann >= "8.0.rc1"`:            capability.Yes,
		`version.cann >= "8.0"`:                capability.No,
		`version.torch_npu >= "2.1"`:           capability.Unknown,
		`role in ["prefill","decode"]`:         capability.Yes,
		`images < 3`:                           capability.Unknown,
		`images < 3 and false`:                 capability.No,
	} {
		if got := parse(t, text).Eval(s); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
	}
	if v := parse(t, "batch < 3").Eval(capability.State{"batch": "many"}); v != capability.Unknown {
		t.Errorf("a batch that is no number is %d", v)
	}
}

// TestConditionErrors: what is wrong is told with its place, as one type of error.
func TestConditionErrors(t *testing.T) {
	for text, at := range map[string]int{
		"batch": 5, "batch =": 6, "batch == ": 9, `batch == "1"`: 9, "mode < \"a\"": 5, "mode == 3": 8, "speed > 3": 0, "batch == 1 batch": 11,
		"(batch == 1": 11, "batch in [1,": 12, "batch in []": 10, `mode == "x`: 8, "batch == 1 && true": 11, "version.a.b == \"1\"": 0, "version. == \"1\"": 0,
		"batch == 1.2.3": 9, strings.Repeat("not ", 100) + "true": 260, strings.Repeat("x", capability.MaxConditionBytes+1): capability.MaxConditionBytes,
		"\xff": 0,
	} {
		_, err := capability.ParseCondition(text)
		var syntax *capability.SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset != at {
			t.Errorf("%.40q: %v, want byte %d", text, err, at)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	order := []string{"0.9", "0.11.0rc1", "0.11.0rc2", "0.11.0", "0.11.0.post1", "0.11.1", "1.0", "8.0.RC1", "8.0.RC2", "8.0.0", "10"}
	for i, a := range order {
		for j, b := range order {
			got, want := capability.CompareVersions(a, b), 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got != want {
				t.Errorf("%s and %s: %d, want %d", a, b, got, want)
			}
		}
	}
	for _, same := range [][2]string{{"v1.2", "1.2.0"}, {"0.11", "0.11.0.0"}, {"1.02", "1.2"}} {
		if capability.CompareVersions(same[0], same[1]) != 0 {
			t.Errorf("%v differ", same)
		}
	}
}

func FuzzCondition(f *testing.F) {
	for _, s := range []string{`batch <= 8 and dtype in ["bf16"]`, `not (version.cann >= "8")`, "(((", "true or false", "batch == 1e5"} {
		f.Add(s, "batch", "3")
	}
	f.Fuzz(func(t *testing.T, text, name, value string) {
		c, err := capability.ParseCondition(text)
		if err != nil {
			var syntax *capability.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(text) {
				t.Fatalf("%v", err)
			}
			return
		}
		s := capability.State{name: value}
		again, err := capability.ParseCondition(c.String())
		if err != nil || again.Eval(s) != c.Eval(s) {
			t.Fatalf("%q reads back as %v", text, err)
		}
		if not, err := capability.ParseCondition("not (" + c.String() + ")"); err == nil && !c.IsZero() && not.Eval(s) != capability.Yes-c.Eval(s) {
			t.Fatalf("not (%s) is %d", text, not.Eval(s))
		}
		_ = capability.CompareVersions(name, value)
		if capability.CompareVersions(name, value) != -capability.CompareVersions(value, name) {
			t.Fatalf("%q and %q have no order", name, value)
		}
	})
}
