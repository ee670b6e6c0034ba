package kernel

import "fmt"

// Kernels computes on one instruction-set tier. It is immutable and safe for concurrent use.
type Kernels struct{ avx2, avx512, neon, dot bool } // avx512 implies avx2, dot implies neon

// ISA returns the tier's name: "generic", "avx2", "avx512", "neon" or "neon-dot".
func (k Kernels) ISA() string {
	switch {
	case k.avx512:
		return avx512
	case k.avx2:
		return avx2
	case k.dot:
		return neonDot
	case k.neon:
		return neon
	default:
		return generic
	}
}

// reference reports whether there is no assembly: the reference serves, or what is written in Go to be faster and equal.
func (k Kernels) reference() bool { return !k.avx2 && !k.neon }

// unreachable is the panic of kernels that another processor has.
const unreachable = "kernel: this tier is not part of the build"

// mismatch panics. Callers test first, so that the lengths are boxed on failure only.
func mismatch(op string, lengths ...int) {
	panic(fmt.Sprintf("kernel: %s: lengths do not fit: %v", op, lengths))
}
