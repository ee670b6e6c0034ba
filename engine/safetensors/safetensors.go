// Package safetensors is a leaf that reads weight files in the safetensors format: a JSON header and raw little-endian tensors. The
// whole header is checked before any tensor is read, so a damaged or hostile file ends in an error, never in a read outside it.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// Limits of a header.
const (
	maxHeader = 32 << 20
	maxRank   = 8
)

// File is an open weight file. Its methods are safe for concurrent use.
type File struct {
	source  io.ReaderAt
	closer  io.Closer
	tensors map[string]tensor
	start   int64 // of the data
}

type tensor struct {
	dtype      string
	shape      []int
	begin, end int64
	elements   int
}

// Open opens a file and checks its header.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("safetensors: %w", err), f.Close())
	}
	file, err := read(f, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("safetensors: %s: %w", path, err), f.Close())
	}
	file.closer = f
	return file, nil
}

// Close closes the file.
func (f *File) Close() error { return f.closer.Close() }

// Float32 reads a tensor of the given shape, converting from F16 and BF16.
func (f *File) Float32(name string, shape ...int) ([]float32, error) {
	t, ok := f.tensors[name]
	if !ok {
		return nil, fmt.Errorf("safetensors: the file has no tensor %q", name)
	}
	if !slices.Equal(t.shape, shape) {
		return nil, fmt.Errorf("safetensors: the tensor %q has the shape %v, expected %v", name, t.shape, shape)
	}
	convert, size := converter(t.dtype)
	if convert == nil {
		return nil, fmt.Errorf("safetensors: the tensor %q has the type %s; this build reads F32, F16 and BF16", name, t.dtype)
	}
	out := make([]float32, t.elements)
	buffer := make([]byte, min(t.elements*size, 1<<20))
	for done := 0; done < t.elements; {
		n := min(len(buffer)/size, t.elements-done)
		if _, err := f.source.ReadAt(buffer[:n*size], f.start+t.begin+int64(done*size)); err != nil {
			return nil, fmt.Errorf("safetensors: read the tensor %q: %w", name, err)
		}
		convert(out[done:done+n], buffer)
		done += n
	}
	return out, nil
}

// sizes are the bytes per element of the types that the format has.
func elementSize(dtype string) int {
	switch dtype {
	case "F64", "I64", "U64":
		return 8
	case "F32", "I32", "U32":
		return 4
	case "F16", "BF16", "I16", "U16":
		return 2
	case "I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2":
		return 1
	}
	return 0
}

func converter(dtype string) (func(dst []float32, src []byte), int) {
	switch dtype {
	case "F32":
		return func(dst []float32, src []byte) {
			for i := range dst {
				dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
			}
		}, 4
	case "BF16":
		return func(dst []float32, src []byte) {
			for i := range dst {
				dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
			}
		}, 2
	case "F16":
		return func(dst []float32, src []byte) {
			for i := range dst {
				dst[i] = half(binary.LittleEndian.Uint16(src[2*i:]))
			}
		}, 2
	}
	return nil, 0
}

// half converts an IEEE 754 half-precision number.
func half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exponent {
	case 0: // zero or subnormal: fraction·2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31: // infinity or not a number
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// read checks the header of a file of the given size.
func read(source io.ReaderAt, size int64) (*File, error) {
	var prefix [8]byte
	if _, err := source.ReadAt(prefix[:], 0); err != nil || size < 8 {
		return nil, fmt.Errorf("the file has %d bytes, too few for a header", size)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > maxHeader || int64(length) > size-8 {
		return nil, fmt.Errorf("the header claims %d bytes, the file has %d and the limit is %d", length, size, maxHeader)
	}
	header := make([]byte, length)
	if _, err := source.ReadAt(header, 8); err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	tensors, err := parse(header)
	if err != nil {
		return nil, err
	}
	f := &File{source: source, tensors: tensors, start: 8 + int64(length)}
	return f, f.checkLayout(size - f.start)
}

func parse(header []byte) (map[string]tensor, error) {
	d := json.NewDecoder(bytes.NewReader(header))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("the header is no JSON object")
	}
	tensors := map[string]tensor{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("the header is not valid JSON: %w", err)
		}
		name, _ := key.(string)
		if name == "__metadata__" {
			err = d.Decode(&map[string]string{})
		} else {
			err = addTensor(tensors, name, d)
		}
		if err != nil {
			return nil, fmt.Errorf("the header entry %q: %w", name, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("the header is not valid JSON: %w", err)
	}
	if rest := bytes.TrimLeft(header[d.InputOffset():], " "); len(rest) > 0 {
		return nil, errors.New("the header has text after its JSON object")
	}
	return tensors, nil
}

func addTensor(tensors map[string]tensor, name string, d *json.Decoder) error {
	var entry struct {
		DType   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := d.Decode(&entry); err != nil {
		return err
	}
	if _, twice := tensors[name]; twice {
		return errors.New("it occurs twice")
	}
	size := elementSize(entry.DType)
	if size == 0 {
		return fmt.Errorf("the type %q is unknown", entry.DType)
	}
	if len(entry.Shape) > maxRank || len(entry.Offsets) != 2 {
		return errors.New("it needs a shape of at most 8 dimensions and two offsets")
	}
	t := tensor{dtype: entry.DType, begin: entry.Offsets[0], end: entry.Offsets[1], shape: make([]int, len(entry.Shape))}
	elements := int64(1)
	for i, n := range entry.Shape {
		if n < 0 || (n > 0 && elements > math.MaxInt32*64/n) {
			return fmt.Errorf("the shape %v is out of range", entry.Shape)
		}
		elements *= n
		t.shape[i] = int(n)
	}
	t.elements = int(elements)
	if t.begin < 0 || t.end < t.begin || t.end-t.begin != elements*int64(size) {
		return fmt.Errorf("the offsets %v do not fit the shape %v of %s", entry.Offsets, entry.Shape, entry.DType)
	}
	tensors[name] = t
	return nil
}

// checkLayout makes sure that the tensors fill the data exactly, without gaps and overlaps, as the format demands.
func (f *File) checkLayout(size int64) error {
	list := make([]tensor, 0, len(f.tensors))
	for _, t := range f.tensors {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b tensor) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	at := int64(0)
	for _, t := range list {
		if t.begin != at {
			return fmt.Errorf("the tensors leave a gap or overlap at byte %d", at)
		}
		at = t.end
	}
	if at != size {
		return fmt.Errorf("the tensors end at byte %d, the data at %d: the file is truncated or has bytes that belong to no tensor", at, size)
	}
	return nil
}
