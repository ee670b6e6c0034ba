package kernel

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestQuantizeBlocksEqualReference(t *testing.T) {
	for _, in := range inputs() {
		for _, blocks := range []int{1, 2, 3, 18, 48} {
			for _, off := range []int{0, 1, 5} {
				x, _ := guarded[float32](blocks*32, off)
				fill(source(), in, x)
				q, scales := make([]int8, len(x)), make([]blockScale, blocks)
				refQuantizeBlocks(q, scales, x)
				for _, k := range tiers(t) {
					got, intact := guarded[int8](len(x), off)
					gotScales, scalesIntact := guarded[blockScale](blocks, 0)
					k.quantizeBlocks(got, gotScales, x)
					what := fmt.Sprintf("%s/%s/%d+%d", k.ISA(), in.name, blocks, off)
					for i, v := range q {
						if got[i] != v || v == -128 {
							t.Fatalf("%s: element %d is %d, want %d", what, i, got[i], v)
						}
					}
					for b, s := range scales {
						if gotScales[b] != s {
							t.Fatalf("%s: block %d is %+v, want %+v", what, b, gotScales[b], s)
						}
					}
					if err1, err2 := intact(), scalesIntact(); err1 != nil || err2 != nil {
						t.Fatalf("%s: %v %v", what, err1, err2)
					}
				}
			}
		}
	}
}

// What the scales promise: the sums are those of the bytes, and the bytes stand for x.
func TestQuantizeKeepsItsWord(t *testing.T) {
	for _, in := range inputs() {
		x := fill(source(), in, make([]float32, 96))
		q, scales := make([]int8, len(x)), make([]blockScale, 3)
		refQuantizeBlocks(q, scales, x)
		row := make([]int8, len(x))
		d, sum := Generic().QuantizeRow(row, x)
		total := int32(0)
		for i, v := range x {
			s := scales[i/32]
			if math.Abs(float64(s.d*float32(q[i])-v)) > float64(s.d)*0.501+1e-30 {
				t.Fatalf("%s: %v became %d·%v", in.name, v, q[i], s.d)
			}
			if math.Abs(float64(d*float32(row[i])-v)) > float64(d)*0.501+1e-30 {
				t.Fatalf("%s: in its row %v became %d·%v", in.name, v, row[i], d)
			}
			total += int32(row[i])
		}
		if total != sum {
			t.Errorf("%s: the row's sum is %d, not %d", in.name, total, sum)
		}
		for b, s := range scales {
			var half [2]int16
			for i, v := range q[b*32 : b*32+32] {
				half[i/16] += int16(v)
			}
			all := int32(half[0]) + int32(half[1])
			if s.half != half || s.zero != -128*all || s.sum != s.d*float32(all) {
				t.Errorf("%s: block %d is %+v, its halves sum up to %v", in.name, b, s, half)
			}
		}
	}
}

func TestQuantizeWritesRows(t *testing.T) {
	const cols = 128
	r := source()
	x := fill(r, inputs()[0], make([]float32, cols))
	for _, k := range tiers(t) {
		whole, parts := NewActivations(Block, 2, cols, nil), NewActivations(Block, 2, cols, nil)
		k.Quantize(whole, 1, x)
		k.QuantizeBlocks(parts, 1, 96, x[96:])
		k.QuantizeBlocks(parts, 1, 0, x[:64])
		k.QuantizeBlocks(parts, 1, 64, x[64:96])
		if !bytes.Equal(whole.data, parts.data) {
			t.Errorf("%s: a row in parts differs", k.ISA())
		}
		row := NewActivations(Row, 2, cols, nil)
		k.Quantize(row, 1, x)
		q := make([]int8, cols)
		d, sum := k.QuantizeRow(q, x)
		if s := row.scales(1)[0]; s != (blockScale{d: d, sum: d * float32(sum), zero: -128 * sum}) || !slices.Equal(row.codes(1), q) {
			t.Errorf("%s: row %+v", k.ISA(), s)
		}
	}
}
