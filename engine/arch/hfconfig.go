package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
)

// settings is what config.json says, in the older and the newer spelling. Pointers tell absent or null from zero.
type settings struct {
	ModelType     string          `json:"model_type"`
	Dim           int             `json:"hidden_size"`
	Hidden        int             `json:"intermediate_size"`
	Layers        int             `json:"num_hidden_layers"`
	Heads         int             `json:"num_attention_heads"`
	KVHeads       *int            `json:"num_key_value_heads"`
	HeadDim       *int            `json:"head_dim"`
	Vocab         int             `json:"vocab_size"`
	Context       int             `json:"max_position_embeddings"`
	RMSEps        float64         `json:"rms_norm_eps"`
	NormEps       float64         `json:"layer_norm_eps"`
	Act           string          `json:"hidden_act"`
	GemmaAct      string          `json:"hidden_activation"`
	Tied          *bool           `json:"tie_word_embeddings"`
	BOS           *int            `json:"bos_token_id"`
	EOS           json.RawMessage `json:"eos_token_id"`
	Pad           *int            `json:"pad_token_id"`
	Quantization  json.RawMessage `json:"quantization_config"`
	QueryScalar   *float64        `json:"query_pre_attn_scalar"`
	LogitSoftcap  *float64        `json:"final_logit_softcapping"`
	AttnSoftcap   *float64        `json:"attn_logit_softcapping"`
	Bidirectional *bool           `json:"use_bidirectional_attention"`

	Window       *int     `json:"sliding_window"`
	UseWindow    *bool    `json:"use_sliding_window"`
	WindowLayers int      `json:"max_window_layers"`
	LayerTypes   []string `json:"layer_types"`
	Pattern      *int     `json:"sliding_window_pattern"`
	PatternNew   *int     `json:"_sliding_window_pattern"`

	RopeTheta      *float64        `json:"rope_theta"`
	RopeLocalTheta *float64        `json:"rope_local_base_freq"`
	RopeScaling    json.RawMessage `json:"rope_scaling"`
	RopeParameters json.RawMessage `json:"rope_parameters"`
	PartialRotary  *float64        `json:"partial_rotary_factor"`

	TokenTypes   *int   `json:"type_vocab_size"`
	PositionKind string `json:"position_embedding_type"`

	Architectures []string       `json:"architectures"`
	Labels        map[string]any `json:"id2label"`
}

// readHF reads a model's numbers from the settings files of its directory. The divisors of the rotations, if it has any, take the
// place of a tensor.
func readHF(dir string) (c *Config, divisors []float32, err error) {
	var s settings
	if err := readJSON(filepath.Join(dir, "config.json"), &s); err != nil {
		return nil, nil, err
	}
	c, divisors, err = s.config()
	if err != nil {
		return nil, nil, fmt.Errorf("%w", err)
	}
	c.Name = filepath.Base(dir)
	return c, divisors, errors.Join(readGeneration(dir, c), readPooling(dir, c), readPrompts(dir, c))
}

func (s *settings) config() (*Config, []float32, error) {
	if len(s.Quantization) > 0 && string(s.Quantization) != "null" {
		var q struct {
			Method string `json:"quant_method"`
		}
		_ = json.Unmarshal(s.Quantization, &q)
		return nil, nil, fmt.Errorf("weights quantised by %q are not supported; use the original weights or a GGUF file", q.Method)
	}
	c := &Config{
		Dim: s.Dim, Hidden: s.Hidden, Layers: s.Layers, Heads: s.Heads, KVHeads: or(s.KVHeads, s.Heads), Vocab: s.Vocab,
		Context: s.Context, BOS: or(s.BOS, -1), EmbedScale: 1,
	}
	switch s.ModelType {
	case "llama", "mistral":
		c.Arch = Llama
	case "qwen2":
		c.Arch = Qwen2
	case "qwen3":
		c.Arch = Qwen3
	case "gemma3_text":
		c.Arch = Gemma3
	case "bert", "xlm-roberta":
		c.Arch = BERT
	case "gemma3":
		return nil, nil, errors.New(`the architecture "gemma3" with its image reader is not supported; use the text model (gemma3_text) or a GGUF file`)
	default:
		return nil, nil, fmt.Errorf("the architecture %q is not supported (supported: %s)", s.ModelType, supported)
	}
	if c.Heads < 1 {
		return nil, nil, fmt.Errorf("num_attention_heads is %d", c.Heads)
	}
	c.HeadDim = or(s.HeadDim, c.Dim/c.Heads)
	c.AttnScale = 1 / math.Sqrt(float64(c.HeadDim))
	var err error
	if c.EOS, err = tokenList(s.EOS); err != nil {
		return nil, nil, err
	}
	if c.Encoder() {
		return c, nil, s.encoder(c)
	}
	if err := s.decoder(c); err != nil {
		return nil, nil, err
	}
	divisors, err := s.rope(c)
	return c, divisors, err
}

func (s *settings) decoder(c *Config) error {
	c.Eps = s.RMSEps
	c.Tied = or(s.Tied, c.Arch == Gemma3)
	c.LogitSoftcap, c.AttnSoftcap = or(s.LogitSoftcap, 0), or(s.AttnSoftcap, 0)
	act := s.Act
	if c.Arch == Gemma3 {
		if s.GemmaAct != "" {
			act = s.GemmaAct
		}
		c.EmbedScale = math.Sqrt(float64(c.Dim))
		c.AttnScale = 1 / math.Sqrt(or(s.QueryScalar, 256))
		if or(s.Bidirectional, false) {
			return errors.New("attention in both directions (use_bidirectional_attention) is not supported")
		}
	}
	var err error
	if c.Act, err = activation(act); err != nil {
		return err
	}
	return s.windows(c)
}

// windows reads which layers look back on a bounded number of tokens only.
func (s *settings) windows(c *Config) error {
	window := or(s.Window, 0)
	uses := s.ModelType == "mistral" || c.Arch == Gemma3 || or(s.UseWindow, false)
	if window == 0 || !uses {
		return nil
	}
	if c.Layers < 1 || c.Layers > maxLayers {
		return c.validate() // says so
	}
	c.Window = window
	switch {
	case len(s.LayerTypes) > 0:
		return c.localByType(s.LayerTypes)
	case c.Arch == Gemma3:
		c.localByPattern(or(s.PatternNew, or(s.Pattern, 6)))
	case s.ModelType == "mistral":
		c.localByPattern(0)
	default:
		c.Local = make([]bool, c.Layers)
		for i := range c.Local {
			c.Local[i] = i >= s.WindowLayers
		}
	}
	return nil
}

func (c *Config) localByType(types []string) error {
	if len(types) != c.Layers {
		return fmt.Errorf("layer_types has %d entries for %d layers", len(types), c.Layers)
	}
	c.Local = make([]bool, c.Layers)
	for i, t := range types {
		switch t {
		case "sliding_attention":
			c.Local[i] = true
		case "full_attention":
		default:
			return fmt.Errorf("the layer type %q is not supported (supported: full_attention, sliding_attention)", t)
		}
	}
	return nil
}

func (s *settings) encoder(c *Config) error {
	if s.PositionKind != "" && s.PositionKind != "absolute" {
		return fmt.Errorf("the position embedding %q is not supported (supported: absolute)", s.PositionKind)
	}
	c.Eps = s.NormEps
	c.TokenTypes, c.Positions = or(s.TokenTypes, 2), s.Context
	c.Pooling = "mean"
	if len(s.Architectures) > 0 && strings.HasSuffix(s.Architectures[0], "ForSequenceClassification") {
		// Two labels are what the library takes where a file names none, and then they are not written.
		if n := len(s.Labels); n != 1 {
			return fmt.Errorf("%s sorts texts into %d classes; what is supported is one number for a query and a document", s.Architectures[0], max(n, 2))
		}
		c.Pooling, c.Scores = "cls", true
	}
	if s.ModelType == "xlm-roberta" {
		c.FirstPosition = or(s.Pad, 1) + 1
		c.Context -= c.FirstPosition
	}
	var err error
	c.Act, err = activation(s.Act)
	return err
}

// or is the value p points to, or otherwise.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
