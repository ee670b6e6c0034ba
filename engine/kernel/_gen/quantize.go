package main

import (
	"fmt"
	"math"
)

func bits(v float64) uint32 { return math.Float32bits(float32(v)) }

// floats are the constants of vec_ref.go that are not given by their bits.
var floats = []struct {
	name  string
	value float64
}{
	{"geluT0", geluT0}, {"geluT1", geluT0 * 0.044715},
	{"erfP", erfP}, {"erf1", 0.5 * 0.254829592}, {"erf2", 0.5 * -0.284496736}, {"erf3", 0.5 * 1.421413741}, {"erf4", 0.5 * -1.453152027}, {"erf5", 0.5 * 1.061405429},
	{"minusTwo", -2}, {"tanhSmall", 0.625},
	{"tanh0", -3.33332819422e-1}, {"tanh1", 1.33314422036e-1}, {"tanh2", -5.37397155531e-2}, {"tanh3", 2.06390887954e-2}, {"tanh4", -5.70498872745e-3},
	{"c127", 127}, {"smallest", 1.0 / (1 << 100)},
}

const (
	geluT0 = -1.5957691216057308 // −2√(2/π)
	erfP   = 0.3275911 * math.Sqrt2 / 2
)

// quantization writes signed bytes. The scales of a block lie in a struct of 16 bytes: d, d·Σq, −128·Σq, and Σq of the first and of
// the last 16 elements as 16 bits each.
func (a *asm) quantization() {
	a.text("quantizeBlocks", "(q *int8, scales *blockScale, x *float32, blocks int)", `
		Blocks of 32 elements: d = max|x|/127, q = x·(127/max|x|) to nearest even.`, 32)
	a.op("MOVQ", "q+0(FP)", "DI")
	a.op("MOVQ", "scales+8(FP)", "DX")
	a.op("MOVQ", "x+16(FP)", "SI")
	a.op("MOVQ", "blocks+24(FP)", "CX")
	a.op("VMOVSS", "c127<>(SB)", "X13")
	a.op("VPCMPEQD", "Y12", "Y12", "Y12")
	a.op("VPSRLW", "$15", "Y12", "Y11")
	a.op("VPACKUSWB", "Y11", "Y11", "Y12")
	a.say("Y11 = words of 1, Y12 = bytes of 1.")
	top, zero, next := a.fresh("block"), a.fresh("zero"), a.fresh("next")
	a.label(top)
	n := 32 / a.lanes
	for i := range n {
		a.op("VMOVUPS", at("SI", i*a.bytes()), a.v(i))
	}
	for i := range n {
		a.con("VANDPS", "magnitude", a.v(i), a.v(4+i))
	}
	for w := n; w > 1; w /= 2 {
		for i := range w / 2 {
			a.op("VMAXPS", a.v(4+i+w/2), a.v(4+i), a.v(4+i))
		}
	}
	if a.lanes == 16 {
		a.op("VEXTRACTF64X4", "$1", "Z4", "Y5")
		a.op("VMAXPS", "Y5", "Y4", "Y4")
	}
	a.op("VEXTRACTF128", "$1", "Y4", "X5")
	a.op("VMAXPS", "X5", "X4", "X4")
	a.op("VPERMILPS", "$0x4e", "X4", "X5")
	a.op("VMAXPS", "X5", "X4", "X4")
	a.op("VPERMILPS", "$0xb1", "X4", "X5")
	a.op("VMAXSS", "X5", "X4", "X4")
	a.say("X4 = largest magnitude. Too small: the block is zero.")
	a.op("VUCOMISS", "smallest<>(SB)", "X4")
	a.op("JCS", zero)
	a.op("VDIVSS", "X4", "X13", "X5")
	a.op("VBROADCASTSS", "X5", a.v(5))
	a.op("VDIVSS", "X13", "X4", "X4")
	for i := range n {
		a.op("VMULPS", a.v(5), a.v(i), a.v(i))
		a.op("VCVTPS2DQ", a.v(i), a.v(i))
	}
	if a.lanes == 16 {
		a.op("VPMOVSDB", "Z0", "X0")
		a.op("VPMOVSDB", "Z1", "X1")
		a.op("VINSERTI128", "$1", "X1", "Y0", "Y0")
	} else {
		a.op("VPACKSSDW", "Y1", "Y0", "Y0")
		a.op("VPACKSSDW", "Y3", "Y2", "Y2")
		a.op("VPERMQ", "$0xd8", "Y0", "Y0")
		a.op("VPERMQ", "$0xd8", "Y2", "Y2")
		a.op("VPACKSSWB", "Y2", "Y0", "Y0")
		a.op("VPERMQ", "$0xd8", "Y0", "Y0")
	}
	a.op("VMOVDQU", "Y0", "(DI)")
	a.say("The sums of the halves, in the lowest 32 bits of each half of Y0.")
	a.op("VPMADDUBSW", "Y0", "Y12", "Y0")
	a.op("VPMADDWD", "Y11", "Y0", "Y0")
	a.op("VPSHUFD", "$0x4e", "Y0", "Y1")
	a.op("VPADDD", "Y1", "Y0", "Y0")
	a.op("VPSHUFD", "$0xb1", "Y0", "Y1")
	a.op("VPADDD", "Y1", "Y0", "Y0")
	a.op("VEXTRACTI128", "$1", "Y0", "X1")
	a.op("VPADDD", "X1", "X0", "X2")
	a.op("VPSLLD", "$16", "X1", "X1")
	a.op("VPBLENDW", "$1", "X0", "X1", "X0")
	a.op("VMOVD", "X0", "12(DX)")
	a.op("VCVTDQ2PS", "X2", "X3")
	a.op("VPSLLD", "$7", "X2", "X2")
	a.op("VPXOR", "X1", "X1", "X1")
	a.op("VPSUBD", "X2", "X1", "X2")
	a.op("VMOVD", "X2", "8(DX)")
	a.op("VMULSS", "X4", "X3", "X3")
	a.op("VMOVSS", "X4", "(DX)")
	a.op("VMOVSS", "X3", "4(DX)")
	a.label(next)
	a.op("ADDQ", "$128", "SI")
	a.op("ADDQ", "$32", "DI")
	a.op("ADDQ", "$16", "DX")
	a.op("DECQ", "CX")
	a.op("JNZ", top)
	a.ret()
	a.label(zero)
	a.op("VPXOR", "Y0", "Y0", "Y0")
	a.op("VMOVDQU", "Y0", "(DI)")
	a.op("VMOVDQU", "X0", "(DX)")
	a.op("JMP", next)

	a.quantizeFours()

	a.text("codes", "(q *int8, x *float32, blocks int, inverse float32, sums *[8]int32)", `
		Blocks of 16 elements: q = x·inverse to nearest even; sums += q, in some order.`, 40)
	a.op("MOVQ", "q+0(FP)", "DI")
	a.op("MOVQ", "x+8(FP)", "SI")
	a.op("MOVQ", "blocks+16(FP)", "CX")
	a.op("VBROADCASTSS", "inverse+24(FP)", a.v(6))
	a.op("MOVQ", "sums+32(FP)", "DX")
	a.op("VMOVDQU", "(DX)", "Y7")
	a.loop(func() {
		a.halfBlocks(func(i, offset int) {
			a.op("VMULPS", at("SI", offset), a.v(6), a.v(i))
			a.op("VCVTPS2DQ", a.v(i), a.v(i))
		})
		if a.lanes == 16 {
			a.op("VEXTRACTI64X4", "$1", "Z0", "Y1")
			a.op("VPADDD", "Y0", "Y7", "Y7")
			a.op("VPADDD", "Y1", "Y7", "Y7")
			a.op("VPMOVSDB", "Z0", "X0")
		} else {
			a.op("VPADDD", "Y0", "Y7", "Y7")
			a.op("VPADDD", "Y1", "Y7", "Y7")
			a.op("VPACKSSDW", "Y1", "Y0", "Y0")
			a.op("VPERMQ", "$0xd8", "Y0", "Y0")
			a.op("VEXTRACTI128", "$1", "Y0", "X1")
			a.op("VPACKSSWB", "X1", "X0", "X0")
		}
		a.op("VMOVDQU", "X0", "(DI)")
		a.op("ADDQ", "$16", "DI")
	}, "SI")
	a.op("VMOVDQU", "Y7", "(DX)")
	a.ret()
}

// quantizeFours is quantizeBlocks for four blocks at a time, which share the divisions and most of the shuffles. The last four may
// overlap the ones before: they are written twice, alike.
func (a *asm) quantizeFours() {
	a.frame = 16
	a.text("quantizeFours", "(q *int8, scales *blockScale, x *float32, blocks int)", `
		At least four blocks of 32 elements, as quantizeBlocks does.`, 32)
	a.frame = 0
	a.op("MOVQ", "q+0(FP)", "DI")
	a.op("MOVQ", "scales+8(FP)", "DX")
	a.op("MOVQ", "x+16(FP)", "SI")
	a.op("MOVQ", "blocks+24(FP)", "CX")
	ones, order, zero := a.v(13), a.v(14), a.v(15)
	a.op("VPCMPEQD", "Y12", "Y12", "Y12")
	a.op("VPSRLW", "$15", "Y12", "Y12")
	a.op("VPACKUSWB", "Y12", "Y12", "Y13")
	if a.lanes == 16 {
		a.op("VPBROADCASTD", "X13", ones)
	}
	a.op("VMOVUPS", "packOrder<>(SB)", order)
	a.zero(zero)
	top, done := a.fresh("four"), a.fresh("done")
	a.label(top)
	a.fourScales()
	if a.lanes == 16 {
		a.fourCodes512(ones, order, zero)
	} else {
		a.fourCodes2(ones, order)
	}
	a.fourStructs()
	a.op("SUBQ", "$4", "CX")
	a.op("JZ", done)
	a.say("On by four blocks, or by the fewer that are left.")
	a.op("MOVQ", "$4", "AX")
	a.op("CMPQ", "CX", "AX")
	a.op("CMOVQLT", "CX", "AX")
	a.op("SUBQ", "AX", "CX")
	a.op("ADDQ", "$4", "CX")
	a.op("SHLQ", "$4", "AX")
	a.op("ADDQ", "AX", "DX")
	a.op("SHLQ", "$1", "AX")
	a.op("ADDQ", "AX", "DI")
	a.op("SHLQ", "$2", "AX")
	a.op("ADDQ", "AX", "SI")
	a.op("JMP", top)
	a.label(done)
	a.ret()
}

// fourScales leaves the scales of the blocks in X8 and their inverses in the frame; blocks that are too small have zeros.
func (a *asm) fourScales() {
	a.say("The largest magnitude of each of four blocks, one lane each.")
	n := 32 / a.lanes // registers of a block
	mask := a.v(12)
	a.all("magnitude", mask)
	for b := range 4 {
		for i := range n {
			r := a.v(4)
			if i == 0 {
				r = a.v(b)
			}
			a.op("VANDPS", at("SI", b*128+i*a.bytes()), mask, r)
			if i > 0 {
				a.op("VMAXPS", r, a.v(b), a.v(b))
			}
		}
	}
	for b := 0; b < 4; b += 2 {
		a.op("VUNPCKLPS", a.v(b+1), a.v(b), a.v(4))
		a.op("VUNPCKHPS", a.v(b+1), a.v(b), a.v(5))
		a.op("VMAXPS", a.v(4), a.v(5), a.v(b))
	}
	a.op("VUNPCKLPD", a.v(2), a.v(0), a.v(4))
	a.op("VUNPCKHPD", a.v(2), a.v(0), a.v(5))
	a.op("VMAXPS", a.v(4), a.v(5), a.v(0))
	if a.lanes == 16 {
		a.op("VEXTRACTF64X4", "$1", "Z0", "Y1")
		a.op("VMAXPS", "Y1", "Y0", "Y0")
	}
	a.op("VEXTRACTF128", "$1", "Y0", "X1")
	a.op("VMAXPS", "X1", "X0", "X0")
	a.op("VBROADCASTSS", "smallest<>(SB)", "X1")
	a.op("VCMPPS", "$13", "X1", "X0", "X1")
	a.op("VBROADCASTSS", "c127<>(SB)", "X2")
	a.op("VDIVPS", "X0", "X2", "X3")
	a.op("VDIVPS", "X2", "X0", "X8")
	a.op("VANDPS", "X1", "X3", "X3")
	a.op("VANDPS", "X1", "X8", "X8")
	a.op("VMOVUPS", "X3", "0(SP)")
}

// fourCodes512 writes the bytes and leaves the sums of the halves of blocks 0 and 1 in X9, of 2 and 3 in X10: first, last, first,
// last.
func (a *asm) fourCodes512(ones, order, zero string) {
	a.say("The bytes. Packing interleaves quarters: lane k holds quarter k of each of four registers.")
	for pair := range 2 {
		for i := range 4 {
			r := a.v(i)
			a.op("VBROADCASTSS", fmt.Sprintf("%d(SP)", (pair*2+i/2)*4), r)
			a.op("VMULPS", at("SI", pair*256+i*64), r, r)
			a.op("VCVTPS2DQ", r, r)
		}
		a.op("VPACKSSDW", "Z1", "Z0", "Z0")
		a.op("VPACKSSDW", "Z3", "Z2", "Z2")
		a.op("VPACKSSWB", "Z2", "Z0", "Z0")
		a.op("VPERMD", "Z0", order, "Z1")
		a.op("VMOVDQU32", "Z1", at("DI", pair*64))
		x, y := fmt.Sprintf("X%d", 9+pair), fmt.Sprintf("Y%d", 9+pair)
		a.op("VMOVDQA32", zero, a.v(9+pair))
		a.op("VPDPBUSD", "Z0", ones, a.v(9+pair))
		a.op("VEXTRACTI64X4", "$1", a.v(9+pair), "Y1")
		a.op("VPADDD", "Y1", y, y)
		a.op("VEXTRACTI128", "$1", y, "X1")
		a.op("VPADDD", "X1", x, x)
	}
}

// fourCodes2 does the same with two registers for half a block.
func (a *asm) fourCodes2(ones, order string) {
	a.say("The bytes. Packing interleaves halves: lane k holds half k of each of four registers.")
	for b := range 4 {
		a.op("VBROADCASTSS", fmt.Sprintf("%d(SP)", b*4), "Y4")
		for i := range 4 {
			a.op("VMULPS", at("SI", b*128+i*32), "Y4", a.v(i))
			a.op("VCVTPS2DQ", a.v(i), a.v(i))
		}
		a.op("VPACKSSDW", "Y1", "Y0", "Y0")
		a.op("VPACKSSDW", "Y3", "Y2", "Y2")
		a.op("VPACKSSWB", "Y2", "Y0", "Y0")
		a.op("VPERMD", "Y0", order, "Y1")
		a.op("VMOVDQU", "Y1", at("DI", b*32))
		a.op("VPMADDUBSW", "Y0", ones, "Y0")
		a.op("VPMADDWD", "words1<>(SB)", "Y0", "Y0")
		a.op("VEXTRACTI128", "$1", "Y0", "X1")
		sum := fmt.Sprintf("X%d", 9+b/2)
		if b%2 == 0 {
			a.op("VPADDD", "X1", "X0", sum)
		} else {
			a.op("VPADDD", "X1", "X0", "X0")
			a.op("VPHADDD", "X0", sum, sum)
		}
	}
}

// fourStructs writes the scales from X8, X9 and X10.
func (a *asm) fourStructs() {
	a.say("X0 = first halves, X1 = last halves, X2 = their sums; then one struct each.")
	a.op("VSHUFPS", "$0x88", "X10", "X9", "X0")
	a.op("VSHUFPS", "$0xdd", "X10", "X9", "X1")
	a.op("VPADDD", "X1", "X0", "X2")
	a.op("VPSLLD", "$16", "X1", "X1")
	a.op("VPBLENDW", "$0x55", "X0", "X1", "X3")
	a.op("VCVTDQ2PS", "X2", "X1")
	a.op("VMULPS", "X8", "X1", "X1")
	a.op("VPSLLD", "$7", "X2", "X2")
	a.op("VPXOR", "X0", "X0", "X0")
	a.op("VPSUBD", "X2", "X0", "X2")
	a.op("VUNPCKLPS", "X1", "X8", "X4")
	a.op("VUNPCKHPS", "X1", "X8", "X5")
	a.op("VUNPCKLPS", "X3", "X2", "X6")
	a.op("VUNPCKHPS", "X3", "X2", "X7")
	for i := range 2 {
		lo, hi := fmt.Sprintf("X%d", 4+i), fmt.Sprintf("X%d", 6+i)
		a.op("VUNPCKLPD", hi, lo, "X0")
		a.op("VUNPCKHPD", hi, lo, "X1")
		a.op("VMOVUPS", "X0", at("DX", i*32))
		a.op("VMOVUPS", "X1", at("DX", i*32+16))
	}
}

// packOrder undoes the interleaving of packs.
func (a *asm) packOrder() {
	parts := a.lanes / 4
	for s := range 4 {
		for k := range parts {
			fmt.Fprintf(&a.b, "DATA packOrder<>+%d(SB)/4, $%d\n", 4*(s*parts+k), 4*k+s)
		}
	}
	fmt.Fprintf(&a.b, "GLOBL packOrder<>(SB), RODATA|NOPTR, $%d\n", a.bytes())
}
