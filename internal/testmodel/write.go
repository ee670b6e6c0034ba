package testmodel

import (
	"encoding/binary"
	"math"
)

// Tensor is a tensor of a file to be written: its type number, its shape with the innermost dimension first, and its bytes.
type Tensor struct {
	Name  string
	Type  uint32
	Shape []int
	Data  []byte
}

// Pair is one metadata pair. Value is a uint32, float32, bool, string, []string, []int32 or []float32.
type Pair struct {
	Key   string
	Value any
}

// GGUF returns the bytes of a model file.
func GGUF(meta []Pair, tensors []Tensor) []byte {
	le := binary.LittleEndian
	b := []byte("GGUF")
	b = le.AppendUint32(b, 3)
	b = le.AppendUint64(b, uint64(len(tensors)))
	b = le.AppendUint64(b, uint64(len(meta)))
	for _, p := range meta {
		b = appendString(b, p.Key)
		b = appendValue(b, p.Value)
	}
	offset := 0
	for _, t := range tensors {
		b = appendString(b, t.Name)
		b = le.AppendUint32(b, uint32(len(t.Shape)))
		for _, d := range t.Shape {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint32(b, t.Type)
		b = le.AppendUint64(b, uint64(offset))
		offset += (len(t.Data) + 31) &^ 31
	}
	for _, t := range tensors {
		b = align(b)
		b = append(b, t.Data...)
	}
	return align(b)
}

func align(b []byte) []byte { return append(b, make([]byte, -len(b)&31)...) }

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue writes the type number and the value.
func appendValue(b []byte, v any) []byte {
	le := binary.LittleEndian
	switch v := v.(type) {
	case uint32:
		return le.AppendUint32(le.AppendUint32(b, 4), v)
	case float32:
		return le.AppendUint32(le.AppendUint32(b, 6), math.Float32bits(v))
	case bool:
		n := byte(0)
		if v {
			n = 1
		}
		return append(le.AppendUint32(b, 7), n)
	case string:
		return appendString(le.AppendUint32(b, 8), v)
	case []string:
		b = arrayHead(b, 8, len(v))
		for _, s := range v {
			b = appendString(b, s)
		}
	case []int32:
		b = arrayHead(b, 5, len(v))
		for _, n := range v {
			b = le.AppendUint32(b, uint32(n))
		}
	case []float32:
		b = arrayHead(b, 6, len(v))
		for _, f := range v {
			b = le.AppendUint32(b, math.Float32bits(f))
		}
	default:
		panic("testmodel: a metadata value of this type cannot be written")
	}
	return b
}

func arrayHead(b []byte, kind uint32, n int) []byte {
	le := binary.LittleEndian
	return le.AppendUint64(le.AppendUint32(le.AppendUint32(b, 9), kind), uint64(n))
}
