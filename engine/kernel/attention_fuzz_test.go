package kernel

import (
	"math"
	"testing"
)

func FuzzPages(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0x7b, 0xff, 0x80, 9, 9}, uint8(64), uint8(3), uint8(50))
	f.Add([]byte{0x7f, 0x81, 0x7f}, uint8(20), uint8(17), uint8(64))
	f.Fuzz(func(t *testing.T, data []byte, d, rows, positions uint8) {
		dim, n, count := int(d)%33*4+4, int(rows)%19+1, int(positions)%(PagePositions+1)
		at := 0
		next := func() int8 {
			if at++; len(data) == 0 {
				return int8(at)
			}
			return int8(data[at%len(data)])
		}
		q, w := make([]float32, n*dim), make([]float32, n*PagePositions)
		for i := range q {
			q[i] = float32(next()) * float32(math.Exp2(float64(next()/16)))
		}
		for i := range w {
			w[i] = float32(next()) / 64
		}
		keys, keys8, kd := make([]uint16, dim*PagePositions), make([]int8, dim*PagePositions), make([]float32, PagePositions)
		for i := range keys {
			keys[i], keys8[i] = uint16(next())<<8&0xbf00|uint16(uint8(next())), max(next(), -127)
		}
		for i := range kd {
			kd[i] = float32(next()) / 100
		}
		q8, qd, qsum := make([]int8, n*dim), make([]float32, n), make([]int32, n)
		for t := range n {
			qd[t], qsum[t] = Generic().QuantizeRow(q8[t*dim:][:dim], q[t*dim:][:dim])
		}
		var want [4][]float32
		for _, k := range tiers(t) {
			s, s8, out, out8 := make([]float32, n*PagePositions), make([]float32, n*PagePositions), make([]float32, n*dim), make([]float32, n*dim)
			k.PageScores(s, PagePositions, q, dim, n, dim, keys, count, 0.25)
			k.PageScores8(s8, PagePositions, q8, qd, qsum, n, dim, keys8, kd, count, 0.25)
			k.PageCombine(out, dim, w, PagePositions, n, dim, keys, count)
			k.PageCombine8(out8, dim, w, PagePositions, n, dim, keys8, kd, count)
			for i := range n { // what lies beyond count is not specified
				clear(s[i*PagePositions+count : (i+1)*PagePositions])
				clear(s8[i*PagePositions+count : (i+1)*PagePositions])
			}
			got := [4][]float32{s, s8, out, out8}
			if want[0] == nil {
				want = got
			}
			for i, name := range []string{"scores", "byte scores", "output", "byte output"} {
				sameBits(t, k.ISA()+" "+name, got[i], want[i])
			}
		}
	})
}
