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
		{"expP5", "0x3f000000"}, {"least", "0xff800000"},
	} {
		a.constant(c.name, c.bits)
	}
	for _, c := range floats {
		a.constant(c.name, fmt.Sprintf("0x%08x", bits(c.value)))
	}
	if a.lanes == 8 {
		a.tailMask()
		a.constant("words1", "0x00010001")
	}
	a.packOrder()
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

// tailMask is a table: the mask of n lanes begins n numbers before its middle.
func (a *asm) tailMask() {
	for i := range 16 {
		fmt.Fprintf(&a.b, "DATA tailMask<>+%d(SB)/8, $%d\n", 8*i, map[bool]int{true: -1}[i < 8])
	}
	a.b.WriteString("GLOBL tailMask<>(SB), RODATA|NOPTR, $128\n")
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

// reduction folds what f makes of the elements into sixteen accumulators, element i into accumulator i mod 16, and these by halves
// into one. f finds its element in register 0 and may use 1 to 6, of which 6 holds arg; store writes the element back.
type reduction struct {
	name, comment, arg string
	f                  func(a *asm)
	fold               func(a *asm, x, acc string) // acc = fold(acc, x)
	combine            string                      // the instruction that joins two accumulators
	least, store       bool                        // begin at −∞; write back
}

func (a *asm) reductions() {
	nothing := func(*asm) {}
	add := func(a *asm, x, acc string) { a.op("VADDPS", x, acc, acc) }
	square := func(a *asm, x, acc string) { a.op("VFMADD231PS", x, x, acc) }
	top := func(a *asm, x, acc string) { a.op("VMAXPS", acc, x, acc) }
	for _, r := range []reduction{
		{name: "sum", comment: "The sum of x.", f: nothing, fold: add, combine: "VADDPS"},
		{name: "sumSquares", comment: "The sum of x².", f: nothing, fold: square, combine: "VADDPS"},
		{
			name: "sumDeviations", comment: "The sum of (x−mean)².", arg: "mean", fold: square, combine: "VADDPS",
			f: func(a *asm) { a.op("VSUBPS", a.v(6), a.v(0), a.v(0)) },
		},
		{
			name: "expSum", comment: "x = exp(x−top), and the sum.", arg: "top", fold: add, combine: "VADDPS", store: true,
			f: func(a *asm) {
				a.op("VSUBPS", a.v(6), a.v(0), a.v(0))
				a.exp()
			},
		},
		{name: "max", comment: "The largest of x; a zero is positive.", f: nothing, fold: top, combine: "VMAXPS", least: true},
		{
			name: "maxMagnitude", comment: "The largest of |x|.", fold: top, combine: "VMAXPS",
			f: func(a *asm) { a.con("VANDPS", "magnitude", a.v(0), a.v(0)) },
		},
	} {
		a.reduction(r)
	}
}

func (a *asm) reduction(r reduction) {
	signature, result := "(x *float32, n int) float32", 16
	if r.arg != "" {
		signature, result = "(x *float32, n int, "+r.arg+" float32) float32", 24
	}
	a.text(r.name, signature, r.comment, result+4)
	a.op("MOVQ", "x+0(FP)", "SI")
	a.op("MOVQ", "n+8(FP)", "BX")
	if r.arg != "" {
		a.op("VBROADCASTSS", r.arg+"+16(FP)", a.v(6))
	}
	a.halfBlocks(func(i, _ int) {
		if r.least {
			a.all("least", a.v(8+i))
		} else {
			a.zero(a.v(8 + i))
		}
	})
	rest, done := a.fresh("rest"), a.fresh("done")
	a.op("MOVQ", "BX", "CX")
	a.op("SHRQ", "$4", "CX")
	a.op("JZ", rest)
	a.loop(func() {
		a.halfBlocks(func(i, offset int) {
			a.op("VMOVUPS", at("SI", offset), a.v(0))
			r.f(a)
			if r.store {
				a.op("VMOVUPS", a.v(0), at("SI", offset))
			}
			r.fold(a, a.v(0), a.v(8+i))
		})
	}, "SI")
	a.label(rest)
	a.op("ANDQ", "$15", "BX")
	a.op("JZ", done)
	a.rest(r)
	a.label(done)
	a.foldLanes(r)
	a.op("VMOVSS", "X8", fmt.Sprintf("ret+%d(FP)", result))
	a.ret()
}

// rest folds the last BX elements, fewer than sixteen; the lanes beyond them stay as they are.
func (a *asm) rest(r reduction) {
	if a.lanes == 16 {
		a.op("MOVQ", "BX", "CX")
		a.op("MOVL", "$1", "AX")
		a.op("SHLL", "CX", "AX")
		a.op("DECL", "AX")
		a.op("KMOVW", "AX", "K2")
		a.op("VMOVUPS.Z", "(SI)", "K2", "Z0")
		r.f(a)
		if r.store {
			a.op("VMOVUPS", "Z0", "K2", "(SI)")
		}
		a.op("VMOVAPS", "Z8", "Z9")
		r.fold(a, "Z0", "Z9")
		a.op("VMOVAPS", "Z9", "K2", "Z8")
		return
	}
	a.op("LEAQ", "tailMask<>+64(SB)", "DX")
	a.op("SHLQ", "$2", "BX")
	a.op("SUBQ", "BX", "DX")
	a.halfBlocks(func(i, offset int) {
		a.op("VMOVUPS", at("DX", offset), "Y7")
		a.op("VMASKMOVPS", at("SI", offset), "Y7", "Y0")
		r.f(a)
		if r.store {
			a.op("VMASKMOVPS", "Y0", "Y7", at("SI", offset))
		}
		a.op("VMOVAPS", a.v(8+i), "Y10")
		r.fold(a, "Y0", "Y10")
		a.op("VBLENDVPS", "Y7", "Y10", a.v(8+i), a.v(8+i))
	})
}

// foldLanes leaves the result in X8.
func (a *asm) foldLanes(r reduction) {
	if a.lanes == 16 {
		a.op("VEXTRACTF64X4", "$1", "Z8", "Y9")
	}
	a.op(r.combine, "Y9", "Y8", "Y8")
	a.op("VEXTRACTF128", "$1", "Y8", "X9")
	a.op(r.combine, "X9", "X8", "X8")
	a.op("VPERMILPS", "$0x4e", "X8", "X9")
	a.op(r.combine, "X9", "X8", "X8")
	a.op("VPERMILPS", "$0xb1", "X8", "X9")
	a.op(r.combine, "X9", "X8", "X8")
	if r.least {
		a.say("−0+0 is 0: which zero came first does not matter.")
		a.op("VXORPS", "X9", "X9", "X9")
		a.op("VADDSS", "X9", "X8", "X8")
	}
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
