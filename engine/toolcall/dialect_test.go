package toolcall

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDetect(t *testing.T) {
	for name, want := range map[string]Dialect{
		"llama31.jinja": Llama, "llama32.jinja": Llama, "qwen25.jinja": Hermes, "qwen3.jinja": Hermes, "hermes2pro.jinja": Hermes,
		"mistral-nemo.jinja": Mistral, "mistral-small32.jinja": MistralArgs,
		"smollm2.jinja": Hermes, "gemma3.jinja": Hermes, "llama3.jinja": Hermes, // without tools: the generic instructions
	} {
		source, err := os.ReadFile(filepath.Join("..", "chattemplate", "testdata", "templates", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := Detect(string(source)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for source, want := range map[string]Dialect{
		"": None, "{{ messages }}": Hermes, "{{ toolset }}": Hermes,
		"{% if tools %}<tool_call>\n<function=name>\n<parameter=x>": None, // Qwen3-Coder
		"{% if tools %}<|tool_calls_section_begin|>":                None, // Kimi
	} {
		if got := Detect(source); got != want {
			t.Errorf("%q: %s, want %s", source, got, want)
		}
	}
}
