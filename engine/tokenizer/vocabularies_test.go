package tokenizer

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVocabulariesByHand compares real vocabularies, too large to ship, with ids computed by other tokenizers. It runs where
// SLUICE_VOCABULARIES names a folder of answers; testdata/README.md says how to make one.
func TestVocabulariesByHand(t *testing.T) {
	dir := os.Getenv("SLUICE_VOCABULARIES")
	if dir == "" {
		t.Skip("SLUICE_VOCABULARIES names no folder")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.answers.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in %s: %v", dir, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { compareVocabulary(t, name) })
	}
}

// TestSmallVocabularies compares the vocabularies under testdata/small with the ids of llama.cpp, sentencepiece and the Hugging Face
// tokenizers.
func TestSmallVocabularies(t *testing.T) {
	files, err := filepath.Glob("testdata/small/*.answers.json")
	if err != nil || len(files) != 16 {
		t.Fatalf("%d files of answers: %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) { compareVocabulary(t, name) })
	}
}

type answers struct {
	Path  string // the GGUF file or directory
	Cases []struct {
		Hex                  string // the text
		Plain, Special, Full []int32
	}
}

func compareVocabulary(t *testing.T, name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var a answers
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(a.Path) {
		a.Path = filepath.Join(filepath.Dir(name), a.Path)
	}
	text, encoder := open(t, a.Path)
	differ := 0
	report := func(kind, in string, got, want []int32) {
		if slices.Equal(got, want) {
			return
		}
		if differ++; differ <= 20 {
			t.Errorf("%s %q:\n got  %v\n want %v", kind, in, got, want)
		}
	}
	for _, c := range a.Cases {
		raw, err := hex.DecodeString(c.Hex)
		if err != nil {
			t.Fatal(err)
		}
		in := string(raw)
		if encoder != nil {
			report("full", in, encoder.Encode(in), c.Full)
			continue
		}
		report("plain", in, text.Encode(in, false), c.Plain)
		if c.Special == nil {
			c.Special = c.Plain
		}
		report("special", in, text.Encode(in, true), c.Special)
	}
	t.Logf("%s: %d texts, %d differences", a.Path, len(a.Cases), differ)
}

// open reads a GGUF file or a directory.
func open(t testing.TB, path string) (Tokenizer, Encoder) {
	t.Helper()
	if !strings.HasSuffix(path, ".gguf") {
		d, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return d.Text, d.Encoder
	}
	values := readMetadata(t, path)
	v, err := FromMetadata(func(key string) (any, bool) { x, ok := values[key]; return x, ok })
	if err != nil {
		t.Fatal(err)
	}
	if v.Model == "bert" || v.Model == "t5" {
		e, err := NewEncoder(v)
		if err != nil {
			t.Fatal(err)
		}
		return nil, e
	}
	text, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return text, nil
}

// What Decode gives is the text itself, for the vocabularies that lose nothing. Qwen composes characters, Mistral's does not tell
// whether a text began with a space, and U+2581 stands for a space in all that are made of pieces.
func TestSmallVocabulariesLoseNothing(t *testing.T) {
	for _, name := range []string{"llama.gguf", "gemma.gguf", "hf-llama", "hf-gemma", "hf-gpt2", "hf-llama3", "hf-smollm", "hf-tekken"} {
		tokens, _ := open(t, "testdata/small/"+name)
		pieces := !strings.Contains(name, "gpt2") && !strings.Contains(name, "llama3") && !strings.Contains(name, "smollm") && !strings.Contains(name, "tekken")
		n := 0
		for _, c := range readJSON[[]oracleCase](t, "oracle.json") {
			if pieces && strings.Contains(c.Text, spaceMark) {
				continue
			}
			n++
			if got := tokens.Decode(tokens.Encode(c.Text, false)); got != c.Text {
				t.Errorf("%s: %q became %q", name, c.Text, got)
			}
		}
		if n < 300 {
			t.Errorf("%s: %d texts", name, n)
		}
	}
}
