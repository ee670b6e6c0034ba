//go:build amd64 && !purego

package enginebench

import (
	"unsafe"

	"github.com/sluice-project/sluice/engine/kernel"
)

//go:noescape
func readAVX2(p *byte, n int)

//go:noescape
func multiplyAVX2(n int)

//go:noescape
func multiplyAVX512(n int)

// loops returns the fastest loops that the tier of k allows: one that reads words, and one that makes n times each multiply-accumulates
// of int8 in registers (nil when there is none).
func loops(k kernel.Kernels) (read func([]uint64), multiply func(n int), each int) {
	switch k.ISA() {
	case "avx512":
		return readVector, multiplyAVX512, 12 * 64
	case "avx2":
		return readVector, multiplyAVX2, 6 * 32
	}
	return readPlain, nil, 0
}

// readVector reads in pieces, since assembly is not interrupted.
func readVector(part []uint64) {
	const piece = 32 << 10 // words
	for ; len(part) >= 32; part = part[min(piece, len(part)):] {
		n := min(piece, len(part)) &^ 31
		readAVX2((*byte)(unsafe.Pointer(&part[0])), n*8) //nolint:gosec // n words of part
	}
}
