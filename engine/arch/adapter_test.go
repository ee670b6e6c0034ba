package arch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/engine/lora"
)

// mergedTensor is a weight with the product of an adapter's factors added.
type mergedTensor struct {
	Tensor
	f lora.Factor
}

func (m mergedTensor) Row(i int, dst []float32) {
	m.Tensor.Row(i, dst)
	b, a := make([]float32, m.f.B.Cols()), make([]float32, m.f.A.Cols())
	m.f.B.Row(i, b)
	for r, w := range b {
		m.f.A.Row(r, a)
		for c := range dst {
			dst[c] += m.f.Scale * w * a[c]
		}
	}
}

// An adapter of peft fits its model whatever that was opened from: merged into the weights of the directory or of the GGUF file, whose
// rows of queries and keys have another order, it gives what peft computes.
func TestAdaptersFitEveryKindOfFile(t *testing.T) {
	for name, family := range map[string]string{"llama": "llama", "llama-head": "llama", "qwen2": "qwen2", "gemma3": "gemma3", "bert": "bert"} {
		dir := filepath.Join("..", "lora", "testdata", name)
		data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var want []expectation
		if err := json.Unmarshal(data, &want); err != nil || len(want) != 2 {
			t.Fatal(len(want), err)
		}
		for _, path := range []string{filepath.Join("testdata", family), toGGUF(t, family)} {
			m := open(t, path)
			f, err := lora.Open(dir, m.Config.AdapterBase())
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range f.Factors() {
				w, err := m.Tensor(x.Target)
				if err != nil {
					t.Fatal(err)
				}
				m.tensors[x.Target] = mergedTensor{w, x}
			}
			for _, e := range want {
				rows := e.Logits
				if m.Config.Encoder() {
					rows = [][]float32{e.Embedding}
				}
				out := eval(t, m, e)
				if d := difference(t, out[0].Data, rows...); d > tolerance {
					t.Errorf("%s on %s: differs by %g", name, path, d)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
