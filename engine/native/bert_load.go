package native

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/safetensors"
	"github.com/sluice-project/sluice/engine/tokenizer"
)

// bertConfig is what config.json says of an encoder.
type bertConfig struct {
	Type       string  `json:"model_type"`
	Activation string  `json:"hidden_act"`
	Position   string  `json:"position_embedding_type"`
	Width      int     `json:"hidden_size"`
	Hidden     int     `json:"intermediate_size"`
	Heads      int     `json:"num_attention_heads"`
	Layers     int     `json:"num_hidden_layers"`
	Positions  int     `json:"max_position_embeddings"`
	TokenTypes int     `json:"type_vocab_size"`
	Vocab      int     `json:"vocab_size"`
	Epsilon    float64 `json:"layer_norm_eps"`
}

func (c bertConfig) validate() error {
	if c.Type != "bert" || c.Activation != "gelu" || (c.Position != "" && c.Position != "absolute") {
		return fmt.Errorf("config.json describes model_type %q, hidden_act %q, position_embedding_type %q; this build runs bert, gelu, absolute",
			c.Type, c.Activation, c.Position)
	}
	for _, f := range []struct {
		name      string
		value     int
		low, high int
	}{
		{"hidden_size", c.Width, 8, 1 << 13},
		{"intermediate_size", c.Hidden, 8, 1 << 15},
		{"num_attention_heads", c.Heads, 1, 256},
		{"num_hidden_layers", c.Layers, 1, 256},
		{"max_position_embeddings", c.Positions, 2, 1 << 16},
		{"type_vocab_size", c.TokenTypes, 1, 64},
		{"vocab_size", c.Vocab, 4, 1 << 22},
	} {
		if f.value < f.low || f.value > f.high {
			return fmt.Errorf("config.json: %s is %d, allowed are %d to %d", f.name, f.value, f.low, f.high)
		}
	}
	if c.Width%c.Heads != 0 || c.Width%8 != 0 || c.Hidden%8 != 0 {
		return fmt.Errorf("config.json: hidden_size %d must be a multiple of num_attention_heads %d and, as intermediate_size %d, of 8", c.Width, c.Heads, c.Hidden)
	}
	if !(c.Epsilon > 0 && c.Epsilon < 1) {
		return fmt.Errorf("config.json: layer_norm_eps is %g", c.Epsilon)
	}
	return nil
}

// loadBERT reads a sentence encoder from a directory as Hugging Face lays it out: config.json, tokenizer.json, model.safetensors,
// and, where present, sentence_bert_config.json (the longest text) and 1_Pooling/config.json (which must ask for the mean).
func loadBERT(dir string, k kernel.Kernels, threads int) (*bert, error) {
	var c bertConfig
	if err := readJSON(dir, "config.json", &c); err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	limit, err := bertLimit(dir, c.Positions)
	if err != nil {
		return nil, err
	}
	tokens, err := readWordPiece(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	if tokens.Size() > c.Vocab {
		return nil, fmt.Errorf("tokenizer.json has %d tokens, the model %d", tokens.Size(), c.Vocab)
	}
	path := filepath.Join(dir, "model.safetensors")
	sum, err := fileDigest(path)
	if err != nil {
		return nil, err
	}
	b := &bert{
		kernels: k, threads: defaultThreads(threads), tokens: tokens, sum: sum, gate: make(chan struct{}, 1),
		bertShape: bertShape{width: c.Width, heads: c.Heads, hidden: c.Hidden, limit: limit, epsilon: c.Epsilon},
	}
	if err := b.readWeights(path, c); err != nil {
		return nil, err
	}
	b.scratch = b.newScratch()
	return b, nil
}

// bertLimit returns how many tokens a text may have.
func bertLimit(dir string, positions int) (int, error) {
	limit := positions
	var sentence struct {
		Longest int `json:"max_seq_length"`
	}
	err := readJSON(dir, "sentence_bert_config.json", &sentence)
	if err == nil && sentence.Longest > 0 {
		limit = min(limit, sentence.Longest)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	pooling := map[string]any{}
	err = readJSON(dir, filepath.Join("1_Pooling", "config.json"), &pooling)
	if err == nil && pooling["pooling_mode_mean_tokens"] != true {
		return 0, errors.New("1_Pooling/config.json does not ask for the mean of the tokens; this build computes nothing else")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return max(2, limit), nil
}

func (b *bert) readWeights(path string, c bertConfig) (err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := &bertReader{file: f}
	b.words = r.tensor("embeddings.word_embeddings.weight", c.Vocab, c.Width)
	b.positions = r.tensor("embeddings.position_embeddings.weight", c.Positions, c.Width)
	types := r.tensor("embeddings.token_type_embeddings.weight", c.TokenTypes, c.Width)
	b.norm = r.norm("embeddings.LayerNorm", c.Width)
	for i := range c.Layers {
		b.layers = append(b.layers, r.layer(fmt.Sprintf("encoder.layer.%d.", i), c))
	}
	if r.err != nil {
		return r.err
	}
	// Every token of a single text has type 0.
	for i := range b.positions {
		b.positions[i] += types[i%c.Width]
	}
	return nil
}

// bertReader keeps the first error.
type bertReader struct {
	file *safetensors.File
	err  error
}

func (r *bertReader) tensor(name string, shape ...int) []float32 {
	if r.err != nil {
		return nil
	}
	var t []float32
	t, r.err = r.file.Float32(name, shape...)
	return t
}

func (r *bertReader) norm(name string, width int) layerNorm {
	return layerNorm{scale: r.tensor(name+".weight", width), bias: r.tensor(name+".bias", width)}
}

// linear reads layers of the same input into one matrix, one below the other.
func (r *bertReader) linear(rows, cols int, names ...string) linear {
	if r.err != nil { // what config.json claims is no reason to take memory
		return linear{}
	}
	l := linear{w: kernel.NewMatrix(kernel.F32, rows*len(names), cols, nil)}
	for i, name := range names {
		w, bias := r.tensor(name+".weight", rows, cols), r.tensor(name+".bias", rows)
		if r.err != nil {
			return l
		}
		for row := range rows {
			l.w.SetRow(i*rows+row, w[row*cols:(row+1)*cols])
		}
		l.bias = append(l.bias, bias...)
	}
	return l
}

func (r *bertReader) layer(prefix string, c bertConfig) bertLayer {
	self := prefix + "attention.self."
	return bertLayer{
		qkv:       r.linear(c.Width, c.Width, self+"query", self+"key", self+"value"),
		out:       r.linear(c.Width, c.Width, prefix+"attention.output.dense"),
		attention: r.norm(prefix+"attention.output.LayerNorm", c.Width),
		up:        r.linear(c.Hidden, c.Width, prefix+"intermediate.dense"),
		down:      r.linear(c.Width, c.Hidden, prefix+"output.dense"),
		output:    r.norm(prefix+"output.LayerNorm", c.Width),
	}
}

// maxJSON bounds the small files beside the weights.
const maxJSON = 1 << 20

func readJSON(dir, name string, into any) (err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := json.NewDecoder(io.LimitReader(f, maxJSON)).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

func readWordPiece(path string) (w *tokenizer.WordPiece, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return tokenizer.ReadWordPiece(f)
}

func fileDigest(path string) (digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
