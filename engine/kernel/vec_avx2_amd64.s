//go:build !purego

#include "textflag.h"

// Vector kernels: quantisation, norms, activations and attention. The callers in kernel.go handle lengths that are no multiple of 8.

#define CONST(NAME, VALUE) \
	DATA NAME<>+0(SB)/4, VALUE  \
	DATA NAME<>+4(SB)/4, VALUE  \
	DATA NAME<>+8(SB)/4, VALUE  \
	DATA NAME<>+12(SB)/4, VALUE \
	DATA NAME<>+16(SB)/4, VALUE \
	DATA NAME<>+20(SB)/4, VALUE \
	DATA NAME<>+24(SB)/4, VALUE \
	DATA NAME<>+28(SB)/4, VALUE \
	GLOBL NAME<>(SB), RODATA|NOPTR, $32

CONST(magnitude, $0x7fffffff)
CONST(signbit, $0x80000000)
CONST(smallest, $0x0d800000)
CONST(c127, $0x42fe0000)
CONST(one, $0x3f800000)
CONST(bias, $127)
CONST(bytes1, $0x01010101)
CONST(words1, $0x00010001)
CONST(expMax, $0x42b00000)
CONST(expMin, $0xc2ae0000)
CONST(log2e, $0x3fb8aa3b)
CONST(ln2Hi, $0x3f318000)
CONST(ln2Lo, $0xb95e8083)
CONST(expP0, $0x39506967)
CONST(expP1, $0x3ab743ce)
CONST(expP2, $0x3c088908)
CONST(expP3, $0x3d2aa9c1)
CONST(expP4, $0x3e2aaaaa)
CONST(expP5, $0x3f000000)

DATA order<>+0(SB)/4, $0
DATA order<>+4(SB)/4, $4
DATA order<>+8(SB)/4, $1
DATA order<>+12(SB)/4, $5
DATA order<>+16(SB)/4, $2
DATA order<>+20(SB)/4, $6
DATA order<>+24(SB)/4, $3
DATA order<>+28(SB)/4, $7
GLOBL order<>(SB), RODATA|NOPTR, $32

// func quantizeAVX2(q *int8, ds, x *float32, blocks int)
TEXT ·quantizeAVX2(SB), NOSPLIT, $0-32
	MOVQ q+0(FP), DI
	MOVQ ds+8(FP), DX
	MOVQ x+16(FP), SI
	MOVQ blocks+24(FP), CX
	VMOVUPS magnitude<>(SB), Y15
	VMOVUPS order<>(SB), Y14
	VMOVSS  c127<>(SB), X13

quantizeBlock:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3
	VANDPS  Y15, Y0, Y4
	VANDPS  Y15, Y1, Y5
	VANDPS  Y15, Y2, Y6
	VANDPS  Y15, Y3, Y7
	VMAXPS  Y5, Y4, Y4
	VMAXPS  Y7, Y6, Y6
	VMAXPS  Y6, Y4, Y4
	VEXTRACTF128 $1, Y4, X5
	VMAXPS  X5, X4, X4
	VPERMILPS $0x4e, X4, X5
	VMAXPS  X5, X4, X4
	VPERMILPS $0xb1, X4, X5
	VMAXSS  X5, X4, X4
	// X4 = largest magnitude. Too small: the block is zero.
	VUCOMISS smallest<>(SB), X4
	JCS     quantizeZero
	VDIVSS  X4, X13, X5
	VBROADCASTSS X5, Y5
	VDIVSS  X13, X4, X4
	VMULPS  Y5, Y0, Y0
	VMULPS  Y5, Y1, Y1
	VMULPS  Y5, Y2, Y2
	VMULPS  Y5, Y3, Y3
	VCVTPS2DQ Y0, Y0
	VCVTPS2DQ Y1, Y1
	VCVTPS2DQ Y2, Y2
	VCVTPS2DQ Y3, Y3
	VPACKSSDW Y1, Y0, Y0
	VPACKSSDW Y3, Y2, Y2
	VPACKSSWB Y2, Y0, Y0
	VPERMD  Y0, Y14, Y0
	VMOVDQU Y0, (DI)
	// The sum of the 32 bytes.
	VMOVDQU bytes1<>(SB), Y1
	VPMADDUBSW Y0, Y1, Y0
	VPMADDWD words1<>(SB), Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD  X1, X0, X0
	VPSHUFD $0x4e, X0, X1
	VPADDD  X1, X0, X0
	VPSHUFD $0xb1, X0, X1
	VPADDD  X1, X0, X0
	VCVTDQ2PS X0, X0
	VMULSS  X4, X0, X0
	VMOVSS  X4, (DX)
	VMOVSS  X0, 4(DX)

quantizeNext:
	ADDQ $128, SI
	ADDQ $32, DI
	ADDQ $8, DX
	DECQ CX
	JNZ  quantizeBlock
	VZEROUPPER
	RET

quantizeZero:
	VXORPS  Y0, Y0, Y0
	VMOVDQU Y0, (DI)
	MOVQ    $0, (DX)
	JMP     quantizeNext

// func sumSquaresAVX2(x *float32, n int, lanes *[8]float32)
TEXT ·sumSquaresAVX2(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ lanes+16(FP), DI
	VXORPS Y0, Y0, Y0

sumSquares8:
	VMOVUPS (SI), Y1
	VFMADD231PS Y1, Y1, Y0
	ADDQ $32, SI
	DECQ CX
	JNZ  sumSquares8
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET

// func scaleAVX2(dst, x, w *float32, n int, s float32)
// dst = x·s·w
TEXT ·scaleAVX2(SB), NOSPLIT, $0-36
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ w+16(FP), DX
	MOVQ n+24(FP), CX
	VBROADCASTSS s+32(FP), Y0

scale8:
	VMULPS (SI), Y0, Y1
	VMULPS (DX), Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	DECQ CX
	JNZ  scale8
	VZEROUPPER
	RET

// func addAVX2(dst, x *float32, n int)
TEXT ·addAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

add8:
	VMOVUPS (DI), Y0
	VADDPS  (SI), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ CX
	JNZ  add8
	VZEROUPPER
	RET

// EXP replaces Y0 by its exponential. Uses Y1 to Y4.
// Y4 remembers where Y0 >= expMin.
#define EXP \
	VMOVUPS expMin<>(SB), Y1      \
	VCMPPS  $13, Y1, Y0, Y4       \
	VMINPS  expMax<>(SB), Y0, Y0  \
	VMAXPS  Y1, Y0, Y0            \
	VMULPS  log2e<>(SB), Y0, Y1   \
	VROUNDPS $0, Y1, Y1           \
	VFNMADD231PS ln2Hi<>(SB), Y1, Y0 \
	VFNMADD231PS ln2Lo<>(SB), Y1, Y0 \
	VMOVUPS expP0<>(SB), Y2       \
	VFMADD213PS expP1<>(SB), Y0, Y2 \
	VFMADD213PS expP2<>(SB), Y0, Y2 \
	VFMADD213PS expP3<>(SB), Y0, Y2 \
	VFMADD213PS expP4<>(SB), Y0, Y2 \
	VFMADD213PS expP5<>(SB), Y0, Y2 \
	VMULPS  Y0, Y0, Y3            \
	VFMADD213PS Y0, Y3, Y2        \
	VADDPS  one<>(SB), Y2, Y2     \
	VCVTPS2DQ Y1, Y1              \
	VPADDD  bias<>(SB), Y1, Y1    \
	VPSLLD  $23, Y1, Y1           \
	VMULPS  Y1, Y2, Y0            \
	VANDPS  Y4, Y0, Y0

// func expSumAVX2(x *float32, n int, top float32, lanes *[8]float32)
TEXT ·expSumAVX2(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSS top+16(FP), Y6
	MOVQ lanes+24(FP), DI
	VXORPS Y5, Y5, Y5

expSum8:
	VMOVUPS (SI), Y0
	VSUBPS  Y6, Y0, Y0
	EXP
	VMOVUPS Y0, (SI)
	VADDPS  Y0, Y5, Y5
	ADDQ $32, SI
	DECQ CX
	JNZ  expSum8
	VMOVUPS Y5, (DI)
	VZEROUPPER
	RET

// func siluMulAVX2(dst, gate, up *float32, n int)
TEXT ·siluMulAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ gate+8(FP), SI
	MOVQ up+16(FP), DX
	MOVQ n+24(FP), CX

silu8:
	VMOVUPS (SI), Y5
	VXORPS  signbit<>(SB), Y5, Y0
	EXP
	VADDPS  one<>(SB), Y0, Y0
	VDIVPS  Y0, Y5, Y0
	VMULPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	DECQ CX
	JNZ  silu8
	VZEROUPPER
	RET

// func scoresAVX2(scores *float32, rows int, q *float32, n int, k *uint16, scale float32)
// n is the row length in eights.
TEXT ·scoresAVX2(SB), NOSPLIT, $0-44
	MOVQ scores+0(FP), DI
	MOVQ rows+8(FP), CX
	MOVQ k+32(FP), SI
	VMOVSS scale+40(FP), X5

scoresRow:
	MOVQ q+16(FP), DX
	MOVQ n+24(FP), BX
	VXORPS Y0, Y0, Y0

scores8:
	VCVTPH2PS (SI), Y1
	VFMADD231PS (DX), Y1, Y0
	ADDQ $16, SI
	ADDQ $32, DX
	DECQ BX
	JNZ  scores8

	// ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7))
	VEXTRACTF128 $1, Y0, X1
	VADDPS X1, X0, X0
	VPERMILPS $0x4e, X0, X1
	VADDPS X1, X0, X0
	VPERMILPS $0xb1, X0, X1
	VADDSS X1, X0, X0
	VMULSS X5, X0, X0
	VMOVSS X0, (DI)
	ADDQ $4, DI
	DECQ CX
	JNZ  scoresRow
	VZEROUPPER
	RET

// func combineAVX2(dst *float32, n int, weights *float32, rows int, v *uint16, vStride int)
// n is the length of dst in eights, vStride in bytes.
TEXT ·combineAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ n+8(FP), BX
	MOVQ v+32(FP), R8
	MOVQ vStride+40(FP), R9

combine32:
	CMPQ BX, $4
	JLT  combine8
	MOVQ weights+16(FP), DX
	MOVQ rows+24(FP), CX
	MOVQ R8, SI
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3

combine32row:
	VBROADCASTSS (DX), Y4
	VCVTPH2PS (SI), Y5
	VCVTPH2PS 16(SI), Y6
	VCVTPH2PS 32(SI), Y7
	VCVTPH2PS 48(SI), Y8
	VFMADD231PS Y5, Y4, Y0
	VFMADD231PS Y6, Y4, Y1
	VFMADD231PS Y7, Y4, Y2
	VFMADD231PS Y8, Y4, Y3
	ADDQ $4, DX
	ADDQ R9, SI
	DECQ CX
	JNZ  combine32row
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $128, DI
	ADDQ $64, R8
	SUBQ $4, BX
	JMP  combine32

combine8:
	TESTQ BX, BX
	JZ   combineDone
	MOVQ weights+16(FP), DX
	MOVQ rows+24(FP), CX
	MOVQ R8, SI
	VMOVUPS (DI), Y0

combine8row:
	VBROADCASTSS (DX), Y4
	VCVTPH2PS (SI), Y5
	VFMADD231PS Y5, Y4, Y0
	ADDQ $4, DX
	ADDQ R9, SI
	DECQ CX
	JNZ  combine8row
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	ADDQ $16, R8
	DECQ BX
	JMP  combine8

combineDone:
	VZEROUPPER
	RET

// func toHalfAVX2(dst *uint16, src *float32, n int)
TEXT ·toHalfAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

toHalf8:
	VMOVUPS (SI), Y0
	VCVTPS2PH $0, Y0, (DI)
	ADDQ $32, SI
	ADDQ $16, DI
	DECQ CX
	JNZ  toHalf8
	VZEROUPPER
	RET
