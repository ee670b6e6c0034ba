package native

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// A tiny model with random weights: it babbles bytes, which is all that most tests need, and answers in microseconds.

const (
	tinyID      = engine.ModelID("tiny")
	tinyDim     = 256
	tinyHidden  = 512
	tinyLayers  = 2
	tinyHeads   = 4
	tinyKV      = 2
	tinyContext = 200
	tinyVocab   = 260
)

// tiny describes the file; tests change it before they write it.
type tiny struct {
	meta    []testmodel.Pair
	tensors []testmodel.Tensor
}

func newTiny(kind gguf.Type) *tiny {
	r := rand.New(rand.NewPCG(uint64(kind), 3))
	f := &tiny{meta: []testmodel.Pair{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(tinyLayers)},
		{Key: "llama.context_length", Value: uint32(tinyContext)},
		{Key: "llama.embedding_length", Value: uint32(tinyDim)},
		{Key: "llama.feed_forward_length", Value: uint32(tinyHidden)},
		{Key: "llama.attention.head_count", Value: uint32(tinyHeads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(tinyKV)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "smollm"},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(257)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(258)},
		{Key: "tokenizer.ggml.merges", Value: []string{"h e"}},
		{Key: "tokenizer.chat_template", Value: "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"},
	}}
	tokens, types := byteTokens()
	f.meta = append(f.meta, testmodel.Pair{Key: "tokenizer.ggml.tokens", Value: tokens}, testmodel.Pair{Key: "tokenizer.ggml.token_type", Value: types})
	matrix := func(name string, rows, cols int, k gguf.Type) {
		f.tensors = append(f.tensors, testmodel.Tensor{Name: name, Type: uint32(k), Shape: []int{cols, rows}, Data: randomWeights(r, k, rows*cols)})
	}
	vector := func(name string) {
		f.tensors = append(f.tensors, testmodel.Tensor{Name: name, Shape: []int{tinyDim}, Data: randomWeights(nil, gguf.F32, tinyDim)})
	}
	matrix("token_embd.weight", tinyVocab, tinyDim, gguf.F32)
	vector("output_norm.weight")
	for i := range tinyLayers {
		p := fmt.Sprintf("blk.%d.", i)
		vector(p + "attn_norm.weight")
		vector(p + "ffn_norm.weight")
		matrix(p+"attn_q.weight", tinyDim, tinyDim, kind)
		matrix(p+"attn_k.weight", tinyDim/2, tinyDim, kind)
		matrix(p+"attn_v.weight", tinyDim/2, tinyDim, kind)
		matrix(p+"attn_output.weight", tinyDim, tinyDim, kind)
		matrix(p+"ffn_gate.weight", tinyHidden, tinyDim, kind)
		matrix(p+"ffn_up.weight", tinyHidden, tinyDim, kind)
		matrix(p+"ffn_down.weight", tinyDim, tinyHidden, kind)
	}
	return f
}

// byteTokens: all bytes in the alphabet of GPT-2, one merge, and three control tokens.
func byteTokens() (tokens []string, types []int32) {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b < '!' || (b > '~' && b < 0xA1) || b == 0xAD {
			r = next
			next++
		}
		tokens, types = append(tokens, string(r)), append(types, 1)
	}
	return append(tokens, "he", "<|im_start|>", "<|im_end|>", "<|pad|>"), append(types, 1, 3, 3, 3)
}

// randomWeights fills blocks with random integers and small scales; without r, ones.
func randomWeights(r *rand.Rand, kind gguf.Type, n int) []byte {
	if r == nil {
		return slices.Repeat([]byte{0, 0, 0x80, 0x3f}, n)
	}
	const small, smaller = 0x2400, 0x9c00 // 1/64 and −1/256 in half precision
	scales := map[gguf.Type][]int{
		gguf.Q4_0: {18, 0}, gguf.Q4_1: {20, 0, 2}, gguf.Q5_0: {22, 0}, gguf.Q5_1: {24, 0, 2}, gguf.Q8_0: {34, 0}, gguf.Q2_K: {84, 80, 82},
		gguf.Q3_K: {110, 108}, gguf.Q4_K: {144, 0, 2}, gguf.Q5_K: {176, 0, 2}, gguf.Q6_K: {210, 208},
	}
	elements := 256
	switch kind {
	case gguf.F32, gguf.F16, gguf.BF16:
		return randomFloats(r, kind, n)
	case gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0:
		elements = 32
	}
	l := scales[kind]
	data := make([]byte, n/elements*l[0])
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for at := 0; at < len(data); at += l[0] {
		for i, off := range l[1:] {
			v := uint16(small)
			if i == 1 || elements == 256 {
				v = smaller
			}
			binary.LittleEndian.PutUint16(data[at+off:], v)
		}
	}
	return data
}

func randomFloats(r *rand.Rand, kind gguf.Type, n int) []byte {
	var data []byte
	for range n {
		bits := math.Float32bits(float32(r.NormFloat64() / 8))
		switch kind {
		case gguf.F32:
			data = binary.LittleEndian.AppendUint32(data, bits)
		case gguf.BF16:
			data = binary.LittleEndian.AppendUint16(data, uint16(bits>>16))
		default: // a random half between 2⁻⁶ and 1, of either sign
			data = binary.LittleEndian.AppendUint16(data, uint16(0x2400+r.IntN(0x1800))|uint16(r.IntN(2))<<15)
		}
	}
	return data
}

func (f *tiny) set(key string, value any) *tiny {
	for i := range f.meta {
		if f.meta[i].Key == key {
			f.meta[i].Value = value
			return f
		}
	}
	f.meta = append(f.meta, testmodel.Pair{Key: key, Value: value})
	return f
}

func (f *tiny) write(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, testmodel.GGUF(f.meta, f.tensors), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// openTiny returns an engine with the tiny model.
func openTiny(t testing.TB, f *tiny, cfg Config) *Engine {
	t.Helper()
	cfg.Models = []ModelConfig{{ID: tinyID, Path: f.write(t)}}
	if cfg.Threads == 0 {
		cfg.Threads = 2
	}
	e, err := New(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}
