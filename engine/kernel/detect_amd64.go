//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// detect returns the best tier whose features the processor and the operating system have. The vendor is never asked. AVX-512
// without VNNI has little to offer these kernels: such processors use AVX2.
func detect() Kernels {
	x := &cpu.X86
	k := Kernels{avx2: x.HasAVX2 && x.HasFMA && x.HasF16C}
	k.avx512 = k.avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI
	return k
}
