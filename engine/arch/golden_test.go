package arch

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/engine/graph"
)

// The tiny models of testdata; see its README. Each has something that the others lack.
func families() []string {
	return []string{"llama", "mistral", "qwen2", "qwen3", "gemma3", "bert", "xlm-roberta", "bert-rerank", "xlm-roberta-rerank"}
}

// expectation is what transformers computes for one list of tokens.
type expectation struct {
	Tokens    []int32     `json:"tokens"`
	Logits    [][]float32 `json:"logits"`    // decoders, every position
	Hidden    [][]float32 `json:"hidden"`    // encoders, every token
	Embedding []float32   `json:"embedding"` // encoders, of length 1
	Segments  []int32     `json:"segments"`  // of two texts, which one each token belongs to,
	Score     float32     `json:"score"`     // and what the model makes of them
}

func readExpected(t *testing.T, family string) []expectation {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", family, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []expectation
	if err := json.Unmarshal(data, &all); err != nil || len(all) < 2 {
		t.Fatal(len(all), err)
	}
	return all
}

func open(t testing.TB, path string) *Model {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// eval interprets the model's graph with texts as one batch and returns its results.
func eval(t *testing.T, m *Model, texts ...expectation) []graph.Tensor {
	t.Helper()
	env := graph.Env{Tensor: func(name string) (graph.Rows, error) { return m.Tensor(name) }}
	var tokens, positions, rows, segments []int32
	for i, text := range texts {
		segments = append(segments, text.Segments...)
		for p, token := range text.Tokens {
			rows = append(rows, int32(len(tokens)))
			tokens, positions = append(tokens, token), append(positions, int32(p))
			env.Positions, env.Sequence = append(env.Positions, p), append(env.Sequence, i)
		}
	}
	ints := func(v []int32) graph.Tensor { return graph.Tensor{Shape: []int{len(v)}, Ints: v} }
	inputs := map[string]graph.Tensor{"tokens": ints(tokens)}
	if m.Config.Segments() {
		inputs["segments"] = ints(segments)
	}
	if m.Config.Encoder() {
		inputs["positions"] = ints(positions)
	} else {
		inputs["rows"] = ints(rows)
	}
	out, err := graph.Eval(m.Graph, inputs, env)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// difference is the largest one between got and the rows of want, which follow one another.
func difference(t *testing.T, got []float32, want ...[]float32) float64 {
	t.Helper()
	worst, i := 0.0, 0
	for _, row := range want {
		for _, w := range row {
			if i >= len(got) {
				t.Fatalf("%d numbers are too few", len(got))
			}
			d := math.Abs(float64(got[i]) - float64(w))
			if !(d <= worst) { // also NaN
				worst = d
			}
			i++
		}
	}
	if i != len(got) {
		t.Fatalf("%d numbers, want %d", len(got), i)
	}
	return worst
}

const tolerance = 1e-4

// checkGolden compares what the graph of a model computes with what transformers does, for each text alone and all in one batch.
func checkGolden(t *testing.T, m *Model, expected []expectation) {
	t.Helper()
	if m.Config.Encoder() { // what comes out of the last layer is not a result; return it beside
		m.Graph.Outputs = append(m.Graph.Outputs, lastHidden(t, m.Graph))
	}
	var whole [][]float32
	for i, e := range expected {
		got := eval(t, m, e)
		want := e.Logits
		switch {
		case m.Config.Scores:
			want = [][]float32{{e.Score}}
		case m.Config.Encoder():
			want = [][]float32{e.Embedding}
			if d := difference(t, got[1].Data, e.Hidden...); !(d <= tolerance) {
				t.Errorf("text %d: hidden states differ by %.3g", i, d)
			}
		}
		if d := difference(t, got[0].Data, want...); !(d <= tolerance) {
			t.Errorf("text %d: results differ by %.3g", i, d)
		}
		whole = append(whole, want...)
	}
	if d := difference(t, eval(t, m, expected...)[0].Data, whole...); !(d <= tolerance) {
		t.Errorf("in one batch, results differ by %.3g", d)
	}
}

func lastHidden(t *testing.T, g *graph.Graph) *graph.Value {
	t.Helper()
	for _, n := range g.Nodes {
		if n.Op == graph.OpPool {
			return n.In[0]
		}
	}
	t.Fatal("the graph pools nothing")
	return nil
}

// The safetensors reader, the names, the numbers and the graph of each family give what transformers computes.
func TestDirectoriesComputeWhatTransformersDoes(t *testing.T) {
	for _, family := range families() {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			checkGolden(t, open(t, filepath.Join("testdata", family)), readExpected(t, family))
		})
	}
}
