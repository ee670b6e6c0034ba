package gguf

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

func sample() []byte {
	return testmodel.GGUF([]testmodel.Pair{
		{Key: "general.architecture", Value: "llama"},
		{Key: "count", Value: uint32(7)},
		{Key: "rate", Value: float32(0.5)},
		{Key: "flag", Value: true},
		{Key: "names", Value: []string{"a", "", "长城"}},
		{Key: "ids", Value: []int32{-1, 5}},
		{Key: "floats", Value: []float32{1.5, -2}},
	}, []testmodel.Tensor{
		{Name: "vector", Type: uint32(F32), Shape: []int{3}, Data: f32s(1, -2, 3.5)},
		{Name: "matrix", Type: uint32(Q8_0), Shape: []int{32, 2}, Data: make([]byte, 68)},
	})
}

func f32s(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func mustParse(t *testing.T, data []byte) *File {
	t.Helper()
	f, err := parse("sample.gguf", data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMetadata(t *testing.T) {
	f := mustParse(t, sample())
	if s, err := f.String("general.architecture"); s != "llama" || err != nil {
		t.Error(s, err)
	}
	if n, err := f.Int("count"); n != 7 || err != nil {
		t.Error(n, err)
	}
	if x, err := f.Float("rate"); x != 0.5 || err != nil {
		t.Error(x, err)
	}
	if x, err := f.Float("count"); x != 7 || err != nil {
		t.Error("an integer serves as a number:", x, err)
	}
	if b, err := f.Bool("flag"); !b || err != nil {
		t.Error(b, err)
	}
	if s, err := f.Strings("names"); !slices.Equal(s, []string{"a", "", "长城"}) || err != nil {
		t.Error(s, err)
	}
	if n, err := f.Ints("ids"); !slices.Equal(n, []int64{-1, 5}) || err != nil {
		t.Error(n, err)
	}
	if x, ok := f.Value("floats"); !ok || !slices.Equal(x.([]float64), []float64{1.5, -2}) {
		t.Error(x)
	}
	if _, err := f.Int("absent"); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "absent") {
		t.Error(err)
	}
	if _, err := f.Int("flag"); err == nil || !strings.Contains(err.Error(), `"flag" is not an integer`) {
		t.Error(err)
	}
}

func TestTensors(t *testing.T) {
	f := mustParse(t, sample())
	v, err := f.Tensor("vector")
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, 3)
	if v.Row(0, row); !slices.Equal(row, []float32{1, -2, 3.5}) || v.Rows() != 1 || v.Cols() != 3 {
		t.Errorf("%v, %d×%d", row, v.Rows(), v.Cols())
	}
	if m, err := f.Tensor("matrix"); err != nil || m.Rows() != 2 || m.Cols() != 32 || !m.Type.HasBlocks() {
		t.Error(m, err)
	}
	if _, err := f.Tensor("head"); err == nil || !strings.Contains(err.Error(), `no tensor "head"`) {
		t.Error(err)
	}
	if !slices.Equal(f.Tensors(), []string{"matrix", "vector"}) || !f.HasTensor("vector") || f.HasTensor("head") {
		t.Error(f.Tensors())
	}
}

// Every prefix of a file is refused with an error that says where and what to do.
func TestTruncatedFilesAreRefused(t *testing.T) {
	data := sample()
	end := len(data) - 28 // the last tensor's padding may be missing
	for n := range end {
		_, err := parse("model.gguf", data[:n])
		var bad *FormatError
		if !errors.As(err, &bad) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
		if !strings.Contains(err.Error(), "model.gguf is not a usable GGUF file") || !strings.Contains(err.Error(), "fetch the file again") {
			t.Fatal(err)
		}
	}
	if _, err := parse("model.gguf", data[:end]); err != nil {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	f, err := Open(write("good.gguf", sample()))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(f.Digest(), "sha256:") || len(f.Digest()) != 7+64 {
		t.Error(f.Digest())
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	for name, path := range map[string]string{
		"missing": filepath.Join(dir, "none.gguf"), "directory": dir, "empty": write("empty.gguf", nil), "text": write("text.gguf", []byte("hello")),
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRealFile(t *testing.T) {
	f, err := Open(testmodel.Path(t, testmodel.SmolLM2))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Digest() != "sha256:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53" {
		t.Errorf("this is another file: %s", f.Digest())
	}
	if n, err := f.Int("llama.block_count"); n != 30 || err != nil {
		t.Error(n, err)
	}
	if len(f.Tensors()) != 272 {
		t.Errorf("%d tensors", len(f.Tensors()))
	}
	if tokens, err := f.Strings("tokenizer.ggml.tokens"); len(tokens) != 49152 || err != nil {
		t.Error(len(tokens), err)
	}
}
