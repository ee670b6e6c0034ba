package main

import "fmt"

// The AVX2 tiles work on halves of a panel: eight rows. One or two tokens take both halves of a block before the next block, so
// that weights are read in order; more take one half through all columns, then the other.
//
// Registers: weights Y0 to Y7, sums of tokens Y8 to Y11, scales Y12, offsets Y13, temporary Y14 and Y15.

// format2 is what the frame of the block formats needs to know; h is the half.
type format2 struct {
	name   string
	bytes  int // of a block of 32 columns in the stream of weights
	head   int // bytes per block in the panel's head, if any
	super  int // bytes before every eighth block
	before func(a *asm)
	block  func(a *asm, h, tokens, acc int)
	unpack func(a *asm, h int) // writes bytes to 128(SI), leaves scales in Y12 and offsets in Y13
}

func (a *asm) avx2() {
	a.constant("low4", 0x0f0f0f0f)
	a.constant("bit5", 0x10101010)
	a.constant("bits56", 0x30303030)
	a.constant("top", 0x80808080)
	a.constant("ones", 0x00010001)
	a.constant("sign", 0x80000000)
	for _, f := range formats2() {
		for _, n := range []int{1, 2, 3, 4} {
			a.blocks2(&f, n)
		}
	}
	for _, n := range []int{1, 2, 3, 4, 6} {
		a.wide2(n)
	}
	for _, n := range []int{1, 2, 3, 4} {
		a.wide2five(n)
		a.wide2six(n)
		a.rows2(n)
	}
	for _, f := range formats2() {
		if unpacked(f.name) {
			a.unpack2(&f)
		}
	}
	a.unpack2q6()
	for _, f := range []string{"f32", "f16"} {
		for _, n := range []int{1, 2, 3, 4} {
			a.dense2(f, n)
		}
	}
}

func formats2() []format2 {
	return []format2{
		{name: "q4", bytes: 320, block: func(a *asm, h, n, acc int) {
			a.nibbles2(h, 64, 0, 1, 2, 3)
			a.nibbles2(h, 64, 4, 5, 6, 7)
			a.halves2(h)
			a.tokens2q4(n, acc, "VFMADD231PS")
		}, unpack: func(a *asm, h int) { a.bytes2(h, 64, -1); a.halves2(h) }},
		{name: "q4k", bytes: 256, super: 320, block: func(a *asm, h, n, acc int) {
			a.nibbles2(h, 0, 0, 1, 2, 3)
			a.nibbles2(h, 0, 4, 5, 6, 7)
			a.scalesK2(h)
			a.tokens2q4(n, acc, "VFNMADD231PS")
		}, unpack: func(a *asm, h int) { a.bytes2(h, 0, -1); a.scalesK2(h) }},
		{name: "q5", bytes: 384, block: func(a *asm, h, n, acc int) {
			a.tokens2q5(h, n, acc, 64, 320, "VFMADD231PS", func() { a.halves2(h) })
		}, unpack: func(a *asm, h int) { a.bytes2(h, 64, 320); a.halves2(h) }},
		{name: "q5k", bytes: 320, super: 320, block: func(a *asm, h, n, acc int) {
			a.tokens2q5(h, n, acc, 0, 256, "VFNMADD231PS", func() { a.scalesK2(h) })
		}, unpack: func(a *asm, h int) { a.bytes2(h, 0, 256); a.scalesK2(h) }},
		{name: "q6k", bytes: 384, super: 320, block: func(a *asm, h, n, acc int) { a.tokens2q6(a.packed6(h), n, acc) }},
		{name: "q8", bytes: 512, head: 32, before: func(a *asm) { a.op("VMOVDQU ones<>(SB), Y13") }, block: func(a *asm, h, n, acc int) {
			a.tokens2q8(h, n, 0)
			a.op("VCVTPH2PS %d(BX), Y12", 16*h)
			a.fold2(n, acc, "", "")
		}},
		{name: "q8x", bytes: 640, before: func(a *asm) { a.op("VMOVDQU ones<>(SB), Y13") }, block: func(a *asm, h, n, acc int) {
			a.tokens2q8(h, n, 128)
			a.op("VMOVUPS %d(DI), Y12", 32*h)
			a.op("VMOVUPS %d(DI), Y1", 64+32*h)
			a.fold2(n, acc, "VFMADD231PS", "Y1")
		}},
	}
}

// blocks2 is a tile of a block format.
func (a *asm) blocks2(f *format2, tokens int) {
	a.begin(f.name, "AVX2", tokens, fmt.Sprintf("Panels of %s times %d tokens.", f.name, tokens))
	if f.before != nil {
		f.before(a)
	}
	a.panelLoop()
	passes := [][]int{{0, 1}}
	if tokens > 2 {
		passes = [][]int{{0}, {1}}
	}
	for _, halves := range passes {
		a.point(tokens, f.head > 0, true)
		a.zero2(8, tokens*len(halves))
		loop, done, super := a.fresh(f.name+"block"), a.fresh(f.name+"done"), ""
		if f.super > 0 {
			super = a.fresh("super")
			a.label(super)
			a.super2(f.super)
		}
		a.label(loop)
		if tokens <= 2 {
			a.prefetch(f.bytes)
		}
		for i, h := range halves {
			f.block(a, h, tokens, 8+i*tokens)
		}
		a.step(tokens, f.bytes, f.head, f.super, loop, super, done)
		a.label(done)
		a.store2(tokens, halves)
	}
	a.end()
}

func (a *asm) zero2(acc, n int) {
	for i := range n {
		a.op("VXORPS Y%d, Y%d, Y%d", acc+i, acc+i, acc+i)
	}
}

func (a *asm) store2(tokens int, halves []int) {
	var outs []out
	for i, h := range halves {
		for t := range tokens {
			outs = append(outs, out{fmt.Sprintf("Y%d", 8+i*tokens+t), t, 32 * h})
		}
	}
	a.store(tokens, outs)
}

// nibbles2 unpacks column groups from the vectors at off(DI) into the registers of the same numbers modulo 8.
func (a *asm) nibbles2(h, off int, groups ...int) {
	for _, g := range groups {
		src := off + 64*(g%4) + 32*h
		if g < 4 {
			a.op("VMOVDQU %d(DI), Y%d", src, g)
			continue
		}
		a.op("VPSRLW $4, Y%d, Y%d", g-4, g)
	}
	if groups[0] == 0 {
		return // the high halves still need the registers
	}
	a.op("VMOVDQU low4<>(SB), Y15")
	for g := range 8 {
		a.op("VPAND Y15, Y%d, Y%d", g, g)
	}
}

// halves2 loads scales and offsets of half precision.
func (a *asm) halves2(h int) {
	a.op("VCVTPH2PS %d(DI), Y12", 16*h)
	a.op("VCVTPH2PS %d(DI), Y13", 32+16*h)
}

// scalesK2 multiplies the block's 6-bit scales by those of the super-block at R13: exact products.
func (a *asm) scalesK2(h int) {
	for i, r := range []string{"Y12", "Y13"} {
		a.op("VPMOVZXBD %d(BX), %s", 16*i+8*h, r)
		a.op("VCVTDQ2PS %s, %s", r, r)
		a.op("VCVTPH2PS %d(R13), Y14", 32*i+16*h)
		a.op("VMULPS Y14, %s, %s", r, r)
	}
}

// tokens2q4 sums all 32 products in 16 bits: eight pairs give at most 8·2·15·127 = 30,480.
func (a *asm) tokens2q4(tokens, acc int, offset string) {
	for t := range tokens {
		for g := range 8 {
			r := "Y15"
			if g > 0 {
				r = "Y14"
			}
			a.op("VPBROADCASTD %s, Y14", x(t, 4*g))
			a.op("VPMADDUBSW Y14, Y%d, %s", g, r)
			if g > 0 {
				a.op("VPADDW Y14, Y15, Y15")
			}
		}
		a.op("VPMADDWD ones<>(SB), Y15, Y15")
		a.op("VCVTDQ2PS Y15, Y15")
		a.op("VBROADCASTSS %s, Y14", sc(t, 0))
		a.op("VMULPS Y14, Y12, Y14")
		a.op("VFMADD231PS Y14, Y15, Y%d", acc+t)
		a.op("VBROADCASTSS %s, Y14", sc(t, 4))
		a.op("%s Y14, Y13, Y%d", offset, acc+t)
	}
}

// high2 adds bits from the vector at off(DI), shifted left by the given number, to a register.
func (a *asm) high2(off, by, dst int, mask string) {
	a.op("VMOVDQU %d(DI), Y14", off)
	if by > 0 {
		a.op("VPSLLW $%d, Y14, Y14", by)
	} else if by < 0 {
		a.op("VPSRLW $%d, Y14, Y14", -by)
	}
	a.op("VPAND %s<>(SB), Y14, Y14", mask)
	a.op("VPOR Y14, Y%d, Y%d", dst, dst)
}

// quarter2 loads column groups 0 to 3 or 4 to 7 as nibbles into Y0 to Y3.
func (a *asm) quarter2(h, off, part int) {
	a.op("VMOVDQU low4<>(SB), Y15")
	for v := range 4 {
		if part == 0 {
			a.op("VPAND %d(DI), Y15, Y%d", off+64*v+32*h, v)
			continue
		}
		a.op("VMOVDQU %d(DI), Y%d", off+64*v+32*h, v)
		a.op("VPSRLW $4, Y%d, Y%d", v, v)
		a.op("VPAND Y15, Y%d, Y%d", v, v)
	}
}

// tokens2q5 has sums of four pairs in 16 bits (4·2·31·127 = 31,496), so it takes 16 columns at a time; integers are in Y4 to Y7.
func (a *asm) tokens2q5(h, tokens, acc, off, bits int, offset string, scales func()) {
	for part := range 2 {
		a.quarter2(h, off, part)
		for v := range 4 {
			a.high2(bits+32*h, 4-(4*part+v), v, "bit5")
		}
		for t := range tokens {
			for v := range 4 {
				r := "Y15"
				if v > 0 {
					r = "Y14"
				}
				a.op("VPBROADCASTD %s, Y14", x(t, 16*part+4*v))
				a.op("VPMADDUBSW Y14, Y%d, %s", v, r)
				if v > 0 {
					a.op("VPADDW Y14, Y15, Y15")
				}
			}
			if part == 0 {
				a.op("VPMADDWD ones<>(SB), Y15, Y%d", 4+t)
				continue
			}
			a.op("VPMADDWD ones<>(SB), Y15, Y15")
			a.op("VPADDD Y15, Y%d, Y%d", 4+t, 4+t)
		}
	}
	scales()
	a.fold2(tokens, acc, offset, "Y13")
}

// fold2 adds the integers in Y4 to Y7, times both scales, and the offsets, if there are any, with the given instruction.
func (a *asm) fold2(tokens, acc int, offset, offsets string) {
	for t := range tokens {
		a.op("VCVTDQ2PS Y%d, Y%d", 4+t, 4+t)
		a.op("VBROADCASTSS %s, Y14", sc(t, 0))
		a.op("VMULPS Y14, Y12, Y14")
		a.op("VFMADD231PS Y14, Y%d, Y%d", 4+t, acc+t)
		if offset != "" {
			a.op("VBROADCASTSS %s, Y14", sc(t, 4))
			a.op("%s Y14, %s, Y%d", offset, offsets, acc+t)
		}
	}
}

// source6 says where the tile of q6k gets a half block from.
type source6 struct {
	pairs, first, second, scale func()         // to Y13: 32 times both scales, in pairs; to Y12: the first, the second; to Y13: d
	weights                     func(part int) // column groups 0 to 3 or 4 to 7 to Y0 to Y3
}

// packed6 reads the packed form: BX at the block's scales, R13 at the super-block's.
func (a *asm) packed6(h int) source6 {
	signed := func(left int) func() {
		return func() {
			a.op("VPMOVSXBW %d(BX), Y12", 16*h)
			if left > 0 {
				a.op("VPSLLD $16, Y12, Y12")
			}
			a.op("VPSRAD $16, Y12, Y12")
			a.op("VCVTDQ2PS Y12, Y12")
		}
	}
	return source6{
		pairs: func() {
			a.op("VPMOVSXBW %d(BX), Y13", 16*h)
			a.op("VPSLLW $5, Y13, Y13")
		},
		first: signed(16), second: signed(0),
		scale: func() { a.op("VCVTPH2PS %d(R13), Y13", 16*h) },
		weights: func(part int) {
			a.quarter2(h, 0, part)
			for v := range 4 {
				a.high2(256+64*part+32*h, 4-2*v, v, "bits56")
			}
		},
	}
}

// unpacked6 reads what unpack2q6 writes.
func (a *asm) unpacked6(h int) source6 {
	load := func(off int, reg string) func() {
		return func() { a.op("VMOVUPS %d(DI), %s", off+32*h, reg) }
	}
	return source6{
		pairs: load(128, "Y13"), first: load(0, "Y12"), second: load(64, "Y12"), scale: load(192, "Y13"),
		weights: func(part int) {
			for v := range 4 {
				a.op("VMOVDQU %d(DI), Y%d", 256+64*(4*part+v)+32*h, v)
			}
		},
	}
}

// unpack2q6 writes blocks of q6k as the wide tile reads them: both scales as float32, 32 times them in pairs, d, bytes.
func (a *asm) unpack2q6() {
	loop, done := a.unpackBegin("q6k", "AVX2")
	super := a.fresh("super")
	a.label(super)
	a.super2(320)
	a.label(loop)
	for h := range 2 {
		src := a.packed6(h)
		for part := range 2 {
			src.weights(part)
			for v := range 4 {
				a.op("VMOVDQU Y%d, %d(SI)", v, 256+64*(4*part+v)+32*h)
			}
		}
		for i, get := range []func(){src.first, src.second, src.pairs, src.scale} {
			get()
			a.op("VMOVUPS Y%d, %d(SI)", 12+i/2, 64*i+32*h)
		}
	}
	a.unpackEnd(384, 768, 320, loop, super, done)
}

// tokens2q6 has two scales per block and sums of two pairs in 16 bits (2·2·63·127 = 32,004). sc0·S0 + sc1·S1 is exact in float32, as
// are the steps to it; it grows in Y4 to Y7. The sums of the activations times 32·sc are subtracted for the 32 that each weight
// has too much.
func (a *asm) tokens2q6(src source6, tokens, acc int) {
	src.pairs()
	src.first()
	for part := range 2 {
		src.weights(part)
		if part == 1 {
			src.second()
			src.scale()
		}
		for t := range tokens {
			if part == 0 {
				a.op("VPBROADCASTD %s, Y14", sc(t, 12))
				a.op("VPMADDWD Y14, Y13, Y14")
				a.op("VCVTDQ2PS Y14, Y%d", 4+t)
			}
			a.sum2q6(t, 16*part)
			if part == 0 {
				a.op("VFMSUB231PS Y15, Y12, Y%d", 4+t)
				continue
			}
			a.op("VFMADD231PS Y15, Y12, Y%d", 4+t)
			a.op("VBROADCASTSS %s, Y14", sc(t, 0))
			a.op("VMULPS Y14, Y13, Y14")
			a.op("VFMADD231PS Y14, Y%d, Y%d", 4+t, acc+t)
		}
	}
}

// sum2q6 sums the products of Y0 to Y3 with 16 activations to Y15, as float32.
func (a *asm) sum2q6(t, off int) {
	for v := range 4 {
		r := "Y14"
		if v == 0 {
			r = "Y15"
		}
		a.op("VPBROADCASTD %s, Y14", x(t, off+4*v))
		a.op("VPMADDUBSW Y14, Y%d, %s", v, r)
		switch v {
		case 1:
			a.op("VPADDW Y14, Y15, Y15")
			a.op("VPMADDWD ones<>(SB), Y15, Y15")
		case 2, 3:
			a.op("VPMADDWD ones<>(SB), Y14, Y14")
			a.op("VPADDD Y14, Y15, Y15")
		}
	}
	a.op("VCVTDQ2PS Y15, Y15")
}

// tokens2q8 sums one block of signed weights into Y4 to Y7: the weight's sign moves to the activation, so pairs of products give at
// most 2·128·127 = 32,512. Weights are stored with 128 added.
func (a *asm) tokens2q8(h, tokens, off int) {
	for t := range tokens {
		a.op("VPXOR Y%d, Y%d, Y%d", 4+t, 4+t, 4+t)
	}
	for g := range 8 {
		a.signed2(off+64*g+32*h, 0)
		for t := range tokens {
			a.op("VPBROADCASTD %s, Y14", x(t, 4*g))
			a.multiply2(0, 4+t)
		}
	}
}

// signed2 loads weights into register w and their magnitudes into the next.
func (a *asm) signed2(off, w int) {
	a.op("VMOVDQU top<>(SB), Y%d", w)
	a.op("VPXOR %d(DI), Y%d, Y%d", off, w, w)
	a.op("VPABSB Y%d, Y%d", w, w+1)
}

// multiply2 adds the products of the weights in w and the activations in Y14.
func (a *asm) multiply2(w, acc int) {
	a.op("VPSIGNB Y%d, Y14, Y15", w)
	a.op("VPMADDUBSW Y15, Y%d, Y15", w+1)
	a.op("VPMADDWD Y13, Y15, Y15")
	a.op("VPADDD Y15, Y%d, Y%d", acc, acc)
}

// rows2 is the tile with one scale per row on both sides: integers to the end. Both halves share the broadcast activations.
func (a *asm) rows2(tokens int) {
	a.begin("i8", "AVX2", tokens, fmt.Sprintf("Panels of i8 times %d tokens.", tokens))
	a.op("VMOVDQU ones<>(SB), Y13")
	a.panelLoop()
	a.point(tokens, true, true)
	a.zero2(4, 2*tokens)
	loop := a.fresh("i8block")
	a.label(loop)
	if tokens <= 2 {
		a.prefetch(512)
	}
	for g := range 8 {
		a.signed2(64*g, 0)
		a.signed2(64*g+32, 2)
		for t := range tokens {
			a.op("VPBROADCASTD %s, Y14", x(t, 4*g))
			a.multiply2(0, 4+t)
			a.multiply2(2, 4+tokens+t)
		}
	}
	a.op("ADDQ $512, DI")
	a.op("ADDQ $32, SI")
	a.op("DECQ CX")
	a.op("JNZ %s", loop)
	var outs []out
	for h := range 2 {
		for t := range tokens {
			r := 4 + h*tokens + t
			a.op("VCVTDQ2PS Y%d, Y%d", r, r)
			a.op("VBROADCASTSS %s, Y14", sc(t, 0))
			a.op("VMULPS %d(BX), Y14, Y14", 32*h)
			a.op("VMULPS Y14, Y%d, Y%d", r, r)
			outs = append(outs, out{fmt.Sprintf("Y%d", r), t, 32 * h})
		}
	}
	a.store(tokens, outs)
	a.end()
}

// dense2 goes column by column. With few tokens several panels at a time hide the latency of the sums.
func (a *asm) dense2(format string, tokens int) {
	panels, bytes, load := 4/tokens, 64, "VMOVUPS"
	if format == "f16" {
		bytes, load = 32, "VCVTPH2PS"
	}
	a.begin(format, "AVX2", tokens, fmt.Sprintf("Panels of %s times %d tokens.", format, tokens))
	a.severalPanels(panels, func(panels int) {
		a.point(tokens, false, false)
		a.panelStrides(panels)
		a.zero2(8, 2*panels*tokens)
		loop := a.fresh(format + "column")
		a.label(loop)
		for t := range tokens {
			a.op("VBROADCASTSS %s, Y%d", x(t, 0), 4+t)
		}
		for p := range panels {
			for h := range 2 {
				r := 2*(p%2) + h
				a.op("%s %s, Y%d", load, panelAt(p, panels, bytes/2*h), r)
				for t := range tokens {
					a.op("VFMADD231PS Y%d, Y%d, Y%d", 4+t, r, 8+(2*p+h)*tokens+t)
				}
			}
		}
		a.op("ADDQ $%d, DI", bytes)
		a.op("ADDQ $4, SI")
		a.op("DECQ CX")
		a.op("JNZ %s", loop)
		var outs []out
		for p := range panels {
			for h := range 2 {
				for t := range tokens {
					outs = append(outs, out{fmt.Sprintf("Y%d", 8+(2*p+h)*tokens+t), t, 64*p + 32*h})
				}
			}
		}
		a.store(tokens, outs)
		a.next(panels)
	})
}

// bytes2 unpacks half the weights of a block, with fifth bits at high(DI) unless that is negative.
func (a *asm) bytes2(h, off, high int) {
	for part := range 2 {
		a.quarter2(h, off, part)
		for v := range 4 {
			if high >= 0 {
				a.high2(high+32*h, 4-(4*part+v), v, "bit5")
			}
			a.op("VMOVDQU Y%d, %d(SI)", v, 128+64*(4*part+v)+32*h)
		}
	}
}

// unpack2 writes the blocks of a panel as the wide tiles read them: float32 scales and offsets, then bytes.
func (a *asm) unpack2(f *format2) {
	loop, done := a.unpackBegin(f.name, "AVX2")
	super := ""
	if f.super > 0 {
		super = a.fresh("super")
		a.label(super)
		a.super2(f.super)
	}
	a.label(loop)
	for h := range 2 {
		f.unpack(a, h)
		if f.super > 0 {
			a.op("VXORPS sign<>(SB), Y13, Y13")
		}
		a.op("VMOVUPS Y12, %d(SI)", 32*h)
		a.op("VMOVUPS Y13, %d(SI)", 64+32*h)
	}
	a.unpackEnd(f.bytes, 640, f.super, loop, super, done)
}

// super2 starts a super-block: R13 points to its scales, BX to the blocks' own.
func (a *asm) super2(bytes int) {
	a.op("MOVQ DI, R13")
	a.op("LEAQ 64(DI), BX")
	a.op("ADDQ $%d, DI", bytes)
}

// wide2 is a tile of unpacked nibbles, one half at a time: 16-bit sums Y3 to Y8, sums of the tokens from Y9 on; scales and offsets
// come from memory.
func (a *asm) wide2(tokens int) {
	a.wideFrame2("wide", tokens, 9, 640, func(h int) {
		for g := range 8 {
			a.op("VMOVDQU %d(DI), Y0", 128+64*g+32*h)
			for t := range tokens {
				a.op("VPBROADCASTD %s, Y%d", x(t, 4*g), 1+t%2)
				if g == 0 {
					a.op("VPMADDUBSW Y%d, Y0, Y%d", 1+t%2, 3+t)
					continue
				}
				a.op("VPMADDUBSW Y%d, Y0, Y%d", 1+t%2, 1+t%2)
				a.op("VPADDW Y%d, Y%d, Y%d", 1+t%2, 3+t, 3+t)
			}
		}
		for t := range tokens {
			a.op("VPMADDWD Y15, Y%d, Y%d", 3+t, 3+t)
			a.wideFold2(h, t, 3+t, 9+t, 1+t%2)
		}
	})
}

// wideFold2 adds an integer sum times both scales, and the offset.
func (a *asm) wideFold2(h, t, sum, acc, tmp int) {
	a.op("VCVTDQ2PS Y%d, Y%d", sum, sum)
	a.op("VBROADCASTSS %s, Y%d", sc(t, 0), tmp)
	a.op("VMULPS %d(DI), Y%d, Y%d", 32*h, tmp, tmp)
	a.op("VFMADD231PS Y%d, Y%d, Y%d", tmp, sum, acc)
	a.op("VBROADCASTSS %s, Y%d", sc(t, 4), tmp)
	a.op("VFMADD231PS %d(DI), Y%d, Y%d", 64+32*h, tmp, acc)
}

// wide2five is the same with five bits, of which 16-bit sums hold half: 32-bit sums in Y7 to Y10, sums of the tokens from Y11 on.
func (a *asm) wide2five(tokens int) {
	a.wideFrame2("wide5", tokens, 11, 640, func(h int) {
		for g := range 8 {
			a.op("VMOVDQU %d(DI), Y0", 128+64*g+32*h)
			for t := range tokens {
				a.op("VPBROADCASTD %s, Y%d", x(t, 4*g), 1+t%2)
				if g%4 == 0 {
					a.op("VPMADDUBSW Y%d, Y0, Y%d", 1+t%2, 3+t)
				} else {
					a.op("VPMADDUBSW Y%d, Y0, Y%d", 1+t%2, 1+t%2)
					a.op("VPADDW Y%d, Y%d, Y%d", 1+t%2, 3+t, 3+t)
				}
				switch g {
				case 3:
					a.op("VPMADDWD Y15, Y%d, Y%d", 3+t, 7+t)
				case 7:
					a.op("VPMADDWD Y15, Y%d, Y%d", 3+t, 3+t)
					a.op("VPADDD Y%d, Y%d, Y%d", 3+t, 7+t, 7+t)
				}
			}
		}
		for t := range tokens {
			a.wideFold2(h, t, 7+t, 11+t, 1+t%2)
		}
	})
}

// wide2six is the tile of unpacked blocks of q6k.
func (a *asm) wide2six(tokens int) {
	a.wideFrame2("wide6", tokens, 8, 768, func(h int) { a.tokens2q6(a.unpacked6(h), tokens, 8) })
}

func (a *asm) wideFrame2(name string, tokens, acc, bytes int, block func(h int)) {
	a.begin(name, "AVX2", tokens, fmt.Sprintf("Unpacked panels times %d tokens.", tokens))
	a.panelLoop()
	for h := range 2 {
		if name != "wide6" { // which needs Y15
			a.op("VMOVDQU ones<>(SB), Y15")
		}
		a.point(tokens, false, true)
		a.zero2(acc, tokens)
		a.resume("Y", acc, tokens, 32*h)
		loop := a.fresh(name + "block")
		a.label(loop)
		if h == 0 {
			a.fetchAhead()
		}
		block(h)
		a.step(tokens, bytes, 0, 0, loop, "", "")
		var outs []out
		for t := range tokens {
			outs = append(outs, out{fmt.Sprintf("Y%d", acc+t), t, 32 * h})
		}
		a.store(tokens, outs)
	}
	a.end()
}
