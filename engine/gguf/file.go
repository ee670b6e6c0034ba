package gguf

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
)

const (
	magic            = 0x46554747 // "GGUF", little-endian
	defaultAlignment = 32
	maxDimensions    = 4
	maxArrayDepth    = 4
)

// File is an open model file. It is immutable and safe for concurrent use until Close.
type File struct {
	name    string
	data    []byte
	unmap   func() error
	meta    map[string]any
	tensors map[string]*Tensor
}

// FormatError says why a file cannot be used and where in the file that was found.
type FormatError struct {
	File   string
	Offset int64
	Cause  string
}

// Error names the file, the cause, the place and the remedy.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s is not a usable GGUF file: %s (at byte %d); fetch the file again and check its SHA-256",
		e.File, e.Cause, e.Offset)
}

// Open maps the file at path and reads its header. The caller closes it.
func Open(path string) (*File, error) {
	data, unmap, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open model file: %w", err)
	}
	f, err := parse(path, data)
	if err != nil {
		_ = unmap()
		return nil, err
	}
	f.unmap = unmap
	return f, nil
}

// Close unmaps the file. Tensors of it must not be used afterwards.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap, f.data, f.tensors = nil, nil, nil
	return unmap()
}

// Digest returns "sha256:" and the hexadecimal SHA-256 of the whole file.
func (f *File) Digest() string {
	sum := sha256.Sum256(f.data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Tensor returns the tensor called name, or an error that names what is missing.
func (f *File) Tensor(name string) (*Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return nil, fmt.Errorf("%s has no tensor %q; it is not a complete model of this architecture", f.name, name)
	}
	return t, nil
}

// HasTensor reports whether the file has a tensor called name.
func (f *File) HasTensor(name string) bool {
	_, ok := f.tensors[name]
	return ok
}

// Tensors returns the names of all tensors, sorted.
func (f *File) Tensors() []string {
	names := make([]string, 0, len(f.tensors))
	for n := range f.tensors {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// parse reads the header of data.
func parse(name string, data []byte) (*File, error) {
	r := &reader{file: name, data: data}
	f := &File{name: name, data: data, meta: map[string]any{}, tensors: map[string]*Tensor{}}
	tensorCount, metaCount := r.header()
	for i := uint64(0); i < metaCount && r.err == nil; i++ {
		key := r.string()
		value := r.value(r.u32(), 0)
		if _, twice := f.meta[key]; twice {
			r.fail(fmt.Sprintf("the metadata key %.60q occurs twice", key))
		}
		f.meta[key] = value
	}
	infos := r.tensorInfos(tensorCount)
	if r.err != nil {
		return nil, r.err
	}
	if err := f.place(r, infos); err != nil {
		return nil, err
	}
	return f, nil
}

// place finds each tensor's bytes behind the header and checks that they lie inside the file.
func (f *File) place(r *reader, infos []tensorInfo) error {
	alignment := uint64(defaultAlignment)
	if v, ok := f.meta["general.alignment"].(uint32); ok {
		alignment = uint64(v)
	}
	if alignment == 0 || alignment&(alignment-1) != 0 || alignment > 1<<20 {
		return r.errorf("the alignment %d is not a power of two", alignment)
	}
	base := (uint64(r.pos) + alignment - 1) &^ (alignment - 1)
	size := uint64(len(f.data))
	for _, in := range infos {
		length, err := in.kind.size(in.shape)
		if err != nil {
			return r.errorf("tensor %.60q: %v", in.name, err)
		}
		if in.offset%alignment != 0 {
			return r.errorf("tensor %.60q starts at an offset that is not a multiple of %d", in.name, alignment)
		}
		if base > size || in.offset > size-base || length > size-base-in.offset {
			return r.errorf("the file is cut short: tensor %.60q needs %d bytes at offset %d, the file has %d bytes; fetch or copy it again",
				in.name, length, base+in.offset, size)
		}
		if _, twice := f.tensors[in.name]; twice {
			return r.errorf("tensor %.60q occurs twice", in.name)
		}
		start := base + in.offset
		f.tensors[in.name] = newTensor(in, f.data[start:start+length:start+length])
	}
	return nil
}

type tensorInfo struct {
	name   string
	shape  []int
	kind   Type
	offset uint64
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

func (r *reader) fail(cause string) {
	if r.err == nil {
		r.err = &FormatError{File: r.file, Offset: int64(r.pos), Cause: cause}
	}
}

func (r *reader) header() (tensors, metas uint64) {
	switch m := r.u32(); {
	case r.err != nil:
	case m == 0x47475546:
		r.fail("it is big-endian, which is not supported")
	case m != magic:
		r.fail("it does not begin with the letters GGUF")
	}
	if v := r.u32(); r.err == nil && v != 2 && v != 3 {
		r.fail(fmt.Sprintf("its version is %d, supported are 2 and 3", v))
	}
	tensors, metas = r.u64(), r.u64()
	left := uint64(len(r.data) - r.pos)
	// A metadata pair takes at least 13 bytes and a tensor entry 24, so larger counts cannot be true.
	if r.err == nil && (metas > left/13 || tensors > left/24) {
		r.fail(fmt.Sprintf("it announces %d metadata pairs and %d tensors, more than it can hold", metas, tensors))
	}
	return tensors, metas
}

func (r *reader) tensorInfos(count uint64) []tensorInfo {
	if r.err != nil {
		return nil
	}
	infos := make([]tensorInfo, 0, count)
	for i := uint64(0); i < count && r.err == nil; i++ {
		in := tensorInfo{name: r.string()}
		dims := r.u32()
		if dims == 0 || dims > maxDimensions {
			r.fail(fmt.Sprintf("tensor %.60q has %d dimensions, supported are 1 to %d", in.name, dims, maxDimensions))
			return nil
		}
		for range dims {
			d := r.u64()
			if d == 0 || d > math.MaxInt32 {
				r.fail(fmt.Sprintf("tensor %.60q has a dimension of %d", in.name, d))
				return nil
			}
			in.shape = append(in.shape, int(d))
		}
		in.kind = Type(r.u32())
		in.offset = r.u64()
		infos = append(infos, in)
	}
	return infos
}

func (r *reader) bytes(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.data)-r.pos) {
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

func (r *reader) string() string { return string(r.bytes(r.u64())) }
