//go:build !amd64 || purego

package kernel

// Without the assembly the AVX2 tier is never selected; these stand in so that the callers compile.

const unreachable = "kernel: the AVX2 tier is not part of this build"

func detect() Kernels { return Kernels{} }
