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
//
//nolint:gochecknoglobals // a constant table
var metaSize = [...]uint64{
	metaU8: 1, metaI8: 1, metaU16: 2, metaI16: 2, metaU32: 4, metaI32: 4, metaF32: 4, metaBool: 1, metaU64: 8, metaI64: 8, metaF64: 8,
}

// entry is a metadata value as it lies in the file, checked by skip.
type entry struct {
	kind uint32
	raw  []byte
}

// skip walks over one metadata value and checks every length in it. The format has no references, so values cannot be cyclic, only
// deep.
func (r *reader) skip(kind uint32, depth int) {
	switch {
	case r.err != nil:
	case kind == metaString:
		r.bytes(r.u64())
	case kind == metaArray:
		r.skipArray(depth)
	case kind >= uint32(len(metaSize)):
		r.fail("a metadata value has the unknown type %d", kind)
	default:
		r.bytes(metaSize[kind])
	}
}

func (r *reader) skipArray(depth int) {
	if depth >= maxArrayDepth {
		r.fail("metadata arrays are nested deeper than %d", maxArrayDepth)
		return
	}
	kind, n := r.u32(), r.u64()
	switch {
	case r.err != nil:
		return
	case kind >= uint32(len(metaSize)):
		r.fail("a metadata array has the unknown type %d", kind)
		return
	case n > r.left()/leastSize(kind):
		r.fail("a metadata array announces %d elements, more than the file holds", n)
		return
	case metaSize[kind] > 0:
		r.bytes(n * metaSize[kind])
		return
	}
	for i := uint64(0); i < n && r.err == nil; i++ {
		r.skip(kind, depth+1)
	}
}

// leastSize returns the fewest bytes that an array element of the kind takes.
func leastSize(kind uint32) uint64 {
	switch kind {
	case metaString:
		return 8
	case metaArray:
		return 12
	}
	return metaSize[kind]
}

// value decodes a value that skip has accepted.
func (e entry) value() any {
	r := &reader{data: e.raw}
	return r.value(e.kind)
}

func (r *reader) value(kind uint32) any {
	switch kind {
	case metaString:
		return r.string()
	case metaArray:
		return r.array()
	}
	return scalar(kind, r.bytes(metaSize[kind]))
}

func (r *reader) array() any {
	kind, n := r.u32(), r.u64()
	size := metaSize[kind]
	switch kind {
	case metaString:
		return readArray(n, r.string)
	case metaArray:
		return readArray(n, r.array)
	case metaBool:
		return readArray(n, func() bool { v, _ := scalar(kind, r.bytes(1)).(bool); return v })
	case metaF32, metaF64:
		return readArray(n, func() float64 { v, _ := toFloat(scalar(kind, r.bytes(size))); return v })
	}
	return readArray(n, func() int64 { v, _ := toInt(scalar(kind, r.bytes(size))); return v })
}

func readArray[T any](n uint64, next func() T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = next()
	}
	return out
}

func (r *reader) string() string { return string(r.bytes(r.u64())) }

func scalar(kind uint32, b []byte) any {
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

// Value returns the metadata value of key: a number of the stored width, bool, string, or an array as []string, []int64,
// []float64, []bool or, for nested arrays, []any. Arrays are decoded anew at every call.
func (f *File) Value(key string) (any, bool) {
	e, ok := f.meta[key]
	if !ok {
		return nil, false
	}
	return e.value(), true
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

// Strings returns an array of texts.
func (f *File) Strings(key string) ([]string, error) {
	return lookup(f, key, "an array of texts", func(v any) ([]string, bool) { s, ok := v.([]string); return s, ok })
}

// Ints returns an array of integers of any stored width.
func (f *File) Ints(key string) ([]int64, error) {
	return lookup(f, key, "an array of integers", func(v any) ([]int64, bool) { s, ok := v.([]int64); return s, ok })
}

func lookup[T any](f *File, key, want string, as func(any) (T, bool)) (T, error) {
	var zero T
	v, ok := f.Value(key)
	if !ok {
		return zero, fmt.Errorf("%s: %q: %w", f.name, key, ErrMissing)
	}
	out, ok := as(v)
	if !ok {
		return zero, fmt.Errorf("%s: the metadata value %q is not %s", f.name, key, want)
	}
	return out, nil
}
