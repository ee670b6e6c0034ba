package gguf

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// block builds a block from parts: bytes as they are, uint16 little-endian.
func block(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch v := p.(type) {
		case []byte:
			b = append(b, v...)
		case uint16:
			b = binary.LittleEndian.AppendUint16(b, v)
		}
	}
	return b
}

func repeat(n int, v ...byte) []byte { return slices.Repeat(v, n/len(v)) }

// Half-precision numbers.
const (
	half1    = uint16(0x3c00) // 1
	half2    = uint16(0x4000) // 2
	halfHalf = uint16(0x3800) // 0.5
	halfNeg3 = uint16(0xc200) // −3
)

// Blocks worked out by hand from the layouts; each case names some elements.
func TestDequantizeByHand(t *testing.T) {
	for _, c := range []struct {
		kind Type
		data []byte
		want map[int]float32
	}{
		{F32, f32s(1.25, -3), map[int]float32{0: 1.25, 1: -3}},
		{F16, block(half1, halfNeg3, uint16(0x0001), uint16(0x8000)), map[int]float32{0: 1, 1: -3, 2: 1.0 / (1 << 24), 3: 0}},
		{BF16, block(uint16(0x3fc0), uint16(0xc000)), map[int]float32{0: 1.5, 1: -2}},
		// Low halves are elements 0–15, high halves 16–31; 8 is zero.
		{Q4_0, block(half2, []byte{0x80, 0x0f}, repeat(14, 0x98)), map[int]float32{0: -16, 16: 0, 1: 14, 17: -16, 2: 0, 18: 2, 31: 2}},
		{Q4_1, block(half2, halfNeg3, []byte{0x80, 0x0f}, repeat(14, 0x10)), map[int]float32{0: -3, 16: 13, 1: 27, 17: -3, 2: -3, 31: -1}},
		// The fifth bit of element j is bit j; 16 is zero.
		{Q5_0, block(half1, []byte{0x01, 0x00, 0x01, 0x80}, repeat(16, 0x21)), map[int]float32{0: 1, 1: -15, 16: 2, 17: -14, 31: 2}},
		{Q5_1, block(half1, halfHalf, []byte{0x01, 0x00, 0x01, 0x80}, repeat(16, 0x21)), map[int]float32{0: 17.5, 1: 1.5, 16: 18.5, 17: 2.5, 31: 18.5}},
		{Q8_0, block(halfHalf, []byte{0x7f, 0x80, 0xff}, repeat(29, 2)), map[int]float32{0: 63.5, 1: -64, 2: -0.5, 31: 1}},
		// Scales: group 0 has 4 bits of scale 3 and offset 1; groups of 16, four to a byte column.
		{Q2_K, block([]byte{0x13}, repeat(15, 0x01), repeat(64, 0b11_10_01_00), half1, half2), map[int]float32{
			0: 3*0 - 2, 15: -2, 16: 0, 32: 1, 64: 2, 96: 3, 128: 0, 255: 3,
		}},
		// All third bits set: nothing is subtracted. Scale 0 of group 0 has low bits 0xf and high bits 2: 47−32 = 15.
		{Q3_K, block(repeat(32, 0xff), repeat(64, 0b11_10_01_00), []byte{0x1f}, repeat(7, 0x11), repeat(4, 0b10_10_10_10), half1), map[int]float32{
			0: 0, 32: 1 * 1, 64: 2, 96: 3, 255: 3,
		}},
		{Q3_K, block(repeat(32, 0x00), repeat(64, 0b01_01_01_01), []byte{0x1f}, repeat(7, 0x11), repeat(4, 0b10_10_10_10), half1), map[int]float32{
			0: 15 * -3, 15: -45, 16: -3, 255: -3,
		}},
		// Scales and offsets of groups 0–3: six bits of bytes 0–3 and 4–7. Group 4: low halves of byte 8 with top bits of bytes 0 and 4.
		{Q4_K, block(half1, half2, []byte{0x42, 1, 1, 1, 0x83, 0, 0, 0, 0x21, 0x11, 0x11, 0x11}, repeat(128, 0x51)), map[int]float32{
			0: 2*1 - 2*3, 31: -4, 32: 5, 64: 1, 128: 17*1 - 2*34, 159: 17 - 68, 160: 5 - 2, 255: 5 - 2,
		}},
		{Q5_K, block(half1, half2, []byte{2, 1, 1, 1, 3, 0, 0, 0, 0x11, 0x11, 0x11, 0x11}, repeat(32, 0b1000_0001), repeat(128, 0x51)), map[int]float32{
			0: 2*17 - 6, 32: 5, 64: 1, 128: 1 - 2, 224: 21 - 2, 255: 21 - 2,
		}},
		// Values are low half | two high bits, minus 32.
		{Q6_K, block(repeat(128, 0x2f), repeat(64, 0b11_10_01_00), []byte{2}, repeat(14, 1), []byte{0xff}, halfHalf), map[int]float32{
			0: 0.5 * 2 * (15 - 32), 16: 0.5 * (15 - 32), 32: 0.5 * (31 - 32), 64: 0.5 * (2 + 32 - 32), 96: 0.5 * (2 + 48 - 32), 127: 9, 255: -9, 128: -8.5,
		}},
	} {
		l, _ := c.kind.layout()
		n := len(c.data) / l.bytes * l.elements
		if len(c.data)%l.bytes != 0 {
			t.Fatalf("%v: the block has %d bytes", c.kind, len(c.data))
		}
		tensor := newTensor(tensorInfo{shape: []int{n}, kind: c.kind}, c.data)
		got := make([]float32, n)
		tensor.Row(0, got)
		for i, want := range c.want {
			if got[i] != want {
				t.Errorf("%v: element %d is %v, want %v", c.kind, i, got[i], want)
			}
		}
	}
}

// The hashes are of what the reference implementation of the format makes of the same random blocks, negative zeros made positive.
func TestDequantizeEqualsReference(t *testing.T) {
	for kind, want := range map[Type]string{
		F16: "6354dce8", BF16: "02f39481", Q8_0: "099d5659", Q4_0: "1483e78d", Q4_1: "fec34085", Q5_0: "8af27708", Q5_1: "44efb885",
		Q2_K: "1936af60", Q3_K: "881ab3a8", Q4_K: "06742b49", Q5_K: "b1c884a9", Q6_K: "7a4d02f2",
	} {
		elements, size := kind.Block()
		n := 16
		if elements == 1 {
			n = 16 * 256
		}
		data := make([]byte, n*size)
		for i, seed := 0, uint64(11); i < len(data); i++ {
			seed = seed*6364136223846793005 + 1442695040888963407
			data[i] = byte(seed >> 56)
		}
		finiteScales(kind, data)
		out := make([]float32, n*elements)
		dequantize(kind, data, out)
		hash := sha256.New()
		for _, x := range out {
			hash.Write(f32s(x + 0))
		}
		if got := hex.EncodeToString(hash.Sum(nil)[:4]); got != want {
			t.Errorf("%v: %s, want %s", kind, got, want)
		}
	}
}

// Blocks and Row tell the same values, for random blocks of every type that has both, over several rows.
func TestBlocksEqualRow(t *testing.T) {
	for _, kind := range []Type{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K} {
		const cols, rows = 768, 3
		tensor := randomTensor(kind, cols, rows, 1)
		row, q, d, m := make([]float32, cols), make([]int8, cols), make([]float32, cols/32), make([]float32, cols/32)
		for i := range rows {
			tensor.Row(i, row)
			tensor.Blocks(i, q, d, m)
			for j := range row {
				if want := float32(d[j/32]*float32(q[j])) + m[j/32]; row[j] != want && !math.IsNaN(float64(want)) {
					t.Fatalf("%v: row %d element %d: %v and %v", kind, i, j, row[j], want)
				}
			}
		}
	}
}

// randomTensor has random blocks with finite scales.
func randomTensor(kind Type, cols, rows int, seed uint64) *Tensor {
	r := rand.New(rand.NewPCG(seed, 2))
	data := make([]byte, kind.rowBytes(cols)*rows)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	finiteScales(kind, data)
	return newTensor(tensorInfo{name: "random", shape: []int{cols, rows}, kind: kind}, data)
}

// finiteScales clears a bit in every half-precision number of the blocks, so that none is infinite or NaN.
func finiteScales(kind Type, data []byte) {
	_, size := kind.Block()
	at := map[Type][]int{F16: {1}, BF16: {1}, F32: {3}, Q8_0: {1}, Q2_K: {81, 83}, Q3_K: {109}, Q6_K: {209}}[kind]
	if at == nil {
		at = []int{1, 3}
	}
	for i := 0; i < len(data); i += size {
		for _, j := range at {
			data[i+j] &= 0xbf
		}
	}
}

// The parts of a super-block make the values that Row gives.
func TestSuperBlocksEqualRow(t *testing.T) {
	const cols, rows = 768, 5
	row := make([]float32, cols)
	for _, kind := range []Type{Q4_K, Q5_K, Q6_K} {
		tensor := randomTensor(kind, cols, rows, 7)
		_, size := kind.Block()
		for r := range rows {
			tensor.Row(r, row)
			raw := tensor.Raw(r)
			if len(raw) != cols/256*size {
				t.Fatalf("%v: a row of %d bytes", kind, len(raw))
			}
			for b := range cols / 256 {
				got := superValues(t, kind, raw[b*size:])
				for i, want := range row[b*256 : b*256+256] {
					if got[i] != want {
						t.Fatalf("%v: row %d block %d element %d: %v, want %v", kind, r, b, i, got[i], want)
					}
				}
			}
		}
	}
}

func superValues(t *testing.T, kind Type, src []byte) (out [256]float32) {
	if kind == Q6_K {
		var k Q6KBlock
		k.Decode(src)
		for i, q := range k.Q {
			if q < -32 || q > 31 {
				t.Fatalf("element %d is %d", i, q)
			}
			out[i] = float32(fromHalf(k.D)*float32(k.Scales[i/16])) * float32(q)
		}
		return out
	}
	var k KBlock
	k.Decode(kind, src)
	for i, q := range k.Q {
		g := i / 32
		if k.Scales[g] > 63 || k.Offsets[g] > 63 || q > 31 || (kind == Q4_K && q > 15) {
			t.Fatalf("element %d: %d, scale %d, offset %d", i, q, k.Scales[g], k.Offsets[g])
		}
		out[i] = float32(float32(fromHalf(k.D)*float32(k.Scales[g]))*float32(q)) - fromHalf(k.DMin)*float32(k.Offsets[g])
	}
	return out
}
