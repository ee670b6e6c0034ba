package grammar

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// The grammars of llama.cpp's documentation, written anew: what people send looks like this.
const (
	jsonGBNF = `
# any JSON object
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
`
	chessGBNF = `root ::= (
    # moves
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn    ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle  ::= "O-O" "-O"?`
	mathGBNF = `root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*`
)

func TestGBNF(t *testing.T) {
	v := byteVocabulary()
	for _, c := range []struct {
		name, gbnf string
		yes, no    []string
	}{
		{"json", jsonGBNF, []string{`{}`, `{"a":[1,-2.5e+1,"x\n\u00e9é"], "b":{"c": null}}`, "{\n  }"}, []string{``, `[]`, `{"a"}`, `{"a":01}`, "{\"\t\":1}", `{"a":1,}`}},
		{"chess", chessGBNF, []string{"1. e4 e5\n2. Nf3 Nc6\n", "1. O-O-O+ exd8=Q#\n10. a1 h8\n"}, []string{"1. e4 e5\n", "2. e4 e5\n2. a1 a1\n", "1. e9 e5\n1. a1 a1\n"}},
		{"math", mathGBNF, []string{"a=b\n", "(x1 +2)*y=z\n1=1\n"}, []string{"a=\n=", "1a=b\n", "(a=b\n"}},
		{
			"escapes", `root ::= "\x41\u00e9\U0001F600\t\r\n\\\"\[\]\-" [\]\[\\"\x30-\u0039^-]`,
			[]string{"Aé😀\t\r\n\\\"[]-]", "Aé😀\t\r\n\\\"[]-5", "Aé😀\t\r\n\\\"[]-^", "Aé😀\t\r\n\\\"[]--"},
			[]string{"Aé😀\t\r\n\\\"[]-a", "a"},
		},
		{"classes", `root ::= [a-] [^a-y] [^-x] .`, []string{"azya", "-Aé\n", "aA大大"}, []string{"bzya", "aaya", "az-a", "azy"}},
		{"counts", `root ::= "ab"{2} [c]{1,} "d"{0,2} ("e" | "f"){1,2}?`, []string{"ababc", "ababcccddef", "ababcdf"}, []string{"abc", "ababddd", "ababcdddf", "ababcefe"}},
		{"spaced counts", `root ::= "a"{ 2 , 3 } "b" { 1 }`, []string{"aab", "aaab"}, []string{"ab", "aaaab"}},
		{"empty alternatives", "root ::= | \"a\" | (\"b\" |)", []string{"", "a", "b"}, []string{"ab"}},
		{"line ends", "root ::= \"a\" |\r\n  \"b\" x # no more\r\n\r\nx ::= (\r\n\"c\"\r\n)\r\n", []string{"a", "bc"}, []string{"b"}},
		{"names", "root ::= A-b_9 9\nA-b_9 ::= \"x\"\n9 ::= \"y\"", []string{"xy"}, []string{"x"}},
		{
			"counts with gaps", `root ::= ("ab"{2} | "ab"{4} | "ab"{8,9}) "c"? | ("ab"{3}){2}`,
			[]string{"abab", "ababababc", "abababababab", "ababababababababc"},
			[]string{"ab", "ababab", "ababababab", "abababababababab" + "abab", "ababababababab"},
		},
		{"counts that touch", `root ::= "ab"{1,2} | "ab"{3,4}`, []string{"ab", "abab", "ababab", "abababab"}, []string{"", "ababababab"}},
		{"stacked", `root ::= ("a"{2})+? "b"`, []string{"b", "aab", "aaaab"}, []string{"ab", "aaab"}},
		{"zero times", `root ::= "a"{0} "b"{0,0} "c"`, []string{"c"}, []string{"ac", "bc"}},
		{"left recursion", "root ::= root \"+\" num | num\nnum ::= [0-9]+ | \"(\" root \")\"", []string{"1", "1+22+(3+4)+5"}, []string{"1+", "+1", "()"}},
		{"mutual recursion", "root ::= a\na ::= b \"x\" | \"y\"\nb ::= a \"z\" | \"w\"", []string{"y", "wx", "yzx", "wxzx"}, []string{"w", "yz", "x"}},
		{"palindromes", "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\" | \"\"", []string{"", "abba", "ababa", "aaaa"}, []string{"ab", "aab"}},
		{"ambiguous", "root ::= (x y)* \nx ::= \"a\" | \"ab\" | \"\"\ny ::= \"b\" | \"bb\" | \"\"", []string{"", "abbb", "bab", "ababb"}, []string{"c"}},
		{"not greedy", `root ::= [a-z]* "end"`, []string{"end", "endend", "xend"}, []string{"en", "endx"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ParseGBNF(c.gbnf, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range c.yes {
				if !matches(g, v, s) {
					t.Errorf("%q is refused", s)
				}
			}
			for _, s := range c.no {
				if matches(g, v, s) {
					t.Errorf("%q is accepted", s)
				}
			}
		})
	}
}

func TestGBNFErrorsSayWhere(t *testing.T) {
	_, err := ParseGBNF("root ::= x\nx ::= \"é\" [a\n", Limits{})
	if err == nil || !strings.Contains(err.Error(), "line 3, column 1") {
		t.Errorf("got %v", err)
	}
	_, err = ParseGBNF("root ::= x\nx ::= \"é\" %", Limits{})
	if err == nil || !strings.Contains(err.Error(), "line 2, column 11") {
		t.Errorf("got %v", err)
	}
	reason, ok := Reason(err)
	if !ok || !strings.Contains(reason.String(), "line 2") {
		t.Errorf("the reason is %v", reason)
	}
}

func FuzzParseGBNF(f *testing.F) {
	for _, s := range []string{jsonGBNF, chessGBNF, mathGBNF, `root ::= "a"{2,} [^\x00-\x20]`, "root ::= root \"x\" | \"\"", "root ::= (a*)*\na ::= \"\" | \"b\" a"} {
		f.Add(s, uint64(1))
	}
	v := byteVocabulary("ab", "{\"", "aa", "\xc3")
	limits := Limits{SourceBytes: 2000, Rules: 50, Nodes: 2000, Depth: 30, Items: 300, BuildSteps: 300_000, MaskSteps: 100_000, CacheBytes: 1 << 20}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		g, err := ParseGBNF(text, limits)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Error(), ";") {
				t.Fatalf("the refusal says no remedy: %v", err)
			}
			return
		}
		m := g.Matcher(v)
		r := rand.New(rand.NewPCG(seed, 11))
		mask := make([]uint64, v.Words())
		for range 20 {
			if err := m.Mask(mask); err != nil {
				return // a limit
			}
			id, ok := pick(mask, r)
			if !ok {
				t.Fatal("no token is allowed before the end")
			}
			for x := range int32(v.Size()) {
				if m.Allows(x) != has(mask, x) && m.Allows('a') == has(mask, 'a') {
					t.Fatalf("the mask says %v of %q", has(mask, x), tokenText(v, x))
				}
			}
			if m.Accept(id) != nil || v.isEnd(id) {
				return
			}
		}
	})
}
