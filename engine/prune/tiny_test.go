package prune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
)

// A tiny model of random weights: groups of two query heads.
const (
	tinyVocab, tinyDim, tinyLayers = 40, 32, 2
	tinyHeads, tinyKV, tinyHead    = 6, 3, 16
	tinyHidden                     = 96
)

// matrix is a weight to be written, by rows.
type matrix struct {
	rows, cols int
	v          []float32
}

func random(r *rand.Rand, rows, cols int) matrix {
	m := matrix{rows, cols, make([]float32, rows*cols)}
	for i := range m.v {
		m.v[i] = float32(r.NormFloat64()) / float32(math.Sqrt(float64(cols)))
	}
	return m
}

func (m matrix) zeroColumn(c int) {
	for i := range m.rows {
		m.v[i*m.cols+c] = 0
	}
}

type tiny struct {
	arch    string
	kind    gguf.Type // of the matrices of the layers
	tensors map[string]matrix
	order   []string
	extra   map[string]any
}

func newTiny(kind gguf.Type) *tiny {
	r := rand.New(rand.NewPCG(3, 5))
	f := &tiny{arch: "llama", kind: kind, tensors: map[string]matrix{}, extra: map[string]any{}}
	f.add("token_embd.weight", random(r, tinyVocab, tinyDim))
	for i := range tinyLayers {
		p := fmt.Sprintf("blk.%d.", i)
		f.add(p+"attn_norm.weight", ones(r, tinyDim))
		f.add(p+"attn_q.weight", random(r, tinyHeads*tinyHead, tinyDim))
		f.add(p+"attn_k.weight", random(r, tinyKV*tinyHead, tinyDim))
		f.add(p+"attn_v.weight", random(r, tinyKV*tinyHead, tinyDim))
		f.add(p+"attn_q.bias", random(r, 1, tinyHeads*tinyHead))
		f.add(p+"attn_k.bias", random(r, 1, tinyKV*tinyHead))
		f.add(p+"attn_v.bias", random(r, 1, tinyKV*tinyHead))
		f.add(p+"attn_output.weight", random(r, tinyDim, tinyHeads*tinyHead))
		f.add(p+"ffn_norm.weight", ones(r, tinyDim))
		f.add(p+"ffn_gate.weight", random(r, tinyHidden, tinyDim))
		f.add(p+"ffn_up.weight", random(r, tinyHidden, tinyDim))
		f.add(p+"ffn_down.weight", random(r, tinyDim, tinyHidden))
	}
	f.add("output_norm.weight", ones(r, tinyDim))
	return f
}

func ones(r *rand.Rand, n int) matrix {
	m := random(r, 1, n)
	for i := range m.v {
		m.v[i]++
	}
	return m
}

func (f *tiny) add(name string, m matrix) {
	if _, known := f.tensors[name]; !known {
		f.order = append(f.order, name)
	}
	f.tensors[name] = m
}

func (f *tiny) write(t testing.TB) string {
	t.Helper()
	w := gguf.NewWriter()
	for _, pair := range []struct {
		key   string
		value any
	}{
		{"general.architecture", f.arch},
		{"general.size_label", "1M"},
		{f.arch + ".block_count", uint32(tinyLayers)},
		{f.arch + ".embedding_length", uint32(tinyDim)},
		{f.arch + ".feed_forward_length", uint32(tinyHidden)},
		{f.arch + ".attention.head_count", uint32(tinyHeads)},
		{f.arch + ".attention.head_count_kv", uint32(tinyKV)},
		{f.arch + ".attention.key_length", uint32(tinyHead)},
	} {
		must(t, w.Set(pair.key, pair.value))
	}
	for key, value := range f.extra {
		must(t, w.Set(key, value))
	}
	for _, name := range f.order {
		m := f.tensors[name]
		kind, shape := f.kind, []int{m.cols, m.rows}
		if m.rows == 1 {
			kind, shape = gguf.F32, shape[:1]
		}
		must(t, w.Add(name, kind, shape, func(i int, dst []float32) error { copy(dst, m.v[i*m.cols:]); return nil }))
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	must(t, w.WriteFile(path))
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forward is a plain interpretation of a Llama file in float32, sums in the order of the columns, so that a term which is exactly
// zero may be left out without changing a bit. It returns the logits of the last token and shows watch what enters the matrices
// that mix heads and channels.
func forward(t testing.TB, path string, tokens []int, watch func(layer int, attention, ffn []float32)) []float32 {
	t.Helper()
	f, err := gguf.Open(path)
	must(t, err)
	defer f.Close()
	m, err := readModel(f)
	must(t, err)
	x := make([][]float32, len(tokens))
	for i, token := range tokens {
		x[i] = load(t, f, "token_embd.weight").row(token)
	}
	for layer := range m.layers {
		get := func(suffix string) matrix { return load(t, f, m.name(layer, suffix)) }
		q, k, v := make([][]float32, len(x)), make([][]float32, len(x)), make([][]float32, len(x))
		for i := range x {
			n := norm(x[i], get("attn_norm.weight").v)
			q[i] = plus(get("attn_q.weight").times(n), get("attn_q.bias").v)
			k[i] = plus(get("attn_k.weight").times(n), get("attn_k.bias").v)
			v[i] = plus(get("attn_v.weight").times(n), get("attn_v.bias").v)
			rotate(q[i], i, m.keyDim)
			rotate(k[i], i, m.keyDim)
		}
		for i := range x {
			a := make([]float32, 0, m.heads*m.valueDim)
			for h := range m.heads {
				a = append(a, attend(m, h, q[i], k[:i+1], v[:i+1])...)
			}
			x[i] = plus(x[i], get("attn_output.weight").times(a))
			n := norm(x[i], get("ffn_norm.weight").v)
			gate, up := get("ffn_gate.weight").times(n), get("ffn_up.weight").times(n)
			for j, g := range gate {
				up[j] *= g / float32(1+math.Exp(-float64(g)))
			}
			x[i] = plus(x[i], get("ffn_down.weight").times(up))
			if watch != nil {
				watch(layer, a, up)
			}
		}
	}
	return load(t, f, "token_embd.weight").times(norm(x[len(x)-1], load(t, f, "output_norm.weight").v))
}

func load(t testing.TB, f *gguf.File, name string) matrix {
	t.Helper()
	x, err := f.Tensor(name)
	must(t, err)
	m := matrix{x.Rows(), x.Cols(), make([]float32, x.Rows()*x.Cols())}
	for i := range m.rows {
		x.Row(i, m.v[i*m.cols:(i+1)*m.cols])
	}
	return m
}

func (m matrix) row(i int) []float32 { return slices.Clone(m.v[i*m.cols : (i+1)*m.cols]) }

func (m matrix) times(x []float32) []float32 {
	if len(x) != m.cols {
		panic(fmt.Sprintf("%d columns times %d values", m.cols, len(x)))
	}
	out := make([]float32, m.rows)
	for i := range out {
		for j, w := range m.v[i*m.cols : (i+1)*m.cols] {
			out[i] += float32(w * x[j])
		}
	}
	return out
}

func plus(a, b []float32) []float32 {
	out := slices.Clone(a)
	for i, v := range b {
		out[i] += v
	}
	return out
}

func norm(x, w []float32) []float32 {
	sum := float32(0)
	for _, v := range x {
		sum += float32(v * v)
	}
	scale := float32(1 / math.Sqrt(float64(sum/float32(len(x)))+1e-5))
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v*scale) * w[i]
	}
	return out
}

func rotate(x []float32, position, dim int) {
	for i := 0; i < len(x); i += 2 {
		angle := float64(position) * math.Pow(10000, -float64(i%dim)/float64(dim))
		sin, cos := float32(math.Sin(angle)), float32(math.Cos(angle))
		x[i], x[i+1] = float32(x[i]*cos)-float32(x[i+1]*sin), float32(x[i]*sin)+float32(x[i+1]*cos)
	}
}

func attend(m *model, head int, q []float32, k, v [][]float32) []float32 {
	kv := head / m.group()
	weights, sum := make([]float64, len(k)), 0.0
	for p := range k {
		score := 0.0
		for d := range m.keyDim {
			score += float64(q[head*m.keyDim+d]) * float64(k[p][kv*m.keyDim+d])
		}
		weights[p] = math.Exp(score / math.Sqrt(float64(m.keyDim)))
		sum += weights[p]
	}
	out := make([]float32, m.valueDim)
	for p, w := range weights {
		for d := range out {
			out[d] += float32(float32(w/sum) * v[p][kv*m.valueDim+d])
		}
	}
	return out
}
