package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/grammar"
)

// schemas makes random schemas in which keywords meet that nobody would write side by side.
type schemas struct {
	*rand.Rand
	from int // definitions before this one may not stand at the same place, lest references go in circles
}

func (s schemas) of(list ...any) any { return list[s.IntN(len(list))] }

func (s schemas) schema(depth int) any {
	if s.IntN(30) == 0 {
		return s.IntN(2) == 0
	}
	out := map[string]any{}
	if s.IntN(3) > 0 {
		out["type"] = s.of("string", "integer", "number", "boolean", "null", "array", "object",
			[]any{"string", "null"}, []any{"integer", "string"}, []any{"object", "array"}, []any{"number", "boolean"})
	}
	for range s.IntN(4) {
		s.keyword(out, depth)
	}
	if s.from < 3 && s.IntN(6) == 0 {
		out["$ref"] = fmt.Sprintf("#/$defs/%d", s.from+s.IntN(3-s.from))
	}
	return out
}

func (s schemas) list(depth int) []any {
	var out []any
	for range 1 + s.IntN(3) {
		out = append(out, s.schema(depth-1))
	}
	return out
}

func (s schemas) keyword(out map[string]any, depth int) {
	inner := schemas{s.Rand, 0} // for properties and items, at which recursion is fine
	small := func() int { return s.IntN(4) }
	number := func() any { return s.of(-10, -1, 0, 1, 2, 5, 9, 10, 99, 100, 0.5, -0.25, 1.5, 12.75) }
	switch n := s.IntN(27); {
	case n == 0:
		out["minLength"] = small()
	case n == 1:
		out["maxLength"] = small() + 1
	case n == 2:
		out["pattern"] = s.of("^a", "b$", "^[a-c]*$", "a|^b$", "^$", "^.{2}$", "[^a]", "^(a|bb)+$")
	case n == 3:
		out["format"] = s.of("date", "ipv4", "uuid")
	case n == 4:
		out["minimum"] = number()
	case n == 5:
		out["maximum"] = number()
	case n == 6:
		out["exclusiveMinimum"] = number()
	case n == 7:
		out["exclusiveMaximum"] = number()
	case n == 8:
		out["multipleOf"] = s.of(1, 2, 3, 5, 7, 10, 0.5, 0.25, 0.1, 1.5)
	case n == 9:
		out["enum"] = []any{s.value(2), s.value(1), s.value(0), s.value(0)}
	case n == 10:
		out["const"] = s.value(1)
	case n == 11:
		out["minItems"] = small()
	case n == 12:
		out["maxItems"] = small()
	case n == 13:
		out["minProperties"] = small()
	case n == 14:
		out["maxProperties"] = small()
	case n == 15:
		out["required"] = []any{s.of("a", "b", "c")}
	case n == 16:
		out["uniqueItems"] = s.IntN(2) == 0
	case depth == 0:
	case n == 17:
		out["anyOf"] = s.list(depth)
	case n == 18:
		out["allOf"] = s.list(depth)
	case n == 19:
		out["oneOf"] = s.list(depth)
	case n == 20:
		out["not"] = s.schema(depth - 1)
	case n == 21:
		out["items"] = inner.schema(depth - 1)
	case n == 22:
		out["prefixItems"] = inner.list(depth)
	case n == 23:
		out["properties"] = map[string]any{"a": inner.schema(depth - 1), s.of("b", "c").(string): inner.schema(depth - 1)}
	case n == 24:
		out["additionalProperties"] = inner.schema(depth - 1)
	case n == 25:
		out[s.of("if", "contains").(string)], out["then"] = s.schema(depth-1), s.schema(depth-1)
	default:
		out[s.of("propertyNames", "else").(string)] = s.schema(depth - 1)
		out["patternProperties"] = map[string]any{s.of("^a", "c$", "^.$").(string): inner.schema(depth - 1)}
	}
}

// document makes a schema with definitions that it refers to.
func (s schemas) document() any {
	root, ok := s.schema(3).(map[string]any)
	if !ok {
		return false
	}
	defs := map[string]any{}
	for i := range 3 {
		s.from = i + 1
		defs[fmt.Sprint(i)] = s.schema(2)
	}
	root["$defs"] = defs
	return root
}

// value makes a random instance. Objects have one member at most, because a grammar wants members in its order.
func (s schemas) value(depth int) any {
	switch n := s.IntN(10); {
	case n == 0:
		return nil
	case n == 1:
		return s.IntN(2) == 0
	case n < 4 || depth == 0 && n < 7:
		return s.of(-11, -10, -1, 0, 1, 2, 3, 5, 6, 7, 9, 10, 14, 99, 100, 101, 0.5, -0.25, 0.25, 1.5, 12.75, 13)
	case n < 7:
		var out []any
		for range s.IntN(4) {
			out = append(out, s.value(depth-1))
		}
		return append([]any{}, out...)
	case n < 9 || depth == 0:
		return s.of("", "a", "b", "ab", "bb", "ba", "abc", "c", "中", "aab", "2026-02-28", "1.2.3.4", "x\"y", "\n")
	}
	if s.IntN(4) == 0 {
		return map[string]any{}
	}
	return map[string]any{s.of("a", "b", "c", "ab", "中", "").(string): s.value(depth - 1)}
}

// TestRandomSchemas compares grammars of random schemas with an independent validator: every text that a walk finds is valid, and a
// random instance is accepted exactly if it is valid. What is refused must be refused by name.
func TestRandomSchemas(t *testing.T) {
	count := 1000
	if long() {
		count = 100_000
	}
	v, text, end := smallVocabulary()
	compiled, accepted, ended := 0, 0, 0
	for i := range count {
		s := schemas{rand.New(rand.NewPCG(uint64(i), 7)), 0}
		schema, _ := json.Marshal(s.document())
		g, err := Parse(schema, Options{}, grammar.Limits{})
		var refusal *Error
		if err != nil {
			if !errors.As(err, &refusal) || refusal.Pointer == "" {
				t.Fatalf("%s: %v", schema, err)
			}
			if !strings.Contains(err.Error(), "no text") {
				continue
			}
		}
		valid := validate(t, schema)
		r := record{Name: fmt.Sprint(i), Schema: schema}
		for range 12 {
			instance, _ := json.Marshal(s.value(2))
			if ok := valid(string(instance)) == nil; g == nil && ok {
				t.Fatalf("%d: %s allows %s, and it is said to allow nothing", i, schema, instance)
			} else if g != nil && ok != accepts(g, v, end, string(instance)) {
				t.Fatalf("%d: %s: %s: valid: %v, accepted: %v", i, schema, instance, ok, !ok)
			} else if ok {
				accepted++
			}
		}
		if g == nil {
			continue
		}
		compiled++
		for range 2 {
			if out, ok := walk(t, g.Matcher(v), text, end, s.Rand, 120); ok {
				ended++
				check(t, r, valid, out)
			}
		}
	}
	t.Logf("%d of %d schemas compiled, %d instances accepted, %d walks ended", compiled, count, accepted, ended)
	if compiled < count/3 || accepted < count || ended < count/2 {
		t.Error("too few schemas compiled to mean anything")
	}
}
