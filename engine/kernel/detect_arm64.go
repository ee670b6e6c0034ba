//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// detect returns the best tier whose features the processor and the operating system have. The vendor is never asked.
func detect() Kernels {
	return Kernels{neon: cpu.ARM64.HasASIMD, dot: cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP}
}
