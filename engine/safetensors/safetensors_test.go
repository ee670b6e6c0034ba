package safetensors

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
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

func open(b []byte) (*File, error) {
	tensors, err := parse(b)
	return &File{name: "test", tensors: tensors}, err
}

const manyTensors = `{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},` +
	`"c":{"dtype":"F16","shape":[3],"data_offsets":[12,18]},"d":{"dtype":"I64","shape":[],"data_offsets":[18,26]},"e":{"dtype":"I8","shape":[2,1,2],"data_offsets":[26,30]},` +
	`"f":{"dtype":"U8","shape":[2],"data_offsets":[30,32]},"g":{"dtype":"F4","shape":[2],"data_offsets":[32,33]}}   `

func manyTensorsData() []byte {
	var d []byte
	for _, f := range []float32{1.5, -2} {
		d = binary.LittleEndian.AppendUint32(d, math.Float32bits(f))
	}
	for _, h := range []uint16{0x3f80, 0xc000, 0x3c00, 0x8001, 0x7c00} { // 1, −2; 1, −2⁻²⁴, ∞
		d = binary.LittleEndian.AppendUint16(d, h)
	}
	d = append(d, make([]byte, 8)...)
	return append(d, 0xff, 0x80, 3, 4, 0xff, 5, 0x77)
}

func TestTensors(t *testing.T) {
	f, err := open(file(manyTensors, manyTensorsData()))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Tensors(); !slices.Equal(got, []string{"a", "b", "c", "d", "e", "f", "g"}) || !f.HasTensor("d") || f.HasTensor("x") {
		t.Errorf("names %v", got)
	}
	for name, c := range map[string]struct {
		shape  []int
		format string
		want   []float32
	}{
		"a": {[]int{1, 2}, "f32", []float32{1.5, -2}},
		"b": {[]int{2}, "bf16", []float32{1, -2}},
		"c": {[]int{3}, "f16", []float32{1, -0x1p-24, float32(math.Inf(1))}},
		"e": {[]int{2, 1, 2}, "i8", []float32{-1, -128, 3, 4}},
		"f": {[]int{2}, "u8", []float32{255, 5}},
	} {
		if got, err := f.float32s(name); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		var rows []float32
		var raw []byte
		for i := range x.Rows() {
			row := make([]float32, x.Cols())
			x.Row(i, row)
			rows, raw = append(rows, row...), append(raw, x.Raw(i)...)
		}
		if !slices.Equal(rows, c.want) || !slices.Equal(raw, x.data) || x.Format() != c.format || x.Cols() != c.shape[len(c.shape)-1] || x.Name != name {
			t.Errorf("%s: %v in rows of %d, %s", x.Name, rows, x.Cols(), x.Format())
		}
	}
	for want, name := range map[string]string{"no tensor": "x", "the type I64;": "d", "the type F4;": "g"} {
		if _, err := f.Tensor(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// float32s reads a whole tensor.
func (f *File) float32s(name string) ([]float32, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	out := make([]float32, t.Rows()*t.Cols())
	for i := range t.Rows() {
		t.Row(i, out[i*t.Cols():(i+1)*t.Cols()])
	}
	return out, nil
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

// write puts files into a fresh directory.
func write(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// one is a file with one F32 tensor of one element.
func one(name string, value float32) []byte {
	return file(fmt.Sprintf(`{%q:{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, name), binary.LittleEndian.AppendUint32(nil, math.Float32bits(value)))
}

func digest(parts ...[]byte) string {
	sum := sha256.Sum256(slices.Concat(parts...))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestOpen(t *testing.T) {
	single := file(manyTensors, manyTensorsData())
	dir := write(t, map[string][]byte{singleName: single, "short.safetensors": []byte("short"), "empty.safetensors": nil})
	for _, path := range []string{dir, filepath.Join(dir, singleName)} {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Digest() != digest(single) || len(f.Tensors()) != 7 {
			t.Errorf("%s: %s, %v", path, f.Digest(), f.Tensors())
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"short.safetensors", "empty.safetensors", "missing.safetensors"} {
		if _, err := Open(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := Open(write(t, nil)); err == nil || !strings.Contains(err.Error(), singleName) {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestShards(t *testing.T) {
	first, second := one("a", 1), file(
		`{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"extra":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}}`,
		binary.LittleEndian.AppendUint32(make([]byte, 4, 9), math.Float32bits(7))[:9])
	index := []byte(`{"metadata":{"total_size":8,"x":[1,{"y":null}]},"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}}` + "\n")
	dir := write(t, map[string][]byte{indexName: index, "m-1.safetensors": first, "m-2.safetensors": second})
	for _, path := range []string{dir, filepath.Join(dir, indexName)} {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Tensors(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("tensors %v", got)
		}
		// a is in both files; the index says which one counts.
		if v, err := f.float32s("a"); err != nil || v[0] != 1 {
			t.Error(v, err)
		}
		if want := digest(index, first, second); f.Digest() != want {
			t.Errorf("digest %s, want %s", f.Digest(), want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBadShardsAreRefused(t *testing.T) {
	deep := strings.Repeat("[", 100000) + strings.Repeat("]", 100000)
	for name, c := range map[string]struct{ index, want string }{
		"no map":           {`{"metadata":{}}`, "no weight_map"},
		"empty map":        {`{"weight_map":{}}`, "no weight_map"},
		"two maps":         {`{"weight_map":{"a":"m.safetensors"},"weight_map":{"a":"m.safetensors"}}`, "weight_map occurs twice"},
		"tensor twice":     {`{"weight_map":{"a":"m.safetensors","a":"m.safetensors"}}`, `"a" occurs twice`},
		"tensor twice (2)": {`{"weight_map":{"a":"m.safetensors","\u0061":"m.safetensors"}}`, `"a" occurs twice`},
		"missing file":     {`{"weight_map":{"a":"n.safetensors"}}`, "n.safetensors"},
		"missing tensor":   {`{"weight_map":{"b":"m.safetensors"}}`, `the tensor "b", and it has not`},
		"path up":          {`{"weight_map":{"a":"../m.safetensors"}}`, "not the plain name"},
		"absolute path":    {`{"weight_map":{"a":"/etc/m.safetensors"}}`, "not the plain name"},
		"folder":           {`{"weight_map":{"a":"x/m.safetensors"}}`, "not the plain name"},
		"backslash":        {`{"weight_map":{"a":"..\\m.safetensors"}}`, "not the plain name"},
		"other file":       {`{"weight_map":{"a":"model.safetensors.index.json"}}`, "not the plain name"},
		"no name":          {`{"weight_map":{"a":""}}`, "not the plain name"},
		"number":           {`{"weight_map":{"a":1}}`, "a text is missing"},
		"damaged shard":    {`{"weight_map":{"a":"bad.safetensors"}}`, "bad.safetensors: the file has 5 bytes"},
		"array":            {`["weight_map"]`, "missing"},
		"text after":       {`{"weight_map":{"a":"m.safetensors"}} x`, "text follows"},
		"not UTF-8":        {"{\"weight_map\":{\"\xff\":\"m.safetensors\"}}", "not valid UTF-8"},
		"deep":             {`{"metadata":` + deep + `,"weight_map":{"a":"m.safetensors"}}`, "nested deeper"},
		"no value":         {`{"metadata":nul,"weight_map":{"a":"m.safetensors"}}`, `"nul" is not a value`},
	} {
		dir := write(t, map[string][]byte{indexName: []byte(c.index), "m.safetensors": one("a", 1), "bad.safetensors": []byte("short")})
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestMiniLM(t *testing.T) {
	f, err := Open(testmodel.Path(t, testmodel.MiniLM))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := len(f.tensors); n != 104 {
		t.Errorf("%d tensors", n)
	}
	v, err := f.float32s("embeddings.word_embeddings.weight")
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.Tensor("embeddings.word_embeddings.weight")
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, x.Cols())
	for _, i := range []int{0, 101, 30521} {
		if x.Row(i, row); !slices.Equal(row, v[i*384:(i+1)*384]) {
			t.Errorf("row %d differs", i)
		}
	}
	if names := slices.Sorted(maps.Keys(f.tensors)); !slices.Equal(names, f.Tensors()) {
		t.Error("names are not sorted")
	}
}
