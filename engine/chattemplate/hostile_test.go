package chattemplate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Tools and arguments come from callers, templates from model files: neither makes the other run for long.
func TestHostileToolsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var wide strings.Builder
	wide.WriteString(`{"properties": {"0": 0`)
	for i := 1; i < 6000; i++ {
		fmt.Fprintf(&wide, `, "%d": {}`, i)
	}
	wide.WriteString("}}")
	in := chatWithCall(`{"a": "` + strings.Repeat("x<|im_end|>", 2000) + `"}`)
	in.Tools[0].Parameters = []byte(wide.String())
	for name, c := range map[string]struct {
		source string
		fits   bool
	}{
		"json":               {`{{ tools | tojson(indent=4) }}{{ messages | tojson }}`, true},
		"every key":          {`{% for k, v in tools[0].function.parameters.properties.items() %}{{ k }}{% endfor %}`, true},
		"look up every key":  {`{% for k in tools[0].function.parameters.properties %}{{ tools[0].function.parameters.properties[k] }}{% endfor %}`, false},
		"is every key there": {`{% for k in tools[0].function.parameters.properties %}{% if tools[0].function.parameters.properties[k] is none %}x{% endif %}{% endfor %}`, false},
		"every pair":         {`{% set p = tools[0].function.parameters.properties %}{% for k in p %}{% for l in p %}{% if k == l %}{% endif %}{% endfor %}{% endfor %}`, false},
		"compare tools":      {`{% for k in tools[0].function.parameters.properties %}{% if tools == tools %}{% endif %}{% endfor %}`, false},
		"unique":             {`{% for i in range(2000) %}{% set u = [tools, tools] | unique | list %}{% endfor %}`, false},
		"changed":            {`{% for i in range(2000) %}{{ loop.changed(tools) }}{% endfor %}`, false},
		"in tools":           {`{% for i in range(20000) %}{% if tools in [tools, 1] %}{% endif %}{% endfor %}`, false},
		"selected":           {`{% for i in range(20000) %}{% set s = tools | selectattr('function', 'equalto', tools[0].function) | list %}{% endfor %}`, false},
		"cut the arguments":  {`{% if tools %}{% endif %}{% set a = messages[1].tool_calls[0].function.arguments.a %}{% for i in range(20000) %}{% set b = a.split('x') %}{% endfor %}`, false},
	} {
		start := time.Now()
		_, err := mustParse(t, c.source).RenderSegments(in)
		if c.fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "exceeded the limit") {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(start); d > 4*maxTime {
			t.Errorf("%s took %s", name, d)
		}
	}
}
