package kernel

import (
	"syscall"
	"testing"
	"unsafe"
)

// atEdge returns n zero elements that end where readable memory ends.
func atEdge[T any](t *testing.T, n int) []T {
	t.Helper()
	var zero T
	size := n * int(unsafe.Sizeof(zero))
	page := syscall.Getpagesize()
	room := (size + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, room+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	if err := syscall.Mprotect(mem[room:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[room-size])), n)
}

// A read beyond the end of an argument faults here.
func TestNothingIsReadBeyondTheEnd(t *testing.T) {
	for _, n := range []int{0, 1, 3, 8, 15, 16, 17, 31, 40, 96} {
		dst, x, y, z := atEdge[float32](t, n), atEdge[float32](t, n), atEdge[float32](t, n), atEdge[float32](t, n)
		for i := range x {
			x[i], y[i], z[i] = float32(i)-4, 1, 2
		}
		for _, k := range tiers(t) {
			for _, op := range vecCases() {
				op.run(k, dst, x, y, z)
			}
		}
	}
	for _, dim := range []int{4, 8, 20, 24, 72, 80, 96} {
		for _, n := range []int{1, 2, 3, 6, 12, 13} {
			q, keys, s, out := atEdge[float32](t, n*dim), atEdge[uint16](t, dim*PagePositions), atEdge[float32](t, n*PagePositions), atEdge[float32](t, n*dim)
			q8, keys8, d, qd, qsum := atEdge[int8](t, n*dim), atEdge[int8](t, dim*PagePositions), atEdge[float32](t, PagePositions), atEdge[float32](t, n), atEdge[int32](t, n)
			for _, k := range tiers(t) {
				for _, count := range []int{1, 63, 64} {
					k.StoreKey(keys, count-1, q[:dim])
					k.StoreValue(keys, count-1, q[:dim])
					k.StoreKey8(keys8, d, count-1, q[:dim])
					k.StoreValue8(keys8, d, count-1, q[:dim])
					k.PageScores(s, PagePositions, q, dim, n, dim, keys, count, 1)
					k.PageCombine(out, dim, s[(n*PagePositions)-(n-1)*PagePositions-count:], PagePositions, n, dim, keys, count)
					k.PageScores8(s, PagePositions, q8, qd, qsum, n, dim, keys8, d, count, 1)
					k.PageCombine8(out, dim, s[(n*PagePositions)-(n-1)*PagePositions-count:], PagePositions, n, dim, keys8, d, count)
				}
			}
		}
	}
}
