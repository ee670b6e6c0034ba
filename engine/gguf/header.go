package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// Limits of a header. Counts are also checked against the bytes that are there; these bound what a large hostile file can make of
// its small entries.
const (
	magic            = 0x46554747 // "GGUF", little-endian
	defaultAlignment = 32
	maxAlignment     = 1 << 20
	maxDimensions    = 4
	maxArrayDepth    = 4
	maxPairs         = 1 << 14
	maxTensors       = 1 << 17
	maxKey           = 1<<16 - 1
	maxName          = 255
	leastPair        = 14 // bytes: a key of one letter, a type, a byte
	leastInfo        = 33 // bytes: a name of one letter, one dimension, type, offset
)

// parse reads the header of data.
func parse(name string, data []byte) (*File, error) {
	r := &reader{file: name, data: data}
	tensorCount, metaCount := r.header()
	if r.err != nil {
		return nil, r.err
	}
	f := &File{
		name: name, data: data,
		keys: make([]string, 0, metaCount), meta: make(map[string]entry, metaCount), tensors: make(map[string]*Tensor, tensorCount),
	}
	for i := uint64(0); i < metaCount && r.err == nil; i++ {
		f.readPair(r)
	}
	infos := r.tensorInfos(tensorCount)
	if r.err != nil {
		return nil, r.err
	}
	alignment, err := f.alignment(r)
	if err != nil {
		return nil, err
	}
	return f, f.place(r, infos, alignment)
}

func (f *File) readPair(r *reader) {
	key := r.name("metadata key", maxKey)
	kind := r.u32()
	start := r.pos
	r.skip(kind, 0)
	if r.err != nil {
		return
	}
	if _, twice := f.meta[key]; twice {
		r.fail("the metadata key %.60q occurs twice", key)
		return
	}
	f.keys = append(f.keys, key)
	f.meta[key] = entry{kind: kind, raw: r.data[start:r.pos:r.pos]}
}

// alignment returns what tensors are aligned to.
func (f *File) alignment(r *reader) (uint64, error) {
	if !f.Has("general.alignment") {
		return defaultAlignment, nil
	}
	n, err := f.Int("general.alignment")
	if err != nil {
		return 0, r.errorf("the alignment is not an integer")
	}
	if !validAlignment(n) {
		return 0, r.errorf("the alignment %d is not a power of two up to %d", n, maxAlignment)
	}
	return uint64(n), nil
}

func validAlignment(n int64) bool { return n > 0 && n <= maxAlignment && n&(n-1) == 0 }

// place finds each tensor's bytes behind the header and checks that they lie inside the file and on no other tensor's.
func (f *File) place(r *reader, infos []tensorInfo, alignment uint64) error {
	base := (uint64(r.pos) + alignment - 1) &^ (alignment - 1)
	size := uint64(len(f.data))
	f.list = make([]*Tensor, 0, len(infos))
	for i := range infos {
		in := &infos[i]
		length, err := in.kind.size(in.shape)
		if err != nil {
			return r.errorf("tensor %.60q: %v", in.name, err)
		}
		if in.offset%alignment != 0 {
			return r.errorf("tensor %.60q starts at an offset that is not a multiple of %d", in.name, alignment)
		}
		if base > size || in.offset > size-base || length > size-base-in.offset {
			return r.errorf("the file is cut short: tensor %.60q needs %d bytes at offset %d behind the header, the file has %d bytes; fetch or copy it again",
				in.name, length, in.offset, size)
		}
		if _, twice := f.tensors[in.name]; twice {
			return r.errorf("tensor %.60q occurs twice", in.name)
		}
		start := base + in.offset
		in.end = in.offset + length
		t := newTensor(*in, f.data[start:start+length:start+length])
		f.tensors[in.name] = t
		f.list = append(f.list, t)
	}
	return checkOverlap(r, infos)
}

// checkOverlap sorts infos by place.
func checkOverlap(r *reader, infos []tensorInfo) error {
	slices.SortFunc(infos, func(a, b tensorInfo) int { return cmp.Compare(a.offset, b.offset) })
	for i := 1; i < len(infos); i++ {
		if a, b := infos[i-1], infos[i]; b.offset < a.end {
			return r.errorf("the tensors %.60q and %.60q overlap", a.name, b.name)
		}
	}
	return nil
}

type tensorInfo struct {
	name        string
	shape       []int
	kind        Type
	offset, end uint64 // behind the header
}

// reader walks the header. The first failure sticks; later reads return zeros.
type reader struct {
	file string
	data []byte
	pos  int
	err  error
}

func (r *reader) errorf(format string, args ...any) error {
	return &FormatError{File: r.file, Offset: int64(r.pos), Cause: fmt.Sprintf(format, args...)}
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = r.errorf(format, args...)
	}
}

func (r *reader) left() uint64 { return uint64(len(r.data) - r.pos) }

func (r *reader) header() (tensors, metas uint64) {
	switch m := r.u32(); {
	case r.err != nil:
	case m == 0x47475546:
		r.fail("it is big-endian, which is not supported")
	case m != magic:
		r.fail("it does not begin with the letters GGUF")
	}
	if v := r.u32(); r.err == nil && v != 2 && v != 3 {
		r.fail("its version is %d, supported are 2 and 3", v)
	}
	tensors, metas = r.u64(), r.u64()
	if metas > r.left()/leastPair || tensors > r.left()/leastInfo {
		r.fail("it announces %d metadata pairs and %d tensors, more than it can hold", metas, tensors)
	}
	if metas > maxPairs || tensors > maxTensors {
		r.fail("it has %d metadata pairs and %d tensors, allowed are %d and %d", metas, tensors, maxPairs, maxTensors)
	}
	return tensors, metas
}

func (r *reader) tensorInfos(count uint64) []tensorInfo {
	if r.err != nil {
		return nil
	}
	infos := make([]tensorInfo, 0, count)
	for i := uint64(0); i < count && r.err == nil; i++ {
		infos = append(infos, r.tensorInfo())
	}
	return infos
}

func (r *reader) tensorInfo() tensorInfo {
	in := tensorInfo{name: r.name("tensor name", maxName)}
	dims := r.u32()
	if r.err == nil && (dims == 0 || dims > maxDimensions) {
		r.fail("tensor %.60q has %d dimensions, supported are 1 to %d", in.name, dims, maxDimensions)
	}
	if r.err != nil {
		return in
	}
	in.shape = make([]int, dims)
	for i := range in.shape {
		d := r.u64()
		if d == 0 || d > math.MaxInt32 {
			r.fail("tensor %.60q has a dimension of %d", in.name, d)
		}
		in.shape[i] = int(d)
	}
	in.kind = Type(r.u32())
	in.offset = r.u64()
	return in
}

func (r *reader) bytes(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > r.left() {
		r.fail("the file is cut short; fetch or copy it again")
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// name reads a text that names something: not empty, not longer than limit, valid UTF-8.
func (r *reader) name(what string, limit int) string {
	n := r.u64()
	if r.err == nil && n > uint64(limit) && n <= r.left() {
		r.fail("a %s has %d bytes, allowed are %d", what, n, limit)
	}
	b := r.bytes(n)
	switch {
	case r.err != nil:
		return ""
	case n == 0:
		r.fail("a %s is empty", what)
	case !utf8.Valid(b):
		r.fail("the %s %.60q is not valid UTF-8", what, b)
	}
	return string(b)
}
