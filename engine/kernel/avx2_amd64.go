//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// hasAVX2 reports the features the assembly uses. The vendor is never asked.
func hasAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C }

//go:noescape
func q4x4AVX2(dst *float32, dstStride int, w *byte, blocks int, q *int8, qStride int, ds *blockScale, dsStride int)

//go:noescape
func q4x1AVX2(dst *float32, w *byte, panels, blocks int, q *int8, ds *blockScale)

//go:noescape
func q8x4AVX2(dst *float32, dstStride int, w *byte, blocks int, q *int8, qStride int, ds *blockScale, dsStride int)

//go:noescape
func q8x1AVX2(dst *float32, w *byte, panels, blocks int, q *int8, ds *blockScale)

//go:noescape
func f32x4AVX2(dst *float32, dstStride int, w *byte, cols int, x *float32, xStride int)

//go:noescape
func f16x4AVX2(dst *float32, dstStride int, w *byte, cols int, x *float32, xStride int)

//go:noescape
func f32x1AVX2(dst *float32, w *byte, panels, cols int, x *float32)

//go:noescape
func f16x1AVX2(dst *float32, w *byte, panels, cols int, x *float32)

//go:noescape
func offsetsAVX2(dst, offsets *float32, blocks int, ds *blockScale)
