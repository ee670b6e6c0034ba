package native

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/kernel"
)

// llama is the weights of a Llama-family model. It is immutable.
type llama struct {
	dim, hidden      int
	heads, kvHeads   int
	headDim, rotated int // rotated: how many numbers of a head carry the position
	context, vocab   int
	eps              float32
	rope             []float32 // cos and sin of each pair, context rows of rotated numbers

	embed, head *kernel.Matrix // the same one if the model ties them
	norm        []float32
	layers      []layer

	precision string
}

type layer struct {
	attnNorm, ffnNorm    []float32
	q, k, v, o           *kernel.Matrix
	gate, up, down       *kernel.Matrix
	gateUp, qkv          []*kernel.Matrix
	quantIn, quantO      bool // whether the inputs of q, k, v and gate, up / of o are quantised
	quantFFN, quantDownI bool
}

// loadLlama reads the model in f. exact asks for float32 weights and activations instead of the file's own blocks. The result
// does not refer to f's memory. context bounds the context; 0 means the model's own.
func loadLlama(f *gguf.File, context int, exact bool) (*llama, error) {
	m := &llama{}
	if err := m.readShape(f, context); err != nil {
		return nil, err
	}
	l := &loader{file: f, exact: exact, used: map[string]bool{}}
	if err := m.readWeights(l); err != nil {
		return nil, err
	}
	for _, name := range f.Tensors() {
		if !l.used[name] {
			return nil, fmt.Errorf("the file has the tensor %q, which the architecture llama, as supported here, does not use", name)
		}
	}
	m.precision = "f32"
	if !exact {
		t, err := f.Tensor("blk.0.ffn_up.weight")
		if err != nil {
			return nil, err
		}
		m.precision = strings.ToLower(t.Type.String())
	}
	return m, nil
}

// readShape reads and checks the numbers that describe the architecture.
func (m *llama) readShape(f *gguf.File, context int) error {
	arch, err := f.String("general.architecture")
	if err != nil {
		return err
	}
	if arch != "llama" {
		return fmt.Errorf("the architecture %q is not supported (supported: llama)", arch)
	}
	r := &shapeReader{file: f}
	layers := r.int("block_count", 1, 1024)
	m.context = r.int("context_length", 1, 1<<22)
	m.dim = r.int("embedding_length", 1, 1<<16)
	m.hidden = r.int("feed_forward_length", 1, 1<<18)
	m.heads = r.int("attention.head_count", 1, 1024)
	m.kvHeads = r.intOr("attention.head_count_kv", m.heads, 1, 1024)
	m.eps = float32(r.float("attention.layer_norm_rms_epsilon"))
	if r.err != nil {
		return r.err
	}
	m.headDim = r.intOr("attention.key_length", m.dim/m.heads, 1, 1<<12)
	m.rotated = r.intOr("rope.dimension_count", m.headDim, 0, m.headDim)
	switch {
	case r.err != nil:
		return r.err
	case m.heads%m.kvHeads != 0:
		return fmt.Errorf("%d attention heads do not divide into %d key-value heads", m.heads, m.kvHeads)
	case m.rotated%2 != 0:
		return fmt.Errorf("the rotated dimension %d is odd", m.rotated)
	case r.intOr("attention.value_length", m.headDim, 1, 1<<12) != m.headDim:
		return errors.New("keys and values of different length are not supported")
	}
	if context > 0 {
		m.context = min(m.context, context)
	}
	m.layers = make([]layer, layers)
	return m.fillRope(r)
}

// maxRope bounds the table of rotations, 1 GiB: a file may claim any context before a single weight of it has been seen.
const maxRope = 1 << 28

// fillRope tabulates the rotations: pair i of a head turns by position·base^(−2i/rotated).
func (m *llama) fillRope(r *shapeReader) error {
	base, factor := 10000.0, 1.0
	if r.file.Has("llama.rope.freq_base") {
		base = r.float("rope.freq_base")
	}
	if r.file.Has("llama.rope.scaling.type") {
		kind, err := r.file.String("llama.rope.scaling.type")
		if err != nil {
			return err
		}
		switch kind {
		case "none":
		case "linear":
			factor = r.float("rope.scaling.factor")
		default:
			return fmt.Errorf("the position scaling %q is not supported (supported: none, linear)", kind)
		}
	}
	divisors := make([]float32, m.rotated/2)
	for i := range divisors {
		divisors[i] = 1
	}
	if r.file.HasTensor("rope_freqs.weight") {
		t, err := r.file.Tensor("rope_freqs.weight")
		if err != nil {
			return err
		}
		if t.Rows() != 1 || t.Cols() != len(divisors) {
			return shapeError(t, len(divisors), 1)
		}
		t.Row(0, divisors)
	}
	if r.err != nil || !(base > 0) || !(factor > 0) {
		return errors.Join(r.err, fmt.Errorf("the rotation base %v and factor %v must be positive", base, factor))
	}
	if m.context*m.rotated > maxRope {
		return fmt.Errorf("a context of %d tokens with %d rotated numbers takes more memory than this build gives it; lower engines.native.context_tokens",
			m.context, m.rotated)
	}
	m.rope = make([]float32, m.context*m.rotated)
	for i, d := range divisors {
		freq := math.Pow(base, -2*float64(i)/float64(m.rotated)) / float64(d) / factor
		for pos := range m.context {
			sin, cos := math.Sincos(float64(pos) * freq)
			m.rope[pos*m.rotated+2*i], m.rope[pos*m.rotated+2*i+1] = float32(cos), float32(sin)
		}
	}
	return nil
}

// shapeReader reads numbers under "llama." and keeps the first error.
type shapeReader struct {
	file *gguf.File
	err  error
}

func (r *shapeReader) int(key string, low, high int) int {
	v, err := r.file.Int("llama." + key)
	if err == nil && (v < int64(low) || v > int64(high)) {
		err = fmt.Errorf("the value llama.%s = %d is outside %d to %d", key, v, low, high)
	}
	if r.err == nil {
		r.err = err
	}
	return int(v)
}

func (r *shapeReader) intOr(key string, otherwise, low, high int) int {
	if !r.file.Has("llama." + key) {
		return otherwise
	}
	return r.int(key, low, high)
}

func (r *shapeReader) float(key string) float64 {
	v, err := r.file.Float("llama." + key)
	if r.err == nil {
		r.err = err
	}
	return v
}

func shapeError(t *gguf.Tensor, cols, rows int) error {
	return fmt.Errorf("tensor %q has the shape %v, the model's numbers call for [%d %d]", t.Name, t.Shape, cols, rows)
}

func (m *llama) readWeights(l *loader) error {
	embed, err := l.file.Tensor("token_embd.weight")
	if err != nil {
		return err
	}
	m.vocab = embed.Rows()
	m.embed = l.matrix("token_embd.weight", m.vocab, m.dim)
	m.head = m.embed
	if l.file.HasTensor("output.weight") {
		m.head = l.matrix("output.weight", m.vocab, m.dim)
	}
	m.norm = l.vector("output_norm.weight", m.dim)
	l.used["rope_freqs.weight"] = true
	for i := range m.layers {
		m.layers[i] = m.readLayer(l, fmt.Sprintf("blk.%d.", i))
	}
	return l.wait()
}

func (m *llama) readLayer(l *loader, prefix string) layer {
	qDim, kvDim := m.heads*m.headDim, m.kvHeads*m.headDim
	y := layer{
		attnNorm: l.vector(prefix+"attn_norm.weight", m.dim),
		ffnNorm:  l.vector(prefix+"ffn_norm.weight", m.dim),
		q:        l.matrix(prefix+"attn_q.weight", qDim, m.dim),
		k:        l.matrix(prefix+"attn_k.weight", kvDim, m.dim),
		v:        l.matrix(prefix+"attn_v.weight", kvDim, m.dim),
		o:        l.matrix(prefix+"attn_output.weight", m.dim, qDim),
		gate:     l.matrix(prefix+"ffn_gate.weight", m.hidden, m.dim),
		up:       l.matrix(prefix+"ffn_up.weight", m.hidden, m.dim),
		down:     l.matrix(prefix+"ffn_down.weight", m.dim, m.hidden),
	}
	if l.err != nil {
		return y
	}
	y.qkv, y.gateUp = []*kernel.Matrix{y.q, y.k, y.v}, []*kernel.Matrix{y.gate, y.up}
	y.quantIn, y.quantFFN = slices.ContainsFunc(y.qkv, readsBlocks), slices.ContainsFunc(y.gateUp, readsBlocks)
	y.quantO, y.quantDownI = readsBlocks(y.o), readsBlocks(y.down)
	return y
}

// loader turns tensors into the matrices of package kernel, several at a time, and keeps the first error.
type loader struct {
	file  *gguf.File
	exact bool
	used  map[string]bool
	group errgroup.Group
	err   error
}

func (l *loader) tensor(name string, rows, cols int) *gguf.Tensor {
	if l.err != nil {
		return nil
	}
	t, err := l.file.Tensor(name)
	if err == nil && (t.Rows() != rows || t.Cols() != cols) {
		err = shapeError(t, cols, rows)
	}
	if err != nil {
		l.err = err
		return nil
	}
	l.used[name] = true
	return t
}

func (l *loader) vector(name string, n int) []float32 {
	t := l.tensor(name, 1, n)
	if t == nil {
		return nil
	}
	v := make([]float32, n)
	t.Row(0, v)
	return v
}

// matrix returns a matrix that is filled when wait has returned.
func (l *loader) matrix(name string, rows, cols int) *kernel.Matrix {
	t := l.tensor(name, rows, cols)
	switch {
	case t == nil:
		return nil
	case l.exact || !t.Type.HasBlocks():
		f := kernel.F32
		if !l.exact && t.Type == gguf.F16 {
			f = kernel.F16
		}
		m := kernel.NewMatrix(f, rows, cols, nil)
		l.group.Go(func() error { fillDense(m, t); return nil })
		return m
	}
	m := kernel.NewMatrix(blockFormat(t), rows, cols, nil)
	l.group.Go(func() error { fillBlocks(m, t); return nil })
	return m
}

func readsBlocks(m *kernel.Matrix) bool { return m.Format().Input() == kernel.Block }

func (l *loader) wait() error {
	return errors.Join(l.err, l.group.Wait())
}

func fillDense(m *kernel.Matrix, t *gguf.Tensor) {
	row := make([]float32, t.Cols())
	for r := range t.Rows() {
		t.Row(r, row)
		m.SetRow(r, row)
	}
}

func fillBlocks(m *kernel.Matrix, t *gguf.Tensor) {
	q, d, o := make([]int8, t.Cols()), make([]float32, t.Cols()/32), make([]float32, t.Cols()/32)
	for r := range t.Rows() {
		t.Blocks(r, q, d, o)
		m.SetBlocks(r, q, d, o)
	}
}

// blockFormat returns the smallest format that holds every row of t exactly.
func blockFormat(t *gguf.Tensor) kernel.Format {
	f := kernel.Q8X
	switch t.Type {
	case gguf.Q4_0, gguf.Q4_1:
		f = kernel.Q4
	case gguf.Q5_0, gguf.Q5_1:
		f = kernel.Q5
	case gguf.Q8_0:
		f = kernel.Q8
	default:
		return f
	}
	q, d, o := make([]int8, t.Cols()), make([]float32, t.Cols()/32), make([]float32, t.Cols()/32)
	for r := range t.Rows() {
		t.Blocks(r, q, d, o)
		if !kernel.Fits(f, q, d, o) {
			return kernel.Q8X
		}
	}
	return f
}
