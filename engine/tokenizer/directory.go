package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Directory is the tokenizer of a model directory as the Hugging Face libraries write it.
type Directory struct {
	Text         Tokenizer // nil if the tokenizer is one of an encoder
	Encoder      Encoder   // nil if the tokenizer is one of a model that generates
	ChatTemplate string    // "" if the model has none
}

// Load reads tokenizer.json and, where they exist, tokenizer_config.json, chat_template.jinja, generation_config.json and config.json
// of a directory. It refuses files whose steps it does not follow exactly. The tokenizer has as many tokens as config.json says that
// the model has (vocab_size).
func Load(dir string) (*Directory, error) {
	data, err := readFile(dir, "tokenizer.json", maxVocabulary)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: read tokenizer.json: %w", err)
	}
	c, err := readConfigs(dir)
	if err != nil {
		return nil, err
	}
	d, err := assemble(data, c)
	if err != nil || d.Text == nil {
		return d, err
	}
	d.ChatTemplate, err = c.template(dir)
	return d, err
}

// assemble builds the tokenizer of a tokenizer.json.
func assemble(data []byte, c *jsonConfigs) (*Directory, error) {
	var file jsonFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("tokenizer: read tokenizer.json: %w", err)
	}
	if file.Model.Type == "WordPiece" {
		w, err := ReadWordPiece(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return &Directory{Encoder: w}, nil
	}
	v, err := file.vocab()
	if err != nil {
		return nil, err
	}
	if err := c.apply(&v, file.Post); err != nil {
		return nil, err
	}
	var d Directory
	if v.Model == "t5" {
		d.Encoder, err = NewEncoder(v)
	} else {
		d.Text, err = New(v)
	}
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// maxConfig bounds the files beside tokenizer.json; some list all added tokens again.
const maxConfig = 16 << 20

func readFile(dir, name string, limit int64) (data []byte, err error) {
	f, err := os.Open(filepath.Join(dir, name)) //nolint:gosec // the operator chooses the directory; links in it may lead elsewhere
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("the file has more than %d bytes", limit)
	}
	return data, err
}

// jsonConfigs is what is read of the files beside tokenizer.json.
type jsonConfigs struct {
	Tokenizer struct {
		BOS      jsonName        `json:"bos_token"`
		EOS      jsonName        `json:"eos_token"`
		Pad      jsonName        `json:"pad_token"`
		AddBOS   *bool           `json:"add_bos_token"`
		Template json.RawMessage `json:"chat_template"`
	}
	Generation struct {
		EOS jsonIDs `json:"eos_token_id"`
	}
	Model struct {
		Size int     `json:"vocab_size"`
		EOS  jsonIDs `json:"eos_token_id"`
		Text struct {
			Size int     `json:"vocab_size"`
			EOS  jsonIDs `json:"eos_token_id"`
		} `json:"text_config"`
	}
}

func readConfigs(dir string) (*jsonConfigs, error) {
	var c jsonConfigs
	for _, part := range []struct {
		name string
		into any
	}{{"tokenizer_config.json", &c.Tokenizer}, {"generation_config.json", &c.Generation}, {"config.json", &c.Model}} {
		data, err := readFile(dir, part.name, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, part.into)
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer: read %s: %w", part.name, err)
		}
	}
	return &c, nil
}

// jsonName is a token given as "text", {"content": "text"} or null.
type jsonName string

// UnmarshalJSON reads any of the forms.
func (n *jsonName) UnmarshalJSON(data []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if len(data) > 0 && data[0] == '{' {
		err := json.Unmarshal(data, &object)
		*n = jsonName(object.Content)
		return err
	}
	return json.Unmarshal(data, (*string)(n))
}

// jsonIDs is a token id, a list of them or null.
type jsonIDs []int32

// UnmarshalJSON reads any of the forms.
func (l *jsonIDs) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && (data[0] == '[' || data[0] == 'n') {
		return json.Unmarshal(data, (*[]int32)(l))
	}
	var id int32
	err := json.Unmarshal(data, &id)
	*l = jsonIDs{id}
	return err
}

// apply puts into the vocabulary what the files say about its size and its special tokens.
func (c *jsonConfigs) apply(v *Vocab, post *jsonPost) error {
	if err := v.fit(max(c.Model.Size, c.Model.Text.Size)); err != nil {
		return err
	}
	ids, err := v.ids()
	if err != nil {
		return err
	}
	for _, named := range []struct {
		text jsonName
		id   *int32
	}{{c.Tokenizer.BOS, &v.BOS}, {c.Tokenizer.EOS, &v.EOS}, {c.Tokenizer.Pad, &v.Pad}} {
		if named.text == "" {
			continue
		}
		id, ok := ids[string(named.text)]
		if !ok {
			return fmt.Errorf("tokenizer: tokenizer_config.json names the token %q, which tokenizer.json lacks", string(named.text))
		}
		*named.id = id
	}
	// A token that a model must be able to write may lie beyond its own size in files of a larger relative: those never end a turn.
	for _, id := range slices.Concat(c.Generation.EOS, c.Model.EOS, c.Model.Text.EOS) {
		if id >= 0 && int(id) < len(v.Tokens) && !slices.Contains(v.EOG, id) {
			v.EOG = append(v.EOG, id)
		}
	}
	return c.surround(v, post)
}

// surround reads which tokens stand around a text.
func (c *jsonConfigs) surround(v *Vocab, post *jsonPost) error {
	before, after, err := post.around()
	if err != nil {
		return err
	}
	if len(before) > 1 || len(after) > 1 {
		return fmt.Errorf("tokenizer: the post_processor of tokenizer.json puts %d tokens before and %d after a text; this build knows one each", len(before), len(after))
	}
	if len(before) == 1 {
		v.BOS, v.AddBOS = before[0], true
	}
	if len(after) == 1 && v.Model == "t5" {
		v.EOS, v.AddEOS = after[0], true
	}
	if v.Model == "t5" {
		v.between, v.noPair = post.between(before, after)
	}
	if c.Tokenizer.AddBOS != nil && v.Model != "t5" {
		v.AddBOS = *c.Tokenizer.AddBOS
	}
	return nil
}

// fit makes the vocabulary as large as the model's. Files of small models may list added tokens that only larger relatives have.
func (v *Vocab) fit(size int) error {
	if size <= 0 {
		return nil
	}
	if size > maxTokens {
		return fmt.Errorf("tokenizer: config.json has the vocab_size %d; at most %d is supported", size, maxTokens)
	}
	for id := size; id < len(v.Tokens); id++ {
		if kind := v.kind(int32(id)); kind == typeNormal || kind == typeByte {
			return fmt.Errorf("tokenizer: tokenizer.json has a token with the id %d, but config.json has the vocab_size %d", id, size)
		}
	}
	if size < len(v.Tokens) {
		v.Tokens, v.Types = v.Tokens[:size], v.Types[:size]
		if v.Scores != nil {
			v.Scores = v.Scores[:size]
		}
	}
	v.grow(size)
	return nil
}

// template returns the chat template: newer files have it beside tokenizer_config.json, older ones in it, as one text or by name.
func (c *jsonConfigs) template(dir string) (string, error) {
	data, err := readFile(dir, "chat_template.jinja", maxConfig)
	if err == nil {
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("tokenizer: read chat_template.jinja: %w", err)
	}
	raw := c.Tokenizer.Template
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var one string
	if err := json.Unmarshal(raw, &one); err == nil {
		return one, nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("tokenizer: read the chat_template of tokenizer_config.json: %w", err)
	}
	for _, t := range list {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", errors.New(`tokenizer: tokenizer_config.json has chat templates by name, but none is named "default"`)
}

// jsonPost is a post-processor: what stands around a text.
type jsonPost struct {
	Type       string     `json:"type"`
	Processors []jsonPost `json:"processors"`
	Single     []struct {
		Special *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
	} `json:"single"`
	Pair []struct {
		Special *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
		Sequence *struct {
			ID string `json:"id"`
		} `json:"Sequence"`
	} `json:"pair"`
	Tokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
	CLS jsonPair `json:"cls"`
	Sep jsonPair `json:"sep"`
}

// jsonPair is ["text", id].
type jsonPair struct{ id int32 }

// UnmarshalJSON reads the pair.
func (p *jsonPair) UnmarshalJSON(data []byte) error {
	var text string
	return json.Unmarshal(data, &[]any{&text, &p.id})
}

// around returns the tokens before and after a text.
func (p *jsonPost) around() (before, after []int32, err error) {
	if p == nil {
		return nil, nil, nil
	}
	switch p.Type {
	case "Sequence":
		for _, child := range p.Processors {
			b, a, err := child.around()
			if err != nil {
				return nil, nil, err
			}
			before, after = append(b, before...), append(after, a...)
		}
	case "RobertaProcessing", "BertProcessing":
		return []int32{p.CLS.id}, []int32{p.Sep.id}, nil
	case "TemplateProcessing":
		list := &before
		for _, item := range p.Single {
			if item.Special == nil {
				list = &after
				continue
			}
			ids := p.Tokens[item.Special.ID].IDs
			if len(ids) == 0 {
				return nil, nil, fmt.Errorf("tokenizer: the post_processor of tokenizer.json uses the token %q without saying its id", item.Special.ID)
			}
			*list = append(*list, ids...)
		}
	case "ByteLevel": // only moves offsets
	default:
		return nil, nil, fmt.Errorf("tokenizer: tokenizer.json has the post_processor %q; this build knows TemplateProcessing, RobertaProcessing, BertProcessing and ByteLevel", p.Type)
	}
	return before, after, nil
}

// between returns the tokens between two texts, which stand between what stands around a single one; nil where the file does not say.
// unknown says that two texts are joined in another way, as in files that nobody joins texts with.
func (p *jsonPost) between(before, after []int32) (between []int32, unknown bool) {
	if p == nil || p.Type != "TemplateProcessing" || len(p.Pair) == 0 {
		return nil, false
	}
	var around [3][]int32 // before, between and after the texts
	at := 0
	for _, item := range p.Pair {
		switch {
		case item.Special != nil:
			around[at] = append(around[at], p.Tokens[item.Special.ID].IDs...)
		case item.Sequence != nil && at < 2 && item.Sequence.ID == "AB"[at:at+1]:
			at++
		default:
			return nil, true
		}
	}
	if at != 2 || !slices.Equal(around[0], before) || !slices.Equal(around[2], after) {
		return nil, true
	}
	return append([]int32{}, around[1]...), false
}
