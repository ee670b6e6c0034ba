package toolcall

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/engine/grammar/jsonschema"
)

func compile(b *grammar.Builder, name string, schema json.RawMessage, strict bool) (grammar.Node, error) {
	return jsonschema.Compile(b, schema, jsonschema.Options{Name: name, Closed: strict})
}

var tools = []Tool{
	{Name: "get_weather", Parameters: json.RawMessage(`{"type": "object", "properties": {"place": {"type": "string", "maxLength": 8}, "unit": {"enum": ["c", "f"]}}, "required": ["place"]}`), Strict: true},
	{Name: "now", Parameters: json.RawMessage(`{"properties": {"zone": {"type": "integer", "minimum": -12, "maximum": 14}}, "additionalProperties": false}`)},
	{Name: "f"},
}

func grammarOf(t testing.TB, d Dialect, tools []Tool, parallel bool) *grammar.Grammar {
	t.Helper()
	b := grammar.NewBuilder(grammar.Limits{})
	n, err := d.Grammar(b, tools, parallel, compile)
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Build(n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const endOfText = 256

// byteVocabulary has a token for every byte, so that a grammar's texts can be tried exactly.
func byteVocabulary() *grammar.Vocabulary {
	return grammar.NewVocabulary(func(id int32) []byte {
		if id == endOfText {
			return nil
		}
		return []byte{byte(id)}
	}, endOfText+1, []int32{endOfText})
}

func accepts(g *grammar.Grammar, v *grammar.Vocabulary, text string) bool {
	m := g.Matcher(v)
	for i := range len(text) {
		if !m.Allows(int32(text[i])) || m.Accept(int32(text[i])) != nil {
			return false
		}
	}
	return m.Allows(endOfText)
}

func TestGrammarIsTheFormOfTheDialect(t *testing.T) {
	v := byteVocabulary()
	for d, c := range map[Dialect]struct{ one, two, unknown string }{
		Hermes: {
			"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"上海\"}}\n</tool_call>",
			"<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1]}}\n</tool_call>",
			"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
		},
		Llama:       {`{"name": "get_weather", "parameters": {"place": "Paris", "unit": "c"}}`, "", `{"name": "g", "parameters": {}}`},
		Mistral:     {`[TOOL_CALLS][{"name": "now", "arguments": {"zone": -12}}]`, `[TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "f", "arguments": {}}]`, `[TOOL_CALLS][]`},
		MistralArgs: {`[TOOL_CALLS]now[ARGS]{}`, `[TOOL_CALLS]now[CALL_ID]abcDEF123[ARGS]{}[TOOL_CALLS]f[ARGS]{"x": null}`, `[TOOL_CALLS]no[ARGS]{}`},
	} {
		one, many := grammarOf(t, d, tools, false), grammarOf(t, d, tools, true)
		if !accepts(one, v, c.one) || !accepts(many, v, c.one) || accepts(one, v, c.two) || c.two != "" && !accepts(many, v, c.two) {
			t.Errorf("%s: one call %t %t, two calls %t %t", d, accepts(one, v, c.one), accepts(many, v, c.one), accepts(one, v, c.two), accepts(many, v, c.two))
		}
		for _, bad := range []string{c.unknown, "", "text", c.one + "x", strings.Replace(c.one, "{", "{ ,", 1), strings.Replace(c.one, `"place"`, `"plaice"`, 1) + " "} {
			if accepts(many, v, bad) {
				t.Errorf("%s accepts %q", d, bad)
			}
		}
		if trigger, _ := d.Trigger(); !strings.HasPrefix(c.one, trigger) || trigger == "" {
			t.Errorf("%s: %q does not begin with %q", d, c.one, trigger)
		}
	}
}

// Whatever a model is led to write, the parser finds calls in it, streams them, and finds no text.
func TestParserTakesEveryTextOfTheGrammar(t *testing.T) {
	v := byteVocabulary()
	for _, d := range []Dialect{Hermes, Llama, Mistral, MistralArgs} {
		for _, parallel := range []bool{false, true} {
			g := grammarOf(t, d, tools, parallel)
			for seed := range uint64(20) {
				text := walk(t, g.Matcher(v), rand.New(rand.NewPCG(seed, uint64(d))))
				for _, guaranteed := range []bool{false, true} {
					got := parse(t, d, Options{Names: offered, Parallel: parallel, Guaranteed: guaranteed}, strings.Split(text, "")...)
					if got.text != "" || len(got.calls) == 0 || got.open || !parallel && len(got.calls) > 1 {
						t.Fatalf("%s %q: %+v", d, text, got)
					}
				}
			}
		}
	}
}

// walk takes allowed bytes at random, those that end things more often than others.
func walk(t *testing.T, m *grammar.Matcher, rng *rand.Rand) string {
	t.Helper()
	var text []byte
	mask := make([]uint64, (endOfText+64)/64)
	for !m.Done() {
		if err := m.Mask(mask); err != nil {
			t.Fatal(err)
		}
		var allowed []int32
		for id := range int32(endOfText + 1) {
			if mask[id/64]>>(id%64)&1 == 1 {
				n := 1
				if id == endOfText || strings.IndexByte(`"}]<`, byte(id)) >= 0 {
					n = 20
				}
				for range n {
					allowed = append(allowed, id)
				}
			}
		}
		if len(allowed) == 0 || len(text) > 20_000 {
			t.Fatalf("stuck after %d bytes: %.100q", len(text), text)
		}
		token := allowed[rng.IntN(len(allowed))]
		if err := m.Accept(token); err != nil {
			t.Fatal(err)
		}
		if token == endOfText {
			break
		}
		text = append(text, byte(token))
	}
	return string(text)
}

func TestSchemasOfArguments(t *testing.T) {
	v := byteVocabulary()
	bad := json.RawMessage(`{"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}}`)
	for _, parameters := range []string{`[]`, `true`, `{"type": "string"}`, `{"type": ["object", "null"]}`, string(bad)} {
		for _, strict := range []bool{false, true} {
			b := grammar.NewBuilder(grammar.Limits{})
			_, err := Llama.Grammar(b, []Tool{{Name: "f", Parameters: json.RawMessage(parameters), Strict: strict}}, false, compile)
			if (err != nil) != strict || err != nil && !strings.Contains(err.Error(), "tool 0") {
				t.Errorf("%s, strict %t: %v", parameters, strict, err)
			}
		}
	}
	b := grammar.NewBuilder(grammar.Limits{})
	_, err := Llama.Grammar(b, []Tool{{Name: "f", Parameters: bad, Strict: true}}, false, compile)
	var problem *jsonschema.Error
	if !errors.As(err, &problem) {
		t.Errorf("the error %v hides what is wrong with the schema", err)
	}
	lax := grammarOf(t, Llama, []Tool{{Name: `a"b`, Parameters: bad}, {Name: "g", Parameters: json.RawMessage(` {}`)}}, false)
	for text, want := range map[string]bool{
		`{"name": "a\"b", "parameters": {"a": 1}}`: true, `{"name": "a\"b", "parameters": 1}`: false,
		`{"name": "g", "parameters": {"x": []}}`: true, `{"name": "g", "parameters": []}`: false,
	} {
		if accepts(lax, v, text) != want {
			t.Errorf("%s: %t", text, !want)
		}
	}
	if _, err := None.Grammar(b, tools, false, compile); err == nil {
		t.Error("there is a grammar without a dialect")
	}
}
