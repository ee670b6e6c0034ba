package enginebench

import (
	"github.com/sluice-project/sluice/engine/gguf"
)

// Work is what a model file asks for per token, counted from its matrices. Attention over earlier tokens comes on top.
type Work struct {
	WeightBytes int64 `json:"weight_bytes_per_token"` // of the file, read once to generate a token
	LayerMACs   int64 `json:"layer_macs_per_token"`   // multiply-accumulates of the layers
	HeadMACs    int64 `json:"head_macs"`              // and of the scores, which a prompt needs once
}

// ReadWork counts the matrices of a GGUF file.
func ReadWork(path string) (Work, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return Work{}, err
	}
	defer func() { _ = f.Close() }()
	head := "output.weight"
	if !f.HasTensor(head) {
		head = "token_embd.weight" // tied: the table is read as a whole for the scores
	}
	var w Work
	for t := range f.All() {
		elements := int64(t.Rows()) * int64(t.Cols())
		switch {
		case t.Rows() == 1: // norms and biases
			continue
		case t.Name == head:
			w.HeadMACs += elements
		case t.Name == "token_embd.weight": // a row of it per token
			continue
		default:
			w.LayerMACs += elements
		}
		per, bytes := t.Type.Block()
		w.WeightBytes += elements / int64(per) * int64(bytes)
	}
	return w, nil
}

// PromptMACs returns the multiply-accumulates of a prompt.
func (w Work) PromptMACs(tokens int) float64 {
	return float64(tokens)*float64(w.LayerMACs) + float64(w.HeadMACs)
}
