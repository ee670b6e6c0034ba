package jsonschema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestRefusals: what is not enforced is refused, at its place and with a remedy in both languages.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ schema, at, says string }{
		"not JSON":                   {`{"type":`, "#", "not valid JSON"},
		"two values":                 {`{} {}`, "#", "follows"},
		"not UTF-8":                  {"{\"const\":\"\xff\"}", "#", "UTF-8"},
		"name twice":                 {`{"type":"object","type":"string"}`, "#/type", "twice"},
		"number out of bounds":       {`{"minimum":1e999999999}`, "#/minimum", "digits"},
		"schema is a string":         {`"object"`, "#", "a schema is"},
		"unknown keyword":            {`{"type":"string","minLenght":3}`, "#/minLenght", "not known"},
		"unknown type":               {`{"type":"strin"}`, "#/type", "types are"},
		"type is a number":           {`{"type":[1]}`, "#/type", "types are"},
		"unknown format":             {`{"properties":{"a":{"format":"iri"}}}`, "#/properties/a/format", "not enforced"},
		"empty anyOf":                {`{"anyOf":[]}`, "#/anyOf", "at least one"},
		"other document":             {`{"$ref":"https://example.com/a.json"}`, "#/$ref", "another document"},
		"missing definition":         {`{"items":{"$ref":"#/$defs/x"}}`, "#/items/$ref", "no such place"},
		"missing anchor":             {`{"$ref":"#x"}`, "#/$ref", "no such place"},
		"reference to itself":        {`{"$ref":"#"}`, "#", "itself"},
		"circle of references":       {`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, "#/$defs/a", "itself"},
		"circle under an enum":       {`{"enum":[1],"$ref":"#"}`, "#", "itself"},
		"opposite of itself":         {`{"not":{"$ref":"#"}}`, "#", "itself"},
		"inner identifier":           {`{"properties":{"a":{"$id":"x"}}}`, "#/properties/a/$id", "identifiers"},
		"dynamic reference":          {`{"$dynamicRef":"#x"}`, "#/$dynamicRef", "dynamic"},
		"unevaluatedProperties":      {`{"unevaluatedProperties":false}`, "#/unevaluatedProperties", "not supported"},
		"unevaluatedItems":           {`{"unevaluatedItems":false}`, "#/unevaluatedItems", "not supported"},
		"look-ahead":                 {`{"pattern":"(?=a)b"}`, "#/pattern", "look-around"},
		"back-reference":             {`{"pattern":"(a)\\1"}`, "#/pattern", "back-references"},
		"half a surrogate":           {`{"pattern":"[\\ud800-\\udbff]"}`, "#/pattern", "surrogate"},
		"long pointer":               {`{"properties":{"` + strings.Repeat("é", 300) + `":5}}`, "#/properties/" + strings.Repeat("é", 93) + "…", "a schema is"},
		"word boundary":              {`{"pattern":"\\bx"}`, "#/pattern", `\b`},
		"repeated anchor":            {`{"pattern":"(^a)*b"}`, "#/pattern", "repeats"},
		"anchors in many ways":       {`{"pattern":"` + strings.Repeat("(^a|b)?", 12) + `"}`, "#/pattern", "combinations"},
		"pattern is a number":        {`{"pattern":5}`, "#/pattern", "string"},
		"negative length":            {`{"minLength":-1}`, "#/minLength", "not negative"},
		"length is no integer":       {`{"minLength":1.5}`, "#/minLength", "whole"},
		"too long":                   {`{"maxLength":100000}`, "#/maxLength", "above 65536"},
		"bound is a string":          {`{"minimum":"1"}`, "#/minimum", "number"},
		"open bound is a string":     {`{"exclusiveMinimum":"1"}`, "#/exclusiveMinimum", "number"},
		"multipleOf zero":            {`{"multipleOf":0}`, "#/multipleOf", "above zero"},
		"multiples of a third":       {`{"type":"number","multipleOf":0.3}`, "#/multipleOf", "multiples"},
		"multiples of 101":           {`{"type":"integer","multipleOf":101}`, "#/multipleOf", "multiples"},
		"opposite of multipleOf":     {`{"type":"integer","not":{"multipleOf":2}}`, "#/not/multipleOf", "instead"},
		"opposite of a format":       {`{"type":"string","not":{"format":"email"}}`, "#/not/format", "instead"},
		"opposite of uniqueItems":    {`{"type":"array","not":{"uniqueItems":true}}`, "#/not/uniqueItems", "instead"},
		"opposite of closing":        {`{"type":"object","not":{"additionalProperties":false}}`, "#/not", "instead"},
		"opposite of a list":         {`{"type":"array","not":{"const":[1]}}`, "#/not/const", "not this list"},
		"uniqueItems":                {`{"type":"array","uniqueItems":true}`, "#/uniqueItems", "differ"},
		"uniqueItems of many values": {`{"type":"array","items":{"enum":[1,2,3,4,5,6,7,8,9]},"uniqueItems":true}`, "#/uniqueItems", "differ"},
		"contains twice":             {`{"type":"array","contains":{"const":1},"allOf":[{"contains":{"const":2}}]}`, "#/contains", "once"},
		"minProperties":              {`{"type":"object","minProperties":2}`, "#/minProperties", "counted"},
		"many name patterns":         {`{"type":"object","patternProperties":{"a":{},"b":{},"c":{},"d":{},"e":{},"f":{},"g":{}}}`, "#/patternProperties/g", "patterns"},
		"required is a string":       {`{"required":"a"}`, "#/required", "list of strings"},
		"required has a number":      {`{"required":[1]}`, "#/required", "list of strings"},
		"properties is a list":       {`{"properties":[]}`, "#/properties", "object"},
		"enum is a string":           {`{"enum":"a"}`, "#/enum", "list"},
		"dependent is a list":        {`{"dependentRequired":[]}`, "#/dependentRequired", "object"},
		"oneOf of forms that meet":   {`{"type":"string","oneOf":[{"format":"email"},{"pattern":"^\""}]}`, "#/oneOf", "overlap"},
		"oneOf of multiples":         {`{"type":"integer","oneOf":[{"multipleOf":2},{"multipleOf":3}]}`, "#/oneOf", "overlap"},
		"two lists of items":         {`{"prefixItems":[{}],"items":[{}]}`, "#/items", "prefixItems"},
		"nothing is allowed":         {`{"type":"string","minLength":3,"maxLength":2}`, "#", ""},
		"false":                      {`false`, "#", ""},
		"never ends":                 {`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, "#", ""},
		"escaped pointer":            {`{"properties":{"a/b~c":{"format":"x"}}}`, "#/properties/a~1b~0c/format", "not enforced"},
	} {
		_, err := Parse(json.RawMessage(c.schema), Options{}, grammar.Limits{})
		var refusal *Error
		if !errors.As(err, &refusal) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if refusal.Pointer != c.at || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: at %s: %v", name, refusal.Pointer, err)
		}
		said := fault.New(fault.CodeInvalidValue, "schema", refusal.Phrase())
		if zh := said.Message(fault.Chinese); !strings.ContainsFunc(strings.ReplaceAll(zh, "参数 'schema' 的值不正确：模式的", ""), func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s: not in Chinese: %s", name, zh)
		}
		if strings.Contains(err.Error(), "%!") || strings.Contains(said.Message(fault.Chinese), "%!") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhitespace checks what each policy allows.
func TestWhitespace(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"integer"}},"c":{"const":{"x":[1,2]}}},
		"required":["a","b"],"additionalProperties":false}`)
	texts := map[string][3]bool{ // compact, spaced, indented
		`{"a":1,"b":[1,2]}`:                                   {true, true, true},
		`{"a": 1, "b": [1, 2]}`:                               {false, true, true},
		`{"a": 1,"b":[1, 2]}`:                                 {false, true, true},
		`{"a":  1,"b":[]}`:                                    {false, false, false},
		`{ "a":1,"b":[]}`:                                     {false, false, false},
		`{"a" :1,"b":[]}`:                                     {false, false, false},
		`{"a":1,"b":[]} `:                                     {false, false, false},
		` {"a":1,"b":[]}`:                                     {false, false, false},
		"{\n  \"a\": 1,\n  \"b\": [\n    1\n  ]\n}":           {false, false, true},
		"{\"a\":1,\n\n\"b\":[]}":                              {false, false, false},
		`{"a": 1, "b": [], "c": {"x": [1, 2]}}`:               {false, true, true},
		"{\"a\":1,\n" + strings.Repeat(" ", 25) + "\"b\":[]}": {false, false, false},
	}
	v, _, end := smallVocabulary()
	for i, policy := range []Whitespace{Compact, Spaced, Indented} {
		g, err := Parse(schema, Options{Whitespace: policy}, grammar.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range texts {
			if got := accepts(g, v, end, text); got != want[i] {
				t.Errorf("policy %d: %q: %v", policy, text, got)
			}
		}
	}
}

// TestClosed: objects that name members and do not speak of others have no others.
func TestClosed(t *testing.T) {
	v, _, end := smallVocabulary()
	for _, c := range []struct {
		schema, text string
		open, closed bool
	}{
		{`{"type":"object","properties":{"a":{}}}`, `{"b":1}`, true, false},
		{`{"type":"object","properties":{"a":{}}}`, `{"a":1}`, true, true},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":true}`, `{"b":1}`, true, true},
		{`{"type":"object"}`, `{"b":1}`, true, true},
		{`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],"type":"object"}`, `{"a":1,"b":2}`, true, true},
		{`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],"type":"object"}`, `{"a":1,"c":2}`, true, false},
		{`{"type":"object","properties":{"a":{}},"patternProperties":{"^x":{}}}`, `{"x":1}`, true, true},
	} {
		for _, closed := range []bool{false, true} {
			g, err := Parse(json.RawMessage(c.schema), Options{Closed: closed}, grammar.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			want := c.open
			if closed {
				want = c.closed
			}
			if got := accepts(g, v, end, c.text); got != want {
				t.Errorf("%s, closed %v: %s: %v", c.schema, closed, c.text, got)
			}
		}
	}
}

// TestEscapes checks the spellings of strings and names.
func TestEscapes(t *testing.T) {
	v, _, end := smallVocabulary()
	for _, c := range []struct {
		schema, text string
		want         bool
	}{
		{`{"type":"string"}`, `"\u0041\/\b\f\n\r\t\"\\"`, true},
		{`{"type":"string"}`, `"\ud83d\ude00"`, true},
		{`{"type":"string"}`, `"\uD83D\uDE00"`, true},
		{`{"type":"string"}`, `"\ud83d"`, false},
		{`{"type":"string"}`, `"\ude00"`, false},
		{`{"type":"string"}`, `"\ud83d\u0041"`, false},
		{`{"type":"string"}`, `"\ud7ff\ue000"`, true},
		{`{"type":"string"}`, `"\x"`, false},
		{`{"type":"string"}`, "\"\n\"", false},
		{`{"type":"string"}`, "\"\x7f\"", true},
		{`{"type":"string"}`, "\"\xed\xa0\x80\"", false},
		{`{"type":"string"}`, "\"\xc0\x80\"", false},
		{`{"type":"string"}`, "\"\xf4\x90\x80\x80\"", false},
		{`{"type":"string","maxLength":1}`, `"\ud83d\ude00"`, true},
		{`{"type":"string","maxLength":1}`, `"\u0041"`, true},
		{`{"type":"string","maxLength":1}`, `"\u0041b"`, false},
		{`{"type":"string","pattern":"A"}`, `"\u0041"`, false},
		{`{"const":"a\u0001\"\\/"}`, `"a\u0001\"\\/"`, true},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"\u0061":"x"}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":1,"a":"x"}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":1,"a":2}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"b":1,"a":"x"}`, false},
		{`{"type":"object","properties":{"a\"":{"type":"integer"}}}`, `{"a\"":"x"}`, false},
		{`{"type":"object"}`, `{"a\nb":"x"}`, true},
	} {
		g, err := Parse(json.RawMessage(c.schema), Options{}, grammar.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := accepts(g, v, end, c.text); got != c.want {
			t.Errorf("%s: %q: %v", c.schema, c.text, got)
		}
	}
}

// TestCompileInto puts two schemas and any object into one grammar, as tool calls do.
func TestCompileInto(t *testing.T) {
	b := grammar.NewBuilder(grammar.Limits{})
	tree := json.RawMessage(`{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`)
	first, err := Compile(b, tree, Options{Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Compile(b, json.RawMessage(`{"type":"array","items":{"type":"array","items":{"type":"boolean"}}}`), Options{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	third, err := Compile(b, json.RawMessage(`{"type":"object"}`), Options{Name: "third"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Build(b.Seq(b.Literal("<"), first, b.Literal("|"), second, b.Literal("|"), third, b.Literal(">")))
	if err != nil {
		t.Fatal(err)
	}
	v, _, end := smallVocabulary()
	for text, want := range map[string]bool{
		`<{"kids": [{}]}|[[true], []]|{"x": null}>`: true,
		`<{"kids": [1]}|[[true], []]|{}>`:           false,
		`<{}|[]|[]>`:                                false,
	} {
		if accepts(g, v, end, text) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}
