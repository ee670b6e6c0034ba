package tokenizer

import (
	"fmt"
	"math"
)

// Token types of GGUF files (tokenizer.ggml.token_type).
const (
	typeNormal      = 1
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
	typeByte        = 6
)

// None is the id of a token that a vocabulary does not have.
const None int32 = -1

// Vocab describes a byte-level BPE vocabulary, field by field as GGUF files store it under tokenizer.ggml.
type Vocab struct {
	Tokens []string // id → text, normal tokens in the byte-to-character alphabet of GPT-2
	Types  []int32  // id → token type; nil means that every token is a normal one
	Merges []string // "left right", most important first
	Pre    string   // pre-tokenizer: "smollm", "gpt-2" (also ""), "llama-bpe" or "qwen2"

	BOS, EOS, Pad, Unknown int32   // None if absent
	EOG                    []int32 // further tokens that end a generation, such as an end of turn
	AddBOS                 bool    // a prompt begins with BOS
}

// FromMetadata reads a vocabulary from the metadata of a GGUF file. lookup returns the value of a key: strings as string, booleans
// as bool, integers as any integer type, arrays as []string or []int32.
func FromMetadata(lookup func(key string) (any, bool)) (Vocab, error) {
	r := metadata{lookup: lookup}
	if model := r.text("model"); r.err == nil && model != "gpt2" {
		return Vocab{}, fmt.Errorf("tokenizer: the tokenizer model %q is not supported; this build reads byte-level BPE (gpt2)", model)
	}
	v := Vocab{
		Tokens:  r.texts("tokens"),
		Merges:  r.texts("merges"),
		Types:   r.types("token_type"),
		Pre:     r.textOr("pre", ""),
		BOS:     r.id("bos_token_id"),
		EOS:     r.id("eos_token_id"),
		Pad:     r.id("padding_token_id"),
		Unknown: r.id("unknown_token_id"),
		AddBOS:  r.flag("add_bos_token"),
	}
	for _, key := range []string{"eot_token_id", "eom_token_id"} {
		if id := r.id(key); id != None {
			v.EOG = append(v.EOG, id)
		}
	}
	// llama.cpp does the same: files of this family ask for BOS by their pre-tokenizer when they do not say.
	if _, said := r.get("add_bos_token"); !said && v.Pre == "llama-bpe" {
		v.AddBOS = true
	}
	return v, r.err
}

// metadata reads typed values and keeps the first error.
type metadata struct {
	lookup func(string) (any, bool)
	err    error
}

func (m *metadata) get(key string) (any, bool) { return m.lookup("tokenizer.ggml." + key) }

func (m *metadata) fail(key, want string, got any) {
	if m.err == nil {
		m.err = fmt.Errorf("tokenizer: the metadata key tokenizer.ggml.%s must be %s, the file has %T", key, want, got)
	}
}

func (m *metadata) text(key string) string {
	v, _ := m.get(key)
	s, ok := v.(string)
	if !ok {
		m.fail(key, "a string", v)
	}
	return s
}

func (m *metadata) textOr(key, otherwise string) string {
	if _, ok := m.get(key); !ok {
		return otherwise
	}
	return m.text(key)
}

func (m *metadata) texts(key string) []string {
	v, _ := m.get(key)
	s, ok := v.([]string)
	if !ok {
		m.fail(key, "an array of strings", v)
	}
	return s
}

func (m *metadata) types(key string) []int32 {
	v, ok := m.get(key)
	if !ok {
		return nil
	}
	s, ok := v.([]int32)
	if !ok {
		m.fail(key, "an array of 32-bit integers", v)
	}
	return s
}

func (m *metadata) flag(key string) bool {
	v, ok := m.get(key)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		m.fail(key, "a boolean", v)
	}
	return b
}

func (m *metadata) id(key string) int32 {
	v, ok := m.get(key)
	if !ok {
		return None
	}
	var n int64
	switch v := v.(type) {
	case uint32:
		n = int64(v)
	case int32:
		n = int64(v)
	case uint64:
		n = int64(min(v, math.MaxInt64))
	case int64:
		n = v
	case int:
		n = int64(v)
	case uint16:
		n = int64(v)
	case uint8:
		n = int64(v)
	default:
		m.fail(key, "an integer", v)
		return None
	}
	// Some converters write 2³²−1 or −1 for "none".
	if n == -1 || n == math.MaxUint32 {
		return None
	}
	if n < 0 || n > math.MaxInt32 {
		m.fail(key, "a token id", v)
		return None
	}
	return int32(n)
}

// alphabet returns the reversible mapping of GPT-2: every byte has one printable character.
func alphabet() (toRune [256]rune, toByte map[rune]byte) {
	toByte = make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b < '!' || (b > '~' && b < 0xA1) || b == 0xAD {
			r = next
			next++
		}
		toRune[b] = r
		toByte[r] = byte(b)
	}
	return toRune, toByte
}

// endsGeneration lists the texts of control tokens by which model families end a turn or a document. GGUF files name only one of
// them as EOS, although a model may well produce another.
func endsGeneration(text string) bool {
	switch text {
	case "<|endoftext|>", "<|im_end|>", "<|end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>", "<EOT>",
		"<|return|>", "<|call|>", "<｜end▁of▁sentence｜>", "<end_of_utterance>":
		return true
	}
	return false
}
