package adminapi

import (
	"strings"
	"testing"
)

// TestFirstCallsHoldNames: a program names the server and the model as they are, or is left out: what a language would read otherwise ends up in none.
func TestFirstCallsHoldNames(t *testing.T) {
	for _, c := range []struct {
		root, model string
		want        bool
	}{
		{"https://ai.example", "chat", true},
		{"http://[::1]:8080", "org/chat.v1@2", true},
		{"https://ai.example/sluice", "chat", true},
		{"https://ai.example", "", false},
		{"https://ai.example", `cha"t`, false},
		{"https://ai.example", "cha't", false},
		{"https://ai.example", "$(id)", false},
		{"https://ai.example", "a\nb", false},
		{"https://ai.example;id", "chat", false},
	} {
		text, ok := firstCall("openai", "sh", c.root, map[string]string{"CHAT_MODEL": c.model, "EMBED_MODEL": ""})
		if ok != c.want || ok && (!strings.Contains(text, c.root+"/v1/") || !strings.Contains(text, `"model":"`+c.model+`"`) || strings.Contains(text, exampleRoot)) {
			t.Errorf("%q, %q: %v %s", c.root, c.model, ok, text)
		}
	}
	if _, ok := firstCall("cohere", "java", "https://ai.example", nil); ok {
		t.Error("there is no such program")
	}
}
