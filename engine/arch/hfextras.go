package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxJSON bounds a settings file; those of real models have a few kilobytes.
const maxJSON = 16 << 20

// readGeneration replaces the tokens that end an answer by those of generation_config.json, which knows more of them.
func readGeneration(dir string, c *Config) error {
	var g struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if err := readJSON(filepath.Join(dir, "generation_config.json"), &g); err != nil {
		return ignoreMissing(err)
	}
	eos, err := tokenList(g.EOS)
	if err != nil {
		return fmt.Errorf("generation_config.json: %w", err)
	}
	if len(eos) > 0 {
		c.EOS = eos
	}
	return nil
}

// readPooling reads how an encoder of the sentence-transformers layout makes one vector of a text. Without those files it is the mean.
func readPooling(dir string, c *Config) error {
	if !c.Encoder() || c.Scores {
		return nil
	}
	var modules []struct {
		Type string `json:"type"`
	}
	var sentence struct {
		Longest int `json:"max_seq_length"`
	}
	err := errors.Join(
		ignoreMissing(readJSON(filepath.Join(dir, "modules.json"), &modules)),
		ignoreMissing(readJSON(filepath.Join(dir, "sentence_bert_config.json"), &sentence)))
	if err != nil {
		return err
	}
	if sentence.Longest > 1 { // room for the marks around a text
		c.Context = min(c.Context, sentence.Longest)
	}
	for _, m := range modules {
		switch m.Type[strings.LastIndexByte(m.Type, '.')+1:] {
		case "Transformer", "Pooling", "Normalize":
		default:
			return fmt.Errorf("modules.json: the step %q behind the model is not supported (supported: Transformer, Pooling, Normalize)", m.Type)
		}
	}
	p := map[string]any{}
	if err := readJSON(filepath.Join(dir, "1_Pooling", "config.json"), &p); err != nil {
		return ignoreMissing(err)
	}
	kinds := []string{}
	if kind, ok := p["pooling_mode"].(string); ok {
		kinds = append(kinds, kind)
	}
	for key, on := range p {
		if kind, ok := strings.CutPrefix(key, "pooling_mode_"); ok && on == true {
			kind = strings.TrimSuffix(strings.TrimSuffix(kind, "_tokens"), "_token")
			if kind == "lasttoken" {
				kind = "last"
			}
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	if kinds = slices.Compact(kinds); len(kinds) != 1 {
		return fmt.Errorf("1_Pooling/config.json asks for %d ways of pooling %v; one is supported", len(kinds), kinds)
	}
	c.Pooling = kinds[0]
	return nil
}

// readPrompts reads what an encoder of the sentence-transformers layout wants before queries and passages.
func readPrompts(dir string, c *Config) error {
	if !c.Encoder() || c.Scores {
		return nil
	}
	var s struct {
		Prompts map[string]string `json:"prompts"`
	}
	if err := readJSON(filepath.Join(dir, "config_sentence_transformers.json"), &s); err != nil {
		return ignoreMissing(err)
	}
	first := func(names ...string) string {
		for _, name := range names {
			if text := s.Prompts[name]; text != "" {
				return text
			}
		}
		return ""
	}
	c.QueryPrefix = first("query", "search_query", "retrieval.query")
	c.PassagePrefix = first("passage", "document", "search_document", "retrieval.passage", "corpus")
	return nil
}

// tokenList reads a token or a list of tokens.
func tokenList(raw json.RawMessage) ([]int, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one int
	if json.Unmarshal(raw, &one) == nil {
		return []int{one}, nil
	}
	var list []int
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("eos_token_id: %w", err)
	}
	return list, nil
}

func readJSON(path string, into any) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxJSON {
		return fmt.Errorf("%s has more than %d bytes", path, maxJSON)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
