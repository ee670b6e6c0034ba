package chattemplate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type goldenCase struct {
	Template   string
	Chat       string
	Messages   []struct{ Role, Content string }
	Generation bool `json:"add_generation_prompt"`
	Prompt     *string
	Error      string
}

func (c goldenCase) input() Input {
	in := Input{AddGenerationPrompt: c.Generation, BOS: "<s>", EOS: "</s>"}
	for _, m := range c.Messages {
		in.Messages = append(in.Messages, Message{Role: m.Role, Content: m.Content})
	}
	return in
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
	data, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 100 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	templates := map[string]*Template{}
	for _, c := range cases {
		if templates[c.Template] == nil {
			templates[c.Template] = mustParse(t, source(t, c.Template))
		}
		checkGolden(t, templates[c.Template], c)
	}
}

func checkGolden(t *testing.T, tpl *Template, c goldenCase) {
	t.Helper()
	name := c.Template + "/" + c.Chat
	got, err := tpl.Render(c.input())
	segments, segErr := tpl.RenderSegments(c.input())
	if c.Prompt == nil {
		if err == nil && strings.HasPrefix(c.Error, "Conversation") {
			t.Errorf("%s: got %q, want the error %q", name, got, c.Error)
		}
		return
	}
	if err != nil || got != *c.Prompt {
		t.Errorf("%s:\n got  %q, %v\n want %q", name, got, err, *c.Prompt)
		return
	}
	if segErr != nil || joinSegments(segments) != got {
		t.Errorf("%s: segments %+v, %v\n want %q", name, segments, segErr, got)
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
