package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// scanInput fills rows and a query: of the extremes in full, so that sums wrap, and of random numbers.
func scanInput(r *rand.Rand, rows []int8, query []int16, extreme bool) {
	for i := range rows {
		rows[i] = int8(r.Uint32())
		if extreme {
			rows[i] = []int8{-128, 127}[r.IntN(8)/7]
		}
	}
	for i := range query {
		query[i] = int16(r.Uint32())
		if extreme {
			query[i] = []int16{math.MinInt16, math.MaxInt16}[r.IntN(8)/7]
		}
	}
}

func TestScanEqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for _, dim := range []int{32, 64, 96, 128, 160, 384, 1024, 4096} {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 67, 300} {
			for _, extreme := range []bool{false, true} {
				rows, _ := guarded[int8](n*dim, n%9)
				query, _ := guarded[int16](dim, n%5)
				scanInput(r, rows, query, extreme)
				at := make([]uint32, n+n/2)
				for i := range at {
					at[i] = uint32(r.IntN(n))
				}
				want, wantAt := make([]int32, n), make([]int32, len(at))
				for i := range want {
					for c, q := range query {
						want[i] += int32(rows[i*dim+c]) * int32(q)
					}
				}
				for i, row := range at {
					wantAt[i] = want[row]
				}
				for _, k := range tiers(t) {
					what := fmt.Sprintf("%s/%d rows of %d", k.ISA(), n, dim)
					dst, intact := guarded[int32](n, n%3)
					k.ScanRows(dst, rows, query)
					if err := intact(); err != nil || !slices.Equal(dst, want) {
						t.Fatalf("%s: scan: %v, %v instead of %v", what, err, dst, want)
					}
					dst, intact = guarded[int32](len(at), n%3)
					k.ScanRowsAt(dst, rows, query, at)
					if err := intact(); err != nil || !slices.Equal(dst, wantAt) {
						t.Fatalf("%s: gather: %v, %v instead of %v", what, err, dst, wantAt)
					}
				}
			}
		}
	}
}

func TestScanRefusesWrongLengths(t *testing.T) {
	for name, call := range map[string]func(k Kernels){
		"columns":       func(k Kernels) { k.ScanRows(make([]int32, 1), make([]int8, 33), make([]int16, 33)) },
		"too few rows":  func(k Kernels) { k.ScanRows(make([]int32, 2), make([]int8, 32), make([]int16, 32)) },
		"too many rows": func(k Kernels) { k.ScanRows(make([]int32, 1), make([]int8, 64), make([]int16, 32)) },
		"row outside":   func(k Kernels) { k.ScanRowsAt(make([]int32, 1), make([]int8, 64), make([]int16, 32), []uint32{2}) },
		"row far outside": func(k Kernels) {
			k.ScanRowsAt(make([]int32, 1), make([]int8, 64), make([]int16, 32), []uint32{1 << 31})
		},
		"numbers":    func(k Kernels) { k.ScanRowsAt(make([]int32, 2), make([]int8, 64), make([]int16, 32), []uint32{0}) },
		"half a row": func(k Kernels) { k.ScanRowsAt(make([]int32, 1), make([]int8, 63), make([]int16, 32), []uint32{0}) },
	} {
		for _, k := range tiers(t) {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: %s: no panic", k.ISA(), name)
					}
				}()
				call(k)
			}()
		}
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	rows, query, dst, at := make([]int8, 7*64), make([]int16, 64), make([]int32, 7), []uint32{1, 2, 3, 4, 5, 6, 0}
	for _, k := range tiers(t) {
		if n := testing.AllocsPerRun(10, func() {
			k.ScanRows(dst, rows, query)
			k.ScanRowsAt(dst, rows, query, at)
		}); n != 0 {
			t.Errorf("%s: %v allocations", k.ISA(), n)
		}
	}
}

// The rows do not fit the caches: 64 MiB.
func BenchmarkScan(b *testing.B) {
	const n, dim = 1 << 19, 128
	rows, query, dst := make([]int8, n*dim), make([]int16, dim), make([]int32, n)
	scanInput(rand.New(rand.NewPCG(1, 1)), rows, query, false)
	at := make([]uint32, n/10)
	for i := range at {
		at[i] = uint32(i * 10)
	}
	for _, k := range tiers(b) {
		b.Run(k.ISA(), func(b *testing.B) {
			b.SetBytes(n * dim)
			for b.Loop() {
				k.ScanRows(dst, rows, query)
			}
		})
		b.Run(k.ISA()+"/every tenth", func(b *testing.B) {
			b.SetBytes(int64(len(at) * dim))
			for b.Loop() {
				k.ScanRowsAt(dst[:len(at)], rows, query, at)
			}
		})
	}
}
