package server_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
)

// TestClassNamesAreTheConsoles: the console calls every class what the detectors call it, and has words for every reason to find something, in
// both languages.
func TestClassNamesAreTheConsoles(t *testing.T) {
	for file, name := range map[string]func(classify.Type) string{
		"../web/src/locales/en.json": func(t classify.Type) string { return t.English },
		"../web/src/locales/zh.json": func(t classify.Type) string { return t.Chinese },
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var locale struct {
			Label struct {
				Class    map[string]string `json:"class"`
				Evidence map[string]string `json:"evidence"`
			} `json:"label"`
		}
		if err := json.Unmarshal(b, &locale); err != nil {
			t.Fatal(err)
		}
		for _, typ := range classify.Types() {
			if got := locale.Label.Class[string(typ.Class)]; got != name(typ) {
				t.Errorf("%s: %s is called %q, not %q", file, typ.Class, got, name(typ))
			}
		}
		for _, r := range classify.Reasons() {
			if locale.Label.Evidence[r.Name] == "" {
				t.Errorf("%s does not say what the reason %s is", file, r.Name)
			}
			delete(locale.Label.Evidence, r.Name)
		}
		for name := range locale.Label.Evidence {
			t.Errorf("%s has a text for the reason %s, which there is not", file, name)
		}
	}
}
