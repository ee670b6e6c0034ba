package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
)

// What sentence-transformers says of prefixes is read, under the names that makers of models give the roles.
func TestPromptsAreRead(t *testing.T) {
	for text, want := range map[string][2]string{
		`{}`: {},
		`{"prompts": {"query": "query: ", "passage": "passage: "}}`: {"query: ", "passage: "},
		`{"prompts": {"search_query": "q ", "document": "d "}}`:     {"q ", "d "},
		`{"prompts": {"query": "only: ", "other": "x"}}`:            {"only: ", ""},
	} {
		dir := copyDir(t, "bert")
		if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := open(t, dir).Config; c.QueryPrefix != want[0] || c.PassagePrefix != want[1] {
			t.Errorf("%s: %q, %q", text, c.QueryPrefix, c.PassagePrefix)
		}
	}
	dir := copyDir(t, "bert")
	if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"), []byte(`{"prompts": 5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "config_sentence_transformers.json") {
		t.Error(err)
	}
}

func TestScoringModelsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		family, want string
		change       func(dir string)
	}{
		"classes": {"bert-rerank", "2 classes", func(dir string) {
			edit(t, dir, "config.json", `"0": "LABEL_0"`, `"0": "no", "1": "yes"`)
		}},
		"untold classes": {"bert-rerank", "2 classes", func(dir string) { edit(t, dir, "config.json", `"id2label"`, `"x"`) }},
		"no head": {"xlm-roberta", `no tensor "classifier.out_proj.weight"`, func(dir string) {
			edit(t, dir, "config.json", `"XLMRobertaModel"`, `"XLMRobertaForSequenceClassification"], "id2label": {"0": "x"}, "y": [0`)
		}},
		"head of an embedder": {"bert-rerank", `"classifier.bias"`, func(dir string) { edit(t, dir, "config.json", "BertForSequenceClassification", "BertModel") }},
	} {
		dir := copyDir(t, c.family)
		c.change(dir)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// A GGUF file with a head is one of a model that scores, also where it does not say how to pool; the head may have one layer.
func TestHeadsWithoutPooling(t *testing.T) {
	f, err := gguf.Open(toGGUF(t, "xlm-roberta-rerank"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(drop ...string) string {
		w := gguf.NewWriter()
		for _, key := range f.Keys() {
			if value, _ := f.Value(key); key != "bert.pooling_type" {
				if err := w.Set(key, value); err != nil {
					t.Fatal(err)
				}
			}
		}
		for tensor := range f.All() {
			if slices.Contains(drop, tensor.Name) {
				continue
			}
			if err := w.Copy(tensor); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), "changed.gguf")
		if err := w.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	checkGolden(t, open(t, write()), readExpected(t, "xlm-roberta-rerank"))
	if m := open(t, write("cls.weight", "cls.bias")); !m.Config.Scores || strings.Contains(m.Graph.String(), "tanh") {
		t.Error("a head of one layer is not read as one")
	}
	if m := open(t, write("cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias")); m.Config.Scores || m.Config.Pooling != "mean" {
		t.Error("a model without a head scores")
	}
	if _, err := Open(write("cls.output.weight")); err == nil || !strings.Contains(err.Error(), "cls.") {
		t.Error("half a head:", err)
	}
}
