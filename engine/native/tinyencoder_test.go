package native

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// A tiny encoder with random weights: BERT whose words are letters.

const (
	tinyEncoderDim     = 64
	tinyEncoderContext = 48
)

// Poolings as GGUF numbers them.
const (
	poolMean = 1
	poolCLS  = 2
	poolLast = 3
	poolRank = 4
)

// tinyEncoder returns the path of an encoder's file.
func tinyEncoder(t testing.TB, pooling uint32, kind gguf.Type) string {
	t.Helper()
	const layers, hidden = 2, 128
	r := rand.New(rand.NewPCG(uint64(kind), uint64(pooling)))
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	types := []int32{3, 2, 3, 3}
	for c := 'a'; c <= 'z'; c++ {
		tokens, types = append(tokens, "▁"+string(c), string(c)), append(types, 1, 1)
	}
	f := &tiny{meta: []testmodel.Pair{
		{Key: "general.architecture", Value: "bert"},
		{Key: "bert.block_count", Value: uint32(layers)},
		{Key: "bert.context_length", Value: uint32(tinyEncoderContext)},
		{Key: "bert.embedding_length", Value: uint32(tinyEncoderDim)},
		{Key: "bert.feed_forward_length", Value: uint32(hidden)},
		{Key: "bert.attention.head_count", Value: uint32(2)},
		{Key: "bert.attention.layer_norm_epsilon", Value: float32(1e-12)},
		{Key: "bert.pooling_type", Value: pooling},
		{Key: "tokenizer.ggml.model", Value: "bert"},
		{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
	}}
	floats := func(n int, mean, spread float64) []byte {
		var b []byte
		for range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(mean+spread*r.NormFloat64())))
		}
		return b
	}
	matrix := func(name string, rows, cols int, k gguf.Type) {
		data := floats(rows*cols, 0, 1/math.Sqrt(float64(cols)))
		if k != gguf.F32 {
			data = randomWeights(r, k, rows*cols)
		}
		f.tensors = append(f.tensors, testmodel.Tensor{Name: name, Type: uint32(k), Shape: []int{cols, rows}, Data: data})
	}
	vector := func(name string, n int, mean float64) {
		f.tensors = append(f.tensors, testmodel.Tensor{Name: name, Shape: []int{n}, Data: floats(n, mean, 0.2)})
	}
	norm := func(name string) {
		vector(name+".weight", tinyEncoderDim, 1)
		vector(name+".bias", tinyEncoderDim, 0)
	}
	layer := func(name string, rows, cols int) {
		matrix(name+".weight", rows, cols, kind)
		vector(name+".bias", rows, 0)
	}
	matrix("token_embd.weight", len(tokens), tinyEncoderDim, gguf.F32)
	matrix("position_embd.weight", tinyEncoderContext, tinyEncoderDim, gguf.F32)
	matrix("token_types.weight", 2, tinyEncoderDim, gguf.F32)
	norm("token_embd_norm")
	for i := range layers {
		at := fmt.Sprintf("blk.%d.", i)
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			layer(at+name, tinyEncoderDim, tinyEncoderDim)
		}
		norm(at + "attn_output_norm")
		layer(at+"ffn_up", hidden, tinyEncoderDim)
		layer(at+"ffn_down", tinyEncoderDim, hidden)
		norm(at + "layer_output_norm")
	}
	if pooling == poolRank {
		layer("cls", tinyEncoderDim, tinyEncoderDim)
		matrix("cls.output.weight", 1, tinyEncoderDim, gguf.F32)
		vector("cls.output.bias", 1, 0)
	}
	path := filepath.Join(t.TempDir(), "encoder.gguf")
	if err := os.WriteFile(path, testmodel.GGUF(f.meta, f.tensors), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// oracle computes what a model makes of tokens by interpreting its graph, with none of the code of the engine.
func oracle(t testing.TB, path string, ids []int32, second int) []float32 {
	t.Helper()
	m, err := arch.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	env := graph.Env{Tensor: func(name string) (graph.Rows, error) { return m.Tensor(name) }}
	var positions, segments []int32
	for i := range ids {
		segment := int32(0)
		if i >= second {
			segment = 1
		}
		positions, segments = append(positions, int32(i)), append(segments, segment)
		env.Positions, env.Sequence = append(env.Positions, i), append(env.Sequence, 0)
	}
	ints := func(v []int32) graph.Tensor { return graph.Tensor{Shape: []int{len(v)}, Ints: v} }
	inputs := map[string]graph.Tensor{"tokens": ints(ids), "positions": ints(positions)}
	if m.Config.Segments() {
		inputs["segments"] = ints(segments)
	}
	out, err := graph.Eval(m.Graph, inputs, env)
	if err != nil {
		t.Fatal(err)
	}
	return out[0].Data
}

// letters returns the tokens of a text of the tiny encoder by hand.
func letters(words ...string) (ids []int32) {
	for _, w := range words {
		for i, c := range w {
			id := 4 + 2*(c-'a')
			if i > 0 {
				id++
			}
			ids = append(ids, id)
		}
	}
	return ids
}
