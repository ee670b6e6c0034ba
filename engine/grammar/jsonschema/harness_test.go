package jsonschema

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-project/sluice/engine/grammar"
)

// record is one line of the test set.
type record struct {
	file    string
	Name    string            `json:"name"`
	Schema  json.RawMessage   `json:"schema"`
	Valid   []json.RawMessage `json:"valid"`
	Invalid []json.RawMessage `json:"invalid"`
}

// testSet reads testdata/*.jsonl.
func testSet(t testing.TB) []record {
	t.Helper()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("testdata has no schemas", err)
	}
	var out []record
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			r := record{file: strings.TrimSuffix(filepath.Base(name), ".jsonl")}
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatalf("%s: %v in %.60s", name, err, lines.Text())
			}
			out = append(out, r)
		}
		f.Close()
	}
	return out
}

// validate returns a function of an independent implementation that checks a text.
func validate(t testing.TB, schema json.RawMessage) func(text string) error {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	for name, most := range map[string]*big.Int{"int32": big.NewInt(math.MaxInt32), "int64": big.NewInt(math.MaxInt64)} {
		c.RegisterFormat(&validator.Format{Name: name, Validate: func(v any) error {
			n, ok := v.(json.Number)
			if x, whole := new(big.Rat).SetString(n.String()); ok && whole && (x.Cmp(new(big.Rat).SetInt(most)) > 0 || x.Cmp(new(big.Rat).SetInt(new(big.Int).Not(most))) < 0) {
				return errors.New("out of range")
			}
			return nil
		}})
	}
	c.UseRegexpEngine(func(s string) (validator.Regexp, error) { return regexp.Compile(goPattern(s)) })
	if err := c.AddResource("mem:///schema.json", openAPI(doc)); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("mem:///schema.json")
	if err != nil {
		t.Fatalf("the validator refuses the schema: %v", err)
	}
	return func(text string) error {
		v, err := validator.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return compiled.Validate(v)
	}
}

// goPattern rewrites \uXXXX, which Go's expressions lack.
func goPattern(s string) string {
	s = strings.ReplaceAll(s, `\ud83d\ude00`, "😀")
	return regexp.MustCompile(`\\u([0-9a-fA-F]{4})`).ReplaceAllString(s, `\x{$1}`)
}

// openAPI writes nullable as the validator knows it.
func openAPI(doc any) any {
	switch doc := doc.(type) {
	case []any:
		for i := range doc {
			doc[i] = openAPI(doc[i])
		}
	case map[string]any:
		for k := range doc {
			doc[k] = openAPI(doc[k])
		}
		if kind, ok := doc["type"].(string); ok && doc["nullable"] == true {
			doc["type"] = []any{kind, "null"}
		}
	}
	return doc
}

// The small vocabulary: every byte, and pieces of JSON that cross the borders of its tokens.
func smallVocabulary() (v *grammar.Vocabulary, text [][]byte, end int32) {
	for b := range 256 {
		text = append(text, []byte{byte(b)})
	}
	for _, s := range []string{
		`":`, `": `, `",`, `", "`, `"}`, `"]`, `{"`, `[{`, `}]`, `}}`, `},`, `},{"`, `[]`, `{}`, `null`, `true`, `false`, `00`, `12`, `0.`, `.5`, `-1`, `e+`,
		` "`, `, `, `: `, "中", "文", "é", `\n`, `\u00`, `\ud8`, `20`, `2026-`, `the`, `an`, "\xe4\xb8", `a"`, `1}`, `1,`, `1]`,
	} {
		text = append(text, []byte(s))
	}
	end = int32(len(text))
	text = append(text, nil)
	return grammar.NewVocabulary(func(id int32) []byte { return text[id] }, len(text), []int32{end}), text, end
}

// accepts reports whether text is one of the grammar's, byte by byte.
func accepts(g *grammar.Grammar, v *grammar.Vocabulary, end int32, text string) bool {
	m := g.Matcher(v)
	for i := range len(text) {
		if m.Accept(int32(text[i])) != nil {
			return false
		}
	}
	return m.Allows(end)
}

// walk takes random allowed tokens until the text ends. The longer the text, the likelier are tokens that close something.
func walk(t testing.TB, m *grammar.Matcher, text [][]byte, end int32, r *rand.Rand, most int) (out string, ended bool) {
	t.Helper()
	mask := make([]uint64, (len(text)+63)/64)
	var b []byte
	for step := range most {
		if err := m.Mask(mask); err != nil {
			t.Fatalf("after %q: %v", b, err)
		}
		id := pick(mask, text, end, r, step, b)
		if id < 0 {
			t.Fatalf("nothing may follow %q", b)
		}
		if err := m.Accept(id); err != nil {
			t.Fatalf("%q is in the mask after %q and not accepted: %v", text[id], b, err)
		}
		if id == end {
			return string(b), true
		}
		b = append(b, text[id]...)
	}
	return string(b), false
}

// pick chooses a token of the mask, or −1 if it is empty.
func pick(mask []uint64, text [][]byte, end int32, r *rand.Rand, step int, so []byte) int32 {
	var allowed, closing, plain []int32
	best, inside := 0, insideString(so)
	for id := range text {
		if mask[id/64]>>(id%64)&1 == 0 {
			continue
		}
		allowed = append(allowed, int32(id))
		if s := text[id]; len(s) == 1 && (s[0] >= '0' && s[0] <= '9' || s[0] >= 'A' && s[0] <= 'Z' || s[0] >= 'a' && s[0] <= 'z') {
			plain = append(plain, int32(id))
		}
		rank := closes(text[id], inside)
		if int32(id) == end {
			rank = 9
		}
		if rank > best {
			best, closing = rank, closing[:0]
		}
		if rank == best {
			closing = append(closing, int32(id))
		}
	}
	if len(allowed) == 0 {
		return -1
	}
	switch n := r.IntN(100); {
	case best > 0 && n < 15+step/2:
		return closing[r.IntN(len(closing))]
	case len(plain) > 0 && n%4 > 0 && len(text) < 1000: // few tokens: whole words are rare
		return plain[r.IntN(len(plain))]
	}
	return allowed[r.IntN(len(allowed))]
}

// insideString reports whether text ends inside of a string.
func insideString(text []byte) bool {
	inside := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			inside = !inside
		case '\\':
			i++
		}
	}
	return inside
}

// closes ranks tokens by how much they help to end a text.
func closes(token []byte, inside bool) int {
	if len(token) == 0 {
		return 0
	}
	if inside {
		if token[0] == '"' {
			return 6
		}
		return 0
	}
	switch c := token[len(token)-1]; {
	case c == '}', c == ']':
		return 5
	case c == '"':
		return 4
	case bytes.HasPrefix(token, []byte("null")):
		return 3
	}
	return 0
}

// check fails unless text is JSON that satisfies the schema, without anything that the grammar promises to exclude.
func check(t testing.TB, r record, valid func(string) error, text string) {
	t.Helper()
	if !utf8.ValidString(text) || !json.Valid([]byte(text)) {
		t.Fatalf("not JSON: %q", text)
	}
	if err := valid(text); err != nil {
		t.Fatalf("%q does not satisfy %s: %v", text, r.Schema, err)
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if s, _ := json.Marshal(v); bytes.ContainsRune(s, utf8.RuneError) && !strings.ContainsRune(text, utf8.RuneError) && !strings.Contains(strings.ToLower(text), `\ufffd`) {
		t.Fatalf("half a character in %q", text)
	}
	if name, ok := repeated(text, namesOf(r.Schema)); ok {
		t.Fatalf("%q occurs twice in an object of %q", name, text)
	}
}

// namesOf returns all names under properties in a schema.
func namesOf(schema json.RawMessage) map[string]bool {
	out := map[string]bool{}
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, c := range v {
				collect(c)
			}
		case map[string]any:
			if p, ok := v["properties"].(map[string]any); ok {
				for name := range p {
					out[name] = true
				}
			}
			for _, c := range v {
				collect(c)
			}
		}
	}
	var doc any
	_ = json.Unmarshal(schema, &doc)
	collect(doc)
	return out
}

// repeated returns one of the names that occurs twice in an object of text. Objects whose schema does not name it may repeat it, so
// the test set does not reuse names that way.
func repeated(text string, names map[string]bool) (string, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	type level struct {
		object bool
		name   bool // a name comes next
		seen   []string
	}
	levels := []level{{}}
	for {
		t, err := d.Token()
		if err != nil {
			return "", false
		}
		top := &levels[len(levels)-1]
		if delim, ok := t.(json.Delim); ok && (delim == '}' || delim == ']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if top.object && top.name {
			name, _ := t.(string)
			if names[name] && slices.Contains(top.seen, name) {
				return name, true
			}
			top.seen, top.name = append(top.seen, name), false
			continue
		}
		top.name = true
		if delim, ok := t.(json.Delim); ok {
			levels = append(levels, level{object: delim == '{', name: true})
		}
	}
}
