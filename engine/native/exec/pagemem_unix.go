//go:build unix

package exec

import "golang.org/x/sys/unix"

// mapPage returns cleared memory outside the garbage collector's heap: pages are most of the memory of a busy engine, and in the heap the
// collector would let as much garbage gather beside them. It is nil where the system has none.
func mapPage(n int) []byte {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return mem
}

func unmapPage(mem []byte) { _ = unix.Munmap(mem) }
