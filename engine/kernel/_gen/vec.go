package main

import "fmt"

// Elements come in blocks of sixteen: one register of AVX-512, two of AVX2. Constants lie in memory.
func vectors(a *asm) {
	for _, c := range []struct {
		name, bits string
	}{
		{"magnitude", "0x7fffffff"}, {"signbit", "0x80000000"}, {"one", "0x3f800000"}, {"bias", "127"}, {"minusHalf", "0xbf000000"},
		{"expMax", "0x42b00000"}, {"expMin", "0xc2ae0000"}, {"log2e", "0x3fb8aa3b"}, {"ln2Hi", "0x3f318000"}, {"ln2Lo", "0xb95e8083"},
		{"expP0", "0x39506967"}, {"expP1", "0x3ab743ce"}, {"expP2", "0x3c088908"}, {"expP3", "0x3d2aa9c1"}, {"expP4", "0x3e2aaaaa"},
		{"expP5", "0x3f000000"},
	} {
		a.constant(c.name, c.bits)
	}
	for _, c := range floats {
		a.constant(c.name, fmt.Sprintf("0x%08x", bits(c.value)))
	}
	a.binary("add", "dst = x + y", func(x, y, dst string) { a.op("VADDPS", y, x, dst) })
	a.binary("mul", "dst = x·y", func(x, y, dst string) { a.op("VMULPS", y, x, dst) })
	a.binary("siluMul", "dst = x/(1+exp(−x))·y", func(x, y, dst string) {
		a.silu(x, dst)
		a.op("VMULPS", y, dst, dst)
	})
	a.binary("geluTanhMul", "dst = gelu(x)·y, by the approximation with tanh", func(x, y, dst string) {
		a.geluTanh(x, dst)
		a.op("VMULPS", y, dst, dst)
	})
	a.unary("silu", "dst = x/(1+exp(−x))", a.silu)
	a.unary("gelu", "dst = x·Φ(x)", a.gelu)
	a.unary("geluTanh", "dst = gelu(x), by the approximation with tanh", a.geluTanh)
	a.unary("sigmoid", "dst = 1/(1+exp(−x))", a.sigmoid)
	a.unary("tanh", "dst = tanh(x)", a.tanh)
	a.reductions()
	a.norms()
	a.quantization()
	if a.lanes == 8 {
		a.halves()
		a.ropes()
	}
}

// constant defines a constant of 32 bits, in every lane where the tier has no broadcast in its operands.
func (a *asm) constant(name, bits string) {
	n := 1
	if a.lanes == 8 {
		n = 8
	}
	for i := range n {
		fmt.Fprintf(&a.b, "DATA %s<>+%d(SB)/4, $%s\n", name, 4*i, bits)
	}
	fmt.Fprintf(&a.b, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", name, 4*n)
}

// con writes an instruction whose first operand is a constant.
func (a *asm) con(name, constant string, operands ...any) {
	if a.lanes == 16 {
		name += ".BCST"
	}
	a.op(name, append([]any{constant + "<>(SB)"}, operands...)...)
}

// all puts a constant into a register.
func (a *asm) all(constant, dst string) {
	if a.lanes == 16 {
		a.op("VBROADCASTSS", constant+"<>(SB)", dst)
		return
	}
	a.op("VMOVUPS", constant+"<>(SB)", dst)
}

// halfBlocks runs f for the offset of each register of a block.
func (a *asm) halfBlocks(f func(i, offset int)) {
	for i := range 16 / a.lanes {
		f(i, i*a.bytes())
	}
}

// loop runs body CX times, which moves the pointers on by 64 bytes each.
func (a *asm) loop(body func(), pointers ...string) {
	top := a.fresh("block")
	a.label(top)
	body()
	for _, p := range pointers {
		a.op("ADDQ", "$64", p)
	}
	a.op("DECQ", "CX")
	a.op("JNZ", top)
}

func at(base string, offset int) string {
	if offset == 0 {
		return "(" + base + ")"
	}
	return fmt.Sprintf("%d(%s)", offset, base)
}

// unary and binary write kernels of one element each. The functions may use registers 0 to 4 and find x in 5, y in memory.
func (a *asm) unary(name, comment string, f func(x, dst string)) {
	a.text(name, "(dst, x *float32, blocks int)", comment, 24)
	a.op("MOVQ", "dst+0(FP)", "DI")
	a.op("MOVQ", "x+8(FP)", "SI")
	a.op("MOVQ", "blocks+16(FP)", "CX")
	a.loop(func() {
		a.halfBlocks(func(_, offset int) {
			a.op("VMOVUPS", at("SI", offset), a.v(5))
			f(a.v(5), a.v(0))
			a.op("VMOVUPS", a.v(0), at("DI", offset))
		})
	}, "SI", "DI")
	a.ret()
}

func (a *asm) binary(name, comment string, f func(x, y, dst string)) {
	a.text(name, "(dst, x, y *float32, blocks int)", comment, 32)
	a.op("MOVQ", "dst+0(FP)", "DI")
	a.op("MOVQ", "x+8(FP)", "SI")
	a.op("MOVQ", "y+16(FP)", "DX")
	a.op("MOVQ", "blocks+24(FP)", "CX")
	a.loop(func() {
		a.halfBlocks(func(_, offset int) {
			a.op("VMOVUPS", at("SI", offset), a.v(5))
			f(a.v(5), at("DX", offset), a.v(0))
			a.op("VMOVUPS", a.v(0), at("DI", offset))
		})
	}, "SI", "DX", "DI")
	a.ret()
}

// exp replaces register 0 by its exponential and uses 1 to 4. See exp in vec_ref.go.
func (a *asm) exp() {
	x, n, y, s, valid := a.v(0), a.v(1), a.v(2), a.v(3), a.v(4)
	if a.lanes == 16 {
		a.op("VCMPPS.BCST", "$13", "expMin<>(SB)", x, "K1")
	} else {
		a.all("expMin", n)
		a.op("VCMPPS", "$13", n, x, valid)
	}
	a.con("VMINPS", "expMax", x, x)
	a.con("VMAXPS", "expMin", x, x)
	a.con("VMULPS", "log2e", x, n)
	if a.lanes == 16 {
		a.op("VRNDSCALEPS", "$0", n, n)
	} else {
		a.op("VROUNDPS", "$0", n, n)
	}
	a.con("VFNMADD231PS", "ln2Hi", n, x)
	a.con("VFNMADD231PS", "ln2Lo", n, x)
	a.all("expP0", y)
	for i := 1; i <= 5; i++ {
		a.con("VFMADD213PS", fmt.Sprintf("expP%d", i), x, y)
	}
	a.op("VMULPS", x, x, s)
	a.op("VFMADD213PS", x, s, y)
	a.con("VADDPS", "one", y, y)
	if a.lanes == 16 {
		a.op("VSCALEFPS.Z", n, y, "K1", x)
		return
	}
	a.op("VCVTPS2DQ", n, n)
	a.con("VPADDD", "bias", n, n)
	a.op("VPSLLD", "$23", n, n)
	a.op("VMULPS", n, y, x)
	a.op("VANDPS", valid, x, x)
}

func (a *asm) silu(x, dst string) {
	a.con("VXORPS", "signbit", x, dst)
	a.exp()
	a.con("VADDPS", "one", dst, dst)
	a.op("VDIVPS", dst, x, dst)
}

func (a *asm) sigmoid(x, dst string) {
	a.con("VXORPS", "signbit", x, dst)
	a.exp()
	a.con("VADDPS", "one", dst, dst)
	a.all("one", a.v(1))
	a.op("VDIVPS", dst, a.v(1), dst)
}

func (a *asm) geluTanh(x, dst string) {
	a.op("VMULPS", x, x, dst)
	a.all("geluT1", a.v(1))
	a.con("VFMADD213PS", "geluT0", a.v(1), dst)
	a.op("VMULPS", x, dst, dst)
	a.exp()
	a.con("VADDPS", "one", dst, dst)
	a.op("VDIVPS", dst, x, dst)
}

func (a *asm) gelu(x, dst string) {
	size, t, h := a.v(6), a.v(7), a.v(8)
	a.con("VANDPS", "magnitude", x, size)
	a.all("one", a.v(1))
	a.all("erfP", t)
	a.op("VFMADD213PS", a.v(1), size, t)
	a.op("VDIVPS", t, a.v(1), t)
	a.op("VMULPS", x, x, dst)
	a.con("VMULPS", "minusHalf", dst, dst)
	a.exp()
	a.all("erf5", h)
	for i := 4; i >= 1; i-- {
		a.con("VFMADD213PS", fmt.Sprintf("erf%d", i), t, h)
	}
	a.op("VMULPS", t, h, h)
	a.op("VMULPS", dst, h, h)
	a.zero(dst)
	a.op("VMAXPS", dst, x, dst)
	a.op("VFNMADD231PS", h, size, dst)
}

func (a *asm) tanh(x, dst string) {
	size, small := a.v(6), a.v(7)
	a.con("VANDPS", "magnitude", x, size)
	a.con("VMULPS", "minusTwo", size, dst)
	a.exp()
	a.all("one", a.v(1))
	a.op("VSUBPS", dst, a.v(1), a.v(2))
	a.op("VADDPS", dst, a.v(1), dst)
	a.op("VDIVPS", dst, a.v(2), dst)
	a.con("VANDPS", "signbit", x, a.v(1))
	a.op("VORPS", a.v(1), dst, dst)
	a.say("Small ones by a polynomial.")
	a.op("VMULPS", x, x, a.v(1))
	a.all("tanh4", small)
	for i := 3; i >= 0; i-- {
		a.con("VFMADD213PS", fmt.Sprintf("tanh%d", i), a.v(1), small)
	}
	a.op("VMULPS", a.v(1), small, small)
	a.op("VFMADD213PS", x, x, small)
	if a.lanes == 16 {
		a.op("VCMPPS.BCST", "$1", "tanhSmall<>(SB)", size, "K1")
		a.op("VMOVAPS", small, "K1", dst)
		return
	}
	a.op("VCMPPS", "$1", "tanhSmall<>(SB)", size, a.v(1))
	a.op("VBLENDVPS", a.v(1), small, dst, dst)
}

func (a *asm) zero(r string) { a.op("VPXOR"+a.d(), r, r, r) }

// lanesIn and lanesOut read and write the sixteen accumulators at DI: registers 8 and, for AVX2, 9.
func (a *asm) lanesIn() {
	a.halfBlocks(func(i, offset int) { a.op("VMOVUPS", at("DI", offset), a.v(8+i)) })
}

func (a *asm) lanesOut() {
	a.halfBlocks(func(i, offset int) { a.op("VMOVUPS", a.v(8+i), at("DI", offset)) })
}

// reductions add to sixteen accumulators: element i to accumulator i mod 16.
func (a *asm) reductions() {
	sum := func(name, comment, extra string, frame, lanes int, prepare func(), f func(acc string, offset int)) {
		a.text(name, "(x *float32, blocks int, "+extra+"lanes *[16]float32)", comment, frame)
		a.op("MOVQ", "x+0(FP)", "SI")
		a.op("MOVQ", "blocks+8(FP)", "CX")
		a.op("MOVQ", fmt.Sprintf("lanes+%d(FP)", lanes), "DI")
		prepare()
		a.lanesIn()
		a.loop(func() {
			a.halfBlocks(func(i, offset int) {
				a.op("VMOVUPS", at("SI", offset), a.v(0))
				f(a.v(8+i), offset)
			})
		}, "SI")
		a.lanesOut()
		a.ret()
	}
	x := a.v(0)
	sum("sum", "lanes += x", "", 24, 16, func() {}, func(acc string, _ int) { a.op("VADDPS", x, acc, acc) })
	sum("sumSquares", "lanes += x²", "", 24, 16, func() {}, func(acc string, _ int) { a.op("VFMADD231PS", x, x, acc) })
	sum("sumDeviations", "lanes += (x−mean)²", "mean float32, ", 32, 24, func() { a.op("VBROADCASTSS", "mean+16(FP)", a.v(6)) },
		func(acc string, _ int) {
			a.op("VSUBPS", a.v(6), x, x)
			a.op("VFMADD231PS", x, x, acc)
		})
	sum("expSum", "x = exp(x−top), lanes += x", "top float32, ", 32, 24, func() { a.op("VBROADCASTSS", "top+16(FP)", a.v(6)) },
		func(acc string, offset int) {
			a.op("VSUBPS", a.v(6), x, x)
			a.exp()
			a.op("VMOVUPS", x, at("SI", offset))
			a.op("VADDPS", x, acc, acc)
		})
	sum("max", "lanes = max(lanes, x)", "", 24, 16, func() {}, func(acc string, _ int) { a.op("VMAXPS", acc, x, acc) })
	sum("maxMagnitude", "lanes = max(lanes, |x|)", "", 24, 16, func() {}, func(acc string, _ int) {
		a.con("VANDPS", "magnitude", x, x)
		a.op("VMAXPS", acc, x, acc)
	})
}

// norms write the normalised vectors.
func (a *asm) norms() {
	a.text("scaleMul", "(dst, x, w *float32, blocks int, s float32)", "dst = x·s·w", 36)
	a.op("MOVQ", "dst+0(FP)", "DI")
	a.op("MOVQ", "x+8(FP)", "SI")
	a.op("MOVQ", "w+16(FP)", "DX")
	a.op("MOVQ", "blocks+24(FP)", "CX")
	a.op("VBROADCASTSS", "s+32(FP)", a.v(6))
	a.loop(func() {
		a.halfBlocks(func(_, offset int) {
			a.op("VMULPS", at("SI", offset), a.v(6), a.v(0))
			a.op("VMULPS", at("DX", offset), a.v(0), a.v(0))
			a.op("VMOVUPS", a.v(0), at("DI", offset))
		})
	}, "SI", "DX", "DI")
	a.ret()

	a.text("shiftScaleMul", "(dst, x, w, b *float32, blocks int, mean, s float32)", "dst = fma((x−mean)·s, w, b)", 48)
	a.op("MOVQ", "dst+0(FP)", "DI")
	a.op("MOVQ", "x+8(FP)", "SI")
	a.op("MOVQ", "w+16(FP)", "DX")
	a.op("MOVQ", "b+24(FP)", "R8")
	a.op("MOVQ", "blocks+32(FP)", "CX")
	a.op("VBROADCASTSS", "mean+40(FP)", a.v(6))
	a.op("VBROADCASTSS", "s+44(FP)", a.v(7))
	a.loop(func() {
		a.halfBlocks(func(_, offset int) {
			a.op("VMOVUPS", at("SI", offset), a.v(0))
			a.op("VSUBPS", a.v(6), a.v(0), a.v(0))
			a.op("VMULPS", a.v(7), a.v(0), a.v(0))
			a.op("VMOVUPS", at("R8", offset), a.v(1))
			a.op("VFMADD132PS", at("DX", offset), a.v(1), a.v(0))
			a.op("VMOVUPS", a.v(0), at("DI", offset))
		})
	}, "SI", "DX", "R8", "DI")
	a.ret()
}

// halves scale, and convert to and from half precision: on either tier these wait for memory.
func (a *asm) halves() {
	a.text("scale", "(dst, x *float32, blocks int, s float32)", "dst = x·s", 28)
	a.op("MOVQ", "dst+0(FP)", "DI")
	a.op("MOVQ", "x+8(FP)", "SI")
	a.op("MOVQ", "blocks+16(FP)", "CX")
	a.op("VBROADCASTSS", "s+24(FP)", a.v(6))
	a.loop(func() {
		a.halfBlocks(func(_, offset int) {
			a.op("VMULPS", at("SI", offset), a.v(6), a.v(0))
			a.op("VMOVUPS", a.v(0), at("DI", offset))
		})
	}, "SI", "DI")
	a.ret()

	a.text("toHalf", "(dst *uint16, x *float32, blocks int)", "dst = x, rounded to nearest even", 24)
	a.op("MOVQ", "dst+0(FP)", "DI")
	a.op("MOVQ", "x+8(FP)", "SI")
	a.op("MOVQ", "blocks+16(FP)", "CX")
	a.loop(func() {
		a.halfBlocks(func(_, offset int) {
			a.op("VMOVUPS", at("SI", offset), a.v(0))
			a.op("VCVTPS2PH", "$0", a.v(0), at("DI", offset/2))
		})
		a.op("ADDQ", "$32", "DI")
	}, "SI")
	a.ret()

	a.text("fromHalf", "(dst *float32, x *uint16, blocks int)", "dst = x, exactly", 24)
	a.op("MOVQ", "dst+0(FP)", "DI")
	a.op("MOVQ", "x+8(FP)", "SI")
	a.op("MOVQ", "blocks+16(FP)", "CX")
	a.loop(func() {
		a.halfBlocks(func(_, offset int) {
			a.op("VCVTPH2PS", at("SI", offset/2), a.v(0))
			a.op("VMOVUPS", a.v(0), at("DI", offset))
		})
		a.op("ADDQ", "$32", "SI")
	}, "DI")
	a.ret()
}

// ropes rotate the pairs of several heads by the cosines and sines of table.
func (a *asm) ropes() {
	begin := func() {
		a.op("MOVQ", "x+0(FP)", "DI")
		a.op("MOVQ", "heads+8(FP)", "BX")
		a.op("MOVQ", "stride+16(FP)", "R8")
	}
	end := func(head string) {
		a.op("ADDQ", "R8", "DI")
		a.op("DECQ", "BX")
		a.op("JNZ", head)
		a.ret()
	}
	a.text("ropePairs", "(x *float32, heads, stride, eights int, table *float32)", `
		Neighbours are pairs: eight elements, four pairs at a time. stride is in bytes.`, 40)
	begin()
	head := a.fresh("head")
	a.label(head)
	a.op("MOVQ", "DI", "SI")
	a.op("MOVQ", "eights+24(FP)", "CX")
	a.op("MOVQ", "table+32(FP)", "DX")
	four := a.fresh("four")
	a.label(four)
	a.op("VMOVUPS", "(SI)", "Y0")
	a.op("VPERMILPS", "$0xb1", "Y0", "Y1")
	a.op("VMOVSLDUP", "(DX)", "Y2")
	a.op("VMOVSHDUP", "(DX)", "Y3")
	a.op("VMULPS", "Y2", "Y0", "Y0")
	a.op("VMULPS", "Y3", "Y1", "Y1")
	a.op("VADDSUBPS", "Y1", "Y0", "Y0")
	a.op("VMOVUPS", "Y0", "(SI)")
	a.op("ADDQ", "$32", "SI")
	a.op("ADDQ", "$32", "DX")
	a.op("DECQ", "CX")
	a.op("JNZ", four)
	end(head)

	a.text("ropeHalves", "(x *float32, heads, stride, eights int, table *float32)", `
		Element i and element i+8·eights are a pair: eight pairs at a time. stride is in bytes.`, 40)
	begin()
	a.op("MOVQ", "eights+24(FP)", "R9")
	a.op("SHLQ", "$5", "R9")
	head = a.fresh("head")
	a.label(head)
	a.op("MOVQ", "DI", "SI")
	a.op("MOVQ", "eights+24(FP)", "CX")
	a.op("MOVQ", "table+32(FP)", "DX")
	eight := a.fresh("eight")
	a.label(eight)
	a.op("VMOVUPS", "(DX)", "Y2")
	a.op("VSHUFPS", "$0xdd", "32(DX)", "Y2", "Y3")
	a.op("VSHUFPS", "$0x88", "32(DX)", "Y2", "Y2")
	a.op("VPERMPD", "$0xd8", "Y2", "Y2")
	a.op("VPERMPD", "$0xd8", "Y3", "Y3")
	a.op("VMOVUPS", "(SI)", "Y0")
	a.op("VMOVUPS", "(SI)(R9*1)", "Y1")
	a.op("VMULPS", "Y2", "Y0", "Y4")
	a.op("VMULPS", "Y3", "Y1", "Y5")
	a.op("VSUBPS", "Y5", "Y4", "Y4")
	a.op("VMULPS", "Y3", "Y0", "Y0")
	a.op("VMULPS", "Y2", "Y1", "Y1")
	a.op("VADDPS", "Y1", "Y0", "Y0")
	a.op("VMOVUPS", "Y4", "(SI)")
	a.op("VMOVUPS", "Y0", "(SI)(R9*1)")
	a.op("ADDQ", "$32", "SI")
	a.op("ADDQ", "$64", "DX")
	a.op("DECQ", "CX")
	a.op("JNZ", eight)
	end(head)
}
