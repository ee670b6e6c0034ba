package testmodel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// The sizes of an Encoder: numbers of a vector, and tokens of a text.
const (
	EncoderDim     = 64
	EncoderContext = 48
)

// Encoder returns the bytes of a tiny encoder with random weights: BERT whose words are letters. Pooling is numbered as GGUF does: 1 is
// the mean, 2 the first token, 3 the last one, and 4 makes it a cross-encoder. quantize returns n random weights of a type of its choice
// for a matrix, or nil to leave it in float32.
func Encoder(r *rand.Rand, pooling uint32, quantize func(n int) (kind uint32, data []byte)) []byte {
	const layers, hidden, rank = 2, 128, 4
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	types := []int32{3, 2, 3, 3}
	for c := 'a'; c <= 'z'; c++ {
		tokens, types = append(tokens, "▁"+string(c), string(c)), append(types, 1, 1)
	}
	meta := []Pair{
		{Key: "general.architecture", Value: "bert"},
		{Key: "bert.block_count", Value: uint32(layers)},
		{Key: "bert.context_length", Value: uint32(EncoderContext)},
		{Key: "bert.embedding_length", Value: uint32(EncoderDim)},
		{Key: "bert.feed_forward_length", Value: uint32(hidden)},
		{Key: "bert.attention.head_count", Value: uint32(2)},
		{Key: "bert.attention.layer_norm_epsilon", Value: float32(1e-12)},
		{Key: "bert.pooling_type", Value: pooling},
		{Key: "tokenizer.ggml.model", Value: "bert"},
		{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.token_type_count", Value: uint32(2)},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(3)},
		{Key: "tokenizer.ggml.cls_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.seperator_token_id", Value: uint32(3)},
	}
	e := &encoder{r: r, quantize: quantize}
	e.matrix("token_embd.weight", len(tokens), EncoderDim, false)
	e.matrix("position_embd.weight", EncoderContext, EncoderDim, false)
	e.matrix("token_types.weight", 2, EncoderDim, false)
	e.norm("token_embd_norm")
	for i := range layers {
		at := fmt.Sprintf("blk.%d.", i)
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			e.layer(at+name, EncoderDim, EncoderDim)
		}
		e.norm(at + "attn_output_norm")
		e.layer(at+"ffn_up", hidden, EncoderDim)
		e.layer(at+"ffn_down", EncoderDim, hidden)
		e.norm(at + "layer_output_norm")
	}
	if pooling == rank {
		e.layer("cls", EncoderDim, EncoderDim)
		e.matrix("cls.output.weight", 1, EncoderDim, false)
		e.vector("cls.output.bias", 1, 0)
	}
	return GGUF(meta, e.tensors)
}

type encoder struct {
	r        *rand.Rand
	quantize func(n int) (uint32, []byte)
	tensors  []Tensor
}

func (e *encoder) floats(n int, mean, spread float64) []byte {
	var b []byte
	for range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(mean+spread*e.r.NormFloat64())))
	}
	return b
}

func (e *encoder) matrix(name string, rows, cols int, quantized bool) {
	t := Tensor{Name: name, Shape: []int{cols, rows}, Data: e.floats(rows*cols, 0, 1/math.Sqrt(float64(cols)))}
	if quantized {
		if kind, data := e.quantize(rows * cols); data != nil {
			t.Type, t.Data = kind, data
		}
	}
	e.tensors = append(e.tensors, t)
}

func (e *encoder) vector(name string, n int, mean float64) {
	e.tensors = append(e.tensors, Tensor{Name: name, Shape: []int{n}, Data: e.floats(n, mean, 0.2)})
}

func (e *encoder) norm(name string) {
	e.vector(name+".weight", EncoderDim, 1)
	e.vector(name+".bias", EncoderDim, 0)
}

func (e *encoder) layer(name string, rows, cols int) {
	e.matrix(name+".weight", rows, cols, true)
	e.vector(name+".bias", rows, 0)
}
