package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// byteVocabulary has all single bytes, then extra tokens, then one that ends the text.
func byteVocabulary(extra ...string) *Vocabulary {
	var list []string
	for b := range 256 {
		list = append(list, string([]byte{byte(b)}))
	}
	return listVocabulary(append(list, extra...))
}

// listVocabulary has the tokens of list, then one that ends the text.
func listVocabulary(list []string) *Vocabulary {
	list = append(slices.Clone(list), "")
	return NewVocabulary(func(id int32) []byte { return []byte(list[id]) }, len(list), []int32{int32(len(list) - 1)})
}

func has(mask []uint64, id int32) bool { return mask[id>>6]>>(id&63)&1 != 0 }

// checkMask compares a mask with what Allows says of each token.
func checkMask(t *testing.T, what any, m *Matcher, v *Vocabulary) []uint64 {
	t.Helper()
	mask := make([]uint64, v.Words())
	if err := m.Mask(mask); err != nil {
		t.Fatalf("%v: %v", what, err)
	}
	for id := range int32(v.Size()) {
		if m.Allows(id) != has(mask, id) {
			t.Fatalf("%v: the mask says %v of token %q, Allows %v", what, has(mask, id), tokenText(v, id), !has(mask, id))
		}
	}
	return mask
}

// follow feeds text byte by byte and returns the matcher, or nil where it is not allowed.
func follow(g *Grammar, v *Vocabulary, text string) *Matcher {
	m := g.Matcher(v)
	for _, b := range []byte(text) {
		if m.Accept(int32(b)) != nil {
			return nil
		}
	}
	return m
}

func matches(g *Grammar, v *Vocabulary, text string) bool {
	m := follow(g, v, text)
	return m != nil && m.canEnd()
}

// TestMaskEqualsAllows: a mask comes from scans of states with smaller counts and from slices, Allows from reading one token.
func TestMaskEqualsAllows(t *testing.T) {
	tokens := []string{"bcd", "ééa", "\xa9a", "zz", "z\"", "\\n", "\n\n"}
	for i := 0; len(tokens) < 330; i++ {
		for _, c := range []string{"a", "b", "c", ","} {
			if i < 7 {
				tokens = append(tokens, c+c)
			}
			tokens = append(tokens, tokens[i]+c)
		}
	}
	v := byteVocabulary(tokens...)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		var text strings.Builder
		text.WriteString("root ::= ")
		for range 1 + r.IntN(4) {
			part := []string{"[a-c]", "[^,]", `"ab"`, "[^\"\\\\\\x00-\\x1f]", ".", `("a" | "ab" | [c,])`, "x", `[aé]`}[r.IntN(8)]
			lo := r.IntN(9)
			fmt.Fprintf(&text, "%s{%d,%d} %s", part, lo, lo+r.IntN(9), []string{`","`, "", `"b"`}[r.IntN(3)])
		}
		text.WriteString("\nx ::= \"a\" x? \"b\" | [a-c]{2,7}\n")
		g, err := ParseGBNF(text.String(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		m := g.Matcher(v)
		for range 15 {
			mask := checkMask(t, text.String(), m, v)
			id, ok := pick(mask, r)
			if !ok {
				t.Fatalf("%s: no token is allowed", text.String())
			}
			if err := m.Accept(id); err != nil {
				t.Fatal(err)
			}
			if v.isEnd(id) {
				break
			}
		}
	}
}

func jsonGrammar(t testing.TB) *Grammar {
	t.Helper()
	b := NewBuilder(Limits{})
	j := newJSON(b)
	g, err := b.Build(j.object(j.any))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestEveryAllowedTextIsJSON samples texts and ends them; each must parse, and parse as an object.
func TestEveryAllowedTextIsJSON(t *testing.T) {
	g := jsonGrammar(t)
	v := byteVocabulary(`{"`, `":`, `",`, `"}`, `}}`, "true", "[[", `\u00`, "null,", "éé", "大", "\xe5\xa4", `":{"`, "1.", "e+", " \n")
	ended := 0
	for seed := range uint64(200) {
		text, ok := finish(t, g, v, rand.New(rand.NewPCG(seed, 4)), 20)
		if !ok {
			continue
		}
		ended++
		var out map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	if ended < 150 {
		t.Errorf("only %d of 200 texts ended", ended)
	}
}

// finish samples n tokens, and then those that bring the text to its end: of the allowed tokens the first on closers, if any.
func finish(t *testing.T, g *Grammar, v *Vocabulary, r *rand.Rand, n int) (string, bool) {
	t.Helper()
	m := g.Matcher(v)
	mask := make([]uint64, v.Words())
	var text []byte
	for i := range 20 * n {
		if err := m.Mask(mask); err != nil {
			t.Fatal(err)
		}
		id, ok := pick(mask, r)
		if !ok {
			t.Fatalf("after %q nothing is allowed", text)
		}
		if i > n && m.canEnd() {
			return string(text), true
		}
		if i > n {
			for _, b := range []byte(`"}]:0`) {
				if has(mask, int32(b)) {
					id = int32(b)
					break
				}
			}
		}
		if v.isEnd(id) {
			return string(text), true
		}
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
		text = append(text, v.bytes(id)...)
	}
	return string(text), false
}

// TestNeverStuck: whatever the vocabulary lacks, texts that follow the masks reach an end, or the grammar is refused at once.
func TestNeverStuck(t *testing.T) {
	var noContinuation, ascii, someLead []string
	for b := range 128 {
		ascii = append(ascii, string(rune(b)))
	}
	noContinuation = append(append(noContinuation, ascii...), "é", "大", "né", "\xc3", "a\xe5", "\xa4\xa7", "大a")
	someLead = slices.Clone(ascii)
	for b := 0x80; b < 0xe0; b++ {
		someLead = append(someLead, string([]byte{byte(b)}))
	}
	someLead = append(someLead, "大", "\xe5\xa4", "小", "大\xe5")
	few := []string{"a", "b", "ab", `"`, "é"}
	for name, list := range map[string][]string{"no continuation bytes": noContinuation, "some leads": someLead, "ASCII": ascii, "few": few} {
		v := listVocabulary(list)
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 6))
			text := []string{
				`root ::= [é大小]{1,5} "b"`, `root ::= [^a]{1,3} ("a" | "é")`, `root ::= .{2,4}`, `root ::= "\"" [^"]{0,4} "\""`, "root ::= (\"é\" | \"大\" | \"b\")* \"ab\"",
				`root ::= [\u0080-\uffff]{1,2} | "a"`, `root ::= "\U0001F600" | "b" "大"?`, `root ::= [一-龥]{1,3} | "b"`,
			}[seed%8]
			g, err := ParseGBNF(text, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Fit(v); err != nil {
				if err := g.Matcher(v).Mask(make([]uint64, v.Words())); err == nil {
					t.Fatalf("%s, %s: Fit refuses and Mask does not", name, text)
				}
				continue
			}
			got, ok, err := sample(t, g, v, r, 400)
			if err != nil || !ok {
				t.Fatalf("%s, %s: stuck after %q: %v", name, text, got, err)
			}
			if !utf8.ValidString(got) || !matches(g, byteVocabulary(), got) {
				t.Fatalf("%s, %s: %q is no text of it", name, text, got)
			}
		}
	}
	g, err := Choice([]string{"大"}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Fit(listVocabulary(ascii)); err == nil || !strings.Contains(err.Error(), "cannot spell") {
		t.Errorf("got %v for a text that the vocabulary cannot spell", err)
	}
}

func TestTokensWithoutTextAreNotAllowed(t *testing.T) {
	// 0 a; 1 control; 2 ends and has bytes; 3 ends; 4 b; 5 a again
	list := [][]byte{[]byte("a"), nil, []byte("a"), nil, []byte("b"), []byte("a")}
	v := NewVocabulary(func(id int32) []byte { return list[id] }, len(list), []int32{3, 2, 2, 99, -1})
	g, err := Choice([]string{"a", "ab", "ba"}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	m := g.Matcher(v)
	for _, step := range []struct {
		want uint64
		take int32
	}{{0b110001, 5}, {0b011100, 4}, {0b001100, 2}, {0, -1}} {
		mask := checkMask(t, step, m, v)
		if mask[0] != step.want {
			t.Fatalf("allowed %b, want %b", mask[0], step.want)
		}
		for _, id := range []int32{-1, 6, 1} {
			if m.Allows(id) || m.Accept(id) == nil {
				t.Errorf("token %d is allowed", id)
			}
		}
		if step.take >= 0 {
			if err := m.Accept(step.take); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !m.Done() || !m.canEnd() {
		t.Error("the text has ended")
	}
}

func TestForced(t *testing.T) {
	v := byteVocabulary(`{"`, `{"na`, `{"name`, `name`, `":`, `": `, `": "`, ` "`, "abc", "abcd", "abce")
	name := func(ids []int32) (out []string) {
		for _, id := range ids {
			out = append(out, tokenText(v, id))
		}
		return out
	}
	for _, c := range []struct {
		gbnf, text, bytes string
		want              []string
	}{
		{`root ::= "{\"name\": \"" [a-z]* "\"}"`, "", `{"name": "`, []string{`{"name`, `": "`}},
		{`root ::= "{\"name\": " ("\"" | "1")`, "", `{"name": `, []string{`{"name`}}, // ": " may become ": \""
		{`root ::= "{\"name\": \"" [a-z]* "\"}"`, `{"name": "x`, "", nil},
		{`root ::= "{" [a-z] "}}"`, "{x", "}}", []string{"}", "}"}},
		{`root ::= "abc" [de]`, "", "abc", nil}, // abcd may follow
		{`root ::= "abc" [xy]`, "", "abc", nil}, // so may abcx, as far as the bytes tell
		{`root ::= "abc"`, "", "abc", []string{"abc"}},
		{`root ::= "a" "b"?`, "", "a", nil},
		{`root ::= "a"`, "a", "", nil},
	} {
		g, err := ParseGBNF(c.gbnf, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		m := follow(g, v, c.text)
		if got, _ := m.forced(); string(got) != c.bytes {
			t.Errorf("%s after %q: forced %q, want %q", c.gbnf, c.text, got, c.bytes)
		}
		got := m.Forced(nil)
		if !slices.Equal(name(got), c.want) {
			t.Errorf("%s after %q: forced %q, want %q", c.gbnf, c.text, name(got), c.want)
		}
		for _, id := range got {
			if err := m.Accept(id); err != nil {
				t.Errorf("%s: a forced token is not allowed: %v", c.gbnf, err)
			}
		}
	}
}

func TestCloneGoesItsOwnWay(t *testing.T) {
	g, err := Choice([]string{"abc", "abd", "x"}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	v := byteVocabulary()
	m := g.Matcher(v)
	if err := m.Accept('a'); err != nil {
		t.Fatal(err)
	}
	c := m.Clone()
	for _, b := range "bd" {
		if err := c.Accept(b); err != nil {
			t.Fatal(err)
		}
	}
	if !c.Done() || m.Done() || !m.Allows('b') || m.Allows('d') {
		t.Error("the clone moved the matcher")
	}
	if allocs := testing.AllocsPerRun(100, func() { m.Clone() }); allocs > 1 {
		t.Errorf("a clone takes %v allocations", allocs)
	}
}

// TestPlacesRecur: what makes masks quick is that the same places come back, however long the text is.
func TestPlacesRecur(t *testing.T) {
	v := byteVocabulary("aa", "a,a")
	for _, c := range []struct{ gbnf, text string }{
		{"root ::= \"a\" root | \"b\"", "a"},
		{"root ::= root \"a\" | \"a\"", "a"},
		{"root ::= \"[\" x (\",\" x)* \"]\"\nx ::= \"a\" | root", "a,"},
		{"root ::= x | x \",\" root\nx ::= \"a\" | \"(\" root \")\"", "a,"},
		{"root ::= root \",\" x | x\nx ::= \"a\" | \"(\" root \")\"", "(a),"},
		{"root ::= (x \",\"?)*\nx ::= \"a\" | \"(\" root \")\"", "(a,a),"},
	} {
		g, err := ParseGBNF(c.gbnf, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		m := g.Matcher(v)
		if m.Allows('[') {
			if err := m.Accept('['); err != nil {
				t.Fatal(err)
			}
		}
		mask := make([]uint64, v.Words())
		for _, b := range []byte(strings.Repeat(c.text, 300)) {
			if err := m.Mask(mask); err != nil || !has(mask, int32(b)) {
				t.Fatalf("%s: %q is not allowed: %v", c.gbnf, b, err)
			}
			if err := m.Accept(int32(b)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(m.a.sets); n > 40 {
			t.Errorf("%s: %d sets after 300 rounds", c.gbnf, n)
		}
	}
}

// TestSequencesShareAGrammar runs many matchers of one grammar at once, with a cache so small that it is forgotten all the time.
func TestSequencesShareAGrammar(t *testing.T) {
	b := NewBuilder(Limits{CacheBytes: 60_000})
	j := newJSON(b)
	g, err := b.Build(j.object(j.any))
	if err != nil {
		t.Fatal(err)
	}
	v := byteVocabulary(`{"`, `":`, `",`, `"}`)
	text := []byte(`{"a": [1, 2, {"b": "c\n大"}], "d": {"e": [[], [true, null]]}}`)
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(k), 7))
			mask := make([]uint64, v.Words())
			for range 10 {
				m := g.Matcher(v)
				for _, x := range text {
					if r.IntN(2) == 0 {
						m = m.Clone()
					}
					if err := m.Mask(mask); err != nil || !has(mask, int32(x)) || has(mask, 0) {
						t.Errorf("%q is not allowed: %v", x, err)
						return
					}
					if err := m.Accept(int32(x)); err != nil {
						t.Error(err)
						return
					}
				}
				if !m.Done() {
					t.Error("the text is complete")
				}
			}
		})
	}
	wg.Wait()
}

func TestChoice(t *testing.T) {
	v := byteVocabulary()
	r := rand.New(rand.NewPCG(8, 8))
	list := []string{"", "yes", "no", "not yet", "né", "née", "大", "大小", "天"}
	for range 5000 {
		list = append(list, fmt.Sprintf("%x", r.Uint64()>>(4*r.IntN(16))))
	}
	g, err := Choice(list, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]bool{}
	for _, s := range list {
		in[s] = true
	}
	for _, s := range append(slices.Clone(list[:200]), "ye", "yess", "n\xc3", "nee", "大小小", "x") {
		if got := matches(g, v, s); got != in[s] {
			t.Errorf("%q: %v, want %v", s, got, in[s])
		}
	}
	for _, list := range [][]string{nil, {"a\xff"}} {
		if _, err := Choice(list, Limits{}); err == nil {
			t.Errorf("%q is accepted", list)
		}
	}
	if _, err := Choice([]string{strings.Repeat("a", 1<<20), "b"}, Limits{}); err == nil {
		t.Error("a megabyte is accepted")
	}
}

func TestTrie(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		var list []entry
		want := map[string][]int32{}
		for id := range int32(r.IntN(60)) {
			s := string(bytes.Repeat([]byte{byte('a' + r.IntN(2))}, r.IntN(4))) + strings.Repeat("b", r.IntN(3))
			list = append(list, entry{s, id})
			if s != "" {
				want[s] = append(want[s], id)
			}
		}
		tr := newTrie(slices.Clone(list))
		var path []byte
		got := map[string][]int32{}
		for i := range tr.bytes {
			path = append(path[:tr.depth[i]-1], tr.bytes[i])
			for j := i + 1; j < int(tr.skip[i]); j++ {
				if tr.depth[j] <= tr.depth[i] {
					t.Fatal("skip goes past a node that is not below")
				}
			}
			if int(tr.skip[i]) < len(tr.bytes) && tr.depth[tr.skip[i]] > tr.depth[i] {
				t.Fatal("skip stops below the node")
			}
			mask := []uint64{0}
			if tr.mark(mask, i) != onesCount(mask) {
				t.Fatal("mark counts wrong")
			}
			eachBit(mask, func(id int32) { got[string(path)] = append(got[string(path)], id) })
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// canEnd reports whether the text may end here.
func (m *Matcher) canEnd() bool { return m.ended || m.err == nil && m.at.ends }
