//go:build !purego

#include "textflag.h"

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
