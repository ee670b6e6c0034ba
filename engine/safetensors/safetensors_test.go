package safetensors

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

func file(header string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

func open(b []byte) (*File, error) { return read(bytes.NewReader(b), int64(len(b))) }

const twoTensors = `{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},"c":{"dtype":"F16","shape":[3],"data_offsets":[12,18]},"d":{"dtype":"I64","shape":[],"data_offsets":[18,26]}}   `

func twoTensorsData() []byte {
	var d []byte
	for _, f := range []float32{1.5, -2} {
		d = binary.LittleEndian.AppendUint32(d, math.Float32bits(f))
	}
	for _, h := range []uint16{0x3f80, 0xc000, 0x3c00, 0x8001, 0x7c00} { // 1, −2; 1, −2⁻²⁴, ∞
		d = binary.LittleEndian.AppendUint16(d, h)
	}
	return append(d, make([]byte, 8)...)
}

func TestFloat32(t *testing.T) {
	f, err := open(file(twoTensors, twoTensorsData()))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(f.tensors)); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("names %v", got)
	}
	for name, c := range map[string]struct {
		shape []int
		want  []float32
	}{
		"a": {[]int{1, 2}, []float32{1.5, -2}},
		"b": {[]int{2}, []float32{1, -2}},
		"c": {[]int{3}, []float32{1, -0x1p-24, float32(math.Inf(1))}},
	} {
		if got, err := f.Float32(name, c.shape...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for want, read := range map[string]func() ([]float32, error){
		"no tensor":     func() ([]float32, error) { return f.Float32("x") },
		"expected [2]":  func() ([]float32, error) { return f.Float32("a", 2) },
		"the type I64;": func() ([]float32, error) { return f.Float32("d") },
	} {
		if _, err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestHalfMatchesDefinition(t *testing.T) {
	for h := range 1 << 16 {
		sign, e, frac := 1.0, h>>10&31, float64(h&1023)
		if h>>15 == 1 {
			sign = -1
		}
		want := sign * (1 + frac/1024) * math.Pow(2, float64(e-15))
		switch {
		case e == 0:
			want = sign * frac * 0x1p-24
		case e == 31 && frac == 0:
			want = math.Inf(int(sign))
		case e == 31:
			want = math.NaN()
		}
		if got := float64(half(uint16(h))); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%04x: %v, want %v", h, got, want)
		}
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	data := twoTensorsData()
	good := file(twoTensors, data)
	for n := range good {
		if _, err := open(good[:n]); err == nil {
			t.Fatalf("a file cut to %d of %d bytes was accepted", n, len(good))
		}
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"more data than file": {`[18,26]`, `[18,34]`, "do not fit"},
		"overlap":             {`[12,18]`, `[8,14]`, "overlap"},
		"gap":                 {`[8,12]`, `[9,13]`, "gap"},
		"negative":            {`[0,8]`, `[-8,0]`, "do not fit"},
		"reversed":            {`[0,8]`, `[8,0]`, "do not fit"},
		"huge shape":          {`[1,2]`, `[4611686018427387904,4]`, "out of range"},
		"negative shape":      {`[1,2]`, `[-1,-2]`, "out of range"},
		"unknown type":        {`"F32"`, `"F31"`, "unknown"},
		"twice":               {`"b":`, `"a":`, "twice"},
		"one offset":          {`[8,12]`, `[8]`, "two offsets"},
		"no object":           {`{"__meta`, `["__meta`, "no JSON object"},
		"metadata":            {`{"format":"pt"}`, `{"format":1}`, "__metadata__"},
		"text after":          {`}   `, `} x `, "after"},
	} {
		_, err := open(file(strings.Replace(twoTensors, c.old, c.new, 1), data))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	if _, err := open(append(good, 0)); err == nil {
		t.Error("a byte too many was accepted")
	}
	if _, err := open(binary.LittleEndian.AppendUint64(nil, math.MaxUint64)); err == nil {
		t.Error("an absurd header was accepted")
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, path + ".missing"} {
		if _, err := Open(p); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v", err)
		}
	}
}

func TestMiniLM(t *testing.T) {
	f, err := Open(filepath.Join(testmodel.Path(t, testmodel.MiniLM), "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := len(f.tensors); n != 104 {
		t.Errorf("%d tensors", n)
	}
	if v, err := f.Float32("embeddings.word_embeddings.weight", 30522, 384); err != nil || len(v) != 30522*384 {
		t.Errorf("%d values, %v", len(v), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file(twoTensors, twoTensorsData()))
	f.Add(file(`{}`, nil))
	f.Add(file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := open(b)
		if err != nil {
			return
		}
		for name, x := range w.tensors {
			if v, err := w.Float32(name, x.shape...); err == nil && len(v) != x.elements {
				t.Fatalf("%s: %d of %d values", name, len(v), x.elements)
			}
		}
	})
}
