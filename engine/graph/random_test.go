package graph

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
)

// sample is a random graph with all that is needed to run it.
type sample struct {
	g      *Graph
	inputs map[string]Tensor
	env    Env
	files  map[string]fileTensor
}

// fileTensor is a tensor of a model file whose numbers follow from its name.
type fileTensor struct {
	rows, cols int
	data       []float32
}

func newFileTensor(name string, rows, cols int) fileTensor {
	h := fnv.New64a()
	fmt.Fprint(h, name)
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	f := fileTensor{rows, cols, make([]float32, rows*cols)}
	for i := range f.data {
		f.data[i] = float32(r.NormFloat64()) * 0.3
	}
	return f
}

func (f fileTensor) Rows() int                { return f.rows }
func (f fileTensor) Cols() int                { return f.cols }
func (f fileTensor) Row(i int, dst []float32) { copy(dst, f.data[i*f.cols:(i+1)*f.cols]) }

// withTensors lets the environment serve every part of the graph's weights, before passes stack them.
func (s *sample) withTensors() {
	s.files = map[string]fileTensor{}
	for _, w := range s.g.Weights {
		if w.Weight.Data == nil {
			rows, cols := 1, w.Type.elements()
			if len(w.Type.Shape) > 1 {
				rows, cols = w.Type.Shape[0].N, w.Type.Cols()
			}
			s.files[w.Weight.Parts[0]] = newFileTensor(w.Weight.Parts[0], rows, cols)
		}
	}
	s.env.Tensor = func(name string) (Rows, error) {
		f, ok := s.files[name]
		if !ok {
			return nil, fmt.Errorf("no tensor %s", name)
		}
		return f, nil
	}
}

// pick chooses one of the values.
func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func coin(r *rand.Rand) bool { return r.IntN(2) == 0 }

// modeller holds the random choices of one model.
type modeller struct {
	*Builder
	r                              *rand.Rand
	dim, heads, kv, headDim, layer int
	hidden                         int
	formats                        []string
	stored                         string
	bias, headNorm, postNorm, rope bool
	freqs                          bool
	fn                             string
	eps                            float64
}

func newModeller(r *rand.Rand, name string) *modeller {
	m := &modeller{Builder: NewBuilder(name), r: r, dim: pick(r, 32, 64, 96), kv: pick(r, 1, 2), headDim: pick(r, 8, 16), hidden: pick(r, 32, 64, 80)}
	m.heads = m.kv * pick(r, 1, 2)
	m.headDim = pick(r, 16, 32)
	m.formats = []string{"q4_0", "q4_1", "q5_0", "q8_0", "q6_K", "f16", "f32", "bf16", "odd"}
	m.stored = pick(r, m.formats...)
	m.bias, m.headNorm, m.postNorm, m.rope, m.freqs = coin(r), coin(r), coin(r), r.IntN(4) > 0, coin(r)
	m.fn = pick(r, "silu", "gelu_tanh", "gelu")
	m.eps = pick(r, 1e-5, 1e-6)
	return m
}

// matrix is a weight; now and then in another format than the rest.
func (m *modeller) matrix(name string, class Class, rows, cols int) *Value {
	stored := m.stored
	if m.r.IntN(6) == 0 {
		stored = pick(m.r, m.formats...)
	}
	return m.Weight(name, class, stored, rows, cols)
}

func (m *modeller) product(out string, x *Value, name string, class Class, rows int) *Value {
	in := []*Value{x, m.matrix(name+".weight", class, rows, x.Type.last())}
	attrs := A{}
	if m.bias && m.r.IntN(8) > 0 {
		attrs["bias"] = true
		in = append(in, m.Weight(name+".bias", ClassBias, "f32", rows))
	}
	return m.Add(OpMatMul, out, attrs, in...)
}

func (m *modeller) norm(out string, x *Value, name string) *Value {
	return m.Add(OpRMSNorm, out, A{"eps": m.eps}, x, m.Weight(name, ClassNorm, "f32", x.Type.last()))
}

// heads prepares queries or keys: norm of each head, rotation.
func (m *modeller) prepareHeads(x *Value, name string, heads int) *Value {
	if m.headNorm {
		attrs := A{"eps": m.eps, "groups": heads}
		x = m.Add(OpRMSNorm, x.Name+".norm", attrs, x, m.Weight(name, ClassNorm, "f32", m.headDim))
	}
	if m.rope {
		attrs := A{"rope": pick(m.r, "neox", "neox", "interleaved"), "heads": heads, "dim": m.headDim, "rotated": m.headDim, "rope_base": 1e4, "rope_factor": 2}
		in := []*Value{x}
		if m.freqs {
			attrs["freqs"] = true
			in = append(in, m.Weight("rope_freqs", ClassOther, "f32", m.headDim/2))
		}
		x = m.Add(OpRope, x.Name+".rope", attrs, in...)
	}
	return x
}

func (m *modeller) attention(x *Value, causal bool) *Value {
	at := func(name string) string { return fmt.Sprintf("blk.%d.%s", m.layer, name) }
	q := m.product(at("q"), x, at("attn_q"), ClassAttention, m.heads*m.headDim)
	k := m.product(at("k"), x, at("attn_k"), ClassAttention, m.kv*m.headDim)
	v := m.product(at("v"), x, at("attn_v"), ClassAttention, m.kv*m.headDim)
	q, k = m.prepareHeads(q, at("attn_q_norm"), m.heads), m.prepareHeads(k, at("attn_k_norm"), m.kv)
	attrs := A{"layer": m.layer, "heads": m.heads, "kv": m.kv, "dim": m.headDim, "scale": 0.25, "causal": causal}
	if causal && coin(m.r) {
		attrs["window"] = 3
	}
	if coin(m.r) {
		attrs["softcap"] = 5
	}
	a := m.Add(OpAttention, at("attn"), attrs, q, k, v)
	return m.product(at("o"), a, at("attn_output"), ClassAttention, m.dim)
}

func (m *modeller) ffn(x *Value, gated bool) *Value {
	at := func(name string) string { return fmt.Sprintf("blk.%d.%s", m.layer, name) }
	g := m.Add(OpAct, at("act"), A{"fn": m.fn}, m.product(at("gate"), x, at("ffn_gate"), ClassFFN, m.hidden))
	if gated {
		up := m.product(at("up"), x, at("ffn_up"), ClassFFN, m.hidden)
		if coin(m.r) {
			g, up = up, g
		}
		g = m.Add(OpMul, at("glu"), nil, g, up)
	}
	return m.product(at("down"), g, at("ffn_down"), ClassFFN, m.dim)
}

func (m *modeller) add(out string, x, y *Value) *Value {
	if coin(m.r) {
		x, y = y, x
	}
	return m.Add(OpAdd, out, nil, x, y)
}

// decoder is a random small model of the families that generate.
func decoder(t testing.TB, r *rand.Rand) *sample {
	m := newModeller(r, "decoder")
	tok, rows := m.Symbol(Tokens, 1, 64), m.Symbol(Wanted, 0, 64)
	ids, want := m.Input("tokens", I32, tok), m.Input("rows", I32, rows)
	table := m.matrix("token_embd", ClassEmbed, 50, m.dim)
	x := m.Add(OpEmbed, "x0", nil, ids, table)
	if coin(r) {
		x = m.Add(OpScale, "x0.scaled", A{"by": 3}, x)
	}
	for m.layer = range 2 {
		at := func(name string) string { return fmt.Sprintf("blk.%d.%s", m.layer, name) }
		a := m.attention(m.norm(at("n1"), x, at("attn_norm")), true)
		if m.postNorm {
			a = m.norm(at("a.post"), a, at("post_attention_norm"))
		}
		x = m.add(at("x1"), x, a)
		f := m.ffn(m.norm(at("n2"), x, at("ffn_norm")), true)
		if m.postNorm {
			f = m.norm(at("f.post"), f, at("post_ffw_norm"))
		}
		x = m.add(at("x2"), x, f)
	}
	x = m.norm("last", m.Add(OpSelect, "selected", nil, x, want), "output_norm")
	head := table
	if coin(r) {
		head = m.Tied("output", ClassHead, table)
	}
	logits := m.Add(OpMatMul, "logits", nil, x, head)
	if coin(r) {
		logits = m.Add(OpSoftcap, "capped", A{"by": 30}, logits)
	}
	m.norm("unused", x, "unused_norm")
	return finish(t, r, m, logits)
}

// encoder is a random small model of the families that embed.
func encoder(t testing.TB, r *rand.Rand) *sample {
	m := newModeller(r, "encoder")
	tok := m.Symbol(Tokens, 1, 64)
	m.Symbol(Sequences, 1, 8)
	ids, places := m.Input("tokens", I32, tok), m.Input("positions", I32, tok)
	x := m.Add(OpEmbed, "words", nil, ids, m.matrix("token_embd", ClassEmbed, 50, m.dim))
	x = m.Add(OpAdd, "x", nil, x, m.Add(OpEmbed, "places", A{"offset": 2}, places, m.matrix("position_embd", ClassEmbed, 66, m.dim)))
	x = m.Add(OpAdd, "typed", nil, x, m.Weight("token_types", ClassEmbed, "f32", m.dim))
	layerNorm := func(out string, x *Value, name string) *Value {
		return m.Add(OpLayerNorm, out, A{"eps": m.eps}, x, m.Weight(name+".weight", ClassNorm, "f32", m.dim), m.Weight(name+".bias", ClassBias, "f32", m.dim))
	}
	x = layerNorm("x0", x, "token_embd_norm")
	for m.layer = range 2 {
		at := func(name string) string { return fmt.Sprintf("blk.%d.%s", m.layer, name) }
		x = layerNorm(at("n1"), m.add(at("x1"), x, m.attention(x, false)), at("attn_norm"))
		x = layerNorm(at("n2"), m.add(at("x2"), x, m.ffn(x, coin(r))), at("ffn_norm"))
	}
	x = m.Add(OpPool, "pooled", A{"kind": pick(r, "mean", "cls", "last")}, x)
	return finish(t, r, m, m.Add(OpNormalize, "embedding", nil, x))
}

func finish(t testing.TB, r *rand.Rand, m *modeller, out *Value) *sample {
	t.Helper()
	g, err := m.Graph(out)
	if err != nil {
		t.Fatal(err)
	}
	s := &sample{g: g, inputs: map[string]Tensor{}}
	s.withTensors()
	tokens := 5 + r.IntN(4)
	var ids []int32
	for range tokens {
		ids = append(ids, int32(r.IntN(50)))
	}
	for i := range tokens { // two sequences, taking turns
		s.env.Sequence = append(s.env.Sequence, i%2)
		s.env.Positions = append(s.env.Positions, i/2)
	}
	places := make([]int32, tokens)
	for i, p := range s.env.Positions {
		places[i] = int32(p)
	}
	s.inputs["tokens"] = Tensor{Shape: []int{tokens}, Ints: ids}
	s.inputs["positions"] = Tensor{Shape: []int{tokens}, Ints: places}
	s.inputs["rows"] = Tensor{Shape: []int{2}, Ints: []int32{1, int32(tokens - 1)}}
	return s
}

// image is a random chain of image operations with constant weights.
func image(t testing.TB, r *rand.Rand) *sample {
	t.Helper()
	m := &modeller{Builder: NewBuilder("image"), r: r}
	batch := m.Symbol("B", 1, 8)
	x := m.Input("pixels", F32, batch, Size(4), Size(9), Size(8))
	constant := func(name string, class Class, shape ...int) *Value {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]float32, n)
		for i := range data {
			data[i] = r.Float32() + 0.1 // positive, for variances
		}
		return m.Const(name, class, data, shape...)
	}
	channels := 4
	for i := range 3 {
		at := func(name string) string { return fmt.Sprintf("l%d.%s", i, name) }
		groups := pick(r, 1, 2)
		attrs := A{"stride": pick(r, 1, 2), "pad": 1, "groups": groups}
		in := []*Value{x, constant(at("w"), ClassOther, 6, channels/groups, 3, 3)}
		if coin(r) {
			attrs["bias"] = true
			in = append(in, constant(at("b"), ClassBias, 6))
		}
		x = m.Add(OpConv2D, at("conv"), attrs, in...)
		channels = 6
		if coin(r) {
			x = m.Add(OpBatchNorm, at("bn"), A{"eps": 1e-3}, x, constant(at("g"), ClassNorm, 6), constant(at("be"), ClassBias, 6), constant(at("m"), ClassOther, 6),
				constant(at("v"), ClassOther, 6))
		}
		if coin(r) {
			x = m.Add(OpAct, at("act"), A{"fn": "relu"}, x)
		}
		x = m.Add(pick(r, OpMaxPool2D, OpAvgPool2D), at("pool"), A{"kernel": 2, "stride": 1, "pad": 1}, x)
	}
	g, err := m.Graph(m.Add(OpGlobalAvgPool, "out", nil, x))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]float32, 2*4*9*8)
	for i := range data {
		data[i] = float32(r.NormFloat64())
	}
	return &sample{g: g, inputs: map[string]Tensor{"pixels": {Shape: []int{2, 4, 9, 8}, Data: data}}}
}

// scattered is a random graph of plain operations with many values alive at once, in several arenas.
func scattered(t testing.TB, r *rand.Rand) *sample {
	t.Helper()
	m := &modeller{Builder: NewBuilder("scattered"), r: r, stored: "q8_0", formats: []string{"f32", "q4_0"}}
	tok, rows := m.Symbol(Tokens, 1, 64), m.Symbol(Wanted, 0, 64)
	want := m.Input("rows", I32, rows)
	values := []*Value{m.Input("a", F32, tok, Size(32)), m.Input("b", F32, Dim{Tokens, 2}, Size(64))}
	for i := range 40 {
		x, out := values[max(0, len(values)-1-r.IntN(8))], fmt.Sprintf("v%d", i)
		w := x.Type.last()
		same := slices.DeleteFunc(slices.Clone(values), func(v *Value) bool { return !v.Type.Equal(x.Type) })
		other := pick(r, same...)
		switch r.IntN(8) {
		case 0, 1:
			x = m.Add(pick(r, OpAdd, OpMul), out, nil, x, other)
		case 2:
			x = m.Add(OpAct, out, A{"fn": "tanh"}, x)
		case 3:
			x = m.Add(OpMatMul, out, nil, x, m.matrix(out+".w", ClassFFN, pick(r, 32, 64, 96), w))
		case 4:
			x = m.norm(out, x, out+".w")
		case 5:
			x = m.Add(OpGLU, out, A{"fn": "silu"}, x)
		case 6:
			if x.Type.Shape[0] == tok {
				x = m.Add(OpSelect, out, nil, x, want)
			}
		case 7:
			x = m.Add(OpScale, out, A{"by": 0.5}, x)
		}
		if x.Type.last()%32 != 0 {
			x = m.Add(OpMatMul, out+".wide", nil, x, m.Weight(out+".wide.w", ClassFFN, "f32", 32, x.Type.last()))
		}
		values = append(values, x)
	}
	g, err := m.Graph(values[len(values)-1], values[len(values)/2])
	if err != nil {
		t.Fatal(err)
	}
	s := &sample{g: g, inputs: map[string]Tensor{"rows": {Shape: []int{2}, Ints: []int32{2, 0}}}}
	s.withTensors()
	for name, shape := range map[string][]int{"a": {3, 32}, "b": {6, 64}} {
		s.inputs[name] = Tensor{Shape: shape, Data: newFileTensor(name, shape[0], shape[1]).data}
	}
	return s
}

// eachSample runs a test on many random graphs of all kinds.
func eachSample(t *testing.T, count int, test func(t *testing.T, s *sample)) {
	makers := map[string]func(testing.TB, *rand.Rand) *sample{"decoder": decoder, "encoder": encoder, "image": image, "scattered": scattered}
	for name, maker := range makers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range count {
				s := maker(t, rand.New(rand.NewPCG(uint64(seed), 1)))
				test(t, s)
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, s.g)
				}
			}
		})
	}
}

// eval runs a graph with the sample's inputs.
func (s *sample) eval(t testing.TB, g *Graph) []Tensor {
	t.Helper()
	out, err := Eval(g, s.inputs, s.env)
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	return out
}

// close compares results up to a relative error.
func closeTo(a, b []Tensor, bound float64) error {
	for i := range a {
		if !slices.Equal(a[i].Shape, b[i].Shape) {
			return fmt.Errorf("output %d: shape %v, not %v", i, b[i].Shape, a[i].Shape)
		}
		for j := range a[i].Data {
			x, y := float64(a[i].Data[j]), float64(b[i].Data[j])
			if d := max(x-y, y-x); !(d <= bound*max(1, x, -x)) {
				return fmt.Errorf("output %d, element %d: %v, not %v", i, j, y, x)
			}
		}
	}
	return nil
}
