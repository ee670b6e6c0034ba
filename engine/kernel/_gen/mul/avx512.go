package main

import "fmt"

// Registers of the AVX-512 tiles. Up to eight tokens: integer sums Z0 to Z7, sums of tokens Z16 to Z23, weights Z24 to Z31. With
// sixteen: weights Z0 to Z7, integer sums Z10 to Z13, sums of tokens from Z16 on.
type plan512 struct {
	tokens, group   int // group: tokens in flight
	sum, acc, w     int // first registers
	d, m, tmp, mask int
}

func plan(tokens int) plan512 {
	p := plan512{tokens: tokens, group: min(tokens, 8), sum: 0, acc: 16, w: 24, d: 8, m: 9, tmp: 10, mask: 15}
	if tokens > 8 {
		p.group, p.sum, p.w, p.tmp = 4, 10, 0, 14
	}
	return p
}

// format512 is what the frame of the block formats needs to know.
type format512 struct {
	name    string
	bytes   int  // of a block of 32 columns in the stream of weights
	head    int  // bytes per block in the panel's head, if any
	super   int  // bytes before every eighth block
	signed  bool // weights are stored with 128 added
	offset  bool // products have an offset
	most    int  // tokens
	loadK   func(a *asm)
	unpack  func(a *asm, p plan512)
	comment string
}

func (a *asm) avx512() {
	a.constant("low4", 0x0f0f0f0f)
	a.constant("bit5", 0x10101010)
	a.constant("bits56", 0x30303030)
	for _, f := range formats512() {
		for _, n := range []int{1, 2, 4, 8, 16} {
			if n <= f.most {
				a.blocks512(&f, plan(n))
			}
		}
	}
	for _, n := range []int{1, 2, 4, 8} {
		a.q6k512(plan(n))
	}
	for _, n := range []int{1, 2, 4, 8, 16} {
		a.rows512(n)
	}
	for _, f := range []string{"f32", "f16"} {
		for _, n := range []int{1, 2, 4, 8, 16} {
			a.dense512(f, n)
		}
	}
}

func formats512() []format512 {
	return []format512{
		{name: "q4", bytes: 320, offset: true, most: 16, unpack: func(a *asm, p plan512) {
			a.nibbles512(p, 64)
			a.op("VCVTPH2PS (DI), Z%d", p.d)
			a.op("VCVTPH2PS 32(DI), Z%d", p.m)
		}},
		{name: "q5", bytes: 384, offset: true, most: 16, unpack: func(a *asm, p plan512) {
			a.nibbles512(p, 64)
			a.fifth512(p, 320)
			a.op("VCVTPH2PS (DI), Z%d", p.d)
			a.op("VCVTPH2PS 32(DI), Z%d", p.m)
		}},
		{name: "q4k", bytes: 256, super: 320, offset: true, most: 8, unpack: func(a *asm, p plan512) {
			a.nibbles512(p, 0)
			a.scalesK512(p)
		}},
		{name: "q5k", bytes: 320, super: 320, offset: true, most: 8, unpack: func(a *asm, p plan512) {
			a.nibbles512(p, 0)
			a.fifth512(p, 256)
			a.scalesK512(p)
		}},
		{name: "q8", bytes: 512, head: 32, signed: true, most: 16, unpack: func(a *asm, p plan512) {
			a.bytes512(p, 0)
			a.op("VCVTPH2PS (BX), Z%d", p.d)
		}},
		{name: "q8x", bytes: 640, signed: true, offset: true, most: 8, unpack: func(a *asm, p plan512) {
			a.bytes512(p, 128)
			a.op("VMOVUPS (DI), Z%d", p.d)
			a.op("VMOVUPS 64(DI), Z%d", p.m)
		}},
	}
}

// nibbles512 unpacks four vectors at off(DI): the low halves are column groups 0 to 3, the high ones 4 to 7.
func (a *asm) nibbles512(p plan512, off int) {
	for v := range 4 {
		a.op("VPSRLW $4, %d(DI), Z%d", off+64*v, p.w+4+v)
		a.op("VPANDD %d(DI), Z%d, Z%d", off+64*v, p.mask, p.w+v)
	}
	for v := range 4 {
		a.op("VPANDD Z%d, Z%d, Z%d", p.mask, p.w+4+v, p.w+4+v)
	}
}

// fifth512 adds the fifth bits at off(DI): bit g of a byte belongs to column group g.
func (a *asm) fifth512(p plan512, off int) {
	for g := range 8 {
		t := p.sum + g%4
		a.shift512(4-g, off, t)
		a.op("VPTERNLOGD.BCST $0xf8, bit5<>(SB), Z%d, Z%d", t, p.w+g)
	}
}

// shift512 loads a vector and shifts its 16-bit lanes left, or right if by is negative.
func (a *asm) shift512(by, off, dst int) {
	switch {
	case by > 0:
		a.op("VPSLLW $%d, %d(DI), Z%d", by, off, dst)
	case by < 0:
		a.op("VPSRLW $%d, %d(DI), Z%d", -by, off, dst)
	default:
		a.op("VMOVDQU64 %d(DI), Z%d", off, dst)
	}
}

func (a *asm) bytes512(p plan512, off int) {
	for v := range 8 {
		a.op("VMOVDQU64 %d(DI), Z%d", off+64*v, p.w+v)
	}
}

// scalesK512 multiplies the block's 6-bit scales by those of the super-block in Z11 and Z12: exact products.
func (a *asm) scalesK512(p plan512) {
	a.op("VPMOVZXBD (BX), Z%d", p.d)
	a.op("VPMOVZXBD 16(BX), Z%d", p.m)
	a.op("VCVTDQ2PS Z%d, Z%d", p.d, p.d)
	a.op("VCVTDQ2PS Z%d, Z%d", p.m, p.m)
	a.op("VMULPS Z11, Z%d, Z%d", p.d, p.d)
	a.op("VMULPS Z12, Z%d, Z%d", p.m, p.m)
}

func (a *asm) zero512(acc, n int) {
	for t := range n {
		a.op("VPXORD Z%d, Z%d, Z%d", acc+t, acc+t, acc+t)
	}
}

// blocks512 is a tile of a format with one scale per block.
func (a *asm) blocks512(f *format512, p plan512) {
	a.begin(f.name, "AVX512", p.tokens, fmt.Sprintf("Panels of %s times %d tokens.", f.name, p.tokens))
	if !f.signed {
		a.op("VPBROADCASTD low4<>(SB), Z%d", p.mask)
	}
	a.panelLoop()
	a.point(p.tokens, f.head > 0, true)
	a.zero512(p.acc, p.tokens)
	loop, done := a.fresh(f.name+"block"), a.fresh(f.name+"done")
	super := a.super512(f.super, true)
	a.label(loop)
	if p.tokens <= 2 {
		a.prefetch(f.bytes)
	}
	f.unpack(a, p)
	for t := 0; t < p.tokens; t += p.group {
		a.group512(f, p, t)
	}
	a.step(p.tokens, f.bytes, f.head, f.super, loop, super, done)
	a.label(done)
	a.store512(p)
	a.end()
}

// super512 starts a super-block: scales to Z11, offsets, where there are any, to Z12, and BX to the blocks' own.
func (a *asm) super512(bytes int, offsets bool) string {
	if bytes == 0 {
		return ""
	}
	l := a.fresh("super")
	a.label(l)
	a.op("VCVTPH2PS (DI), Z11")
	if offsets {
		a.op("VCVTPH2PS 32(DI), Z12")
	}
	a.op("LEAQ 64(DI), BX")
	a.op("ADDQ $%d, DI", bytes)
	return l
}

// step moves to the next block.
func (a *asm) step(tokens, bytes, head, super int, loop, superLoop, done string) {
	a.op("ADDQ $%d, DI", bytes)
	a.op("ADDQ $32, SI")
	a.op("ADDQ $16, DX")
	if tokens > 8 {
		a.op("ADDQ $32, R12")
		a.op("ADDQ $16, R13")
	}
	if head > 0 {
		a.op("ADDQ $%d, BX", head)
	}
	if super == 0 {
		a.op("DECQ CX")
		a.op("JNZ %s", loop)
		return
	}
	a.op("ADDQ $32, BX")
	a.op("DECQ CX")
	a.op("JZ %s", done)
	a.op("TESTQ $7, CX")
	a.op("JNZ %s", loop)
	a.op("JMP %s", superLoop)
}

// prefetch asks for the lines that a single token will need soon.
func (a *asm) prefetch(bytes int) {
	for o := 0; o < bytes; o += 64 {
		a.op("PREFETCHT0 %d(DI)", prefetchAhead+o)
	}
}

const prefetchAhead = 2048

// group512 folds one block of some tokens: all their integer sums are in flight at once.
func (a *asm) group512(f *format512, p plan512, first int) {
	for t := range p.group {
		if f.signed {
			a.op("VPBROADCASTD %s, Z%d", sc(first+t, 8), p.sum+t)
		} else {
			a.op("VPXOR X%d, X%d, X%d", p.sum+t, p.sum+t, p.sum+t)
		}
	}
	for g := range 8 {
		for t := range p.group {
			a.op("VPDPBUSD.BCST %s, Z%d, Z%d", x(first+t, 4*g), p.w+g, p.sum+t)
		}
	}
	for t := range p.group {
		acc := p.acc + first + t
		a.op("VCVTDQ2PS Z%d, Z%d", p.sum+t, p.sum+t)
		a.op("VMULPS.BCST %s, Z%d, Z%d", sc(first+t, 0), p.d, p.tmp)
		a.op("VFMADD231PS Z%d, Z%d, Z%d", p.tmp, p.sum+t, acc)
		switch {
		case f.super > 0:
			a.op("VFNMADD231PS.BCST %s, Z%d, Z%d", sc(first+t, 4), p.m, acc)
		case f.offset:
			a.op("VFMADD231PS.BCST %s, Z%d, Z%d", sc(first+t, 4), p.m, acc)
		}
	}
}

func (a *asm) store512(p plan512) {
	var outs []out
	for t := range p.tokens {
		outs = append(outs, out{fmt.Sprintf("Z%d", p.acc+t), t, 0})
	}
	a.store(p.tokens, outs)
}

// q6k512 has two scales per block: sc0·S0 + sc1·S1 is exact in float32, as are the steps to it. The sums of the activations times
// −32·sc are subtracted for the 32 that each weight has too much.
func (a *asm) q6k512(p plan512) {
	a.begin("q6k", "AVX512", p.tokens, fmt.Sprintf("Panels of q6k times %d tokens.", p.tokens))
	a.op("VPBROADCASTD low4<>(SB), Z%d", p.mask)
	a.panelLoop()
	a.point(p.tokens, false, true)
	a.zero512(p.acc, p.tokens)
	loop, done := a.fresh("q6kblock"), a.fresh("q6kdone")
	super := a.super512(320, false)
	a.label(loop)
	if p.tokens <= 2 {
		a.prefetch(384)
	}
	a.nibbles512(p, 0)
	for g := range 8 {
		a.shift512(4-2*(g%4), 256+64*(g/4), g%4)
		a.op("VPTERNLOGD.BCST $0xf8, bits56<>(SB), Z%d, Z%d", g%4, p.w+g)
	}
	a.say("Z8, Z9: both scales of each row; Z12: 32 times them, in pairs.")
	a.op("VPMOVSXBW (BX), Z12")
	a.op("VPSRAD $16, Z12, Z9")
	a.op("VPSLLD $16, Z12, Z8")
	a.op("VPSRAD $16, Z8, Z8")
	a.op("VCVTDQ2PS Z8, Z8")
	a.op("VCVTDQ2PS Z9, Z9")
	a.op("VPSLLW $5, Z12, Z12")
	for first := 0; first < p.tokens; first += 2 {
		n := min(2, p.tokens-first)
		for t := range n {
			for s := range 3 {
				a.op("VPXOR X%d, X%d, X%d", 3*t+s, 3*t+s, 3*t+s)
			}
		}
		for g := range 4 {
			for t := range n {
				a.op("VPDPBUSD.BCST %s, Z%d, Z%d", x(first+t, 4*g), p.w+g, 3*t)
				a.op("VPDPBUSD.BCST %s, Z%d, Z%d", x(first+t, 16+4*g), p.w+4+g, 3*t+1)
			}
		}
		for t := range n {
			a.op("VPDPWSSD.BCST %s, Z12, Z%d", sc(first+t, 12), 3*t+2)
		}
		for t := range n {
			u0, u1, c := 3*t, 3*t+1, 3*t+2
			a.op("VCVTDQ2PS Z%d, Z%d", u0, u0)
			a.op("VCVTDQ2PS Z%d, Z%d", u1, u1)
			a.op("VCVTDQ2PS Z%d, Z%d", c, c)
			a.op("VFMSUB213PS Z%d, Z8, Z%d", c, u0)
			a.op("VFMADD231PS Z%d, Z9, Z%d", u1, u0)
			a.op("VMULPS.BCST %s, Z11, Z%d", sc(first+t, 0), u1)
			a.op("VFMADD231PS Z%d, Z%d, Z%d", u1, u0, p.acc+first+t)
		}
	}
	a.step(p.tokens, 384, 0, 320, loop, super, done)
	a.label(done)
	a.store512(p)
	a.end()
}

// rows512 is the tile with one scale per row on both sides: integers to the end.
func (a *asm) rows512(tokens int) {
	const acc, w = 16, 0
	a.begin("i8", "AVX512", tokens, fmt.Sprintf("Panels of i8 times %d tokens.", tokens))
	a.panelLoop()
	a.point(tokens, true, true)
	chains := 1
	if tokens <= 4 {
		chains = 8 / tokens / 2
	}
	for c := range max(chains, 1) {
		for t := range tokens {
			r := acc + c*tokens + t
			if c == 0 {
				a.op("VPBROADCASTD %s, Z%d", sc(t, 8), r)
			} else {
				a.op("VPXORD Z%d, Z%d, Z%d", r, r, r)
			}
		}
	}
	loop := a.fresh("i8block")
	a.label(loop)
	if tokens <= 2 {
		a.prefetch(512)
	}
	a.bytes512(plan512{w: w}, 0)
	for g := range 8 {
		for t := range tokens {
			a.op("VPDPBUSD.BCST %s, Z%d, Z%d", x(t, 4*g), w+g, acc+g%max(chains, 1)*tokens+t)
		}
	}
	a.op("ADDQ $512, DI")
	a.op("ADDQ $32, SI")
	if tokens > 8 {
		a.op("ADDQ $32, R12")
	}
	a.op("DECQ CX")
	a.op("JNZ %s", loop)
	for c := 1; c < chains; c++ {
		for t := range tokens {
			a.op("VPADDD Z%d, Z%d, Z%d", acc+c*tokens+t, acc+t, acc+t)
		}
	}
	a.op("VMOVUPS (BX), Z8")
	for t := range tokens {
		a.op("VCVTDQ2PS Z%d, Z%d", acc+t, acc+t)
		a.op("VMULPS.BCST %s, Z8, Z9", sc(t, 0))
		a.op("VMULPS Z9, Z%d, Z%d", acc+t, acc+t)
	}
	a.store512(plan512{tokens: tokens, acc: acc})
	a.end()
}

// dense512 goes column by column. With few tokens several panels at a time hide the latency of the sums.
func (a *asm) dense512(format string, tokens int) {
	panels, bytes, load := max(1, 4/tokens), 64, "VMOVUPS"
	if format == "f16" {
		bytes, load = 32, "VCVTPH2PS"
	}
	a.begin(format, "AVX512", tokens, fmt.Sprintf("Panels of %s times %d tokens.", format, tokens))
	body := func(panels int) {
		a.point(tokens, false, false)
		if panels > 1 {
			a.op("MOVQ %d(AX), R13", argPanelBytes)
			a.op("LEAQ (R13)(R13*2), BX")
		}
		a.zero512(16, panels*tokens)
		loop := a.fresh(format + "column")
		a.label(loop)
		for p := range panels {
			a.op("%s %s, Z%d", load, [4]string{"(DI)", "(DI)(R13*1)", "(DI)(R13*2)", "(DI)(BX*1)"}[p], p)
		}
		for t := range tokens {
			if panels == 1 {
				a.op("VFMADD231PS.BCST %s, Z0, Z%d", x(t, 0), 16+t)
				continue
			}
			a.op("VBROADCASTSS %s, Z4", x(t, 0))
			for p := range panels {
				a.op("VFMADD231PS Z4, Z%d, Z%d", p, 16+p*tokens+t)
			}
		}
		a.op("ADDQ $%d, DI", bytes)
		a.op("ADDQ $4, SI")
		if tokens > 8 {
			a.op("ADDQ $4, R12")
		}
		a.op("DECQ CX")
		a.op("JNZ %s", loop)
		var outs []out
		for p := range panels {
			for t := range tokens {
				outs = append(outs, out{fmt.Sprintf("Z%d", 16+p*tokens+t), t, 64 * p})
			}
		}
		a.store(tokens, outs)
		a.next(panels)
	}
	a.severalPanels(panels, body)
}

// severalPanels runs body for several panels as long as there are as many, then for single ones.
func (a *asm) severalPanels(panels int, body func(panels int)) {
	single, done := a.frame+"single", a.frame+"done"
	if panels > 1 {
		a.op("CMPQ panels-32(SP), $%d", panels)
		a.op("JLT %s", single)
		a.panelLoop()
		body(panels)
		a.op("CMPQ panels-32(SP), $%d", panels)
		a.op("JGE %s", a.frame)
		a.op("CMPQ panels-32(SP), $0")
		a.op("JEQ %s", done)
	}
	a.label(single)
	body(1)
	a.op("JNZ %s", single)
	if panels > 1 {
		a.label(done)
	}
	a.op("VZEROUPPER")
	a.op("RET")
}
