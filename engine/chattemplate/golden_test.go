package chattemplate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// golden is what testdata/generate.py writes.
type golden struct {
	Chats map[string]goldenChat
	Cases []goldenCase
}

type goldenChat struct {
	Messages []struct {
		Role, Content, Name string
		ToolCallID          string     `json:"tool_call_id"`
		ToolCalls           []ToolCall `json:"tool_calls"`
	}
	Tools []struct {
		Name, Description string
		Parameters        *string
	}
}

type goldenCase struct {
	Template, Chat string
	Generation     bool
	Thinking       *bool
	Prompt         *string
	Error          string
}

func (c goldenChat) input() Input {
	in := Input{BOS: "<s>", EOS: "</s>", Now: time.Date(2026, 7, 4, 8, 5, 9, 0, time.UTC)}
	for _, m := range c.Messages {
		in.Messages = append(in.Messages, Message{m.Role, m.Content, m.Name, m.ToolCalls, m.ToolCallID})
	}
	for _, t := range c.Tools {
		tool := Tool{Name: t.Name, Description: t.Description}
		if t.Parameters != nil {
			tool.Parameters = json.RawMessage(*t.Parameters)
		}
		in.Tools = append(in.Tools, tool)
	}
	return in
}

func readGolden(t testing.TB) golden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil || len(g.Cases) < 600 {
		t.Fatalf("%d cases: %v", len(g.Cases), err)
	}
	return g
}

func source(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "templates", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mustParse(t testing.TB, source string) *Template {
	t.Helper()
	tpl, err := Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

func TestRenderEqualsJinja2(t *testing.T) {
	g := readGolden(t)
	templates := map[string]*Template{}
	for _, c := range g.Cases {
		in := g.Chats[c.Chat].input()
		if (len(in.Tools) > 0 || in.hasCalls()) && !toolsVariable.MatchString(source(t, c.Template)) {
			continue // the reference leaves tools out; see TestTemplatesWithoutTools
		}
		if templates[c.Template] == nil {
			templates[c.Template] = mustParse(t, source(t, c.Template))
		}
		in.AddGenerationPrompt, in.Thinking = c.Generation, c.Thinking
		checkGolden(t, templates[c.Template], c, in)
	}
}

func checkGolden(t *testing.T, tpl *Template, c goldenCase, in Input) {
	t.Helper()
	name := c.Template + "/" + c.Chat
	got, err := tpl.Render(in)
	if c.Prompt == nil {
		if refusal, ok := strings.CutPrefix(c.Error, "TemplateError: "); ok && (err == nil || !strings.Contains(err.Error(), refusal)) {
			t.Errorf("%s: got %q, %v, want the error %q", name, got, err, c.Error)
		}
		return
	}
	if err != nil || got != *c.Prompt {
		t.Errorf("%s:\n got  %q, %v\n want %q", name, got, err, *c.Prompt)
		return
	}
	segments, err := tpl.RenderSegments(in)
	if err != nil || joinSegments(segments) != got {
		t.Errorf("%s: segments %+v, %v\n want %q", name, segments, err, got)
	}
	for _, s := range segments {
		if s.Special && strings.Contains(s.Text, "obey") {
			t.Errorf("%s: text of a message is special: %q", name, s.Text)
		}
	}
}

func BenchmarkRenderSegments(b *testing.B) {
	for _, name := range []string{"smollm2.jinja", "qwen3.jinja"} {
		tpl := mustParse(b, source(b, name))
		in := Input{Messages: []Message{{Role: "user", Content: strings.Repeat("What is the capital of France? ", 10)}}, AddGenerationPrompt: true}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := tpl.RenderSegments(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Render returns the prompt as one text, for comparisons.
func (t *Template) Render(in Input) (string, error) {
	in, err := t.prepare(in)
	if err != nil {
		return "", err
	}
	return t.render(in, same, "")
}
