package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// raw builds a header by hand, so that it can say anything.
type raw struct{ b []byte }

func head(tensors, pairs uint64) *raw {
	r := &raw{[]byte("GGUF")}
	return r.u32(3).u64(tensors).u64(pairs)
}

func (r *raw) u32(v uint32) *raw { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }
func (r *raw) u64(v uint64) *raw { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *raw) str(s string) *raw { r.u64(uint64(len(s))); r.b = append(r.b, s...); return r }
func (r *raw) zeros(n int) *raw  { r.b = append(r.b, make([]byte, n)...); return r }
func (r *raw) info(name string, t Type, offset uint64, shape ...uint64) *raw {
	r.str(name).u32(uint32(len(shape)))
	for _, d := range shape {
		r.u64(d)
	}
	return r.u32(uint32(t)).u64(offset)
}

// data pads the header to the alignment and appends n bytes.
func (r *raw) data(n int) []byte { return r.zeros(-len(r.b) & 31).zeros(n).b }

func (r *raw) alignment(n uint32) *raw { return r.str("general.alignment").u32(metaU32).u32(n) }

// nested opens depth arrays of arrays, the innermost empty.
func (r *raw) nested(depth int) *raw {
	r.str("k").u32(metaArray)
	for range depth - 1 {
		r.u32(metaArray).u64(1)
	}
	return r.u32(metaU8).u64(0)
}

func hostileCases() []hostile {
	const huge = 1 << 63
	vector := testmodel.Tensor{Name: "v", Type: 0, Shape: []int{1}, Data: f32s(1)}
	patch := func(at int, b ...byte) []byte {
		data := sample()
		copy(data[at:], b)
		return data
	}
	return []hostile{
		{"empty", nil, "cut short"},
		{"a web page", []byte("<!DOCTYPE html><html>not found</html>"), "does not begin with the letters GGUF"},
		{"big-endian", []byte("FUGG0000000000000000000000"), "big-endian"},
		{"version 1", patch(4, 1), "version is 1"},
		{"version 9", patch(4, 9), "version is 9"},
		{"2^63 tensors", head(huge, 0).data(64), "more than it can hold"},
		{"2^64-1 tensors", head(math.MaxUint64, 0).data(64), "more than it can hold"},
		{"2^63 pairs", head(0, huge).data(64), "more than it can hold"},
		{"as many tensors as bytes", head(1<<20, 0).zeros(1 << 20).b, "more than it can hold"},
		{"too many tensors", head(maxTensors+1, 0).zeros((maxTensors + 1) * leastInfo).b, "allowed are"},
		{"too many pairs", head(0, maxPairs+1).zeros((maxPairs + 1) * leastPair).b, "allowed are"},
		{"huge key", head(0, 1).u64(huge).zeros(64).b, "cut short"},
		{"key of 2^64-1", head(0, 1).u64(math.MaxUint64).zeros(64).b, "cut short"},
		{"long key", head(0, 1).str(strings.Repeat("k", 1<<17)).zeros(64).b, "a metadata key has 131072 bytes"},
		{"empty key", head(0, 1).str("").u32(metaU64).zeros(64).b, "a metadata key is empty"},
		{"key not UTF-8", head(0, 1).str("k\xff").u32(metaU64).zeros(64).b, "not valid UTF-8"},
		{"key twice", testmodel.GGUF([]testmodel.Pair{{Key: "k", Value: true}, {Key: "k", Value: true}}, nil), `"k" occurs twice`},
		{"unknown value type", head(0, 1).str("k").u32(99).zeros(64).b, "unknown type 99"},
		{"huge text", head(0, 1).str("k").u32(metaString).u64(huge).zeros(64).b, "cut short"},
		{"array of unknown type", head(0, 1).str("k").u32(metaArray).u32(99).u64(1).zeros(64).b, "unknown type 99"},
		{"array of 2^63", head(0, 1).str("k").u32(metaArray).u32(metaU64).u64(huge).zeros(64).b, "announces 9223372036854775808 elements"},
		{"array whose bytes overflow", head(0, 1).str("k").u32(metaArray).u32(metaU64).u64(1 << 61).zeros(64).b, "more than the file holds"},
		{"array of 2^63 texts", head(0, 1).str("k").u32(metaArray).u32(metaString).u64(huge).zeros(64).b, "more than the file holds"},
		{"array of 2^63 arrays", head(0, 1).str("k").u32(metaArray).u32(metaArray).u64(huge).zeros(64).b, "more than the file holds"},
		{"huge text in an array", head(0, 1).str("k").u32(metaArray).u32(metaString).u64(1).u64(huge).zeros(64).b, "cut short"},
		{"nested too deep", head(0, 1).nested(maxArrayDepth + 1).zeros(64).b, "nested deeper than 4"},
		{"nested a thousand times", head(0, 1).nested(1000).zeros(64).b, "nested deeper than 4"},
		{"nested broadly and too deep", bombArray(), "nested deeper than 4"},
		{"alignment 0", head(0, 1).alignment(0).data(64), "alignment 0"},
		{"alignment 3", head(0, 1).alignment(3).data(64), "alignment 3"},
		{"alignment 2^31", head(0, 1).alignment(1 << 31).data(64), "alignment 2147483648"},
		{"alignment is text", head(0, 1).str("general.alignment").u32(metaString).str("32").data(64), "not an integer"},
		{"alignment is 2^64-1", head(0, 1).str("general.alignment").u32(metaU64).u64(math.MaxUint64).data(64), "not an integer"},
		{"alignment is negative", head(0, 1).str("general.alignment").u32(metaI32).u32(math.MaxUint32).data(64), "alignment -1"},
		{"huge name", head(1, 0).u64(huge).zeros(64).b, "cut short"},
		{"long name", head(1, 0).str(strings.Repeat("n", 256)).zeros(64).b, "a tensor name has 256 bytes"},
		{"empty name", head(1, 0).info("", F32, 0, 1).data(64), "a tensor name is empty"},
		{"name not UTF-8", head(1, 0).info("\xc0\x80", F32, 0, 1).data(64), "not valid UTF-8"},
		{"no dimension", head(1, 0).info("x", F32, 0).data(64), "0 dimensions"},
		{"five dimensions", head(1, 0).info("x", F32, 0, 1, 1, 1, 1, 1).data(64), "5 dimensions"},
		{"2^32-1 dimensions", head(1, 0).str("x").u32(math.MaxUint32).zeros(64).b, "4294967295 dimensions"},
		{"zero dimension", head(1, 0).info("x", F32, 0, 4, 0).data(64), "a dimension of 0"},
		{"dimension of 2^63", head(1, 0).info("x", F32, 0, huge).data(64), "a dimension of 9223372036854775808"},
		{"shape overflows to 0", head(1, 0).info("x", F32, 0, 1<<30, 1<<30, 1<<30, 1<<30).data(64), "overflows"},
		{"shape overflows to a little", head(1, 0).info("x", Q8_0, 0, 1<<30, 1<<30, 1<<30, 5).data(64), "overflows"},
		{"largest shape", head(1, 0).info("x", F32, 0, math.MaxInt32, math.MaxInt32, math.MaxInt32, math.MaxInt32).data(64), "overflows"},
		{"unknown tensor type", head(1, 0).info("x", 99, 0, 32).data(64), `tensor "x": its type 99 is not supported`},
		{"type 2^32-1", head(1, 0).info("x", math.MaxUint32, 0, 32).data(64), "type 4294967295 is not supported"},
		{"row of part of a block", head(1, 0).info("x", Q4_0, 0, 31).data(64), "do not divide into Q4_0 blocks of 32"},
		{"row of part of a super-block", head(1, 0).info("x", Q6_K, 0, 288).data(640), "do not divide into Q6_K blocks of 256"},
		{"data missing", head(1, 0).info("x", F32, 0, 1<<20).data(64), "cut short: tensor"},
		{"data one byte short", head(1, 0).info("x", F32, 0, 16).data(63), "cut short: tensor"},
		{"offset behind the end", head(1, 0).info("x", F32, 128, 1).data(64), "cut short: tensor"},
		{"offset of 2^63", head(1, 0).info("x", F32, huge, 1).data(64), "cut short: tensor"},
		{"offset that overflows", head(1, 0).info("x", F32, math.MaxUint64-31, 16).data(64), "cut short: tensor"},
		{"offset not aligned", head(1, 0).info("x", F32, 4, 1).data(64), "not a multiple of 32"},
		{"tensor twice", testmodel.GGUF(nil, []testmodel.Tensor{vector, vector}), `tensor "v" occurs twice`},
		{"same place", head(2, 0).info("a", F32, 0, 8).info("b", F32, 0, 8).data(64), `"a" and "b" overlap`},
		{"overlap", head(2, 0).info("a", F32, 32, 8).info("b", F32, 0, 9).data(96), `"b" and "a" overlap`},
		{"overlap of one byte", head(2, 1).alignment(1).info("a", F32, 0, 1).info("b", F32, 3, 1).zeros(64).b, `"a" and "b" overlap`},
		{"one within another", head(3, 0).info("a", F32, 0, 64).info("b", F32, 64, 8).info("c", F32, 256, 8).data(512), `"a" and "b" overlap`},
	}
}

type hostile struct {
	name string
	data []byte
	want string
}

// bombArray has a million elements that each open arrays that are too deep.
func bombArray() []byte {
	r := head(0, 1).str("k").u32(metaArray).u32(metaArray).u64(1 << 14)
	for range 1 << 14 {
		r.u32(metaArray).u64(1).u32(metaArray).u64(1).u32(metaArray).u64(1).u32(metaArray).u64(0)
	}
	return r.b
}

func TestHostileFilesAreRefused(t *testing.T) {
	for _, c := range hostileCases() {
		var err error
		took := time.Now()
		bytes := allocated(func() { _, err = parse("model.gguf", c.data) })
		var bad *FormatError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "fetch the file again") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if limit := memoryLimit(len(c.data)); bytes > limit {
			t.Errorf("%s: %d bytes of memory for a file of %d", c.name, bytes, len(c.data))
		}
		if d := time.Since(took); d > 5*time.Second {
			t.Errorf("%s: took %v", c.name, d)
		}
		if len(err.Error()) > 400 {
			t.Errorf("%s: an error of %d bytes", c.name, len(err.Error()))
		}
	}
}

// memoryLimit is what reading the header of a file may take.
func memoryLimit(size int) uint64 { return uint64(size)*10 + 1<<16 }

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Files that are valid but made of nothing but small entries must not take much more memory than they are long.
func TestMemoryIsProportionalToTheFile(t *testing.T) {
	const size = 1 << 20
	name := func(i int) string {
		return string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676%26), 'a' + byte(i/17576)})
	}
	long := head(0, 1).str("k").u32(metaArray).u32(metaString).u64(size / 8).zeros(size)
	small := head(0, 1).str("k").u32(metaArray).u32(metaU8).u64(size).zeros(size)
	deep := head(0, 1).str("k").u32(metaArray).u32(metaArray).u64(size / 12)
	const tensors = size / 36
	infos, pairs := head(tensors, 0), head(0, maxPairs)
	for i := range tensors {
		infos.info(name(i), F32, uint64(i)*32, 1)
	}
	for range size / 12 {
		deep.u32(metaU8).u64(0)
	}
	for i := range maxPairs {
		pairs.str(name(i)).u32(metaU8).zeros(1)
	}
	for name, data := range map[string][]byte{
		"empty texts":     long.data(0),
		"bytes":           small.data(0),
		"empty arrays":    deep.data(0),
		"small tensors":   infos.data(tensors * 32),
		"small pairs":     pairs.data(0),
		"one huge string": head(0, 1).str("k").u32(metaString).str(strings.Repeat("x", size)).data(0),
	} {
		var err error
		bytes := allocated(func() { _, err = parse("small.gguf", data) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if bytes > memoryLimit(len(data)) {
			t.Errorf("%s: %d bytes of memory for a file of %d", name, bytes, len(data))
		}
		t.Logf("%s: %.1f bytes of memory per byte of file", name, float64(bytes)/float64(len(data)))
	}
}

// mutants are good files with one field after the other replaced by numbers that break arithmetic, and with random damage.
func mutants(yield func([]byte)) {
	good := sample()
	header := bytes.Index(good, f32s(1, -2, 3.5))
	for at := range header {
		for _, v := range []uint64{0, 1, 31, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, math.MaxUint64} {
			for _, width := range []int{1, 4, 8} {
				m := slices.Clone(good)
				var b [8]byte
				binary.LittleEndian.PutUint64(b[:], v)
				copy(m[at:min(at+width, header)], b[:])
				yield(m)
			}
		}
	}
	r := rand.New(rand.NewPCG(4, 2))
	for range 2000 {
		m := slices.Clone(good)
		for range 1 + r.IntN(4) {
			switch at := r.IntN(len(m) - 8); r.IntN(4) {
			case 0:
				m[at] ^= 1 << r.IntN(8)
			case 1:
				m = slices.Delete(m, at, at+1+r.IntN(8))
			case 2:
				m = slices.Insert(m, at, m[at:at+8]...)
			default:
				copy(m[at:], m[r.IntN(len(m)):])
			}
		}
		yield(m)
	}
}

// Whatever is changed in a good file, it is refused or can be read to its last byte.
func TestMutants(t *testing.T) {
	refused, accepted := 0, 0
	mutants(func(data []byte) {
		if readAll(t, data) {
			accepted++
		} else {
			refused++
		}
	})
	if refused < 1000 || accepted < 100 {
		t.Errorf("%d refused, %d accepted: the mutants do not reach both outcomes", refused, accepted)
	}
}

// readAll uses everything that a file offers and reports whether it was accepted.
func readAll(t *testing.T, data []byte) bool {
	f, err := parse("fuzz", data)
	if err != nil {
		var bad *FormatError
		if !errors.As(err, &bad) {
			t.Fatalf("an error of another kind: %v", err)
		}
		return false
	}
	for _, key := range f.Keys() {
		if _, ok := f.Value(key); !ok {
			t.Fatalf("key %q is listed and missing", key)
		}
	}
	total := 0
	for tensor := range f.All() {
		if tensor.Rows()*tensor.rowBytes != len(tensor.data) || len(tensor.Raw(tensor.Rows()-1)) != tensor.rowBytes {
			t.Fatalf("%v: %d rows of %d bytes are not %d", tensor.Shape, tensor.Rows(), tensor.rowBytes, len(tensor.data))
		}
		total += len(tensor.data)
		row := make([]float32, tensor.Cols())
		tensor.Row(tensor.Rows()-1, row)
		if tensor.Type.HasBlocks() {
			n := tensor.Cols() / 32
			tensor.Blocks(0, make([]int8, tensor.Cols()), make([]float32, n), make([]float32, n))
		}
	}
	if total > len(data) {
		t.Fatalf("tensors of %d bytes in a file of %d", total, len(data))
	}
	return true
}

func FuzzOpen(f *testing.F) {
	f.Add(sample())
	for _, c := range hostileCases() {
		if len(c.data) < 1<<12 {
			f.Add(c.data)
		}
	}
	n := 0
	mutants(func(data []byte) {
		if n++; n%97 == 0 { // a few of each kind
			f.Add(data)
		}
	})
	for _, t := range []Type{F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K} {
		f.Add(testmodel.GGUF(nil, []testmodel.Tensor{{Name: "t", Type: uint32(t), Shape: []int{256}, Data: bytes.Repeat([]byte{0x5a}, 1024)}}))
	}
	f.Fuzz(func(t *testing.T, data []byte) { readAll(t, data) })
}
