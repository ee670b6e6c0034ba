package prune

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/gguf"
)

// model is the part of a model's description that pruning needs.
type model struct {
	file                   *gguf.File
	arch                   string
	layers, dim            int
	heads, kvHeads, hidden int
	keyDim, valueDim       int // of a head
}

// axis says which dimension of a tensor counts heads or channels.
type axis struct {
	unit    byte // 'q' query heads, 'k' key heads, 'v' value heads, 'o' output of heads, 'f' channels; 0: nothing goes
	columns bool // else rows
	vector  bool
}

// roles are the tensors of a layer that pruning knows.
func roles(suffix string) (axis, bool) {
	switch suffix {
	case "attn_q.weight":
		return axis{unit: 'q'}, true
	case "attn_k.weight":
		return axis{unit: 'k'}, true
	case "attn_v.weight":
		return axis{unit: 'v'}, true
	case "ffn_gate.weight", "ffn_up.weight":
		return axis{unit: 'f'}, true
	case "attn_q.bias":
		return axis{unit: 'q', columns: true, vector: true}, true
	case "attn_k.bias":
		return axis{unit: 'k', columns: true, vector: true}, true
	case "attn_v.bias":
		return axis{unit: 'v', columns: true, vector: true}, true
	case "attn_output.weight":
		return axis{unit: 'o', columns: true}, true
	case "ffn_down.weight":
		return axis{unit: 'f', columns: true}, true
	case "ffn_gate.bias", "ffn_up.bias":
		return axis{unit: 'f', columns: true, vector: true}, true
	case "attn_norm.weight", "ffn_norm.weight", "attn_q_norm.weight", "attn_k_norm.weight", "attn_output.bias", "ffn_down.bias",
		"post_attention_norm.weight", "post_ffw_norm.weight", "rope_freqs.weight":
		return axis{}, true
	}
	return axis{}, false
}

// required are the tensors without which a layer cannot be pruned.
func required() []string {
	return []string{
		"attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight",
		"ffn_norm.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight",
	}
}

// readModel reads the numbers and checks every tensor of every layer against them.
func readModel(f *gguf.File) (*model, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"llama", "qwen2", "qwen3", "gemma3"}, arch) {
		return nil, fmt.Errorf("the architecture %q cannot be pruned (supported: llama, qwen2, qwen3, gemma3)", arch)
	}
	m := &model{file: f, arch: arch}
	r := &numbers{file: f, prefix: arch + "."}
	m.layers = r.read("block_count", 0)
	m.dim = r.read("embedding_length", 0)
	m.hidden = r.read("feed_forward_length", 0)
	m.heads = r.read("attention.head_count", 0)
	m.kvHeads = r.read("attention.head_count_kv", m.heads)
	m.keyDim = r.read("attention.key_length", m.dim/max(1, m.heads))
	m.valueDim = r.read("attention.value_length", m.keyDim)
	if r.err != nil {
		return nil, r.err
	}
	if m.heads%m.kvHeads != 0 {
		return nil, fmt.Errorf("%d attention heads do not divide into %d key-value heads", m.heads, m.kvHeads)
	}
	return m, m.checkTensors()
}

// numbers reads sizes from the metadata and keeps the first error.
type numbers struct {
	file   *gguf.File
	prefix string
	err    error
}

// read returns a size; otherwise, when not 0, stands for a key that is not there.
func (r *numbers) read(key string, otherwise int) int {
	if r.err != nil || (otherwise > 0 && !r.file.Has(r.prefix+key)) {
		return otherwise
	}
	n, err := r.file.Int(r.prefix + key)
	if err == nil && (n < 1 || n > 1<<24) {
		err = fmt.Errorf("the value %s%s = %d is out of range", r.prefix, key, n)
	}
	r.err = err
	return int(n)
}

func (m *model) name(layer int, suffix string) string { return fmt.Sprintf("blk.%d.%s", layer, suffix) }

// checkTensors makes sure that pruning knows every tensor of every layer and that all have the shapes that the numbers call for.
func (m *model) checkTensors() error {
	for layer := range m.layers {
		for _, suffix := range required() {
			if _, err := m.file.Tensor(m.name(layer, suffix)); err != nil {
				return err
			}
		}
	}
	for t := range m.file.All() {
		layer, suffix, ok := splitName(t.Name)
		if !ok {
			continue
		}
		role, known := roles(suffix)
		if !known || layer >= m.layers {
			return fmt.Errorf("the tensor %q is not one that pruning knows; models with experts or joined matrices cannot be pruned", t.Name)
		}
		if err := m.checkShape(t, role); err != nil {
			return err
		}
	}
	return nil
}

// splitName takes "blk.3.attn_q.weight" apart.
func splitName(name string) (layer int, suffix string, ok bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, suffix, dot := strings.Cut(rest, ".")
	if !ok || !dot {
		return 0, "", false
	}
	layer, err := strconv.Atoi(number)
	return layer, suffix, err == nil
}

func (m *model) checkShape(t *gguf.Tensor, role axis) error {
	size := m.width(role.unit)
	rows, cols := size, m.dim
	switch {
	case role.unit == 0:
		return nil
	case role.vector:
		rows, cols = 1, size
	case role.columns:
		rows, cols = m.dim, size
	}
	if t.Rows() != rows || t.Cols() != cols {
		return fmt.Errorf("tensor %q has the shape %v, the model's numbers call for [%d %d]", t.Name, t.Shape, cols, rows)
	}
	return nil
}

// width returns how many rows or columns the units take together.
func (m *model) width(unit byte) int {
	switch unit {
	case 'q':
		return m.heads * m.keyDim
	case 'k':
		return m.kvHeads * m.keyDim
	case 'v':
		return m.kvHeads * m.valueDim
	case 'o':
		return m.heads * m.valueDim
	}
	return m.hidden
}

// group returns how many query heads share a key-value head.
func (m *model) group() int { return m.heads / m.kvHeads }

func (m *model) size() Size {
	s := Size{Heads: m.heads, KVHeads: m.kvHeads, FFN: m.hidden}
	for t := range m.file.All() {
		n := int64(1)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		elements, bytes := t.Type.Block()
		s.Parameters += n
		s.Bytes += n / int64(elements) * int64(bytes)
	}
	return s
}

// check compares what is asked with what there is.
func (m *model) check(opt Options) error {
	g := m.group()
	switch {
	case opt.Heads < 0 || opt.Heads > m.heads || opt.Heads%g != 0:
		return fmt.Errorf("%d heads cannot be kept: the model has %d in groups of %d that share a key-value head; ask for a multiple of %d up to %d",
			opt.Heads, m.heads, g, g, m.heads)
	case opt.FFN < 0 || opt.FFN > m.hidden:
		return fmt.Errorf("%d feed-forward channels cannot be kept: the model has %d", opt.FFN, m.hidden)
	case (opt.Heads == 0 || opt.Heads == m.heads) && (opt.FFN == 0 || opt.FFN == m.hidden):
		return fmt.Errorf("nothing is to be left out: the model has %d heads and %d feed-forward channels; ask for fewer of either", m.heads, m.hidden)
	}
	if opt.Importance != nil {
		return opt.Importance.check(m)
	}
	return nil
}
