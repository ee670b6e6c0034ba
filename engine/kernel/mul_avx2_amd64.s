//go:build !purego

#include "textflag.h"

// Matrix products. See doc.go for the layout and the order of operations, matrix.go for block sizes.

DATA nibble<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibble<>+8(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibble<>+16(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibble<>+24(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibble<>(SB), RODATA|NOPTR, $32

DATA ones16<>+0(SB)/8, $0x0001000100010001
DATA ones16<>+8(SB)/8, $0x0001000100010001
DATA ones16<>+16(SB)/8, $0x0001000100010001
DATA ones16<>+24(SB)/8, $0x0001000100010001
GLOBL ones16<>(SB), RODATA|NOPTR, $32

// UNPACK reads the block at DI: Y0..Y7 = column groups 0..7 as bytes 0..15, Y12 = scales, Y13 = offsets.
#define UNPACK \
	VMOVDQU 32(DI), Y0            \
	VMOVDQU 64(DI), Y1            \
	VMOVDQU 96(DI), Y2            \
	VMOVDQU 128(DI), Y3           \
	VPSRLW  $4, Y0, Y4            \
	VPSRLW  $4, Y1, Y5            \
	VPSRLW  $4, Y2, Y6            \
	VPSRLW  $4, Y3, Y7            \
	VMOVDQU nibble<>(SB), Y15     \
	VPAND   Y15, Y0, Y0           \
	VPAND   Y15, Y1, Y1           \
	VPAND   Y15, Y2, Y2           \
	VPAND   Y15, Y3, Y3           \
	VPAND   Y15, Y4, Y4           \
	VPAND   Y15, Y5, Y5           \
	VPAND   Y15, Y6, Y6           \
	VPAND   Y15, Y7, Y7           \
	VCVTPH2PS (DI), Y12           \
	VCVTPH2PS 16(DI), Y13

// PAIRS adds the 16-bit products of group W with the four activations at off(Q) to Y15.
#define PAIRS(off, Q, W) \
	VPBROADCASTD off Q, Y14       \
	VPMADDUBSW   Y14, W, Y14      \
	VPADDW       Y14, Y15, Y15

// Q4TOKEN folds one block of one token into ACC. Q is its activations, S its scale and its scale times sum.
#define Q4TOKEN(Q, S, ACC) \
	VPBROADCASTD 0 Q, Y14         \
	VPMADDUBSW   Y14, Y0, Y15     \
	PAIRS(4, Q, Y1)               \
	PAIRS(8, Q, Y2)               \
	PAIRS(12, Q, Y3)              \
	PAIRS(16, Q, Y4)              \
	PAIRS(20, Q, Y5)              \
	PAIRS(24, Q, Y6)              \
	PAIRS(28, Q, Y7)              \
	VPMADDWD     ones16<>(SB), Y15, Y15 \
	VCVTDQ2PS    Y15, Y15         \
	VBROADCASTSS 0 S, Y14         \
	VMULPS       Y14, Y12, Y14    \
	VFMADD231PS  Y14, Y15, ACC    \
	VBROADCASTSS 4 S, Y14         \
	VFMADD231PS  Y14, Y13, ACC

// func q4x4AVX2(dst *float32, dstStride int, w *byte, blocks int, q *int8, qStride int, ds *float32, dsStride int)
// One panel times four tokens. Strides are in bytes.
TEXT ·q4x4AVX2(SB), NOSPLIT, $0-64
	MOVQ w+16(FP), DI
	MOVQ blocks+24(FP), CX
	MOVQ q+32(FP), SI
	MOVQ qStride+40(FP), R8
	MOVQ ds+48(FP), DX
	MOVQ dsStride+56(FP), R10
	LEAQ (R8)(R8*2), R9
	LEAQ (R10)(R10*2), R11
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11

q4x4block:
	UNPACK
	Q4TOKEN((SI), (DX), Y8)
	Q4TOKEN((SI)(R8*1), (DX)(R10*1), Y9)
	Q4TOKEN((SI)(R8*2), (DX)(R10*2), Y10)
	Q4TOKEN((SI)(R9*1), (DX)(R11*1), Y11)
	ADDQ $160, DI
	ADDQ $32, SI
	ADDQ $16, DX
	DECQ CX
	JNZ  q4x4block

	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	LEAQ (R8)(R8*2), R9
	VMOVUPS Y8, (DI)
	VMOVUPS Y9, (DI)(R8*1)
	VMOVUPS Y10, (DI)(R8*2)
	VMOVUPS Y11, (DI)(R9*1)
	VZEROUPPER
	RET

// func q4x1AVX2(dst *float32, w *byte, panels, blocks int, q *int8, ds *float32)
// Consecutive panels times one token.
TEXT ·q4x1AVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), R8
	MOVQ w+8(FP), DI
	MOVQ panels+16(FP), BX

q4x1panel:
	MOVQ q+32(FP), SI
	MOVQ ds+40(FP), DX
	MOVQ blocks+24(FP), CX
	VXORPS Y8, Y8, Y8

q4x1block:
	PREFETCHT0 2048(DI)
	PREFETCHT0 2112(DI)
	PREFETCHT0 2176(DI)
	UNPACK
	Q4TOKEN((SI), (DX), Y8)
	ADDQ $160, DI
	ADDQ $32, SI
	ADDQ $16, DX
	DECQ CX
	JNZ  q4x1block

	VMOVUPS Y8, (R8)
	ADDQ $32, R8
	DECQ BX
	JNZ  q4x1panel
	VZEROUPPER
	RET

// WEIGHTS8 reads column group at off(DI): Y0 = weights, Y1 = their magnitudes.
#define WEIGHTS8(off) \
	VMOVDQU off(DI), Y0           \
	VPABSB  Y0, Y1

// Q8PAIRS adds the products of the group with the four activations at off(Q) to ACC.
#define Q8PAIRS(off, Q, ACC) \
	VPBROADCASTD off Q, Y2        \
	VPSIGNB      Y0, Y2, Y2       \
	VPMADDUBSW   Y2, Y1, Y2       \
	VPMADDWD     Y13, Y2, Y2      \
	VPADDD       Y2, ACC, ACC

#define Q8GROUP4(woff, qoff) \
	WEIGHTS8(woff)                \
	Q8PAIRS(qoff, (SI), Y4)       \
	Q8PAIRS(qoff, (SI)(R8*1), Y5) \
	Q8PAIRS(qoff, (SI)(R8*2), Y6) \
	Q8PAIRS(qoff, (SI)(R9*1), Y7)

// Q8FOLD folds the integer sums ISUM of a block into ACC under the scales Y12 and the token's scale at S.
#define Q8FOLD(ISUM, S, ACC) \
	VCVTDQ2PS    ISUM, ISUM       \
	VBROADCASTSS 0 S, Y14         \
	VMULPS       Y14, Y12, Y14    \
	VFMADD231PS  Y14, ISUM, ACC

// func q8x4AVX2(dst *float32, dstStride int, w *byte, blocks int, q *int8, qStride int, ds *float32, dsStride int)
// One panel times four tokens. Strides are in bytes.
TEXT ·q8x4AVX2(SB), NOSPLIT, $0-64
	MOVQ w+16(FP), DI
	MOVQ blocks+24(FP), CX
	MOVQ q+32(FP), SI
	MOVQ qStride+40(FP), R8
	MOVQ ds+48(FP), DX
	MOVQ dsStride+56(FP), R10
	LEAQ (R8)(R8*2), R9
	LEAQ (R10)(R10*2), R11
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11
	VMOVDQU ones16<>(SB), Y13

q8x4block:
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7
	Q8GROUP4(32, 0)
	Q8GROUP4(64, 4)
	Q8GROUP4(96, 8)
	Q8GROUP4(128, 12)
	Q8GROUP4(160, 16)
	Q8GROUP4(192, 20)
	Q8GROUP4(224, 24)
	Q8GROUP4(256, 28)
	VMOVUPS (DI), Y12
	Q8FOLD(Y4, (DX), Y8)
	Q8FOLD(Y5, (DX)(R10*1), Y9)
	Q8FOLD(Y6, (DX)(R10*2), Y10)
	Q8FOLD(Y7, (DX)(R11*1), Y11)
	ADDQ $288, DI
	ADDQ $32, SI
	ADDQ $16, DX
	DECQ CX
	JNZ  q8x4block

	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	LEAQ (R8)(R8*2), R9
	VMOVUPS Y8, (DI)
	VMOVUPS Y9, (DI)(R8*1)
	VMOVUPS Y10, (DI)(R8*2)
	VMOVUPS Y11, (DI)(R9*1)
	VZEROUPPER
	RET

#define Q8GROUP1(woff, qoff, ACC) \
	WEIGHTS8(woff)                \
	Q8PAIRS(qoff, (SI), ACC)

// func q8x1AVX2(dst *float32, w *byte, panels, blocks int, q *int8, ds *float32)
// Consecutive panels times one token.
TEXT ·q8x1AVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), R8
	MOVQ w+8(FP), DI
	MOVQ panels+16(FP), BX
	VMOVDQU ones16<>(SB), Y13

q8x1panel:
	MOVQ q+32(FP), SI
	MOVQ ds+40(FP), DX
	MOVQ blocks+24(FP), CX
	VXORPS Y8, Y8, Y8

q8x1block:
	PREFETCHT0 2048(DI)
	PREFETCHT0 2112(DI)
	PREFETCHT0 2176(DI)
	PREFETCHT0 2240(DI)
	PREFETCHT0 2304(DI)
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	Q8GROUP1(32, 0, Y4)
	Q8GROUP1(64, 4, Y5)
	Q8GROUP1(96, 8, Y4)
	Q8GROUP1(128, 12, Y5)
	Q8GROUP1(160, 16, Y4)
	Q8GROUP1(192, 20, Y5)
	Q8GROUP1(224, 24, Y4)
	Q8GROUP1(256, 28, Y5)
	VPADDD  Y5, Y4, Y4
	VMOVUPS (DI), Y12
	Q8FOLD(Y4, (DX), Y8)
	ADDQ $288, DI
	ADDQ $32, SI
	ADDQ $16, DX
	DECQ CX
	JNZ  q8x1block

	VMOVUPS Y8, (R8)
	ADDQ $32, R8
	DECQ BX
	JNZ  q8x1panel
	VZEROUPPER
	RET

// DENSE4 runs the columns of the dense kernels with four tokens: LOAD puts the weights of a column into Y0, STEP is their size.
#define DENSE4(LOOP, LOAD, STEP) \
	LEAQ (R8)(R8*2), R9           \
	VXORPS Y8, Y8, Y8             \
	VXORPS Y9, Y9, Y9             \
	VXORPS Y10, Y10, Y10          \
	VXORPS Y11, Y11, Y11          \
LOOP: \
	LOAD (DI), Y0                 \
	VBROADCASTSS (SI), Y1         \
	VBROADCASTSS (SI)(R8*1), Y2   \
	VBROADCASTSS (SI)(R8*2), Y3   \
	VBROADCASTSS (SI)(R9*1), Y4   \
	VFMADD231PS Y1, Y0, Y8        \
	VFMADD231PS Y2, Y0, Y9        \
	VFMADD231PS Y3, Y0, Y10       \
	VFMADD231PS Y4, Y0, Y11       \
	ADDQ $STEP, DI                \
	ADDQ $4, SI                   \
	DECQ CX                       \
	JNZ  LOOP

// STORE4 writes the sums of four tokens to DI, with the stride R8.
#define STORE4 \
	LEAQ (R8)(R8*2), R9           \
	VMOVUPS Y8, (DI)              \
	VMOVUPS Y9, (DI)(R8*1)        \
	VMOVUPS Y10, (DI)(R8*2)       \
	VMOVUPS Y11, (DI)(R9*1)       \
	VZEROUPPER

// func f32x4AVX2(dst *float32, dstStride int, w *byte, cols int, x *float32, xStride int)
// One panel times four tokens. Strides are in bytes.
TEXT ·f32x4AVX2(SB), NOSPLIT, $0-48
	MOVQ w+16(FP), DI
	MOVQ cols+24(FP), CX
	MOVQ x+32(FP), SI
	MOVQ xStride+40(FP), R8
	DENSE4(f32x4column, VMOVUPS, 32)
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	STORE4
	RET

// func f16x4AVX2(dst *float32, dstStride int, w *byte, cols int, x *float32, xStride int)
// One panel times four tokens. Strides are in bytes.
TEXT ·f16x4AVX2(SB), NOSPLIT, $0-48
	MOVQ w+16(FP), DI
	MOVQ cols+24(FP), CX
	MOVQ x+32(FP), SI
	MOVQ xStride+40(FP), R8
	DENSE4(f16x4column, VCVTPH2PS, 16)
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	STORE4
	RET

// DENSE1 runs the columns of the dense kernels with one token. Two panels at a time, R9 bytes apart, hide the latency of the sums;
// then comes a last one. R10 is the token, R11 the number of columns.
#define DENSE1(PAIR, PAIRCOL, ONE, ONECOL, DONE, LOAD, STEP) \
PAIR: \
	CMPQ BX, $2                   \
	JLT  ONE                      \
	MOVQ R10, SI                  \
	MOVQ R11, CX                  \
	VXORPS Y8, Y8, Y8             \
	VXORPS Y9, Y9, Y9             \
PAIRCOL: \
	LOAD (DI), Y0                 \
	LOAD (DI)(R9*1), Y2           \
	VBROADCASTSS (SI), Y1         \
	VFMADD231PS Y1, Y0, Y8        \
	VFMADD231PS Y1, Y2, Y9        \
	ADDQ $STEP, DI                \
	ADDQ $4, SI                   \
	DECQ CX                       \
	JNZ  PAIRCOL                  \
	ADDQ R9, DI                   \
	VMOVUPS Y8, (R8)              \
	VMOVUPS Y9, 32(R8)            \
	ADDQ $64, R8                  \
	SUBQ $2, BX                   \
	JMP  PAIR                     \
ONE: \
	TESTQ BX, BX                  \
	JZ   DONE                     \
	MOVQ R10, SI                  \
	MOVQ R11, CX                  \
	VXORPS Y8, Y8, Y8             \
ONECOL: \
	LOAD (DI), Y0                 \
	VBROADCASTSS (SI), Y1         \
	VFMADD231PS Y1, Y0, Y8        \
	ADDQ $STEP, DI                \
	ADDQ $4, SI                   \
	DECQ CX                       \
	JNZ  ONECOL                   \
	VMOVUPS Y8, (R8)              \
DONE: \
	VZEROUPPER

// func f32x1AVX2(dst *float32, w *byte, panels, cols int, x *float32)
// Consecutive panels times one token.
TEXT ·f32x1AVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), R8
	MOVQ w+8(FP), DI
	MOVQ panels+16(FP), BX
	MOVQ cols+24(FP), R11
	MOVQ x+32(FP), R10
	MOVQ R11, R9
	SHLQ $5, R9
	DENSE1(f32pair, f32pairColumn, f32one, f32oneColumn, f32done, VMOVUPS, 32)
	RET

// func f16x1AVX2(dst *float32, w *byte, panels, cols int, x *float32)
// Consecutive panels times one token.
TEXT ·f16x1AVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), R8
	MOVQ w+8(FP), DI
	MOVQ panels+16(FP), BX
	MOVQ cols+24(FP), R11
	MOVQ x+32(FP), R10
	MOVQ R11, R9
	SHLQ $4, R9
	DENSE1(f16pair, f16pairColumn, f16one, f16oneColumn, f16done, VCVTPH2PS, 16)
	RET

// func offsetsAVX2(dst, offsets *float32, blocks int, ds *float32)
// dst += offset·(scale·sum), block by block, for eight rows.
TEXT ·offsetsAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ offsets+8(FP), SI
	MOVQ blocks+16(FP), CX
	MOVQ ds+24(FP), DX
	VMOVUPS (DI), Y0

offsetsBlock:
	VBROADCASTSS 4(DX), Y1
	VFMADD231PS (SI), Y1, Y0
	ADDQ $32, SI
	ADDQ $16, DX
	DECQ CX
	JNZ  offsetsBlock
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET
