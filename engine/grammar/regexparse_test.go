package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// randomRE2 is an expression in the syntax that regexp reads.
func randomRE2(r numbers, depth int) string {
	if depth == 0 || r.IntN(4) == 0 {
		return []string{"a", "b", "é", ".", "[ab]", "[^a]", `\d`, "(?i:K)", "^", "$", "", `\x61`, "(?s:.)", `[[:alpha:]]`, `\A`, `\z`, "ab"}[r.IntN(17)]
	}
	x := randomRE2(r, depth-1)
	switch r.IntN(7) {
	case 0:
		return "(?:" + x + ")*"
	case 1:
		return "(" + x + ")+?"
	case 2:
		return fmt.Sprintf("(?:%s){%d,%d}", x, r.IntN(2), 2+r.IntN(2))
	case 3:
		return "(?:" + x + ")?"
	case 4, 5:
		return x + randomRE2(r, depth-1)
	}
	return "(?:" + x + "|" + randomRE2(r, depth-1) + ")"
}

var regexTexts = func() (out []string) {
	out = []string{""}
	for i := 0; i < 85; i++ {
		for _, c := range []string{"a", "b", "é", "\n"} {
			out = append(out, out[i]+c)
		}
	}
	return append(out, "k", "K", "\u212a", "1", "aab1", "abababab", "zz")
}()

// checkRegex compares an expression with what regexp makes of it: as a whole, and as a search.
func checkRegex(t *testing.T, re string, texts []string, v *Vocabulary) {
	t.Helper()
	for _, search := range []bool{false, true} {
		// The same flags as ParseRegexp; the outer anchors make regexp match the whole text.
		pattern := `\A(?:` + re + `)\z`
		parse := ParseRegexp
		if search {
			pattern = re
			parse = func(re string) (Regexp, error) { return ParseRegexp("(?s:.*)(?:" + re + ")(?s:.*)") }
		}
		if _, err := regexp.Compile(re); err != nil {
			if _, err := parse(re); err == nil {
				t.Fatalf("%q is accepted, and regexp does not", re)
			}
			return
		}
		std, err := regexp.Compile(pattern)
		if err != nil {
			return // \Q swallows what is put around it
		}
		ours, err := parse(re)
		if err != nil {
			if strings.Contains(re, `\b`) || strings.Contains(re, `\B`) || strings.Contains(re, "(?") {
				return // what is refused on purpose
			}
			t.Fatalf("%q: %v", re, err)
		}
		b := NewBuilder(Limits{})
		g, err := b.Build(b.Lexeme(ours))
		if err != nil {
			var e *Error
			for _, s := range texts {
				if errors.As(err, &e) && e.Limit == "" && std.MatchString(s) {
					t.Fatalf("%q (search %v): %v, but %q matches", re, search, err, s)
				}
			}
			continue
		}
		for _, s := range texts {
			if got, want := matches(g, v, s), std.MatchString(s); got != want {
				t.Fatalf("%q (search %v) and %q: %v, want %v", re, search, s, got, want)
			}
		}
	}
}

func TestRegexEqualsRegexp(t *testing.T) {
	v := byteVocabulary()
	for _, re := range []string{
		"a|b", "(a|ab)(c|bcd)", "^a$", "^^a$$", "(^a|b)*", "(^|a)b($|a)", "a^b", "$^", "(^)*a", "($)*", "(^a?){3}b", "(a?$){2}", "(?:^|b)(?:a|$)+", "(a$|b)(^c|$)", "",
		"^", "a{2}", "a{0}", "(a|^){2,}", "[^\\x00-\\x7f]", "(?i)kelvin|é", "^(a|b$)+$", "\\pL+", "[\\p{Han}é]",
	} {
		checkRegex(t, re, regexTexts, v)
	}
	r := rand.New(rand.NewPCG(1, 10))
	rounds := 1500
	if testing.Short() {
		rounds = 200
	}
	for range rounds {
		checkRegex(t, randomRE2(r, 4), regexTexts, v)
	}
}

func TestRegexRefusals(t *testing.T) {
	for _, c := range []struct{ re, limit string }{
		{"(", ""},
		{"a**", ""},
		{`\b`, ""},
		{`(?m)^a`, ""},
		{"a\xff", ""},
		{`(?=a)`, ""},
		{`\1`, ""},
		{"[^\\x00-\\x{10FFFF}]", ""},
		{"a^b", ""},
		{"(.{1,1000}){1,1000}", "Nodes"},
		{"a{100000}", "Nodes"},
		{strings.Repeat("(", 2000) + strings.Repeat(")", 2000), "Depth"},
		{strings.Repeat("a", 2<<20), "SourceBytes"},
		{strings.Repeat("(^a|b$)", 2000), "*"},
		{"(" + strings.Repeat("(^|a)(b|$)", 12) + "){1,9}", "*"},
	} {
		_, err := ParseRegex(c.re, Limits{})
		if c.limit != "*" {
			checkRefusal(t, err, c.limit)
		}
	}
}

func FuzzParseRegex(f *testing.F) {
	for _, s := range []string{"a|b*", "(^a|b$)+", `"([^"\\]|\\.)*"`, "[a-z]{2,5}é?", `(?i)k{1,3}`, "(.{1,9}){1,9}", "a^b", `\d+(\.\d+)?`} {
		f.Add(s, "ab")
	}
	v := byteVocabulary()
	f.Fuzz(func(t *testing.T, re, text string) {
		if len(re) > 60 || len(text) > 60 || strings.ToValidUTF8(text, "") != text {
			return
		}
		checkRegex(t, re, []string{text, text + text, ""}, v)
	})
}
