package tokenizer

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"os"
	"testing"
)

// readMetadata reads the key-value section of a GGUF file, in the plainest way: this package is a leaf and its tests do not lean on
// engine/gguf.
func readMetadata(t testing.TB, path string) map[string]any {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := ggufReader{t, bufio.NewReaderSize(f, 1<<20)}
	r.number(8) // magic and version
	r.number(8) // tensors
	values := map[string]any{}
	for range r.number(8) {
		key := r.text()
		values[key] = r.value(r.number(4))
	}
	return values
}

type ggufReader struct {
	t testing.TB
	r io.Reader
}

func (g ggufReader) number(size int) uint64 {
	var b [8]byte
	if _, err := io.ReadFull(g.r, b[:size]); err != nil {
		g.t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (g ggufReader) text() string {
	b := make([]byte, g.number(8))
	if _, err := io.ReadFull(g.r, b); err != nil {
		g.t.Fatal(err)
	}
	return string(b)
}

func (g ggufReader) value(kind uint64) any {
	switch kind {
	case 0, 1:
		return uint8(g.number(1))
	case 2, 3:
		return uint16(g.number(2))
	case 4:
		return uint32(g.number(4))
	case 6:
		return math.Float32frombits(uint32(g.number(4)))
	case 5:
		return int32(g.number(4))
	case 7:
		return g.number(1) != 0
	case 8:
		return g.text()
	case 10, 12:
		return g.number(8)
	case 11:
		return int64(g.number(8))
	}
	if kind != 9 {
		g.t.Fatalf("GGUF value kind %d", kind)
	}
	item, n := g.number(4), int(g.number(8))
	var texts []string
	var numbers []int32
	var scores []float32
	var small []byte
	for range n {
		switch v := g.value(item).(type) {
		case string:
			texts = append(texts, v)
		case int32:
			numbers = append(numbers, v)
		case float32:
			scores = append(scores, v)
		case uint8:
			small = append(small, v)
		}
	}
	switch item {
	case 0, 1:
		return small
	case 6:
		return scores
	case 8:
		return texts
	}
	return numbers
}
