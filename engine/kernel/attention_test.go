package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func fillHalf(r *rand.Rand, in input, h []uint16) []uint16 {
	for i := range h {
		h[i] = toHalf(in.next(r, i))
		if h[i]&0x7c00 == 0x7c00 {
			h[i] &= 0xbfff // no infinities
		}
	}
	return h
}

func TestPagesEqualReference(t *testing.T) {
	dims := []int{1, 7, 8, 12, 24, 32, 40, 64, 72, 80, 96, 104, 128, 256}
	for _, in := range inputs() {
		for _, dim := range dims {
			for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 11, 13} {
				for _, count := range []int{0, 1, 8, 15, 17, 63, 64} {
					if in.name != "normal" && (dim != 80 && dim != 7 || n != 11 || count != 63) {
						continue
					}
					checkPage(t, in, dim, n, count, (n+count)%5)
				}
			}
		}
	}
	checkPage(t, inputs()[0], 16, 2*maxRows+5, 64, 1)
}

func checkPage(t *testing.T, in input, dim, n, count, off int) {
	t.Helper()
	r := source()
	qStride, sStride, oStride := dim+off, PagePositions+off*3, dim+2*off
	q := fill(r, in, make([]float32, n*qStride))
	keys := fillHalf(r, in, make([]uint16, dim*PagePositions))
	w := fill(r, in, make([]float32, n*sStride))
	out := fill(r, in, make([]float32, n*oStride))
	wantS, wantO := make([]float32, n*sStride), append([]float32(nil), out...)
	refPageScores(wantS, sStride, q, qStride, n, dim, keys, count, 0.125)
	refPageCombine(wantO, oStride, w, sStride, n, dim, 0, keys, count)
	for _, k := range tiers(t) {
		what := fmt.Sprintf("%s/%s/%d×%d of %d+%d", k.ISA(), in.name, n, dim, count, off)
		qo, _ := guarded[float32](len(q), off)
		ko, _ := guarded[uint16](len(keys), off)
		copy(qo, q)
		copy(ko, keys)
		gotS, intactS := guarded[float32](len(wantS), off)
		gotO, intactO := guarded[float32](len(out), off)
		copy(gotO, out)
		k.PageScores(gotS, sStride, qo, qStride, n, dim, ko, count, 0.125)
		k.PageCombine(gotO, oStride, w, sStride, n, dim, ko, count)
		for i := range n {
			sameBits(t, what+" scores", gotS[i*sStride:][:count], wantS[i*sStride:][:count])
			for _, v := range gotS[i*sStride+PagePositions : (i+1)*sStride] {
				if math.Float32bits(v) != 0xA5A5A5A5 {
					t.Fatalf("%s: wrote between the rows of scores", what)
				}
			}
		}
		sameBits(t, what+" out", gotO, wantO)
		if err1, err2 := intactS(), intactO(); err1 != nil || err2 != nil {
			t.Fatalf("%s: %v %v", what, err1, err2)
		}
	}
}

// scaleRows multiplies the weights of each row by d, and leaves rows of a page's length.
func scaleRows(w []float32, stride, n int, d []float32) []float32 {
	scaled := make([]float32, n*PagePositions)
	for t := range n {
		for i, s := range d {
			scaled[t*PagePositions+i] = w[t*stride+i] * s
		}
	}
	return scaled
}

// Bytes that make the largest sums: runs of ±127 of equal and of opposite signs.
func fillBytes(r *rand.Rand, extreme bool, q []int8) []int8 {
	for i := range q {
		q[i] = int8(r.IntN(255) - 127)
		if extreme {
			q[i] = []int8{127, 127, -127, 127}[i/64%4]
		}
	}
	return q
}

func TestBytePagesEqualReference(t *testing.T) {
	for _, extreme := range []bool{false, true} {
		for _, dim := range []int{4, 8, 12, 32, 44, 64, 80, 96, 128, 256} {
			for _, n := range []int{0, 1, 2, 3, 4, 6, 7, 11, 13} {
				for _, count := range []int{0, 1, 15, 16, 33, 64} {
					checkBytePage(t, extreme, dim, n, count, (n+count)%5)
				}
			}
		}
	}
	checkBytePage(t, false, 16, 2*maxRows+5, 64, 1)
}

func checkBytePage(t *testing.T, extreme bool, dim, n, count, off int) {
	t.Helper()
	r := source()
	sStride, oStride := PagePositions+off*3, dim+2*off
	q := fillBytes(r, extreme, make([]int8, n*dim))
	page := fillBytes(r, extreme, make([]int8, dim*PagePositions))
	qd, qsum, d := make([]float32, n), make([]int32, n), fill(r, inputs()[0], make([]float32, PagePositions))
	for i := range n {
		qd[i] = r.Float32()
		for _, v := range q[i*dim:][:dim] {
			qsum[i] += int32(v)
		}
	}
	w := fill(r, inputs()[0], make([]float32, n*sStride))
	out := fill(r, inputs()[0], make([]float32, n*oStride))
	wantS, wantO := make([]float32, n*sStride), append([]float32(nil), out...)
	refPageScores8(wantS, sStride, q, qd, n, dim, page, d, count, 0.125)
	refPageCombine8(wantO, oStride, scaleRows(w, sStride, n, d[:count]), n, dim, 0, page, count)
	for _, k := range tiers(t) {
		what := fmt.Sprintf("%s/%d×%d of %d+%d", k.ISA(), n, dim, count, off)
		qo, _ := guarded[int8](len(q), off)
		po, _ := guarded[int8](len(page), off)
		copy(qo, q)
		copy(po, page)
		gotS, intactS := guarded[float32](len(wantS), off)
		gotO, intactO := guarded[float32](len(out), off)
		copy(gotO, out)
		k.PageScores8(gotS, sStride, qo, qd, qsum, n, dim, po, d, count, 0.125)
		k.PageCombine8(gotO, oStride, w, sStride, n, dim, po, d, count)
		for i := range n {
			sameBits(t, what+" scores", gotS[i*sStride:][:count], wantS[i*sStride:][:count])
		}
		sameBits(t, what+" out", gotO, wantO)
		if err1, err2 := intactS(), intactO(); err1 != nil || err2 != nil {
			t.Fatalf("%s: %v %v", what, err1, err2)
		}
	}
}

// What is stored and read back is attention: against float64, within the rounding of the formats.
func TestPagesAreAttention(t *testing.T) {
	const dim, n, count = 80, 5, 50
	r := source()
	k := tiers(t)[len(tiers(t))-1]
	q := fill(r, inputs()[0], make([]float32, n*dim))
	keys, values := make([]uint16, dim*PagePositions), make([]uint16, dim*PagePositions)
	keys8, values8, kd, vd := make([]int8, dim*PagePositions), make([]int8, dim*PagePositions), make([]float32, PagePositions), make([]float32, PagePositions)
	exact := make([][]float32, count)
	for p := range exact {
		exact[p] = fill(r, inputs()[0], make([]float32, dim))
		k.StoreKey(keys, p, exact[p])
		k.StoreValue(values, p, exact[p])
		k.StoreKey8(keys8, kd, p, exact[p])
		k.StoreValue8(values8, vd, p, exact[p])
	}
	q8, qd, qsum := make([]int8, n*dim), make([]float32, n), make([]int32, n)
	for t := range n {
		qd[t], qsum[t] = k.QuantizeRow(q8[t*dim:][:dim], q[t*dim:][:dim])
	}
	s, s8 := make([]float32, n*PagePositions), make([]float32, n*PagePositions)
	k.PageScores(s, PagePositions, q, dim, n, dim, keys, count, 0.5)
	k.PageScores8(s8, PagePositions, q8, qd, qsum, n, dim, keys8, kd, count, 0.5)
	out, out8 := make([]float32, n*dim), make([]float32, n*dim)
	k.PageCombine(out, dim, s, PagePositions, n, dim, values, count)
	k.PageCombine8(out8, dim, s, PagePositions, n, dim, values8, vd, count)
	near := func(what string, got float32, want, bound float64) {
		if math.Abs(float64(got)-want) > bound {
			t.Fatalf("%s is %v, want %v within %v", what, got, want, bound)
		}
	}
	for i := range n {
		for p, x := range exact {
			want, size := 0.0, 0.0
			for d, v := range x {
				want += float64(q[i*dim+d]) * float64(v) * 0.5
				size += math.Abs(float64(q[i*dim+d]) * float64(v))
			}
			near("score", s[i*PagePositions+p], want, size/2048)
			near("byte score", s8[i*PagePositions+p], want, size/40)
		}
		for d := range dim {
			want, size := 0.0, 0.0
			for p, x := range exact {
				want += float64(s[i*PagePositions+p]) * float64(x[d])
				size += math.Abs(float64(s[i*PagePositions+p]))
			}
			near("output", out[i*dim+d], want, size/500)
			near("byte output", out8[i*dim+d], want, size/60)
		}
	}
}

func TestStoreEqualsReference(t *testing.T) {
	for _, dim := range []int{1, 4, 20, 64, 72, 128, 256} {
		for _, in := range inputs() {
			for _, pos := range []int{0, 7, 63} {
				var want []float32
				for _, k := range tiers(t) {
					got, intact := storeAll(k, fill(source(), in, make([]float32, dim)), pos)
					if want == nil {
						want = got
					}
					sameBits(t, fmt.Sprintf("%s/%s/%d at %d", k.ISA(), in.name, dim, pos), got, want)
					if err := intact(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// storeAll stores x as everything and returns the pages as numbers.
func storeAll(k Kernels, x []float32, pos int) ([]float32, func() error) {
	n := len(x) * PagePositions
	keys, c1 := guarded[uint16](n, 1)
	values, c2 := guarded[uint16](n, 1)
	keys8, c3 := guarded[int8](n, 1)
	values8, c4 := guarded[int8](n, 1)
	kd, vd := make([]float32, PagePositions), make([]float32, PagePositions)
	k.StoreKey(keys, pos, x)
	k.StoreValue(values, pos, x)
	if len(x)%4 == 0 {
		k.StoreKey8(keys8, kd, pos, x)
	}
	k.StoreValue8(values8, vd, pos, x)
	all := append(kd, vd...)
	for i := range keys {
		all = append(all, float32(keys[i]), float32(values[i]), float32(keys8[i]), float32(values8[i]))
	}
	return all, func() error {
		for _, c := range []func() error{c1, c2, c3, c4} {
			if err := c(); err != nil {
				return err
			}
		}
		return nil
	}
}

// One row's result must not depend on the rows beside it.
func TestPageRowsAreIndependent(t *testing.T) {
	const n, dim = 29, 96
	r := source()
	q, keys := fill(r, inputs()[0], make([]float32, n*dim)), fillHalf(r, inputs()[0], make([]uint16, dim*PagePositions))
	for _, k := range tiers(t) {
		s, out := make([]float32, n*PagePositions), make([]float32, n*dim)
		k.PageScores(s, PagePositions, q, dim, n, dim, keys, 64, 1)
		k.PageCombine(out, dim, s, PagePositions, n, dim, keys, 64)
		for i := range n {
			s1, out1 := make([]float32, PagePositions), make([]float32, dim)
			k.PageScores(s1, 0, q[i*dim:], 0, 1, dim, keys, 64, 1)
			k.PageCombine(out1, 0, s1, 0, 1, dim, keys, 64)
			sameBits(t, "scores alone", s1, s[i*PagePositions:][:PagePositions])
			sameBits(t, "output alone", out1, out[i*dim:][:dim])
		}
	}
}

func TestPagesNonFiniteAndStale(t *testing.T) {
	const n, dim = 13, 72
	for _, k := range tiers(t) {
		q, page, page8, d := make([]float32, n*dim), make([]uint16, dim*PagePositions), make([]int8, dim*PagePositions), make([]float32, PagePositions)
		for i := range q {
			q[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), 1, math.MaxFloat32}[i%4]
		}
		for i := range page {
			page[i], page8[i] = []uint16{0x7c00, 0xfc00, 0x7e01, 0x0001}[i%4], -128
		}
		s, sIntact := guarded[float32](n*PagePositions, 1)
		out, outIntact := guarded[float32](n*dim, 1)
		q8, qd, qsum := make([]int8, n*dim), make([]float32, n), make([]int32, n)
		for t := range n {
			qd[t], qsum[t] = k.QuantizeRow(q8[t*dim:][:dim], q[t*dim:][:dim])
		}
		k.PageScores(s, PagePositions, q, dim, n, dim, page, 63, 1)
		k.PageCombine(out, dim, s, PagePositions, n, dim, page, 63)
		k.PageScores8(s, PagePositions, q8, qd, qsum, n, dim, page8, d, 63, 1)
		k.PageCombine8(out, dim, s, PagePositions, n, dim, page8, d, 63)
		if err1, err2 := sIntact(), outIntact(); err1 != nil || err2 != nil {
			t.Errorf("%s: %v %v", k.ISA(), err1, err2)
		}
	}
}

func TestPagesAllocateNothing(t *testing.T) {
	const n, dim = 13, 72
	for _, k := range tiers(t) {
		q, page, page8, d := make([]float32, n*dim), make([]uint16, dim*PagePositions), make([]int8, dim*PagePositions), make([]float32, PagePositions)
		s, q8, qsum := make([]float32, n*PagePositions), make([]int8, n*dim), make([]int32, n)
		if got := testing.AllocsPerRun(5, func() {
			k.StoreKey(page, 3, q[:dim])
			k.StoreValue(page, 3, q[:dim])
			k.StoreKey8(page8, d, 3, q[:dim])
			k.StoreValue8(page8, d, 3, q[:dim])
			k.PageScores(s, PagePositions, q, dim, n, dim, page, 63, 1)
			k.PageCombine(q, dim, s, PagePositions, n, dim, page, 63)
			k.PageScores8(s, PagePositions, q8, d, qsum, n, dim, page8, d, 63, 1)
			k.PageCombine8(q, dim, s, PagePositions, n, dim, page8, d, 63)
		}); got != 0 {
			t.Errorf("%s: %v allocations", k.ISA(), got)
		}
	}
}

func TestPageLengthsPanic(t *testing.T) {
	const dim = 8
	f, h, q, s := make([]float32, 3*PagePositions), make([]uint16, dim*PagePositions), make([]int8, dim*PagePositions), make([]int32, 3)
	k := Generic()
	for name, call := range map[string]func(){
		"short scores":      func() { k.PageScores(f[:191], PagePositions, f, dim, 3, dim, h, 1, 1) },
		"short queries":     func() { k.PageScores(f, PagePositions, f[:23], dim, 3, dim, h, 1, 1) },
		"short keys":        func() { k.PageScores(f, PagePositions, f, dim, 3, dim, h[:511], 1, 1) },
		"count":             func() { k.PageScores(f, PagePositions, f, dim, 3, dim, h, 65, 1) },
		"negative count":    func() { k.PageCombine(f, dim, f, PagePositions, 1, dim, h, -1) },
		"negative rows":     func() { k.PageCombine(f, dim, f, PagePositions, -1, dim, h, 1) },
		"negative stride":   func() { k.PageCombine(f, -8, f, PagePositions, 2, dim, h, 1) },
		"short weights":     func() { k.PageCombine(f, dim, f[:131], PagePositions, 3, dim, h, 4) },
		"odd byte keys":     func() { k.PageScores8(f, PagePositions, q, f, s, 1, 6, q, f, 1, 1) },
		"few sums":          func() { k.PageScores8(f, PagePositions, q, f, s[:2], 3, dim, q, f, 1, 1) },
		"few value scales":  func() { k.PageCombine8(f, dim, f, PagePositions, 3, dim, q, f[:63], 1) },
		"position":          func() { k.StoreKey(h, 64, f[:dim]) },
		"negative position": func() { k.StoreValue8(q, f, -1, f[:dim]) },
		"key too long":      func() { k.StoreKey8(q, f, 0, f[:dim+4]) },
		"rotated":           func() { k.Rope(f, 1, 8, 10, f, false) },
		"table":             func() { k.Rope(f, 1, 8, 8, f[:7], false) },
		"norm":              func() { k.LayerNorm(f[:8], f[:8], f[:8], f[:7], 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}
