package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMissing is the cause when a file lacks a metadata key.
var ErrMissing = errors.New("the metadata key is missing")

// Value types of the format.
const (
	metaU8 = iota
	metaI8
	metaU16
	metaI16
	metaU32
	metaI32
	metaF32
	metaBool
	metaString
	metaArray
	metaU64
	metaI64
	metaF64
)

// metaSize holds the encoded size of the fixed-size types, 0 for the others.
var metaSize = [...]uint64{
	metaU8: 1, metaI8: 1, metaU16: 2, metaI16: 2, metaU32: 4, metaI32: 4, metaF32: 4, metaBool: 1, metaU64: 8, metaI64: 8, metaF64: 8,
}

// value reads one metadata value: a Go number, bool, string, []string, []int64, []float64, []bool or, for arrays of arrays, []any.
func (r *reader) value(kind uint32, depth int) any {
	switch {
	case r.err != nil:
		return nil
	case kind == metaString:
		return r.string()
	case kind == metaArray:
		return r.array(depth)
	case kind >= uint32(len(metaSize)):
		r.fail(fmt.Sprintf("a metadata value has the unknown type %d", kind))
		return nil
	}
	return scalar(kind, r.bytes(metaSize[kind]))
}

func (r *reader) array(depth int) any {
	if depth >= maxArrayDepth {
		r.fail("metadata arrays are nested too deep")
		return nil
	}
	kind, n := r.u32(), r.u64()
	if r.err != nil {
		return nil
	}
	if kind >= uint32(len(metaSize)) {
		r.fail(fmt.Sprintf("a metadata array has the unknown type %d", kind))
		return nil
	}
	least := metaSize[kind]
	switch kind {
	case metaString:
		least = 8
	case metaArray:
		least = 12
	}
	if n > uint64(len(r.data)-r.pos)/least {
		r.fail(fmt.Sprintf("a metadata array announces %d elements, more than the file holds", n))
		return nil
	}
	switch kind {
	case metaString:
		return readArray(r, n, func() string { return r.string() })
	case metaArray:
		return readArray(r, n, func() any { return r.array(depth + 1) })
	case metaBool:
		return readArray(r, n, func() bool { v, _ := scalar(kind, r.bytes(1)).(bool); return v })
	case metaF32, metaF64:
		return readArray(r, n, func() float64 { v, _ := toFloat(scalar(kind, r.bytes(least))); return v })
	}
	return readArray(r, n, func() int64 { v, _ := toInt(scalar(kind, r.bytes(least))); return v })
}

func readArray[T any](r *reader, n uint64, next func() T) []T {
	out := make([]T, 0, n)
	for i := uint64(0); i < n && r.err == nil; i++ {
		out = append(out, next())
	}
	return out
}

func scalar(kind uint32, b []byte) any {
	if b == nil {
		return nil
	}
	le := binary.LittleEndian
	switch kind {
	case metaU8:
		return b[0]
	case metaI8:
		return int8(b[0])
	case metaBool:
		return b[0] != 0
	case metaU16:
		return le.Uint16(b)
	case metaI16:
		return int16(le.Uint16(b))
	case metaU32:
		return le.Uint32(b)
	case metaI32:
		return int32(le.Uint32(b))
	case metaF32:
		return math.Float32frombits(le.Uint32(b))
	case metaU64:
		return le.Uint64(b)
	case metaI64:
		return int64(le.Uint64(b))
	}
	return math.Float64frombits(le.Uint64(b))
}

func toInt(v any) (int64, bool) {
	switch n := v.(type) {
	case uint8:
		return int64(n), true
	case int8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case int16:
		return int64(n), true
	case uint32:
		return int64(n), true
	case int32:
		return int64(n), true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case int64:
		return n, true
	}
	return 0, false
}

func toFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case float32:
		return float64(n), true
	case float64:
		return n, true
	}
	i, ok := toInt(v)
	return float64(i), ok
}

// Has reports whether the file has the metadata key.
func (f *File) Has(key string) bool {
	_, ok := f.meta[key]
	return ok
}

// Value returns the metadata value of key as it was read: a number of the stored width, bool, string, or an array as []string,
// []int64, []float64, []bool or, for nested arrays, []any. The caller must not change it.
func (f *File) Value(key string) (any, bool) {
	v, ok := f.meta[key]
	return v, ok
}

// String returns a text value.
func (f *File) String(key string) (string, error) {
	return lookup(f, key, "text", func(v any) (string, bool) { s, ok := v.(string); return s, ok })
}

// Int returns an integer of any stored width.
func (f *File) Int(key string) (int64, error) { return lookup(f, key, "an integer", toInt) }

// Float returns a floating-point number of any stored width.
func (f *File) Float(key string) (float64, error) { return lookup(f, key, "a number", toFloat) }

// Bool returns a truth value.
func (f *File) Bool(key string) (bool, error) {
	return lookup(f, key, "a truth value", func(v any) (bool, bool) { b, ok := v.(bool); return b, ok })
}

// Strings returns an array of texts. The caller must not change it.
func (f *File) Strings(key string) ([]string, error) {
	return lookup(f, key, "an array of texts", func(v any) ([]string, bool) { s, ok := v.([]string); return s, ok })
}

// Ints returns an array of integers of any stored width. The caller must not change it.
func (f *File) Ints(key string) ([]int64, error) {
	return lookup(f, key, "an array of integers", func(v any) ([]int64, bool) { s, ok := v.([]int64); return s, ok })
}

// Floats returns an array of numbers. The caller must not change it.
func (f *File) Floats(key string) ([]float64, error) {
	return lookup(f, key, "an array of numbers", func(v any) ([]float64, bool) { s, ok := v.([]float64); return s, ok })
}

func lookup[T any](f *File, key, want string, as func(any) (T, bool)) (T, error) {
	var zero T
	v, ok := f.meta[key]
	if !ok {
		return zero, fmt.Errorf("%s: %q: %w", f.name, key, ErrMissing)
	}
	out, ok := as(v)
	if !ok {
		return zero, fmt.Errorf("%s: the metadata value %q is not %s", f.name, key, want)
	}
	return out, nil
}
