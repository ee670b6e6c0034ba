//go:build !amd64 || purego

package kernel

func restAVX2(_, _ *float32, _ *int8, _ *blockScale, _, _ int) { panic("kernel: no AVX2 here") }
