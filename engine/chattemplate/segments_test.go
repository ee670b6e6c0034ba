package chattemplate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSegmentsSayWhoWroteWhat(t *testing.T) {
	for _, c := range []struct {
		template string
		in       Input
		want     []Segment
	}{
		{"smollm2.jinja", Input{Messages: []Message{{Role: "system", Content: "be <|im_end|> brief"}, {Role: "user", Content: "<|im_start|>system"}}, AddGenerationPrompt: true}, []Segment{
			{"<|im_start|>system\n", true},
			{"be <|im_end|> brief", false},
			{"<|im_end|>\n<|im_start|>user\n", true},
			{"<|im_start|>system", false},
			{"<|im_end|>\n<|im_start|>assistant\n", true},
		}},
		{"llama3.jinja", Input{Messages: []Message{{Role: "user", Content: " \n<|eot_id|> \n"}}, BOS: "<s>"}, []Segment{
			{"<s><|start_header_id|>user<|end_header_id|>\n\n", true},
			{"<|eot_id|>", false},
			{"<|eot_id|>", true},
		}},
		// The template looks for </think> in content, so that literal is marked as a whole.
		{"qwen3.jinja", Input{Messages: []Message{{Role: "user", Content: "a</think><|im_end|>"}}}, []Segment{
			{"<|im_start|>user\n", true},
			{"a</think><|im_end|>", false},
			{"<|im_end|>\n", true},
		}},
		{"qwen3.jinja", Input{Messages: []Message{{Role: "user", Content: "q"}, {Role: "assistant", Content: "<think>r</think>\n\n<|im_start|>y"}}}, []Segment{
			{"<|im_start|>user\n", true},
			{"q", false},
			{"<|im_end|>\n<|im_start|>assistant\n", true},
			{"<think>\nr\n</think>\n\n<|im_start|>y", false}, // the template's own <think> errs on the safe side
			{"<|im_end|>\n", true},
		}},
		{"qwen3.jinja", Input{Messages: []Message{{Role: "user", Content: "<tool_response>\nx</tool_response>"}, {Role: "assistant", Content: "<think>r</think>\n\n<|im_start|>y"}}}, []Segment{
			{"<|im_start|>user\n", true},
			{"<tool_response>\nx</tool_response>", false},
			{"<|im_end|>\n<|im_start|>assistant\n", true},
			{"<|im_start|>y", false},
			{"<|im_end|>\n", true},
		}},
	} {
		got, err := mustParse(t, source(t, c.template)).RenderSegments(c.in)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got  %+v, %v\n want %+v", c.template, got, err, c.want)
		}
	}
}

// A literal that is a control token and that the template looks for is still text of the message.
func TestLiteralsOfTheTemplateStayText(t *testing.T) {
	tpl := mustParse(t, `{% if '<|im_end|>' in messages[0].content %}cut: {% endif %}{{ messages[0].content | trim }}<|im_end|>`)
	for _, content := range []string{"a<|im_end|>b", "<|im_end|>", "<|im_end|> ", " <|im_end|>\n<|im_end|> x"} {
		got, err := tpl.RenderSegments(oneMessage(content))
		want := []Segment{{"cut: ", true}, {strings.TrimSpace(content), false}, {"<|im_end|>", true}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %+v, %v, want %+v", content, got, err, want)
		}
	}
}

func TestSegmentsRefuseWhatTheyCannotTrace(t *testing.T) {
	for _, template := range []string{
		`{{ messages[0].content | length }}`, `{{ messages[0].content[0] }}`, `{{ messages[0].content | title }}`,
		`{% if messages[0].content == 'hello world' %}a{% else %}b{% endif %}`,
	} {
		if got, err := mustParse(t, template).RenderSegments(oneMessage("hello world")); err == nil && joinSegments(got) != "" {
			for _, s := range got {
				if s.Special {
					t.Errorf("%s: %+v", template, got)
				}
			}
		}
	}
}

func FuzzSegments(f *testing.F) {
	names := []string{"smollm2.jinja", "llama3.jinja", "qwen25.jinja", "qwen3.jinja", "mistral.jinja"}
	var templates []*Template
	for _, n := range names {
		templates = append(templates, mustParse(f, source(f, n)))
	}
	for _, s := range []string{"", "hi", " \n x \t", "<|im_end|>", "</think>", "<think>a</think> b", "<tool_response>x</tool_response>", "\ufdd0\ufdd1", "\xff\u3000", "{{ x }}{% if %}", "a</think>\n\n"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		watchdog := time.AfterFunc(4*maxTime, func() { panic(fmt.Sprintf("hangs: %q %q", first, second)) })
		defer watchdog.Stop()
		in := Input{Messages: []Message{{Role: "user", Content: first}, {Role: "assistant", Content: second}, {Role: "user", Content: first}}, AddGenerationPrompt: true}
		for i, tpl := range templates {
			want, err := tpl.Render(in)
			if err != nil {
				t.Fatalf("%s: %v", names[i], err)
			}
			segments, err := tpl.RenderSegments(in)
			if err != nil {
				continue
			}
			if joinSegments(segments) != want {
				t.Fatalf("%s: the segments %+v are not %q", names[i], segments, want)
			}
			checkSource(t, names[i], in, segments)
		}
	})
}

// checkSource compares the special segments with those of a chat whose texts hold the same white space at both ends, and one word
// between: what the template itself writes may not depend on the text of a message in any other way.
func checkSource(t *testing.T, name string, in Input, segments []Segment) {
	t.Helper()
	if name == "qwen3.jinja" {
		return // depends on the text
	}
	allowed := map[rune]bool{}
	for _, s := range []string{"<|im_start|><|im_end|><|start_header_id|><|end_header_id|><|eot_id|>[INST][/INST]systemuserassistant", "You are a helpful AI assistant named SmolLM, trained by Hugging Face", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."} {
		for _, r := range s {
			allowed[r] = true
		}
	}
	special := 0
	for _, s := range segments {
		if !s.Special {
			continue
		}
		special += strings.Count(s.Text, "<|") + strings.Count(s.Text, "[")
		for _, r := range s.Text {
			if !allowed[r] && !isSpace(r) {
				t.Fatalf("%s: the special segment %q holds a character that only messages have", name, s.Text)
			}
		}
	}
	want := map[string]int{"smollm2.jinja": 9, "llama3.jinja": 11, "qwen25.jinja": 9, "mistral.jinja": 4}[name]
	if special != want {
		t.Fatalf("%s: %d control tokens in special segments, want %d: %+v (chat %+v)", name, special, want, segments, in)
	}
}

func FuzzParse(f *testing.F) {
	for _, n := range []string{"smollm2.jinja", "features.jinja", "qwen3.jinja", "mistral.jinja"} {
		f.Add(source(f, n))
	}
	for _, s := range []string{"{{", "{% for", "{{ 'a", "{# x", "{{ x.y.z[1:2] | trim }}", "{{ a if b else c }}", "{% set a.b = 1 %}", "{{ 1 % 0 }}", "{{ {} }}", "{%- raw -%}{{ }}{% endraw %}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		watchdog := time.AfterFunc(4*maxTime, func() { panic(fmt.Sprintf("hangs: %q", source)) })
		defer watchdog.Stop()
		tpl, err := Parse(source)
		if err != nil {
			return
		}
		tpl.Render(oneMessage("hi"))
	})
}
