package arch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/sluice-project/sluice/engine/gguf"
)

// readGGUF reads a model's numbers from the metadata of its file. The tensors are there for what metadata leave out.
func readGGUF(f *gguf.File) (*Config, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	switch arch {
	case Llama, Qwen2, Qwen3, Gemma3, BERT:
	default:
		return nil, fmt.Errorf("the architecture %q is not supported (supported: %s)", arch, supported)
	}
	r := &metadata{file: f, prefix: arch + "."}
	c := &Config{
		Arch:       arch,
		Layers:     r.int("block_count"),
		Dim:        r.int("embedding_length"),
		Hidden:     r.int("feed_forward_length"),
		Heads:      r.int("attention.head_count"),
		Context:    r.int("context_length"),
		BOS:        -1,
		EmbedScale: 1,
	}
	c.KVHeads = r.intOr("attention.head_count_kv", c.Heads)
	if f.Has("general.name") {
		c.Name, err = f.String("general.name")
	}
	if err := errors.Join(err, r.err); err != nil {
		return nil, err
	}
	if n := r.intOr("expert_count", 0); n > 0 {
		return nil, fmt.Errorf("the model mixes %d experts (%s.expert_count), which is not supported", n, arch)
	}
	if err := r.shape(c); err != nil {
		return nil, err
	}
	if c.Encoder() {
		r.encoder(c)
	} else {
		r.decoder(c)
	}
	r.tokens(c)
	return c, r.err
}

// metadata reads numbers under one prefix and keeps the first error.
type metadata struct {
	file   *gguf.File
	prefix string
	err    error
}

func (r *metadata) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *metadata) has(key string) bool { return r.file.Has(r.prefix + key) }

// int reads a whole number. What does not fit 32 bits is out of every bound, so it is cut to what the checks refuse.
func (r *metadata) int(key string) int {
	v, err := r.file.Int(r.prefix + key)
	if err != nil {
		r.fail(err)
		return 0
	}
	if v < 0 || v > math.MaxInt32 {
		r.fail(fmt.Errorf("the value %s%s = %d is outside 0 to %d", r.prefix, key, v, math.MaxInt32))
		return 0
	}
	return int(v)
}

func (r *metadata) intOr(key string, otherwise int) int {
	if !r.has(key) {
		return otherwise
	}
	return r.int(key)
}

func (r *metadata) floatOr(key string, otherwise float64) float64 {
	if !r.has(key) {
		return otherwise
	}
	v, err := r.file.Float(r.prefix + key)
	if err != nil {
		r.fail(err)
	}
	return decimal(v)
}

// decimal is the number that was meant where a file rounded it to float32: 0.00001 instead of 0.0000099999997.
func decimal(v float64) float64 {
	if float64(float32(v)) != v {
		return v
	}
	d, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
	if err != nil {
		return v
	}
	return d
}

func (r *metadata) textOr(key, otherwise string) string {
	if !r.has(key) {
		return otherwise
	}
	v, err := r.file.String(r.prefix + key)
	if err != nil {
		r.fail(err)
	}
	return v
}

// shape fills in the vocabulary, which only the embedding tells for certain, and the width of a head.
func (r *metadata) shape(c *Config) error {
	embed, err := r.file.Tensor("token_embd.weight")
	if err != nil {
		return err
	}
	c.Vocab = embed.Rows()
	if c.Heads < 1 || c.Layers < 1 || c.Layers > maxLayers {
		return c.validate() // says which
	}
	c.HeadDim = r.intOr("attention.key_length", c.Dim/c.Heads)
	if r.err == nil && r.intOr("attention.value_length", c.HeadDim) != c.HeadDim {
		return errors.New("keys and values of different length are not supported")
	}
	return r.err
}

func (r *metadata) decoder(c *Config) {
	c.Act = "silu"
	c.Eps = r.floatOr("attention.layer_norm_rms_epsilon", 0)
	c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
	c.LogitSoftcap = r.floatOr("final_logit_softcapping", 0)
	c.AttnSoftcap = r.floatOr("attn_logit_softcapping", 0)
	c.Rotated = r.intOr("rope.dimension_count", c.HeadDim)
	c.Interleaved = c.Arch == Llama
	c.Tied = !r.file.HasTensor("output.weight")
	base := 10000.0
	if c.Arch == Gemma3 {
		r.gemma(c)
		base = 1e6
	}
	r.rope(c, base)
	c.Window = r.intOr("attention.sliding_window", 0)
	if c.Window > 0 {
		r.local(c)
	}
}

// gemma fills in what the format leaves to the reader of a Gemma 3 file.
func (r *metadata) gemma(c *Config) {
	c.Act = "gelu_tanh"
	c.EmbedScale = math.Sqrt(float64(c.Dim))
	if c.Layers == 62 { // the 27B model divides by the width per head, not by the width of a head; no key says so
		c.AttnScale = 1 / math.Sqrt(float64(c.Dim/c.Heads))
	}
	c.AttnScale = r.floatOr("attention.scale", c.AttnScale)
}

func (r *metadata) rope(c *Config, base float64) {
	c.Rope = Rope{Base: r.floatOr("rope.freq_base", base), Factor: 1, Divided: r.file.HasTensor(ropeFreqs)}
	switch kind := r.textOr("rope.scaling.type", "none"); kind {
	case "none":
		c.Rope.Factor = r.floatOr("rope.scale_linear", 1) // of files from before 2024
	case "linear":
		c.Rope.Factor = r.floatOr("rope.scaling.factor", 0)
	default:
		r.fail(fmt.Errorf("the position scaling %q is not supported (supported: none, linear, llama3)", kind))
	}
	c.LocalRope = c.Rope
	if c.Arch == Gemma3 {
		c.LocalRope = Rope{Base: r.floatOr("rope.freq_base_swa", 10000), Factor: 1}
	}
}

// local reads which layers have a window: a number n means all but each n-th, a list says it layer by layer.
func (r *metadata) local(c *Config) {
	const key = "attention.sliding_window_pattern"
	pattern := 0
	if c.Arch == Gemma3 {
		pattern = 6
	}
	if r.has(key) {
		v, _ := r.file.Value(r.prefix + key)
		if list, ok := v.([]bool); ok {
			if len(list) != c.Layers {
				r.fail(fmt.Errorf("%s%s has %d entries for %d layers", r.prefix, key, len(list), c.Layers))
			}
			c.Local = list
			return
		}
		pattern = r.int(key)
	}
	c.localByPattern(pattern)
}

func (r *metadata) encoder(c *Config) {
	c.Act = "gelu"
	c.Eps = r.floatOr("attention.layer_norm_epsilon", 0)
	c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
	types, err := r.file.Tensor("token_types.weight")
	if err != nil {
		r.fail(err)
		return
	}
	c.TokenTypes, c.Positions = types.Rows(), c.Context
	otherwise := 1
	if r.file.HasTensor("cls.output.weight") { // converters that find no pooling in the original's files leave it out
		otherwise = 4
	}
	switch kind := r.intOr("pooling_type", otherwise); kind {
	case 4: // a score instead of a vector
		c.Pooling, c.Scores = "cls", true
	case 1:
		c.Pooling = "mean"
	case 2:
		c.Pooling = "cls"
	case 3:
		c.Pooling = "last"
	default:
		r.fail(fmt.Errorf("the pooling of type %d is not supported (supported: 1 mean, 2 cls, 3 last, 4 rank)", kind))
	}
}

// tokens reads which tokens begin a text and end an answer.
func (r *metadata) tokens(c *Config) {
	t := &metadata{file: r.file, prefix: "tokenizer.ggml."}
	c.BOS = t.token("bos_token_id")
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		if id := t.token(key); id >= 0 {
			c.EOS = appendNew(c.EOS, id)
		}
	}
	if t.err != nil {
		r.fail(t.err)
	}
}

// token reads a token, −1 where the file has none. Files say that, too, by the largest number of 32 bits.
func (r *metadata) token(key string) int {
	if v, err := r.file.Int(r.prefix + key); err == nil && v == math.MaxUint32 {
		return -1
	}
	return r.intOr(key, -1)
}

// appendNew appends a token that the list lacks.
func appendNew(list []int, token int) []int {
	if slices.Contains(list, token) {
		return list
	}
	return append(list, token)
}
