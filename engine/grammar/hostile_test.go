package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
)

// bounded runs f and fails if it took longer than limit or allocated more than megabytes in all.
func bounded(t *testing.T, limit time.Duration, megabytes uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	f()
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	got := (after.TotalAlloc - before.TotalAlloc) >> 20
	if took > limit || got > megabytes {
		t.Errorf("took %v and %d MB; at most %v and %d MB are right", took, got, limit, megabytes)
	}
	t.Logf("%v, %d MB", took.Round(time.Millisecond), got)
}

func TestHostileGrammarsAreRefused(t *testing.T) {
	deep := strings.Repeat("(", 100_000) + `"a"` + strings.Repeat(")", 100_000)
	var chain, names strings.Builder
	chain.WriteString("root ::= r0\n")
	for i := range 60 {
		fmt.Fprintf(&chain, "r%d ::= r%d r%d\n", i, i+1, i+1)
	}
	chain.WriteString(`r60 ::= "a" root2` + "\n" + `root2 ::= "(" root2 ")" | ""`)
	names.WriteString("root ::= \"a\"\n")
	for i := range 50_000 {
		fmt.Fprintf(&names, "n%d ::= \"\"\n", i)
	}
	for _, c := range []struct{ name, text, limit string }{
		{"ten megabytes", strings.Repeat("# comment\n", 1<<20) + `root ::= "a"`, "SourceBytes"},
		{"deep", "root ::= " + deep, "Depth"},
		{"deep quantifiers", `root ::= "a"` + strings.Repeat("?", 10_000), "Depth"},
		{"rules", names.String(), "Rules"},
		{"many literals", `root ::= ` + strings.Repeat(`"a"|`, 230_000) + `"a"`, "Nodes"},
		{"counts of rules", "root ::= x{100000000}\nx ::= \"(\" x? \")\"", "Nodes"},
		{"optional rules", "root ::= x{0,100000000}\nx ::= \"(\" x? \")\"", "Nodes"},
		{"counts beyond everything", `root ::= "a"{99999999999999999999999}`, "Nodes"},
		{"undefined", `root ::= "a" missing`, ""},
		{"defined twice", "root ::= \"a\"\nroot ::= \"b\"", ""},
		{"no root", `start ::= "a"`, ""},
		{"never ends", `root ::= "a" root`, ""},
		{"never ends, with others", "root ::= \"a\" | x\nx ::= y\ny ::= \"b\" x", ""},
		{"only itself", `root ::= root`, ""},
		{"empty class", `root ::= []`, ""},
		{"everything excluded", `root ::= [^\x00-\U0010FFFF]`, ""},
		{"tokens", `root ::= <think>`, ""},
		{"order", `root ::= [z-a]`, ""},
		{"counts", `root ::= "a"{3,2}`, ""},
		{"surrogate", `root ::= "\uD800"`, ""},
		{"open literal", `root ::= "a`, ""},
		{"open group", `root ::= ("a"`, ""},
		{"bad UTF-8", "root ::= \"\xff\"", ""},
		{"no body", `root`, ""},
		{"nothing", ``, ""},
		{"trailing", `root ::= "a" )`, ""},
		{"nothing to repeat", `root ::= *`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bounded(t, 5*time.Second, 200, func() {
				_, err := ParseGBNF(c.text, Limits{})
				checkRefusal(t, err, c.limit)
			})
		})
	}
	// What is large and no harm is accepted.
	bounded(t, 5*time.Second, 200, func() {
		if _, err := ParseGBNF(chain.String(), Limits{}); err != nil {
			t.Error(err)
		}
	})
}

func checkRefusal(t *testing.T, err error, limit string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want a refusal", err)
		return
	}
	if e.Limit != limit {
		t.Errorf("refused for %q (%v), want %q", e.Limit, e, limit)
	}
	if s := e.Error(); len(s) > 400 || !strings.Contains(s, ";") {
		t.Errorf("a refusal says what is wrong; and what to do: %s", s)
	}
}

// sample takes random allowed tokens, up to n. It returns the text so far, and whether it is complete.
func sample(t testing.TB, g *Grammar, v *Vocabulary, r *rand.Rand, n int) (string, bool, error) {
	t.Helper()
	m := g.Matcher(v)
	mask := make([]uint64, v.Words())
	var text []byte
	for range n {
		if err := m.Mask(mask); err != nil {
			return string(text), false, err
		}
		id, ok := pick(mask, r)
		if !ok {
			t.Fatalf("after %q no token is allowed", text)
		}
		if err := m.Accept(id); err != nil {
			return string(text), false, err
		}
		if v.isEnd(id) {
			return string(text), true, nil
		}
		text = append(text, v.bytes(id)...)
	}
	return string(text), m.canEnd(), nil
}

// TestExponentialExpressions follows texts through expressions that take other engines exponential time or memory.
func TestExponentialExpressions(t *testing.T) {
	v := byteVocabulary("aa", "aaaaaaaa", "ab", "ba", "abababab", "bbbb", "aaab")
	long := strings.Repeat("ab", 1000)
	for _, c := range []struct{ name, gbnf, text string }{
		{"(a|a)*b", `root ::= ("a" | "a")* "b"`, strings.Repeat("a", 2000) + "b"},
		{"((a*)*)*b", `root ::= ((("a")*)*)* "b"`, strings.Repeat("a", 2000) + "b"},
		{"[ab]*a[ab]{20}", `root ::= [ab]* "a" [ab]{20}`, long + "abbbbbbbbbbbbbbbbbbbb"},
		{"[ab]*a[ab]{400}", `root ::= [ab]* "a" [ab]{400}`, long},
		{"(.{1,1000}){1,1000}", `root ::= (.{1,1000}){1,1000}`, long},
		{"(a?){1000}a{1000}", `root ::= ("a"?){1000} "a"{1000}`, strings.Repeat("a", 1500)},
		{"(a|aa|aaa){1,1000}", `root ::= ("a" | "aa" | "aaa"){1,1000}`, strings.Repeat("a", 2000)},
		{"(a*){1000}", `root ::= ("a"*){1000}`, strings.Repeat("a", 2000)},
		{"a{1000000}", `root ::= "a"{1000000}`, strings.Repeat("a", 2000)},
		{"left recursion", "root ::= root \"a\" | \"b\"", "b" + strings.Repeat("a", 2000)},
		{"right recursion", "root ::= \"a\" root | \"b\"", strings.Repeat("a", 2000) + "b"},
		{"hidden left recursion", "root ::= e root \"a\" | \"b\"\ne ::= \"\" | \"c\"", "cb" + "a"},
		{"empty loops", "root ::= (x*)* \"b\"\nx ::= \"\" | x x | \"(\" x \")\"", "(((())))()b"},
		{"nesting", "root ::= \"(\" root \")\" | \"\"", strings.Repeat("(", 1000) + strings.Repeat(")", 1000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			bounded(t, 10*time.Second, 1000, func() {
				g, err := ParseGBNF(c.gbnf, Limits{})
				if err != nil {
					t.Fatal(err)
				}
				m := g.Matcher(v)
				mask := make([]uint64, v.Words())
				for i, b := range []byte(c.text) {
					if i%50 == 0 {
						if err := m.Mask(mask); err != nil {
							t.Fatal(err)
						}
						if mask[b>>6]>>(b&63)&1 == 0 {
							t.Fatalf("at %d %q is not allowed", i, b)
						}
					}
					if err := m.Accept(int32(b)); err != nil {
						t.Fatalf("at %d: %v", i, err)
					}
				}
			})
		})
	}
}

// TestLimitsOfMatching: what is too ambiguous or too much work ends with an error that says so, soon, and leaves other texts alone.
func TestLimitsOfMatching(t *testing.T) {
	v := byteVocabulary("aa", "ab")
	for _, c := range []struct{ name, gbnf string }{
		{"catalan", "root ::= root root | \"a\" | \"(\" root \")\""},
		{"counts within counts", "root ::= ([ab]{1,80} [bc]{1,80} [ac]{1,80}){1,80}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bounded(t, 20*time.Second, 1500, func() {
				g, err := ParseGBNF(c.gbnf, Limits{Items: 500, MaskSteps: 300_000})
				if err != nil {
					t.Fatal(err)
				}
				m := g.Matcher(v)
				mask := make([]uint64, v.Words())
				r := rand.New(rand.NewPCG(1, 9))
				for range 20_000 {
					if err = m.Mask(mask); err != nil {
						break
					}
					for tries := 0; tries < 20; tries++ {
						if b := int32("abc"[r.IntN(3)]); mask[b>>6]>>(b&63)&1 != 0 {
							err = m.Accept(b)
							break
						}
					}
					if err != nil {
						break
					}
				}
				t.Log(err)
				var e *Error
				if err != nil && (!errors.As(err, &e) || e.Limit == "") {
					t.Errorf("got %v", err)
				}
				fresh := g.Matcher(v)
				if err := fresh.Mask(mask); err != nil || !fresh.Allows('a') {
					t.Errorf("another text of the grammar suffers: %v", err)
				}
			})
		})
	}
}

// TestIntersectionsAreBounded: whether an intersection has any text may take exponential time to find out.
func TestIntersectionsAreBounded(t *testing.T) {
	var parts []Regexp
	ab := Chars(Range{'a', 'b'})
	for i := range 12 {
		n := 5 + 2*i
		parts = append(parts, Alternate(
			Concat(Times(ab, 0, -1), Text("a"), Times(ab, n, n)), Concat(Times(ab, 0, -1), Text("b"), Times(ab, n+1, n+1))))
	}
	parts = append(parts, Not(Concat(Times(ab, 0, -1), Text("a"), Times(ab, 3, 3))), Not(Concat(Times(ab, 0, -1), Text("b"), Times(ab, 3, 3))))
	bounded(t, 10*time.Second, 500, func() {
		b := NewBuilder(Limits{})
		_, err := b.Build(b.Lexeme(Intersect(parts...)))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("got %v: there is no such text", err)
		}
		t.Log(err)
	})
}

// TestMemoryIsBounded follows random texts through an expression with a million states and looks at what the grammar keeps.
func TestMemoryIsBounded(t *testing.T) {
	g, err := ParseGBNF(`root ::= [ab]* "a" [ab]{24} "c"`, Limits{CacheBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	v := byteVocabulary("aa", "ab", "ba", "bb")
	r := rand.New(rand.NewPCG(5, 5))
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	parked := []*Matcher{}
	mask := make([]uint64, v.Words())
	m := g.Matcher(v)
	for i := range 60_000 {
		if i%3000 == 0 {
			parked = append(parked, m.Clone())
		}
		if err := m.Accept(int32("ab"[r.IntN(2)])); err != nil {
			t.Fatal(err)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 24<<20 {
		t.Errorf("the grammar keeps %d MB for a cache of 4", grown>>20)
	}
	for _, p := range parked {
		if err := p.Mask(mask); err != nil || mask['a'>>6]>>('a'&63)&1 == 0 {
			t.Fatalf("a matcher that was parked is lost: %v", err)
		}
	}
}
