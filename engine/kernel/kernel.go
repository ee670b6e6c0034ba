package kernel

import "fmt"

// Kernels computes on one instruction-set tier. It is immutable and safe for concurrent use.
type Kernels struct{ avx2, avx512 bool } // avx512 implies avx2

// ISA returns the tier's name: "generic", "avx2" or "avx512".
func (k Kernels) ISA() string {
	switch {
	case k.avx512:
		return avx512
	case k.avx2:
		return avx2
	default:
		return generic
	}
}

// mismatch panics. Callers test first, so that the lengths are boxed on failure only.
func mismatch(op string, lengths ...int) {
	panic(fmt.Sprintf("kernel: %s: lengths do not fit: %v", op, lengths))
}
