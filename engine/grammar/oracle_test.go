package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The oracle computes languages by listing their texts, over three characters: two that grammars name (one of them of two bytes) and
// one that stands for all that they do not name.
var alphabet = []string{"a", "é", "z"}

const (
	oracleWords  = 7 // characters of the longest texts that the oracle lists
	oraclePrefix = 3 // characters of the longest prefixes that it is asked about
)

// language is a set of texts.
type language map[string]bool

var universe = func() language {
	all := language{"": true}
	last := []string{""}
	for range oracleWords {
		var next []string
		for _, s := range last {
			for _, c := range alphabet {
				next = append(next, s+c)
				all[s+c] = true
			}
		}
		last = next
	}
	return all
}()

func length(s string) int { return utf8.RuneCountInString(s) }

func (t language) join(u language, most int) language {
	byLength := make([][]string, most+1)
	for b := range u {
		if n := length(b); n <= most {
			byLength[n] = append(byLength[n], b)
		}
	}
	out := language{}
	for a := range t {
		for n := 0; n <= most-length(a); n++ {
			for _, b := range byLength[n] {
				out[a+b] = true
			}
		}
	}
	return out
}

func (t language) add(u language) bool {
	n := len(t)
	for s := range u {
		t[s] = true
	}
	return len(t) > n
}

// spec is a random grammar, as a value that both sides can read.
type spec struct {
	kind     string // regexps: text chars cat alt rep and not; nodes: lexeme seq or repeat rule
	text     string
	sub      []*spec
	min, max int
	rule     int
}

func (s *spec) String() string {
	var sub []string
	for _, x := range s.sub {
		sub = append(sub, x.String())
	}
	in := strings.Join(sub, " ")
	switch s.kind {
	case "text", "chars":
		return fmt.Sprintf("%s(%s)", s.kind, s.text)
	case "rule":
		return fmt.Sprintf("R%d", s.rule)
	case "rep", "repeat":
		return fmt.Sprintf("%s{%d,%d}(%s)", s.kind, s.min, s.max, in)
	}
	return fmt.Sprintf("%s(%s)", s.kind, in)
}

// numbers draws numbers: from a generator, or from the bytes of a fuzzer.
type numbers interface{ IntN(n int) int }

type fuzzSource struct{ data []byte }

func (f *fuzzSource) IntN(n int) int {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return int(b) % n
}

func randomText(r numbers, most int) string {
	var s string
	for range r.IntN(most + 1) {
		s += alphabet[r.IntN(2)]
	}
	return s
}

func randomCounts(r numbers) (lo, hi int) {
	lo = r.IntN(3)
	if hi = lo + r.IntN(3); r.IntN(3) == 0 {
		hi = -1
	}
	return lo, hi
}

func randomRegexp(r numbers, depth int) *spec {
	if depth == 0 || r.IntN(3) == 0 {
		if r.IntN(3) == 0 {
			return &spec{kind: "chars", text: []string{"a", "é", "aé", "^a", "^é", "^aé", "^", ""}[r.IntN(8)]}
		}
		return &spec{kind: "text", text: randomText(r, 1+min(depth, 1))} // short enough for oracleWords to show how they go on
	}
	kind := []string{"cat", "alt", "rep", "and", "not", "cat", "alt"}[r.IntN(7)]
	s := &spec{kind: kind, sub: []*spec{randomRegexp(r, depth-1)}}
	switch kind {
	case "rep":
		s.min, s.max = randomCounts(r)
	case "not":
	default:
		s.sub = append(s.sub, randomRegexp(r, depth-1))
	}
	return s
}

func randomNode(r numbers, depth, rules int) *spec {
	if depth == 0 || r.IntN(4) == 0 {
		switch r.IntN(4) {
		case 0:
			return &spec{kind: "lexeme", sub: []*spec{randomRegexp(r, 2)}}
		case 1:
			return &spec{kind: "lexeme", sub: []*spec{{kind: "text", text: randomText(r, 2)}}}
		}
		return &spec{kind: "rule", rule: r.IntN(rules)}
	}
	kind := []string{"seq", "or", "repeat", "seq", "or"}[r.IntN(5)]
	s := &spec{kind: kind}
	if kind == "repeat" {
		s.min, s.max = randomCounts(r)
		s.sub = []*spec{randomNode(r, depth-1, rules)}
		return s
	}
	for range r.IntN(4) {
		s.sub = append(s.sub, randomNode(r, depth-1, rules))
	}
	return s
}

// randomGrammar is the bodies of rules; the first is the start.
func randomGrammar(r numbers) []*spec {
	rules := make([]*spec, 1+r.IntN(3))
	for i := range rules {
		rules[i] = randomNode(r, 3, len(rules))
	}
	return rules
}

// built makes the grammar with a Builder.
func built(rules []*spec, limits Limits) (*Grammar, error) {
	b := NewBuilder(limits)
	refs := make([]Node, len(rules))
	for i := range rules {
		refs[i] = b.Rule(fmt.Sprint("R", i))
	}
	for i, s := range rules {
		b.Define(refs[i], buildNode(b, s, refs))
	}
	return b.Build(refs[0])
}

func buildNode(b *Builder, s *spec, refs []Node) Node {
	var sub []Node
	if s.kind != "lexeme" {
		for _, x := range s.sub {
			sub = append(sub, buildNode(b, x, refs))
		}
	}
	switch s.kind {
	case "lexeme":
		return b.Lexeme(buildRegexp(s.sub[0]))
	case "seq":
		return b.Seq(sub...)
	case "or":
		return b.Or(sub...)
	case "repeat":
		return b.Repeat(sub[0], s.min, s.max)
	}
	return refs[s.rule]
}

func buildRegexp(s *spec) Regexp {
	var sub []Regexp
	for _, x := range s.sub {
		sub = append(sub, buildRegexp(x))
	}
	switch s.kind {
	case "text":
		return Text(s.text)
	case "chars":
		text, negated := strings.CutPrefix(s.text, "^")
		var rs []Range
		for _, c := range text {
			rs = append(rs, Range{c, c})
		}
		if negated {
			return NotChars(rs...)
		}
		return Chars(rs...)
	case "cat":
		return Concat(sub...)
	case "alt":
		return Alternate(sub...)
	case "and":
		return Intersect(sub...)
	case "not":
		return Not(sub[0])
	}
	return Times(sub[0], s.min, s.max)
}

// words lists the texts of an expression.
func words(s *spec) language {
	switch s.kind {
	case "text":
		return language{s.text: true}
	case "chars":
		text, negated := strings.CutPrefix(s.text, "^")
		out := language{}
		for _, c := range alphabet {
			if strings.Contains(text, c) != negated {
				out[c] = true
			}
		}
		return out
	case "cat":
		return words(s.sub[0]).join(words(s.sub[1]), oracleWords)
	case "alt":
		out := words(s.sub[0])
		out.add(words(s.sub[1]))
		return out
	case "and":
		out, other := language{}, words(s.sub[1])
		for x := range words(s.sub[0]) {
			if other[x] {
				out[x] = true
			}
		}
		return out
	case "not":
		out, other := language{}, words(s.sub[0])
		for x := range universe {
			if !other[x] {
				out[x] = true
			}
		}
		return out
	}
	return rounds(words(s.sub[0]), s.min, s.max, oracleWords)
}

// rounds is lo to hi texts of t, one after another.
func rounds(t language, lo, hi, most int) language {
	now := language{"": true}
	for range lo {
		now = now.join(t, most)
	}
	out := language{}
	out.add(now)
	for i := lo; hi < 0 || i < hi; i++ {
		now = now.join(t, most)
		if !out.add(now) {
			break
		}
	}
	return out
}

// meaning is what the oracle knows of a part: whether any text of it ends, which short ones do, and which short prefixes of texts
// there are.
type meaning struct {
	ends     bool
	words    language
	prefixes language
}

func leaf(t language) meaning {
	m := meaning{ends: len(t) > 0, words: language{}, prefixes: language{}}
	for w := range t {
		if length(w) <= oraclePrefix {
			m.words[w] = true
		}
		for i := range len(w) + 1 {
			if (i == len(w) || utf8.RuneStart(w[i])) && length(w[:i]) <= oraclePrefix {
				m.prefixes[w[:i]] = true
			}
		}
	}
	return m
}

var nothing = meaning{words: language{}, prefixes: language{}}

func (m meaning) then(n meaning) meaning {
	if !m.ends || !n.ends {
		return nothing
	}
	out := meaning{ends: true, words: m.words.join(n.words, oraclePrefix), prefixes: language{}}
	out.prefixes.add(m.prefixes)
	out.prefixes.add(m.words.join(n.prefixes, oraclePrefix))
	return out
}

func (m meaning) or(n meaning) meaning {
	out := meaning{ends: m.ends || n.ends, words: language{}, prefixes: language{}}
	for _, x := range []meaning{m, n} {
		out.words.add(x.words)
		out.prefixes.add(x.prefixes)
	}
	return out
}

func means(s *spec, rules []meaning, leaves map[*spec]meaning) meaning {
	switch s.kind {
	case "lexeme":
		m, ok := leaves[s]
		if !ok {
			m = leaf(words(s.sub[0]))
			leaves[s] = m
		}
		return m
	case "rule":
		return rules[s.rule]
	case "seq":
		out := leaf(language{"": true})
		for _, x := range s.sub {
			out = out.then(means(x, rules, leaves))
		}
		return out
	case "or":
		out := nothing
		for _, x := range s.sub {
			out = out.or(means(x, rules, leaves))
		}
		return out
	}
	x := means(s.sub[0], rules, leaves)
	now := leaf(language{"": true})
	for range s.min {
		now = now.then(x)
	}
	out := now
	for i := s.min; s.max < 0 || i < s.max; i++ {
		now = now.then(x)
		next := out.or(now)
		if len(next.words) == len(out.words) && len(next.prefixes) == len(out.prefixes) {
			break
		}
		out = next
	}
	return out
}

// understand finds the least meaning of the rules.
func understand(rules []*spec) meaning {
	now := make([]meaning, len(rules))
	for i := range now {
		now[i] = nothing
	}
	leaves := map[*spec]meaning{}
	for {
		next := make([]meaning, len(rules))
		same := true
		for i, s := range rules {
			next[i] = means(s, now, leaves)
			same = same && next[i].ends == now[i].ends && len(next[i].words) == len(now[i].words) && len(next[i].prefixes) == len(now[i].prefixes)
		}
		if now = next; same {
			return now[0]
		}
	}
}

// viable reports whether bytes, of at most oraclePrefix characters, begin a text.
func (m meaning) viable(bytes string) bool {
	for n := range min(len(bytes), utf8.UTFMax-1) + 1 {
		whole, part := bytes[:len(bytes)-n], bytes[len(bytes)-n:]
		for _, c := range alphabet {
			if n == 0 && m.prefixes[whole] || n > 0 && len(c) > n && strings.HasPrefix(c, part) && m.prefixes[whole+c] {
				return true
			}
		}
	}
	return false
}

func tokenText(v *Vocabulary, id int32) string { return string(v.bytes(id)) }

// randomTokens are pieces of texts, cut anywhere.
func randomTokens(r numbers) []string {
	var out []string
	for range 12 {
		var s string
		for range 1 + r.IntN(3) {
			s += alphabet[r.IntN(3)]
		}
		from := r.IntN(len(s))
		out = append(out, s[from:from+1+r.IntN(len(s)-from)])
	}
	return out
}

// checkAgainstOracle compares every mask that can be reached within oraclePrefix characters with the oracle.
func checkAgainstOracle(t *testing.T, rules []*spec, r numbers, limits Limits) (compared bool) {
	t.Helper()
	want := understand(rules)
	g, err := built(rules, limits)
	if err != nil {
		var e *Error
		if want.ends || !errors.As(err, &e) || e.Limit != "" {
			t.Fatalf("%v: refused with %v, but it has texts: %v", rules, err, want.ends)
		}
		return false
	}
	if !want.ends {
		t.Fatalf("%v: built, but it has no texts", rules)
	}
	v := byteVocabulary(randomTokens(r)...)
	seen := map[string]bool{}
	var visit func(m *Matcher, prefix string)
	visit = func(m *Matcher, prefix string) {
		if seen[prefix] {
			return
		}
		seen[prefix] = true
		mask := make([]uint64, v.Words())
		if err := m.Mask(mask); err != nil {
			t.Fatalf("%v after %q: %v", rules, prefix, err)
		}
		if end := mask[(v.Size()-1)/64]>>((v.Size()-1)%64)&1 != 0; end != want.words[prefix] || m.canEnd() != end {
			t.Fatalf("%v after %q: may end %v, want %v", rules, prefix, end, want.words[prefix])
		}
		for id := range int32(v.Size() - 1) {
			text := prefix + tokenText(v, id)
			if length(text) > oraclePrefix || strings.Trim(text, "az\xc3\xa9") != "" {
				continue
			}
			got := mask[id>>6]>>(id&63)&1 != 0
			if got != want.viable(text) {
				t.Fatalf("%v after %q: token %q allowed %v, want %v", rules, prefix, tokenText(v, id), got, !got)
			}
			if m.Allows(id) != got {
				t.Fatalf("%v after %q: Allows(%q) is not what the mask says, %v", rules, prefix, tokenText(v, id), got)
			}
			if got {
				next := m.Clone()
				if err := next.Accept(id); err != nil {
					t.Fatalf("%v after %q: %v", rules, prefix, err)
				}
				visit(next, text)
			}
		}
	}
	visit(g.Matcher(v), "")
	return true
}

func TestMasksEqualTheOracle(t *testing.T) {
	rounds := 1500
	if testing.Short() {
		rounds = 200
	}
	compared := 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		if checkAgainstOracle(t, randomGrammar(r), r, Limits{}) {
			compared++
		}
	}
	if compared < rounds/3 {
		t.Errorf("only %d of %d grammars had texts", compared, rounds)
	}
}

func FuzzBuilder(f *testing.F) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 120)
		for i := range data {
			data[i] = byte(r.IntN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &fuzzSource{slices.Clone(data)}
		checkAgainstOracle(t, randomGrammar(r), r, Limits{})
	})
}
