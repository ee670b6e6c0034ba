//go:build amd64 && !purego

#include "textflag.h"

// func readAVX2(p *byte, n int)
// Loads n bytes, a multiple of 256, as four streams side by side: more of them wait for memory at a time than of one.
TEXT ·readAVX2(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	SHRQ $2, CX
	LEAQ (SI)(CX*1), DI
	LEAQ (DI)(CX*1), R8
	LEAQ (R8)(CX*1), R9

read:
	PREFETCHT0 1024(SI)
	PREFETCHT0 1024(DI)
	PREFETCHT0 1024(R8)
	PREFETCHT0 1024(R9)
	VPOR       (SI), Y0, Y0
	VPOR       32(SI), Y1, Y1
	VPOR       (DI), Y2, Y2
	VPOR       32(DI), Y3, Y3
	VPOR       (R8), Y0, Y0
	VPOR       32(R8), Y1, Y1
	VPOR       (R9), Y2, Y2
	VPOR       32(R9), Y3, Y3
	ADDQ       $64, SI
	ADDQ       $64, DI
	ADDQ       $64, R8
	ADDQ       $64, R9
	SUBQ       $64, CX
	JNZ        read
	VZEROUPPER
	RET

// MAC multiplies 32 pairs of bytes into 16-bit sums, those into 32-bit sums, and adds them: what int8 costs without VNNI.
#define MAC(t, acc) \
	VPMADDUBSW Y15, Y14, t; \
	VPMADDWD   Y13, t, t;   \
	VPADDD     t, acc, acc

// func multiplyAVX2(n int)
// Makes n times 6·32 multiply-accumulates.
TEXT ·multiplyAVX2(SB), NOSPLIT, $0-8
	MOVQ  n+0(FP), CX
	VPXOR Y13, Y13, Y13
	VPXOR Y14, Y14, Y14
	VPXOR Y15, Y15, Y15

multiply:
	MAC(Y0, Y6)
	MAC(Y1, Y7)
	MAC(Y2, Y8)
	MAC(Y3, Y9)
	MAC(Y4, Y10)
	MAC(Y5, Y11)
	DECQ CX
	JNZ  multiply
	VZEROUPPER
	RET

// func multiplyAVX512(n int)
// Makes n times 12·64 multiply-accumulates.
TEXT ·multiplyAVX512(SB), NOSPLIT, $0-8
	MOVQ   n+0(FP), CX
	VPXORD Z30, Z30, Z30
	VPXORD Z31, Z31, Z31

vnni:
	VPDPBUSD Z31, Z30, Z0
	VPDPBUSD Z31, Z30, Z1
	VPDPBUSD Z31, Z30, Z2
	VPDPBUSD Z31, Z30, Z3
	VPDPBUSD Z31, Z30, Z4
	VPDPBUSD Z31, Z30, Z5
	VPDPBUSD Z31, Z30, Z6
	VPDPBUSD Z31, Z30, Z7
	VPDPBUSD Z31, Z30, Z8
	VPDPBUSD Z31, Z30, Z9
	VPDPBUSD Z31, Z30, Z10
	VPDPBUSD Z31, Z30, Z11
	DECQ     CX
	JNZ      vnni
	VZEROUPPER
	RET
