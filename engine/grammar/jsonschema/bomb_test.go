package jsonschema

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/grammar"
)

// definitions writes n definitions; each is the format with the number of the next, the last is the integer type.
func definitions(n int, format string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&b, `"d%d":%s,`, i, strings.ReplaceAll(format, "?", next))
	}
	fmt.Fprintf(&b, `"d%d":{"type":"integer"}}}`, n)
	return b.String()
}

// numbered writes n members or items, separated by commas.
func numbered(n int, format string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = strings.ReplaceAll(format, "?", fmt.Sprint(i))
	}
	return strings.Join(out, ",")
}

// TestBombs: schemas that are small and mean much cost little, whether they compile or are refused. What is allocated is the measure; the
// time only catches what never ends, because machines are slow at times.
func TestBombs(t *testing.T) {
	v, text, end := smallVocabulary()
	for name, c := range map[string]struct {
		schema  string
		compile bool
	}{
		"doubled allOf":         {definitions(200, `{"allOf":[?,?]}`), true},
		"doubled anyOf":         {definitions(200, `{"anyOf":[?,?]}`), true},
		"doubled oneOf":         {definitions(30, `{"oneOf":[?,?]}`), false}, // nothing satisfies exactly one of two that are the same
		"doubled not":           {definitions(100, `{"not":{"not":?}}`), true},
		"doubled if":            {definitions(60, `{"if":?,"then":?,"else":?}`), true},
		"doubled properties":    {definitions(400, `{"type":"object","properties":{"a":?,"b":?},"required":["a"],"additionalProperties":false}`), true},
		"doubled items":         {definitions(800, `{"type":"array","items":?,"minItems":1}`), true},
		"doubled tuples":        {definitions(300, `{"type":"array","prefixItems":[?,?,?],"items":false}`), true},
		"crossed choices":       {`{"allOf":[` + numbered(40, `{"anyOf":[{"properties":{"a?":{"const":1}},"required":["a?"]},{"properties":{"b?":{"const":1}},"required":["b?"]}]}`) + `]}`, false},
		"crossed required":      {`{"type":"object","oneOf":[` + numbered(60, `{"required":["a?"]}`) + `]}`, true},
		"tagged union":          {`{"oneOf":[` + numbered(200, `{"type":"object","properties":{"kind":{"const":"k?"},"value":{"type":"string"}},"required":["kind"]}`) + `]}`, true},
		"union tagged within":   {`{"type":"object","oneOf":[` + numbered(200, `{"properties":{"kind":{"const":"k?"},"value":{"type":"string"}},"required":["kind"]}`) + `]}`, true},
		"union of patterns":     {`{"type":"string","oneOf":[` + numbered(60, `{"pattern":"(a|b)*a(a|b){6}x?$"}`) + `]}`, false},
		"union of lists":        {`{"type":"array","oneOf":[` + numbered(60, `{"prefixItems":[{"type":"integer","minimum":1?0,"maximum":1?9}],"minItems":1}`) + `]}`, true},
		"doubled enum":          {strings.Replace(definitions(40, `{"anyOf":[{"allOf":[?,{"minimum":0}]},{"allOf":[?,{"minimum":1}]}]}`), `{"$ref"`, `{"enum":["x","y"],"$ref"`, 1), false},
		"deep nesting":          {strings.Repeat(`{"items":`, 400) + `true` + strings.Repeat(`}`, 400), false},
		"nested properties":     {strings.Repeat(`{"type":"object","properties":{"p":`, 120) + `true` + strings.Repeat(`}}`, 120), true},
		"long text":             {`{"description":"` + strings.Repeat("x", 70_000) + `"}`, false},
		"many optional":         {`{"type":"object","properties":{` + numbered(1500, `"p?":{"type":"null"}`) + `},"additionalProperties":false}`, true},
		"many optional counted": {`{"type":"object","properties":{` + numbered(2000, `"p?":{"type":"null"}`) + `},"additionalProperties":false,"maxProperties":1500}`, false},
		"many values":           {`{"enum":[` + numbered(4900, `"v?"`) + `]}`, true},
		"too many values":       {`{"enum":[` + numbered(6000, `"v?"`) + `]}`, false},
		"long list":             {`{"type":"array","items":{"type":"integer"},"minItems":5000,"maxItems":5000}`, true},
		"very long lists":       {definitions(20, `{"type":"array","items":?,"minItems":60000}`), false},
		"long string":           {`{"type":"string","minLength":60000,"maxLength":60000}`, true},
		"long pattern":          {`{"type":"string","pattern":"^(([a-z]{1,1000}){1,1000}){1,1000}$"}`, false},
		"wide pattern":          {`{"type":"string","pattern":"^(a?){1000}(a){1000}$"}`, true},
		"many patterns":         {`{"type":"string","allOf":[` + numbered(200, `{"pattern":"a?.*b?"}`) + `]}`, false},
		"names by patterns":     {`{"type":"object","patternProperties":{` + numbered(6, `"(a|b)*a(a|b){?}x":{"type":"integer"}`) + `}}`, false},
		"subsets":               {`{"type":"array","items":{"enum":[1,2,3,4,5,6,7,8]},"uniqueItems":true,"minItems":8}`, true},
		"counted twice":         {`{"type":"array","contains":{"const":1},"minContains":60,"minItems":65,"items":{"type":"integer"}}`, true},
		"counted much":          {`{"type":"array","contains":{"const":1},"minContains":6000,"items":{"type":"integer"}}`, false},
		"recursion many ways":   {`{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"type":"integer"},` + numbered(50, `{"type":"array","items":{"$ref":"#/$defs/n"},"minItems":?}`) + `]}}}`, true},
		"remainders":            {`{"type":"integer","multipleOf":97,"minimum":-99999999999999999,"maximum":99999999999999999}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			g, err := Parse(json.RawMessage(c.schema), Options{}, grammar.Limits{})
			took := time.Since(began)
			if (err == nil) != c.compile {
				t.Errorf("%v", err)
			}
			if err == nil {
				m := g.Matcher(v)
				mask := make([]uint64, (len(text)+63)/64)
				for step := range 20 {
					if err := m.Mask(mask); err != nil {
						t.Fatal(err)
					}
					id := pickFirst(mask)
					if id < 0 || id == end {
						break
					}
					if err := m.Accept(id); err != nil {
						t.Fatal(step, err)
					}
				}
			}
			runtime.ReadMemStats(&after)
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 400 {
				t.Errorf("%d MB were allocated", mb)
			}
			if took > time.Minute {
				t.Errorf("it took %v", took)
			}
			t.Log(took, (after.TotalAlloc-before.TotalAlloc)>>20, "MB", err)
		})
	}
}

func pickFirst(mask []uint64) int32 {
	for id := range len(mask) * 64 {
		if mask[id/64]>>(id%64)&1 == 1 {
			return int32(id)
		}
	}
	return -1
}
