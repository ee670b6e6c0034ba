package enginebench

import "github.com/sluice-project/sluice/engine/native"

// Work is what a model asks for under its plan, counted from its matrices. Attention over earlier tokens comes on top.
type Work struct {
	WeightBytes int64 `json:"weight_bytes_per_token"` // as packed, read once to generate a token
	TokenMACs   int64 `json:"macs_per_token"`         // multiply-accumulates of every token of a prompt
	LastMACs    int64 `json:"macs_of_last_token"`     // and those that only the token whose scores are wanted takes on top
}

func workOf(r *native.Runner) Work {
	macs, bytes, wantedMACs, wantedBytes := r.Products()
	return Work{WeightBytes: int64(bytes + wantedBytes), TokenMACs: int64(macs), LastMACs: int64(wantedMACs)}
}

// PromptMACs returns the multiply-accumulates of a prompt.
func (w Work) PromptMACs(tokens int) float64 {
	return float64(tokens)*float64(w.TokenMACs) + float64(w.LastMACs)
}
