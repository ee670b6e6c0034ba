package native

import (
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
	tinyEncoderDim     = testmodel.EncoderDim
	tinyEncoderContext = testmodel.EncoderContext
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
	r := rand.New(rand.NewPCG(uint64(kind), uint64(pooling)))
	file := testmodel.Encoder(r, pooling, func(n int) (uint32, []byte) {
		if kind == gguf.F32 {
			return 0, nil
		}
		return uint32(kind), randomWeights(r, kind, n)
	})
	path := filepath.Join(t.TempDir(), "encoder.gguf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
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
