package jsonschema

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-project/sluice/engine/grammar"
)

// FuzzCompile: whatever the schema, compiling ends with a grammar or a refusal, and what the grammar allows is valid JSON; valid for
// the schema, too, where the validator can read it.
func FuzzCompile(f *testing.F) {
	for _, r := range testSet(f) {
		if len(r.Schema) < 400 {
			f.Add([]byte(r.Schema), uint64(1))
		}
	}
	f.Add([]byte(`{"$ref":"#"}`), uint64(2))
	f.Add([]byte(`{"anyOf":[{"$ref":"#/anyOf/0"}]}`), uint64(3))
	f.Add([]byte(`{"pattern":"(?i)[^\\x{10ffff}]$|^"}`), uint64(4))
	f.Add([]byte(`{"minimum":-1e-60,"exclusiveMaximum":1e60,"multipleOf":1e-9}`), uint64(5))
	v, text, end := smallVocabulary()
	f.Fuzz(func(t *testing.T, schema []byte, seed uint64) {
		limits := Limits{Work: 100_000, Alternatives: 64, Shapes: 500, Count: 200}
		g, err := Parse(schema, Options{Limits: limits, Closed: seed%2 == 1}, grammar.Limits{BuildSteps: 200_000, Nodes: 20_000})
		if err != nil {
			if refusal := new(Error); !errors.As(err, &refusal) {
				t.Fatalf("%s: an error without a place: %v", schema, err)
			}
			return
		}
		m := g.Matcher(v)
		var out []byte
		mask := make([]uint64, (len(text)+63)/64)
		r := rand.New(rand.NewPCG(seed, 1))
		for step := range 200 {
			if err := m.Mask(mask); err != nil {
				return // a limit of the grammar
			}
			id := pick(mask, text, end, r, step*2, out)
			if id < 0 {
				t.Fatalf("%s: nothing may follow %q", schema, out)
			}
			if err := m.Accept(id); err != nil {
				t.Fatal(err)
			}
			if id == end {
				satisfies(t, schema, string(out))
				return
			}
			out = append(out, text[id]...)
		}
	})
}

// satisfies checks text as far as the validator reads the schema as this package does.
func satisfies(t *testing.T, schema []byte, text string) {
	if !json.Valid([]byte(text)) {
		t.Fatalf("%s: not JSON: %q", schema, text)
	}
	doc, err := validator.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil || strings.Contains(string(schema), "$schema") || strings.Contains(string(schema), "$id") || strings.Contains(string(schema), "pattern") {
		return // other drafts and other expressions
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	if c.AddResource("mem:///schema.json", openAPI(doc)) != nil {
		return
	}
	compiled, err := c.Compile("mem:///schema.json")
	if err != nil {
		return
	}
	instance, err := validator.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(instance); err != nil && !strings.Contains(err.Error(), "infinite loop") {
		t.Fatalf("%s: %q: %v", schema, text, err)
	}
}
