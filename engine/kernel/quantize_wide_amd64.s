//go:build !purego

#include "textflag.h"

// func restAVX2(r, x *float32, q *int8, scales *blockScale, blocks, stride int)
// r = x − d·q for blocks of 32; the scales lie stride bytes apart.
TEXT ·restAVX2(SB), NOSPLIT, $0-48
	MOVQ r+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ q+16(FP), DX
	MOVQ scales+24(FP), R8
	MOVQ blocks+32(FP), CX
	MOVQ stride+40(FP), R9

rest:
	VBROADCASTSS (R8), Y4
	VPMOVSXBD (DX), Y0
	VPMOVSXBD 8(DX), Y1
	VPMOVSXBD 16(DX), Y2
	VPMOVSXBD 24(DX), Y3
	VCVTDQ2PS Y0, Y0
	VCVTDQ2PS Y1, Y1
	VCVTDQ2PS Y2, Y2
	VCVTDQ2PS Y3, Y3
	VMOVUPS (SI), Y5
	VMOVUPS 32(SI), Y6
	VMOVUPS 64(SI), Y7
	VMOVUPS 96(SI), Y8
	VFNMADD231PS Y4, Y0, Y5
	VFNMADD231PS Y4, Y1, Y6
	VFNMADD231PS Y4, Y2, Y7
	VFNMADD231PS Y4, Y3, Y8
	VMOVUPS Y5, (DI)
	VMOVUPS Y6, 32(DI)
	VMOVUPS Y7, 64(DI)
	VMOVUPS Y8, 96(DI)
	ADDQ $128, DI
	ADDQ $128, SI
	ADDQ $32, DX
	ADDQ R9, R8
	DECQ CX
	JNZ  rest
	VZEROUPPER
	RET
