package chattemplate

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// chatWithCall has one call, with an ID as this engine makes them, and its result.
func chatWithCall(arguments string) Input {
	const id = "call_0123456789abcdef01234567"
	return Input{
		Messages: []Message{
			{Role: "user", Content: "x"},
			{Role: "assistant", ToolCalls: []ToolCall{{ID: id, Name: "f", Arguments: arguments}}},
			{Role: "tool", Content: "r", ToolCallID: id},
		},
		Tools: []Tool{{Name: "f"}},
	}
}

// Mistral's templates raise an exception on IDs that have not nine characters.
func TestMistralGetsShortIDs(t *testing.T) {
	for _, name := range []string{"mistral-nemo.jinja", "mistral-small32.jinja"} {
		tpl := mustParse(t, source(t, name))
		got, err := tpl.Render(chatWithCall("{}"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if id := tpl.callID("call_0123456789abcdef01234567"); len(id) != 9 || strings.Count(got, id) != 2 {
			t.Errorf("%s: call and result are not both of %q: %q", name, id, got)
		}
	}
}

// Templates differ in what they take arguments and missing content to be; each is given what it can render.
func TestCallsAreGivenAsTheTemplateWants(t *testing.T) {
	const call = "{% if tools %}{% endif %}{% for m in messages %}{% if m.role == 'assistant' and COND %}{{ m.tool_calls[0].function.name + ARGS }}{% elif m.role == 'assistant' %}{{ m.content }}{% endif %}{% endfor %}"
	for _, c := range []struct{ condition, arguments, want string }{
		{"m.content == ''", "(m.tool_calls[0].function.arguments | tojson)", `f{"a": [1]}`},
		{"m.content is none", "(m.tool_calls[0].function.arguments | tojson)", `f{"a": [1]}`},
		{"m.content is not none", "m.tool_calls[0].function.arguments.split('}')[0]", `f{"a":[1]`},
		{"m['content'] is none", "m.tool_calls[0].function.arguments.strip()", `f{"a":[1]}`},
	} {
		tpl := mustParse(t, strings.NewReplacer("COND", c.condition, "ARGS", c.arguments).Replace(call))
		if got, err := tpl.Render(chatWithCall(`{"a":[1]}`)); err != nil || got != c.want {
			t.Errorf("%s, %s: got %q, %v, want %q", c.condition, c.arguments, got, err, c.want)
		}
	}
}

func TestArgumentsAndParametersAreObjects(t *testing.T) {
	tpl := mustParse(t, source(t, "qwen25.jinja"))
	deep := strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50)
	for _, bad := range []string{"secret", "[]", `"secret"`, "{", "{} {}", `{"a": 01}`, deep, `{"a": ` + strings.Repeat("9", 5000) + "}"} {
		_, err := tpl.Render(chatWithCall(bad))
		if err == nil || !strings.Contains(err.Error(), "arguments of call 0") || strings.Contains(err.Error(), "secret") {
			t.Errorf("arguments %.20q: error %v", bad, err)
		}
		_, err = tpl.Render(Input{Messages: []Message{{Role: "user"}}, Tools: []Tool{{Name: "f", Parameters: []byte(bad)}}})
		if err == nil || !strings.Contains(err.Error(), "parameters of tool 0") || strings.Contains(err.Error(), "secret") {
			t.Errorf("parameters %.20q: error %v", bad, err)
		}
	}
	if _, err := tpl.Render(chatWithCall("")); err != nil {
		t.Errorf("no arguments: %v", err)
	}
}

func TestNoneIsNotUndefined(t *testing.T) {
	for source, want := range map[string]string{
		`{{ tools is defined }} {{ tools is none }} {{ x is none }} {{ x is defined }}`:                                                 "True True False False",
		`{% set y = none %}{{ y is none }} {{ messages[0].x is none }} {{ messages[0]['x'] is undefined }}`:                             "True False True",
		`{{ messages[0].x is iterable }} {{ messages[9] is defined }} {{ messages[0].content is sequence }}`:                            "True False True",
		`{{ {'a': none}['a'] is none }} {{ {'a': none}.b is not none }} {{ messages[0].content.x is defined }}`:                         "True True False",
		`{{ ('a' if x else 'b') + (1 if messages) | string }} {{ 'a' if x else 'b' if y else 'c' }}`:                                    "b1 c",
		`{{ ['a' if not x else 'b', (('p' if x else 'q') if messages else 'r')] | join(',') }}{{ '}} {% if' if x }}`:                    "a,q",
		`{% for m in (messages if messages else [1]) if (m.role if m else 0) == 'user' %}{{ m.content -}} {% endfor %}`:                 "hi",
		`{% set z = 'a' if x else 'b' if y else ('c' if messages else 'd') %}{{- z -}} {# a if b #}{% raw %}{{ (a if b) }}{% endraw %}`: "c{{ (a if b) }}",
		`{{ {'b': 1, 'C': 2, 'a': 'é😀'} | dictsort | tojson(ensure_ascii=true) }}`:                                                      `[["a", "\u00e9\ud83d\ude00"], ["b", 1], ["C", 2]]`,
		`{{ dict(a=1 if x == 1 else 2).a }} {{ 'x' if 'if' == 'else' else "it's" }}`:                                                    "2 it's",
	} {
		if got, err := mustParse(t, source).Render(oneMessage("hi")); err != nil || got != want {
			t.Errorf("%s:\n got  %q, %v\n want %q", source, got, err, want)
		}
	}
}

func TestDateOfTheInput(t *testing.T) {
	tpl := mustParse(t, source(t, "llama32.jinja"))
	in := oneMessage("hi")
	in.Now = time.Date(2020, 2, 3, 23, 0, 0, 0, time.FixedZone("", -7200))
	if got, err := tpl.Render(in); err != nil || !strings.Contains(got, "Today Date: 04 Feb 2020\n") {
		t.Errorf("got %q, %v", got, err)
	}
	in.Now = time.Time{}
	ticks := 0
	tpl.now = func() time.Time { ticks++; return time.Date(2020, 2, ticks, 0, 0, 0, 0, time.UTC) }
	if _, err := tpl.RenderSegments(in); err != nil {
		t.Errorf("midnight between the two renderings: %v", err)
	}
}

// A template that does not mention tools gets them as texts; all of it is a caller's.
func TestTemplatesWithoutTools(t *testing.T) {
	in := Input{
		Messages: []Message{
			{Role: "user", Content: "Weather?"},
			{Role: "assistant", Content: "Looking.", ToolCalls: []ToolCall{{ID: "1", Name: "get", Arguments: `{"z":"上海","a":1.0}`}, {ID: "2", Name: "now"}}},
			{Role: "tool", Content: "21", ToolCallID: "1"},
			{Role: "tool", Content: "noon", ToolCallID: "2"},
			{Role: "user", Content: "And?"},
			{Role: "assistant", Content: "21 °C."},
			{Role: "user", Content: "Thanks."},
		},
		Tools:               []Tool{{Name: "get", Description: "x", Parameters: []byte(`{"type":"object","properties":{"z":{},"a":{}}}`)}, {Name: "now"}},
		AddGenerationPrompt: true,
		BOS:                 "<s>",
	}
	const calls = "Looking.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"z\": \"上海\", \"a\": 1.0}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"
	const results = "<tool_response>\n21\n</tool_response>\n<tool_response>\nnoon\n</tool_response>\n\nAnd?"
	instructions := toolsIntro + `{"type": "function", "function": {"name": "get", "description": "x", "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}}}` + "\n" +
		`{"type": "function", "function": {"name": "now"}}` + "\n" + toolsOutro
	got, err := mustParse(t, source(t, "smollm2.jinja")).RenderSegments(in)
	want := []Segment{
		{"<|im_start|>system\n", true},
		{instructions, false},
		{"<|im_end|>\n<|im_start|>user\n", true},
		{"Weather?", false},
		{"<|im_end|>\n<|im_start|>assistant\n", true},
		{calls, false},
		{"<|im_end|>\n<|im_start|>user\n", true},
		{results, false},
		{"<|im_end|>\n<|im_start|>assistant\n", true},
		{"21 °C.", false},
		{"<|im_end|>\n<|im_start|>user\n", true},
		{"Thanks.", false},
		{"<|im_end|>\n<|im_start|>assistant\n", true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("SmolLM2:\n got  %+v, %v\n want %+v", got, err, want)
	}
	text, err := mustParse(t, source(t, "gemma3.jinja")).Render(in)
	if err != nil || !strings.HasPrefix(text, "<s><start_of_turn>user\n"+instructions+"\n\nWeather?<end_of_turn>\n<start_of_turn>model\n"+calls+"<end_of_turn>\n") {
		t.Errorf("Gemma 3 wants turns to alternate: %q, %v", text, err)
	}
	strict := mustParse(t, `{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m.role }}: {{ m.content }}|{% endfor %}`)
	if text, err = strict.Render(in); err != nil || !strings.HasPrefix(text, "user: "+instructions+"\n\nWeather?|assistant: ") {
		t.Errorf("a template without system messages: %q, %v", text, err)
	}
	in.Messages = append([]Message{{Role: "system", Content: "Be brief."}}, in.Messages...)
	text, err = mustParse(t, source(t, "smollm2.jinja")).Render(in)
	if err != nil || !strings.HasPrefix(text, "<|im_start|>system\nBe brief.\n\n"+instructions+"<|im_end|>") {
		t.Errorf("a system message of its own: %q, %v", text, err)
	}
	if in.Messages[0].Content != "Be brief." {
		t.Error("the caller's messages were changed")
	}
}
