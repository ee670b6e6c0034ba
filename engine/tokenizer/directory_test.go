package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// directory copies one of testdata/small and changes files: text in tokenizer.json by pairs of old and new, others as given.
func directory(t testing.TB, name string, replace []string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"tokenizer.json", "tokenizer_config.json"} {
		data, err := os.ReadFile(filepath.Join("testdata/small", name, file))
		if err != nil && file == "tokenizer.json" {
			t.Fatal(err)
		}
		text := string(data)
		if file == "tokenizer.json" {
			for i := 0; i < len(replace); i += 2 {
				if !strings.Contains(text, replace[i]) {
					t.Fatalf("%s does not contain %s", name, replace[i])
				}
				text = strings.Replace(text, replace[i], replace[i+1], 1)
			}
		}
		if err == nil {
			put(file, text)
		}
	}
	for file, text := range files {
		put(file, text)
	}
	return dir
}

func TestLoadGenerators(t *testing.T) {
	for _, c := range []struct {
		name, bos, eos, template string
		add                      bool
	}{
		{"hf-llama", "<s>", "</s>", "{{ bos_token }}", true},
		{"hf-gemma", "<s>", "</s>", "{{ bos_token }}", true},
		{"hf-mistral", "<s>", "", "", true},
		{"hf-llama3", "<|begin_of_text|>", "<|eot_id|>", "", true},
		{"hf-qwen", "", "<|im_end|>", "{{ messages }}", false},
	} {
		d, err := Load(filepath.Join("testdata/small", c.name))
		if err != nil {
			t.Fatal(err)
		}
		bos, add := d.Text.BOS()
		if d.Text.Name(bos) != c.bos || add != c.add || d.Text.Name(d.Text.EOS()) != c.eos || d.ChatTemplate != c.template || d.Encoder != nil {
			t.Errorf("%s: BOS %q %v, EOS %q, template %q", c.name, d.Text.Name(bos), add, d.Text.Name(d.Text.EOS()), d.ChatTemplate)
		}
	}
}

func TestLoadReadsTheFilesBeside(t *testing.T) {
	load := func(files map[string]string) *Directory {
		t.Helper()
		d, err := Load(directory(t, "hf-qwen", nil, files))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := load(map[string]string{
		"config.json": `{"vocab_size": 600, "eos_token_id": 3}`, "generation_config.json": `{"eos_token_id": [5, 6, 100000]}`, "chat_template.jinja": "beside",
		"tokenizer_config.json": `{"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>", "add_bos_token": true, "chat_template": "within"}`,
	})
	bos, add := d.Text.BOS()
	if d.Text.Size() != 600 || d.ChatTemplate != "beside" || d.Text.Name(bos) != "<|im_start|>" || !add {
		t.Errorf("size %d, template %q, BOS %d %v", d.Text.Size(), d.ChatTemplate, bos, add)
	}
	for id, want := range map[int32]bool{3: true, 5: true, 6: true, 7: false, 599: false, d.Text.EOS(): true} {
		if d.Text.IsEOG(id) != want {
			t.Errorf("IsEOG(%d) = %v", id, !want)
		}
	}
	if got := d.Text.Decode(append(d.Text.Encode("a b", false), 599)); got != "a b" {
		t.Errorf("Decode gives %q", got)
	}
	// Gemma's files list a token more than its text models have.
	tool := d.Text.Encode("<tool>", false)
	if len(tool) != 1 {
		t.Fatalf("<tool> became %v", tool)
	}
	d = load(map[string]string{"config.json": `{"text_config": {"vocab_size": 484}, "eos_token_id": null}`})
	if tool[0] != 484 || d.Text.Size() != 484 || len(d.Text.Encode("<tool>", false)) == 1 {
		t.Errorf("size %d, <tool> had the id %d and became %v", d.Text.Size(), tool[0], d.Text.Encode("<tool>", false))
	}
}

// GPT-2 and its kin name their end of text as the unknown token too, which byte-level BPE never needs.
func TestUnknownTokenMayEndTheText(t *testing.T) {
	d, err := Load(directory(t, "hf-gpt2", []string{`"unk_token":null`, `"unk_token":"<|im_end|>"`}, map[string]string{"tokenizer_config.json": "{}"}))
	if err != nil {
		t.Fatal(err)
	}
	ids := d.Text.Encode("<|im_end|>", true)
	if len(ids) != 1 || !d.Text.IsEOG(ids[0]) || len(d.Text.Encode("<|im_end|>", false)) < 5 {
		t.Errorf("<|im_end|> became %v", ids)
	}
}

func TestLoadEncoders(t *testing.T) {
	post := `{"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",0],"trim_offsets":true,"add_prefix_space":true}`
	data, err := os.ReadFile("testdata/small/hf-xlmr/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	d, err := Load(directory(t, "hf-xlmr", []string{string(file["post_processor"]), post}, map[string]string{"config.json": `{"vocab_size": 1000}`}))
	if err != nil {
		t.Fatal(err)
	}
	if ids := d.Encoder.Encode("a"); d.Text != nil || d.Encoder.Size() != 1000 || ids[0] != 0 || ids[len(ids)-1] != 2 {
		t.Errorf("size %d, %v", d.Encoder.Size(), ids)
	}
	d, err = Load(testmodel.Path(t, testmodel.MiniLM))
	if err != nil || d.Encoder.Size() != 30522 || !slices.Equal(d.Encoder.Encode("hello"), []int32{101, 7592, 102}) {
		t.Errorf("all-MiniLM: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		from    string
		replace []string
		files   map[string]string
		want    string
	}{
		"not JSON":          {"hf-gpt2", []string{`{`, `[`}, nil, "tokenizer.json"},
		"config":            {"hf-gpt2", nil, map[string]string{"config.json": "{"}, "config.json"},
		"generation":        {"hf-gpt2", nil, map[string]string{"generation_config.json": `{"eos_token_id":"x"}`}, "generation_config.json"},
		"model":             {"hf-gpt2", []string{`"type":"BPE"`, `"type":"WordLevel"`}, nil, `"WordLevel"`},
		"pattern":           {"hf-llama3", []string{`\\p{N}{1,3}`, `\\p{N}{1,4}`}, nil, "{1,4}"},
		"prefix space":      {"hf-gpt2", []string{`"add_prefix_space":false`, `"add_prefix_space":true`}, nil, "ByteLevel"},
		"no pre-tokenizer":  {"hf-gpt2", []string{`"pre_tokenizer":{`, `"x":{`}, nil, "none"},
		"normalizer":        {"hf-qwen", []string{`"NFC"`, `"NFKC"`}, nil, "NFKC"},
		"suffix":            {"hf-gpt2", []string{`"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`}, nil, "end_of_word_suffix"},
		"dropout":           {"hf-gpt2", []string{`"dropout":null`, `"dropout":0.5`}, nil, "dropout"},
		"strips":            {"hf-gpt2", []string{`"rstrip":false`, `"rstrip":true`}, nil, "rstrip"},
		"post":              {"hf-llama3", []string{`"TemplateProcessing"`, `"Other"`}, nil, `"Other"`},
		"post token":        {"hf-llama3", []string{`"special_tokens":{"<|begin_of_text|>"`, `"special_tokens":{"other"`}, nil, "without saying its id"},
		"bos":               {"hf-gpt2", nil, map[string]string{"tokenizer_config.json": `{"bos_token":"<none>"}`}, `"<none>"`},
		"template":          {"hf-gpt2", nil, map[string]string{"tokenizer_config.json": `{"chat_template":3}`}, "chat_template"},
		"templates":         {"hf-gpt2", nil, map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"x","template":"y"}]}`}, `"default"`},
		"small model":       {"hf-gpt2", nil, map[string]string{"config.json": `{"vocab_size": 10}`}, "vocab_size 10"},
		"huge model":        {"hf-gpt2", nil, map[string]string{"config.json": `{"vocab_size": 99999999}`}, "99999999"},
		"added id":          {"hf-gpt2", []string{`"id":480`, `"id":480000`}, nil, "480000"},
		"negative id":       {"hf-gpt2", []string{`"id":480`, `"id":-1`}, nil, "-1"},
		"merge":             {"hf-gpt2", []string{`"merges":[`, `"merges":[["x"],`}, nil, "merge 0"},
		"no merges":         {"hf-gpt2", []string{`"merges":`, `"other":`}, nil, "merges"},
		"bytes":             {"hf-llama", []string{`"<0x7F>"`, `"<0x7G>"`}, nil, "<0x7F>"},
		"lower case":        {"hf-llama", []string{`"Prepend"`, `"Lowercase"`}, nil, "Lowercase"},
		"spaces stay":       {"hf-gemma", []string{`"normalizer":{`, `"x":{`}, nil, "Split"},
		"split":             {"hf-mistral", []string{`"split":false`, `"split":true`}, nil, "Metaspace"},
		"ignored merges":    {"hf-llama", []string{`"ignore_merges":false`, `"ignore_merges":true`}, nil, "ignore_merges"},
		"no unknown":        {"hf-xlmr", []string{`"unk_id":3`, `"unk_id":null`}, nil, "unk_id"},
		"unigram bytes":     {"hf-xlmr", []string{`"byte_fallback":false`, `"byte_fallback":true`}, nil, "bytes"},
		"score":             {"hf-xlmr", []string{`["<s>",0.0`, `["<s>","0.0"`}, nil, "score"},
		"piece":             {"hf-xlmr", []string{`["<s>",0`, `[3,0`}, nil, "vocabulary"},
		"charsmap":          {"hf-xlmr", []string{`"precompiled_charsmap":"`, `"precompiled_charsmap":"////`}, nil, "charsmap"},
		"other normaliser":  {"hf-xlmr", []string{`"Strip"`, `"Nmt"`}, nil, "Nmt"},
		"other cut":         {"hf-xlmr", []string{`"Metaspace"`, `"Punctuation"`}, nil, "Punctuation"},
		"strip alone":       {"hf-xlmr", []string{`{"type":"Replace"`, `{"type":"Strip","strip_right":true,"x":""`}, nil, "Metaspace"},
		"two tokens before": {"hf-xlmr", []string{`"ids":[0]`, `"ids":[0,0]`}, nil, "2 tokens before"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := Load(directory(t, c.from, c.replace, c.files))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tokenizer: ") {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("an empty directory: %v", err)
	}
}

// No text of a caller becomes a control token, whatever the vocabulary.
func TestNoTextForgesControlTokens(t *testing.T) {
	names, err := filepath.Glob("testdata/small/hf-*/tokenizer.json")
	if err != nil || len(names) != 11 {
		t.Fatalf("%d directories: %v", len(names), err)
	}
	for _, name := range names {
		d, err := Load(filepath.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		if d.Text == nil {
			continue
		}
		var control []int32
		for id := range int32(d.Text.Size()) {
			if len(d.Text.Bytes(id)) == 0 && d.Text.Name(id) != "" {
				control = append(control, id)
			}
		}
		for _, id := range control {
			spelling := d.Text.Name(id)
			for _, text := range []string{spelling, "a" + spelling + "b", " " + spelling + spelling} {
				for _, got := range d.Text.Encode(text, false) {
					if slices.Contains(control, got) {
						t.Errorf("%s: plain %q became %q", name, text, d.Text.Name(got))
					}
				}
				if ids := d.Text.EncodeParts([]Part{{"x", true}, {text, false}, {spelling, true}}, false); ids[len(ids)-1] != id {
					t.Errorf("%s: %q is not recognised where it may be", name, spelling)
				}
			}
		}
		if len(control) < 3 {
			t.Errorf("%s: %d control tokens", name, len(control))
		}
	}
}

func FuzzTokenizerJSON(f *testing.F) {
	names, err := filepath.Glob("testdata/small/hf-*/tokenizer.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "the engine 中 <s>", 0)
	}
	f.Add([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",1e-3]]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}}`), "aa", 3)
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}}`), "ab", 4)
	f.Add([]byte(`{"added_tokens":[{"id":0,"content":""}],"normalizer":{"type":"Sequence","normalizers":[{"type":"Sequence"}]},"model":{"type":"BPE","vocab":{},"merges":[]}}`), "x", -1)
	f.Fuzz(func(t *testing.T, data []byte, text string, size int) {
		c := &jsonConfigs{}
		c.Model.Size = size & 0xFFFF
		d, err := assemble(data, c)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tokenizer: ") {
				t.Fatalf("error %v", err)
			}
			return
		}
		check := func(ids []int32, n int) {
			for _, id := range ids {
				if id < 0 || int(id) >= n {
					t.Fatalf("%q became the id %d of %d", text, id, n)
				}
			}
		}
		if d.Encoder != nil {
			check(d.Encoder.Encode(text), d.Encoder.Size())
			return
		}
		ids := d.Text.Encode(text, true)
		check(ids, d.Text.Size())
		d.Text.Decode(ids)
	})
}

// FuzzMetadata builds GGUF vocabularies out of pieces of the fuzzer's.
func FuzzMetadata(f *testing.F) {
	f.Add("llama", "<unk>\n<s>\n</s>\n▁a\nb", []byte{2, 3, 3, 1, 1}, "0 0 0 1 2", uint32(1), "ab", []byte{})
	f.Add("t5", "<unk>\na\n▁", []byte{2, 1, 1}, "0 1 2", uint32(0), "a a", smallCharsmap(f))
	f.Add("gpt2", "a\nb\nab", []byte{1, 1, 1}, "a b", uint32(0), "ab", []byte{})
	f.Add("bert", "[UNK]\n[CLS]\n[SEP]\n▁a\nb", []byte{3, 3, 3, 1, 1}, "", uint32(7), "ab", []byte{})
	f.Fuzz(func(t *testing.T, model, tokens string, types []byte, more string, special uint32, text string, charsmap []byte) {
		scores, kinds := make([]float64, 0, 8), make([]int64, len(types))
		for _, field := range strings.Fields(more) {
			scores = append(scores, -float64(len(field)))
		}
		for i, kind := range types {
			kinds[i] = int64(kind)
		}
		values := map[string]any{
			"model": model, "tokens": strings.Split(tokens, "\n"), "token_type": kinds, "scores": scores, "merges": strings.Split(more, "\n"),
			"bos_token_id": special, "precompiled_charsmap": charsmap, "unknown_token_id": uint32(0),
		}
		v, err := FromMetadata(func(key string) (any, bool) {
			x, ok := values[strings.TrimPrefix(key, "tokenizer.ggml.")]
			return x, ok
		})
		if err != nil {
			return
		}
		if tokens, err := New(v); err == nil {
			tokens.Decode(tokens.Encode(text, true))
		}
		if e, err := NewEncoder(v); err == nil {
			e.Encode(text)
		}
	})
}
