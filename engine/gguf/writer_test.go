package gguf

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

func written(t testing.TB, w *Writer) []byte {
	t.Helper()
	var out bytes.Buffer
	n, err := w.WriteTo(&out)
	if err != nil || n != int64(out.Len()) {
		t.Fatalf("%d of %d bytes, %v", n, out.Len(), err)
	}
	return out.Bytes()
}

func mustSet(t testing.TB, w *Writer, key string, value any) {
	t.Helper()
	if err := w.Set(key, value); err != nil {
		t.Fatal(err)
	}
}

func rowsOf(values []float32) func(i int, dst []float32) error {
	return func(i int, dst []float32) error { copy(dst, values[i*len(dst):]); return nil }
}

func TestWriterMetadata(t *testing.T) {
	values := map[string]struct{ in, want any }{
		"u8": {uint8(200), uint8(200)}, "i8": {int8(-3), int8(-3)}, "u16": {uint16(60000), uint16(60000)}, "i16": {int16(-300), int16(-300)},
		"u32": {uint32(1 << 31), uint32(1 << 31)}, "i32": {int32(-7), int32(-7)}, "u64": {uint64(1 << 63), uint64(1 << 63)}, "i64": {int64(-8), int64(-8)},
		"f32": {float32(0.1), float32(0.1)}, "f64": {0.1, 0.1}, "yes": {true, true}, "no": {false, false}, "text": {"长城", "长城"}, "empty": {"", ""},
		"texts": {[]string{"a", ""}, []string{"a", ""}}, "bools": {[]bool{true, false}, []bool{true, false}},
		"u8s": {[]uint8{1, 255}, []int64{1, 255}}, "i8s": {[]int8{-1}, []int64{-1}}, "u16s": {[]uint16{65535}, []int64{65535}}, "i16s": {[]int16{-9}, []int64{-9}},
		"u32s": {[]uint32{math.MaxUint32}, []int64{math.MaxUint32}}, "i32s": {[]int32{-9}, []int64{-9}}, "u64s": {[]uint64{5}, []int64{5}}, "i64s": {[]int64{math.MinInt64}, []int64{math.MinInt64}},
		"f32s": {[]float32{0.5}, []float64{0.5}}, "f64s": {[]float64{0.1}, []float64{0.1}}, "none": {[]string{}, []string{}},
		"nested": {[][]int32{{1, 2}, {}}, []any{[]int64{1, 2}, []int64{}}}, "nested texts": {[][]string{{"x"}}, []any{[]string{"x"}}}, "nested floats": {[][]float32{{2}}, []any{[]float64{2}}},
	}
	w := NewWriter()
	mustSet(t, w, "text", "replaced below")
	for key, v := range values {
		mustSet(t, w, key, v.in)
	}
	first := mustParse(t, written(t, w))
	copied := NewWriter()
	copied.CopyMeta(first)
	for _, f := range []*File{first, mustParse(t, written(t, copied))} {
		if len(f.Keys()) != len(values) || f.Keys()[0] != "text" {
			t.Errorf("keys %v", f.Keys())
		}
		for key, v := range values {
			if got, ok := f.Value(key); !ok || !reflect.DeepEqual(got, v.want) {
				t.Errorf("%s: %#v, want %#v", key, got, v.want)
			}
		}
	}
	for key, bad := range map[string]any{"": true, "k\xff": true, strings.Repeat("k", 1<<16): true, "struct": struct{}{}, "nil": nil, "int": 5, "general.alignment": uint32(24)} {
		if err := w.Set(key, bad); err == nil {
			t.Errorf("the value %v under %.20q was taken", bad, key)
		}
	}
}

func TestWriterTensors(t *testing.T) {
	for _, align := range []uint32{0, 1, 64, 4096} {
		w := NewWriter()
		if align > 0 {
			mustSet(t, w, "general.alignment", align)
		}
		values := sequence(64*3*2, 5)
		kinds := []Type{F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1}
		for _, kind := range kinds {
			if err := w.Add(kind.String(), kind, []int{64, 3, 2}, rowsOf(values)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Add("odd", F32, []int{3}, rowsOf([]float32{1, -2, 3})); err != nil {
			t.Fatal(err)
		}
		source := randomTensor(Q3_K, 512, 3, 8)
		if err := w.Copy(source); err != nil {
			t.Fatal(err)
		}
		data := written(t, w)
		f := mustParse(t, data)
		if align > 0 && len(data)%int(align) != 0 {
			t.Errorf("alignment %d: %d bytes", align, len(data))
		}
		for _, kind := range kinds {
			tensor, err := f.Tensor(kind.String())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(tensor.Shape, []int{64, 3, 2}) || tensor.Rows() != 6 || tensor.Type != kind || tensor.Format() != strings.ToLower(kind.String()) {
				t.Errorf("%v: %v %d rows", tensor.Type, tensor.Shape, tensor.Rows())
			}
			if want := mustQuantize(t, kind, values); !bytes.Equal(tensor.data, want) {
				t.Errorf("%v was changed on the way", kind)
			}
		}
		got, err := f.Tensor("random")
		if err != nil || !bytes.Equal(got.data, source.data) || got.Type != Q3_K {
			t.Errorf("the copy differs: %v", err)
		}
		var order []string
		for tensor := range f.All() {
			order = append(order, tensor.Name)
		}
		if !slices.Equal(order, []string{"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "odd", "random"}) {
			t.Errorf("order %v", order)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	row := rowsOf(make([]float32, 512))
	w := NewWriter()
	if err := w.Add("twice", F32, []int{1}, row); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		kind  Type
		shape []int
		want  string
	}{
		{"twice", F32, []int{1}, "added twice"},
		{"", F32, []int{1}, "not a valid tensor name"},
		{"x\xff", F32, []int{1}, "not a valid tensor name"},
		{strings.Repeat("x", 256), F32, []int{1}, "not a valid tensor name"},
		{"x", Q4_K, []int{256}, "cannot be converted to Q4_K"},
		{"x", F32, nil, "0 dimensions"},
		{"x", F32, []int{1, 1, 1, 1, 1}, "5 dimensions"},
		{"x", F32, []int{4, 0}, "dimension of 0"},
		{"x", F32, []int{-4}, "dimension of -4"},
		{"x", Q8_0, []int{33}, "do not divide"},
		{"x", F32, []int{1 << 30, 1 << 30, 1 << 30}, "overflows"},
	} {
		if err := w.Add(c.name, c.kind, c.shape, row); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.10s %v: %v, want %q", c.name, c.shape, err, c.want)
		}
	}
	if err := w.AddRaw("x", 99, []int{1}, nil); err == nil || !strings.Contains(err.Error(), "type 99 is not supported") {
		t.Error(err)
	}
	if err := w.Add("bad", Q8_0, []int{32, 2}, rowsOf(slices.Repeat([]float32{float32(math.NaN())}, 64))); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteTo(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `tensor "bad", row 0`) {
		t.Error(err)
	}
}

// A file appears whole or not at all, and leaves nothing beside it.
func TestWriteFileIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.gguf")
	good := NewWriter()
	mustSet(t, good, "k", "first")
	if err := good.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the source ran dry")
	bad := NewWriter()
	if err := bad.Add("x", F32, []int{4, 4}, func(i int, _ []float32) error {
		if i == 2 {
			return broken
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := bad.WriteFile(path); !errors.Is(err, broken) || !strings.Contains(err.Error(), `row 2`) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the old file was harmed: %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("left over: %v, %v", names, err)
	}
	if err := good.WriteFile(filepath.Join(dir, "none", "model.gguf")); err == nil {
		t.Error("wrote into a directory that is not there")
	}
	mustSet(t, good, "k", "second")
	if err := good.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s, err := f.String("k"); s != "second" || err != nil {
		t.Error(s, err)
	}
	if _, err := bad.WriteTo(failing{}); err == nil {
		t.Error("a full disk went unnoticed")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// Copying a real model gives the same metadata and tensors, byte for byte.
func TestCopyRealFile(t *testing.T) {
	if testing.Short() {
		t.Skip("copies 98 MB")
	}
	f, err := Open(testmodel.Path(t, testmodel.SmolLM2))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := NewWriter()
	w.CopyMeta(f)
	for tensor := range f.All() {
		if err := w.Copy(tensor); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "copy.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	g, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	equalFiles(t, f, g)
}

func equalFiles(t *testing.T, f, g *File) {
	t.Helper()
	if !slices.Equal(f.Keys(), g.Keys()) || !slices.Equal(f.Tensors(), g.Tensors()) {
		t.Fatalf("keys %v and %v, tensors %v and %v", f.Keys(), g.Keys(), f.Tensors(), g.Tensors())
	}
	for _, key := range f.Keys() {
		if a, b := f.meta[key], g.meta[key]; a.kind != b.kind || !bytes.Equal(a.raw, b.raw) {
			t.Fatalf("metadata %q differs", key)
		}
	}
	for name, a := range f.tensors {
		if b := g.tensors[name]; a.Type != b.Type || !slices.Equal(a.Shape, b.Shape) || !bytes.Equal(a.data, b.data) {
			t.Fatalf("tensor %q differs", name)
		}
	}
}

// FuzzWriter: whatever the Writer takes comes out of Open as it went in, and what Open takes survives copying.
func FuzzWriter(f *testing.F) {
	f.Add("general.name", "x", uint64(7), uint8(0), uint16(1), uint16(1), uint8(5), uint64(1))
	f.Add("general.alignment", "", uint64(64), uint8(2), uint16(33), uint16(3), uint8(3), uint64(2))
	f.Add("k", "长城", uint64(1<<63), uint8(8), uint16(64), uint16(2), uint8(0), uint64(3))
	f.Add("", "\xff", uint64(0), uint8(14), uint16(256), uint16(1), uint8(255), uint64(4))
	f.Fuzz(func(t *testing.T, key, text string, number uint64, kind uint8, cols, rows uint16, align uint8, seed uint64) {
		w := NewWriter()
		want := map[string]any{}
		set := func(key string, value any) {
			if err := w.Set(key, value); err == nil {
				want[key] = value
			}
		}
		set("general.alignment", uint32(align))
		set(key, number)
		set(key+"'", text)
		set(text, []string{key, text})
		shape := []int{int(cols%512) + 1, int(rows%5) + 1}
		values := sequence(shape[0]*shape[1], seed)
		r := rand.New(rand.NewPCG(seed, 1))
		stored := map[string]Type{}
		if w.Add("values", Type(kind), shape, rowsOf(values)) == nil {
			stored["values"] = Type(kind)
		}
		if w.AddRaw("bytes", Type(kind), shape, func(_ int, dst []byte) error {
			for i := range dst {
				dst[i] = byte(r.Uint32())
			}
			return nil
		}) == nil {
			stored["bytes"] = Type(kind)
		}
		file, err := parse("written", written(t, w))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range want {
			if _, list := value.([]string); !list && !equalValue(file, key, value) {
				t.Fatalf("%q: %v", key, value)
			}
		}
		if len(file.Tensors()) != len(stored) {
			t.Fatalf("tensors %v, want %v", file.Tensors(), stored)
		}
		if tensor, ok := file.tensors["values"]; ok && !bytes.Equal(tensor.data, mustQuantize(t, tensor.Type, values)) {
			t.Fatal("the values differ")
		}
		again := NewWriter()
		again.CopyMeta(file)
		for tensor := range file.All() {
			if err := again.Copy(tensor); err != nil {
				t.Fatal(err)
			}
		}
		equalFiles(t, file, mustParse(t, written(t, again)))
	})
}

func equalValue(f *File, key string, want any) bool {
	got, ok := f.Value(key)
	return ok && got == want
}
