//go:build !amd64 || purego

package kernel

// Without the assembly the AVX2 tier is never selected; these stand in so that the callers compile.

const unreachable = "kernel: the AVX2 tier is not part of this build"

func hasAVX2() bool { return false }

func q4x4AVX2(*float32, int, *byte, int, *int8, int, *blockScale, int) { panic(unreachable) }
func q4x1AVX2(*float32, *byte, int, int, *int8, *blockScale)           { panic(unreachable) }
func q8x4AVX2(*float32, int, *byte, int, *int8, int, *blockScale, int) { panic(unreachable) }
func q8x1AVX2(*float32, *byte, int, int, *int8, *blockScale)           { panic(unreachable) }
func f32x4AVX2(*float32, int, *byte, int, *float32, int)               { panic(unreachable) }
func f16x4AVX2(*float32, int, *byte, int, *float32, int)               { panic(unreachable) }
func f32x1AVX2(*float32, *byte, int, int, *float32)                    { panic(unreachable) }
func f16x1AVX2(*float32, *byte, int, int, *float32)                    { panic(unreachable) }
func offsetsAVX2(*float32, *float32, int, *blockScale)                 { panic(unreachable) }
