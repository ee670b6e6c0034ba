package main

import "math"

// The vector kernels. Every function that needs constants holds all of them in registers 24 to 31, four each.

type constant struct {
	name string
	bits uint32
}

func f32(name string, v float64) constant { return constant{name, math.Float32bits(float32(v))} }

const (
	geluT0 = -1.5957691216057308 // −2√(2/π)
	erfP   = 0.3275911 * math.Sqrt2 / 2
)

// constants are those of vec_ref.go.
func constants() []constant {
	return []constant{
		f32("expMin", -87), f32("expMax", 88), f32("log2e", 1.44269504088896341), f32("ln2Hi", 0.693359375),
		f32("ln2Lo", -2.12194440e-4), f32("expP0", 1.9875691500e-4), f32("expP1", 1.3981999507e-3), f32("expP2", 8.3334519073e-3),
		f32("expP3", 4.1665795894e-2), f32("expP4", 1.6666665459e-1), f32("expP5", 5.0000001201e-1), f32("one", 1),
		{"bias", 127}, f32("geluT0", geluT0), f32("geluT1", geluT0*0.044715), f32("minusHalf", -0.5),
		f32("erfP", erfP), f32("erf1", 0.5*0.254829592), f32("erf2", 0.5*-0.284496736), f32("erf3", 0.5*1.421413741),
		f32("erf4", 0.5*-1.453152027), f32("erf5", 0.5*1.061405429), f32("minusTwo", -2), f32("tanhSmall", 0.625),
		f32("tanh0", -3.33332819422e-1), f32("tanh1", 1.33314422036e-1), f32("tanh2", -5.37397155531e-2), f32("tanh3", 2.06390887954e-2),
		f32("tanh4", -5.70498872745e-3), f32("c127", 127), f32("smallest", 1.0/(1<<100)), f32("spare", 0),
	}
}

func find(name string) (register, element int) {
	for i, c := range constants() {
		if c.name == name {
			return 24 + i/4, i % 4
		}
	}
	panic(name)
}

// all puts a constant into every lane.
func (a *asm) all(d int, name string) {
	r, i := find(name)
	a.dup(d, r, i)
}

// with is byElement for a constant.
func (a *asm) with(op string, d, n int, name string) {
	r, i := find(name)
	a.byElement(op, d, n, r, i)
}

func (a *asm) loadConstants() {
	a.op("MOVD $constants<>(SB), R9")
	for i := 0; i < 8; i += 2 {
		a.op("FLDPQ %d(R9), (F%d, F%d)", 16*i, 24+i, 25+i)
	}
}

func (a *asm) vectors() {
	for i, c := range constants() {
		a.line("DATA constants<>+%d(SB)/4, $0x%08x // %s", 4*i, c.bits, c.name)
	}
	a.line("GLOBL constants<>(SB), RODATA|NOPTR, $%d", 4*len(constants()))
	a.elements("add", "dst = x+y", true, func() { a.v3(fadd, 0, 5, 6) })
	a.elements("mul", "dst = x·y", true, func() { a.v3(fmul, 0, 5, 6) })
	a.elements("siluMul", "dst = x/(1+exp(−x))·y", true, func() { a.silu(); a.v3(fmul, 0, 0, 6) })
	a.elements("geluTanhMul", "dst = gelu(x)·y, by the approximation with tanh", true, func() { a.geluTanh(); a.v3(fmul, 0, 0, 6) })
	a.elements("silu", "dst = x/(1+exp(−x))", false, a.silu)
	a.elements("gelu", "dst = x·Φ(x)", false, a.gelu)
	a.elements("geluTanh", "dst = gelu(x), by the approximation with tanh", false, a.geluTanh)
	a.elements("sigmoid", "dst = 1/(1+exp(−x))", false, a.sigmoid)
	a.elements("tanh", "dst = tanh(x)", false, a.tanh)
	a.reductions()
	a.norms()
	a.quantization()
	a.conversions()
	a.ropes()
}

// loop runs body counter times.
func (a *asm) loop(counter string, body func()) {
	top := a.fresh("loop")
	a.label(top)
	body()
	a.op("SUB $1, %s", counter)
	a.op("CBNZ %s, %s", counter, top)
}

// elements is a kernel of one element each, four at a time: x in 5, y in 6, result in 0.
func (a *asm) elements(name, comment string, binary bool, f func()) {
	signature, size := "(dst, x *float32, blocks int)", 24
	if binary {
		signature, size = "(dst, x, y *float32, blocks int)", 32
	}
	a.text(name, signature, comment, size)
	a.op("MOVD dst+0(FP), R0")
	a.op("MOVD x+8(FP), R1")
	if binary {
		a.op("MOVD y+16(FP), R2")
	}
	a.op("MOVD blocks+%d(FP), R3", size-8)
	a.op("LSL $2, R3")
	a.loadConstants()
	a.loop("R3", func() {
		a.op("FMOVQ.P 16(R1), F5")
		if binary {
			a.op("FMOVQ.P 16(R2), F6")
		}
		f()
		a.op("FMOVQ.P F0, 16(R0)")
	})
	a.op("RET")
}

// exp replaces register 0 by its exponential and uses 1 to 4. See exp in vec_ref.go.
func (a *asm) exp() {
	a.all(1, "expMin")
	a.v3(fcmge, 4, 0, 1)
	a.all(2, "expMax")
	a.v3(fmin, 0, 0, 2)
	a.v3(fmax, 0, 0, 1)
	a.with("fmul", 1, 0, "log2e")
	a.v2(frintn, 1, 1)
	a.with("fmls", 0, 1, "ln2Hi")
	a.with("fmls", 0, 1, "ln2Lo")
	a.all(2, "expP0")
	a.horner(2, 0, 3, "expP1", "expP2", "expP3", "expP4", "expP5")
	a.v3(fmul, 2, 0, 0)
	a.v3(fmla, 0, 3, 2)
	a.all(2, "one")
	a.v3(fadd, 0, 0, 2)
	a.v2(fcvtns, 1, 1)
	a.all(2, "bias")
	a.v3(add4, 1, 1, 2)
	a.shl4(1, 1, 23)
	a.v3(fmul, 0, 0, 1)
	a.v3(and16, 0, 0, 4)
}

// horner continues a polynomial in x that y holds the leading coefficient of; with y and other it goes to and fro. The result is in
// other when the number of coefficients is odd, in y when it is even.
func (a *asm) horner(y, x, other int, names ...string) {
	for _, name := range names {
		a.all(other, name)
		a.v3(fmla, other, y, x)
		y, other = other, y
	}
}

func (a *asm) silu() {
	a.v2(fneg, 0, 5)
	a.exp()
	a.all(1, "one")
	a.v3(fadd, 0, 0, 1)
	a.v3(fdiv, 0, 5, 0)
}

func (a *asm) sigmoid() {
	a.v2(fneg, 0, 5)
	a.exp()
	a.all(1, "one")
	a.v3(fadd, 0, 0, 1)
	a.v3(fdiv, 0, 1, 0)
}

func (a *asm) geluTanh() {
	a.v3(fmul, 0, 5, 5)
	a.all(1, "geluT0")
	a.with("fmla", 1, 0, "geluT1")
	a.v3(fmul, 0, 5, 1)
	a.exp()
	a.all(1, "one")
	a.v3(fadd, 0, 0, 1)
	a.v3(fdiv, 0, 5, 0)
}

func (a *asm) gelu() {
	const size, t, h, other = 16, 17, 18, 19
	a.v2(fabs, size, 5)
	a.all(1, "one")
	a.all(t, "one")
	a.with("fmla", t, size, "erfP")
	a.v3(fdiv, t, 1, t)
	a.v3(fmul, 0, 5, 5)
	a.with("fmul", 0, 0, "minusHalf")
	a.exp()
	a.all(h, "erf5")
	a.horner(h, t, other, "erf4", "erf3", "erf2", "erf1")
	a.v3(fmul, h, h, t)
	a.v3(fmul, h, h, 0)
	a.zero(1)
	a.v3(fmax, 0, 5, 1)
	a.v3(fmls, 0, size, h)
}

func (a *asm) tanh() {
	const size, z, p, other = 16, 17, 18, 19
	a.v2(fabs, size, 5)
	a.with("fmul", 0, size, "minusTwo")
	a.exp()
	a.all(1, "one")
	a.v3(fsub, 2, 1, 0)
	a.v3(fadd, 0, 1, 0)
	a.v3(fdiv, 0, 2, 0)
	a.signs(1)
	a.v3(bit16, 0, 5, 1)
	a.say("Small ones by a polynomial.")
	a.v3(fmul, z, 5, 5)
	a.all(p, "tanh4")
	a.horner(p, z, other, "tanh3", "tanh2", "tanh1", "tanh0")
	a.v3(fmul, p, p, z)
	a.move(other, 5)
	a.v3(fmla, other, p, 5)
	a.all(1, "tanhSmall")
	a.v3(fcmgt, 1, 1, size)
	a.v3(bit16, 0, other, 1)
}

// reductions fold blocks of sixteen into sixteen accumulators in memory, registers 8 to 11; 7 holds arg.
func (a *asm) reductions() {
	each := func(f func(i int)) func() {
		return func() {
			for i := range 4 {
				a.op("FMOVQ.P 16(R0), F%d", i)
			}
			for i := range 4 {
				f(i)
			}
		}
	}
	a.reduction("sum", "Sums of x.", false, each(func(i int) { a.v3(fadd, 8+i, 8+i, i) }))
	a.reduction("sumSquares", "Sums of x².", false, each(func(i int) { a.v3(fmla, 8+i, i, i) }))
	a.reduction("sumDeviations", "Sums of (x−arg)².", true, each(func(i int) {
		a.v3(fsub, i, i, 7)
		a.v3(fmla, 8+i, i, i)
	}))
	a.reduction("max", "The largest of x.", false, each(func(i int) { a.v3(fmax, 8+i, 8+i, i) }))
	a.reduction("maxMagnitude", "The largest of |x|.", false, each(func(i int) {
		a.v2(fabs, i, i)
		a.v3(fmax, 8+i, 8+i, i)
	}))
	a.reduction("expSum", "x = exp(x−arg), and sums of them.", true, func() {
		for i := range 4 {
			a.op("FMOVQ (R0), F0")
			a.v3(fsub, 0, 0, 7)
			a.exp()
			a.op("FMOVQ.P F0, 16(R0)")
			a.v3(fadd, 8+i, 8+i, 0)
		}
	})
}

func (a *asm) reduction(name, comment string, arg bool, body func()) {
	signature, size := "(x *float32, blocks int, lanes *[16]float32)", 24
	if arg {
		signature, size = "(x *float32, blocks int, lanes *[16]float32, arg float32)", 28
	}
	a.text(name, signature, comment, size)
	a.op("MOVD x+0(FP), R0")
	a.op("MOVD blocks+8(FP), R1")
	a.op("MOVD lanes+16(FP), R2")
	if arg {
		a.op("FMOVS arg+24(FP), F7")
		a.dup(7, 7, 0)
	}
	if name == "expSum" {
		a.loadConstants()
	}
	for i := range 4 {
		a.op("FMOVQ %d(R2), F%d", 16*i, 8+i)
	}
	a.loop("R1", body)
	for i := range 4 {
		a.op("FMOVQ F%d, %d(R2)", 8+i, 16*i)
	}
	a.op("RET")
}

// norms write the normalised vectors.
func (a *asm) norms() {
	a.text("scaleMul", "(dst, x, w *float32, blocks int, s float32)", "dst = x·s·w", 36)
	a.op("MOVD dst+0(FP), R0")
	a.op("MOVD x+8(FP), R1")
	a.op("MOVD w+16(FP), R2")
	a.op("MOVD blocks+24(FP), R3")
	a.op("FMOVS s+32(FP), F7")
	a.loop("R3", func() {
		for range 4 {
			a.op("FMOVQ.P 16(R1), F0")
			a.op("FMOVQ.P 16(R2), F1")
			a.byElement("fmul", 0, 0, 7, 0)
			a.v3(fmul, 0, 0, 1)
			a.op("FMOVQ.P F0, 16(R0)")
		}
	})
	a.op("RET")

	a.text("shiftScaleMul", "(dst, x, w, b *float32, blocks int, mean, s float32)", "dst = fma((x−mean)·s, w, b)", 48)
	a.op("MOVD dst+0(FP), R0")
	a.op("MOVD x+8(FP), R1")
	a.op("MOVD w+16(FP), R2")
	a.op("MOVD b+24(FP), R4")
	a.op("MOVD blocks+32(FP), R3")
	a.op("FMOVS mean+40(FP), F6")
	a.op("FMOVS s+44(FP), F7")
	a.dup(6, 6, 0)
	a.loop("R3", func() {
		for range 4 {
			a.op("FMOVQ.P 16(R1), F0")
			a.op("FMOVQ.P 16(R2), F1")
			a.op("FMOVQ.P 16(R4), F2")
			a.v3(fsub, 0, 0, 6)
			a.byElement("fmul", 0, 0, 7, 0)
			a.v3(fmla, 2, 0, 1)
			a.op("FMOVQ.P F2, 16(R0)")
		}
	})
	a.op("RET")
}

// quantization writes signed bytes; see blockScale for what goes with a block.
func (a *asm) quantization() {
	a.text("quantizeBlocks", "(q *int8, scales *blockScale, x *float32, blocks int)", "Blocks of 32 elements: d = max|x|/127, q = x·(127/max|x|) to nearest even.", 32)
	a.op("MOVD q+0(FP), R0")
	a.op("MOVD scales+8(FP), R2")
	a.op("MOVD x+16(FP), R1")
	a.op("MOVD blocks+24(FP), R3")
	a.loadConstants()
	c127, e127 := find("c127")
	least, eLeast := find("smallest")
	a.say("F22 = 127, F23 = the least magnitude that counts.")
	a.dup(22, c127, e127)
	a.dup(23, least, eLeast)
	a.loop("R3", func() {
		zero, next := a.fresh("zero"), a.fresh("next")
		for i := range 8 {
			a.op("FMOVQ.P 16(R1), F%d", i)
			a.v2(fabs, 8+i, i)
		}
		for n := 4; n > 0; n /= 2 {
			for i := range n {
				a.v3(fmax, 8+i, 8+i, 8+i+n)
			}
		}
		a.across(fmaxv, "s", 8, 8)
		a.op("FCMPS F23, F8")
		a.op("BLT %s", zero)
		a.op("FDIVS F8, F22, F9")
		a.op("FDIVS F22, F8, F10")
		for i := range 8 {
			a.byElement("fmul", i, i, 9, 0)
			a.v2(fcvtns, i, i)
		}
		for i := range 2 {
			a.narrow(4 * i)
			a.op("FMOVQ.P F%d, 16(R0)", 4*i)
			a.across(saddlv16, "h", 16+i, 4*i)
			a.op("VMOV V%d.H[0], R%d", 16+i, 4+i)
			a.op("MOVH R%d, R%d", 4+i, 4+i)
		}
		a.op("ADD R4, R5, R6")
		a.op("SCVTFWS R6, F11")
		a.op("FMULS F10, F11")
		a.op("NEG R6<<7, R6")
		a.op("FMOVS F10, (R2)")
		a.op("FMOVS F11, 4(R2)")
		a.op("MOVW R6, 8(R2)")
		a.op("MOVH R4, 12(R2)")
		a.op("MOVH R5, 14(R2)")
		a.op("B %s", next)
		a.label(zero)
		a.zero(0)
		a.op("FSTPQ (F0, F0), (R0)")
		a.op("FMOVQ F0, (R2)")
		a.op("ADD $32, R0")
		a.label(next)
		a.op("ADD $16, R2")
	})
	a.op("RET")

	a.text("codes", "(q *int8, x *float32, blocks int, inverse float32, sums *[8]int32)", "Blocks of 16 elements: q = x·inverse to nearest even; the sum is added to the first of sums.", 40)
	a.op("MOVD q+0(FP), R0")
	a.op("MOVD x+8(FP), R1")
	a.op("MOVD blocks+16(FP), R3")
	a.op("FMOVS inverse+24(FP), F9")
	a.op("MOVD sums+32(FP), R2")
	a.op("MOVW (R2), R6")
	a.loop("R3", func() {
		for i := range 4 {
			a.op("FMOVQ.P 16(R1), F%d", i)
			a.byElement("fmul", i, i, 9, 0)
			a.v2(fcvtns, i, i)
		}
		a.narrow(0)
		a.op("FMOVQ.P F0, 16(R0)")
		a.across(saddlv16, "h", 16, 0)
		a.op("VMOV V16.H[0], R4")
		a.op("MOVH R4, R4")
		a.op("ADD R4, R6")
	})
	a.op("MOVW R6, (R2)")
	a.op("RET")
}

// narrow packs four vectors of integers into the first as bytes.
func (a *asm) narrow(r int) {
	a.v2(sqxtn4, r, r)
	a.v2(sqxtn24, r, r+1)
	a.v2(sqxtn4, r+2, r+2)
	a.v2(sqxtn24, r+2, r+3)
	a.v2(sqxtn8, r, r)
	a.v2(sqxtn28, r, r+2)
}

// conversions scale, and convert to and from half precision.
func (a *asm) conversions() {
	a.text("scale", "(dst, x *float32, blocks int, s float32)", "dst = x·s", 28)
	a.pointers()
	a.op("FMOVS s+24(FP), F7")
	a.loop("R3", func() {
		for range 4 {
			a.op("FMOVQ.P 16(R1), F0")
			a.byElement("fmul", 0, 0, 7, 0)
			a.op("FMOVQ.P F0, 16(R0)")
		}
	})
	a.op("RET")

	a.text("toHalf", "(dst *uint16, x *float32, blocks int)", "dst = x, rounded to nearest even", 24)
	a.pointers()
	a.loop("R3", func() {
		for range 2 {
			a.op("FLDPQ.P 32(R1), (F0, F1)")
			a.v2(fcvtn, 0, 0)
			a.v2(fcvtn2, 0, 1)
			a.op("FMOVQ.P F0, 16(R0)")
		}
	})
	a.op("RET")

	a.text("fromHalf", "(dst *float32, x *uint16, blocks int)", "dst = x, exactly", 24)
	a.pointers()
	a.loop("R3", func() {
		for range 2 {
			a.op("FMOVQ.P 16(R1), F1")
			a.v2(fcvtl, 0, 1)
			a.v2(fcvtl2, 1, 1)
			a.op("FSTPQ.P (F0, F1), 32(R0)")
		}
	})
	a.op("RET")
}

func (a *asm) pointers() {
	a.op("MOVD dst+0(FP), R0")
	a.op("MOVD x+8(FP), R1")
	a.op("MOVD blocks+16(FP), R3")
}

// ropes rotate the pairs of several heads by the cosines and sines of table.
func (a *asm) ropes() {
	for _, name := range []string{"ropePairs", "ropeHalves"} {
		comment := "Neighbours are pairs: eight elements, four pairs at a time. stride is in bytes."
		if name == "ropeHalves" {
			comment = "Element i and element i+8·eights are a pair: eight pairs at a time. stride is in bytes."
		}
		a.text(name, "(x *float32, heads, stride, eights int, table *float32)", comment, 40)
		a.op("MOVD x+0(FP), R0")
		a.op("MOVD heads+8(FP), R1")
		a.op("MOVD stride+16(FP), R2")
		a.op("MOVD eights+24(FP), R5")
		a.loop("R1", func() {
			a.op("MOVD R0, R6")
			a.op("ADD R5<<5, R0, R7")
			a.op("MOVD table+32(FP), R4")
			a.op("MOVD R5, R3")
			a.loop("R3", func() {
				if name == "ropePairs" {
					a.op("VLD2 (R6), [V0.S4, V1.S4]")
					a.rotate()
					a.op("VST2.P [V4.S4, V5.S4], 32(R6)")
					return
				}
				for range 2 {
					a.op("FMOVQ (R6), F0")
					a.op("FMOVQ (R7), F1")
					a.rotate()
					a.op("FMOVQ.P F4, 16(R6)")
					a.op("FMOVQ.P F5, 16(R7)")
				}
			})
			a.op("ADD R2, R0")
		})
		a.op("RET")
	}
}

// rotate turns registers 0 and 1 into 4 and 5.
func (a *asm) rotate() {
	a.op("VLD2.P 32(R4), [V2.S4, V3.S4]")
	a.v3(fmul, 4, 0, 2)
	a.v3(fmul, 5, 1, 3)
	a.v3(fsub, 4, 4, 5)
	a.v3(fmul, 5, 0, 3)
	a.v3(fmul, 0, 1, 2)
	a.v3(fadd, 5, 5, 0)
}
