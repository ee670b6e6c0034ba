package arch

import (
	"errors"
	"fmt"
)

// The architectures. SmolLM2 and Mistral are llama; multilingual E5 is bert; XLM-RoBERTa is bert with its positions counted from the
// padding.
const (
	Llama  = "llama"
	Qwen2  = "qwen2"
	Qwen3  = "qwen3"
	Gemma3 = "gemma3"
	BERT   = "bert"
)

const supported = "llama (also SmolLM2 and Mistral), qwen2, qwen3, gemma3, bert, xlm-roberta"

// Config is what describes a model beside its weights. It is immutable.
type Config struct {
	Arch string
	Name string // as the file gives it, for people; may be empty

	Layers, Dim, Hidden     int
	Heads, KVHeads, HeadDim int
	Vocab, Context          int
	Eps                     float64 // of the norms
	Act                     string  // "silu", "gelu", "gelu_tanh", "relu"

	// Tied: the embedding is the head, too.
	Tied bool
	// AttnScale multiplies the products of queries and keys.
	AttnScale float64
	// EmbedScale multiplies the embedding.
	EmbedScale float64
	// LogitSoftcap and AttnSoftcap bound logits and attention scores smoothly; 0 means not at all.
	LogitSoftcap, AttnSoftcap float64

	// Rope turns the first Rotated numbers of each head; LocalRope does in layers with a window. Interleaved: the numbers of a pair are
	// neighbours; otherwise they lie half of Rotated apart.
	Rope, LocalRope Rope
	Rotated         int
	Interleaved     bool

	// Window is how many tokens, itself included, a token of a local layer looks back on. Local says which layers those are; it is empty
	// if there are none.
	Window int
	Local  []bool

	// Of encoders. Pooling is "mean", "cls" or "last". The table of positions has Positions rows; row FirstPosition belongs to the first
	// token.
	Pooling                  string
	TokenTypes               int
	Positions, FirstPosition int
	// Scores: the model reads two texts, a query and a document, and gives one number instead of a vector: the larger, the better the
	// document answers.
	Scores bool
	// QueryPrefix and PassagePrefix stand before texts of such a role; "" where the files ask for none.
	QueryPrefix, PassagePrefix string

	// EOS are the tokens that end an answer; BOS begins a text. BOS is −1 where the file names none.
	BOS int
	EOS []int
}

// Rope says how positions turn pairs of numbers: pair i by position / Factor · Base^(−2i/rotated), divided by element i of the tensor
// rope_freqs.weight where Divided.
type Rope struct {
	Base, Factor float64
	Divided      bool
}

// Encoder reports whether the model turns texts into vectors or scores instead of continuing them.
func (c *Config) Encoder() bool { return c.Arch == BERT }

// Segments reports whether the model is told of every token which of two texts it belongs to.
func (c *Config) Segments() bool { return c.Scores && c.TokenTypes > 1 }

// window is the window of a layer, 0 for none.
func (c *Config) window(layer int) int {
	if layer < len(c.Local) && c.Local[layer] {
		return c.Window
	}
	return 0
}

// localByPattern marks every layer as local but each pattern-th.
func (c *Config) localByPattern(pattern int) {
	c.Local = make([]bool, c.Layers)
	for i := range c.Local {
		c.Local[i] = pattern < 1 || (i+1)%pattern != 0
	}
}

// Bounds that are needed before all the others can be checked.
const (
	maxLayers  = 1024
	maxHeadDim = 1 << 12
)

// bound is a number of a model file and what it may be.
type bound struct {
	what             string
	value, low, high int
}

// bounds of what a file may claim. They keep products far from overflow; memory follows only tensors that were seen.
func (c *Config) bounds() []bound {
	return []bound{
		{"number of layers", c.Layers, 1, maxLayers},
		{"width", c.Dim, 1, 1 << 16},
		{"feed-forward width", c.Hidden, 1, 1 << 18},
		{"number of attention heads", c.Heads, 1, 1024},
		{"number of key-value heads", c.KVHeads, 1, 1024},
		{"width of a head", c.HeadDim, 1, maxHeadDim},
		{"vocabulary", c.Vocab, 1, 1 << 24},
		{"context length", c.Context, 1, 1 << 24},
		{"attention window", c.Window, 0, 1 << 24},
		{"number of token types", c.TokenTypes, 0, 1 << 10},
		{"number of positions", c.Positions, 0, 1 << 24},
		{"row of the first position", c.FirstPosition, 0, 1 << 20},
	}
}

// validate checks each number and how they go together.
func (c *Config) validate() error {
	for _, b := range c.bounds() {
		if b.value < b.low || b.value > b.high {
			return fmt.Errorf("the %s is %d, outside %d to %d", b.what, b.value, b.low, b.high)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%d attention heads do not divide into %d key-value heads", c.Heads, c.KVHeads)
	case !(c.Eps > 0 && c.Eps < 1):
		return fmt.Errorf("the epsilon of the norms is %v, outside 0 to 1", c.Eps)
	case !finite(c.AttnScale, 1e-6, 1e6) || !finite(c.EmbedScale, 1e-6, 1e6):
		return fmt.Errorf("the scales of attention %v and embedding %v must lie between 0.000001 and 1000000", c.AttnScale, c.EmbedScale)
	case c.LogitSoftcap != 0 && !finite(c.LogitSoftcap, 1e-3, 1e6), c.AttnSoftcap != 0 && !finite(c.AttnSoftcap, 1e-3, 1e6):
		return fmt.Errorf("the bounds of logits %v and scores %v must lie between 0.001 and 1000000", c.LogitSoftcap, c.AttnSoftcap)
	case c.Encoder() && c.KVHeads != c.Heads:
		return errors.New("an encoder with fewer key-value heads than heads is not supported")
	}
	if c.Encoder() {
		return c.validatePooling()
	}
	return c.validateRope()
}

func (c *Config) validatePooling() error {
	switch c.Pooling {
	case "mean", "cls", "last":
		return nil
	}
	return fmt.Errorf("the pooling %q is not supported (supported: mean, cls, last)", c.Pooling)
}

func (c *Config) validateRope() error {
	if c.Rotated < 2 || c.Rotated > c.HeadDim || c.Rotated%2 != 0 {
		return fmt.Errorf("the rotated dimension %d must be even and at most the %d of a head", c.Rotated, c.HeadDim)
	}
	for _, r := range []Rope{c.Rope, c.LocalRope} {
		if !finite(r.Base, 1e-3, 1e12) || !finite(r.Factor, 1e-6, 1e6) {
			return fmt.Errorf("the rotation base %v and factor %v must be positive and not absurd", r.Base, r.Factor)
		}
	}
	return nil
}

// finite reports whether x lies between low and high; NaN does not.
func finite(x, low, high float64) bool { return x >= low && x <= high }

// activation translates the names that files give activation functions.
func activation(name string) (string, error) {
	switch name {
	case "silu", "swish":
		return "silu", nil
	case "gelu":
		return "gelu", nil
	case "gelu_new", "gelu_pytorch_tanh", "gelu_fast":
		return "gelu_tanh", nil
	case "relu":
		return "relu", nil
	}
	return "", fmt.Errorf("the activation %q is not supported (supported: silu, gelu, gelu_pytorch_tanh, relu)", name)
}
