package main

import "fmt"

// Registers of the AVX-512 tiles. Integer sums of the tokens Z0 to Z11, all of them in flight at once, which hides their latency;
// Z12 to Z14 weights, made when they are needed; Z15 the mask of nibbles, Z16 scales, Z17 offsets, Z18 temporary; from Z20 on the
// sums of the tokens. Tiles of super-blocks have at most eight tokens, and the super-block's scales in Z8 and Z9.
const (
	zWeight  = 12
	zMask    = 15
	zScale   = 16
	zOffset  = 17
	zTmp     = 18
	zAcc     = 20
	zSuper   = 8
	zSuperOf = 9
)

// format512 is what the frame of the block formats needs to know.
type format512 struct {
	name   string
	bytes  int  // of a block of 32 columns in the stream of weights
	head   int  // bytes per block in the panel's head, if any
	super  int  // bytes before every eighth block
	signed bool // weights are stored with 128 added
	offset bool // products have an offset
	most   int  // tokens
	resume bool // sums begin with what an earlier part of the columns gave
	scales func(a *asm)
	// weights makes the i-th group of four columns, in an order of its own: the register and the group.
	weights func(a *asm, i int) (reg, group int)
}

func (a *asm) avx512() {
	a.constant("low4", 0x0f0f0f0f)
	a.constant("bit5", 0x10101010)
	a.constant("bits56", 0x30303030)
	a.constant("sign", 0x80000000)
	small := []int{1, 2, 3, 4, 5, 6, 7, 8}
	for _, f := range formats512() {
		for _, n := range append(small, 12) {
			if n <= f.most {
				a.blocks512(&f, n)
			}
		}
	}
	for _, n := range small {
		a.q6k512(n)
	}
	for _, n := range []int{1, 2, 3, 4, 8, 12} {
		a.wide6(n)
	}
	a.unpack512q6()
	for _, f := range formats512() {
		if unpacked(f.name) {
			a.unpack512(&f)
		}
	}
	for _, n := range append(small, 12, 16) {
		a.rows512(n)
	}
	for _, f := range []string{"f32", "f16"} {
		for _, n := range append(small, 12, 16) {
			a.dense512(f, n)
		}
	}
}

func formats512() []format512 {
	halves := func(a *asm) {
		a.op("VCVTPH2PS (DI), Z%d", zScale)
		a.op("VCVTPH2PS 32(DI), Z%d", zOffset)
	}
	floats := func(a *asm) {
		a.op("VMOVUPS (DI), Z%d", zScale)
		a.op("VMOVUPS 64(DI), Z%d", zOffset)
	}
	nibbles := func(off int) func(*asm, int) (int, int) {
		return func(a *asm, i int) (int, int) { return a.nibbles512(off, i) }
	}
	five := func(off, bits int) func(*asm, int) (int, int) {
		return func(a *asm, i int) (int, int) {
			reg, g := a.nibbles512(off, i)
			a.shift512(4-g, bits, 14)
			a.op("VPTERNLOGD.BCST $0xf8, bit5<>(SB), Z14, Z%d", reg)
			return reg, g
		}
	}
	bytes := func(off int) func(*asm, int) (int, int) {
		return func(a *asm, i int) (int, int) {
			a.op("VMOVDQU64 %d(DI), Z%d", off+64*i, zWeight+i%3)
			return zWeight + i%3, i
		}
	}
	return []format512{
		{name: "q4", bytes: 320, offset: true, most: 12, scales: halves, weights: nibbles(64)},
		{name: "q5", bytes: 384, offset: true, most: 12, scales: halves, weights: five(64, 320)},
		{name: "q4k", bytes: 256, super: 320, offset: true, most: 8, scales: (*asm).scalesK512, weights: nibbles(0)},
		{name: "q5k", bytes: 320, super: 320, offset: true, most: 8, scales: (*asm).scalesK512, weights: five(0, 256)},
		{name: "q8", bytes: 512, head: 32, signed: true, most: 12, weights: bytes(0),
			scales: func(a *asm) { a.op("VCVTPH2PS (BX), Z%d", zScale) }},
		{name: "q8x", bytes: 640, signed: true, offset: true, most: 12, scales: floats, weights: bytes(128)},
		{name: "wide", bytes: 640, offset: true, most: 12, resume: true, scales: floats, weights: bytes(128)},
	}
}

// nibbles512 unpacks four vectors at off(DI): the low halves are column groups 0 to 3, the high ones 4 to 7.
func (a *asm) nibbles512(off, i int) (reg, group int) {
	v := i / 2
	if i%2 == 0 {
		a.op("VPANDD %d(DI), Z%d, Z%d", off+64*v, zMask, zWeight)
		return zWeight, v
	}
	a.op("VPSRLW $4, %d(DI), Z%d", off+64*v, zWeight+1)
	a.op("VPANDD Z%d, Z%d, Z%d", zMask, zWeight+1, zWeight+1)
	return zWeight + 1, v + 4
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

// scalesK512 multiplies the block's 6-bit scales by those of the super-block: exact products.
func (a *asm) scalesK512() {
	a.op("VPMOVZXBD (BX), Z%d", zScale)
	a.op("VPMOVZXBD 16(BX), Z%d", zOffset)
	a.op("VCVTDQ2PS Z%d, Z%d", zScale, zScale)
	a.op("VCVTDQ2PS Z%d, Z%d", zOffset, zOffset)
	a.op("VMULPS Z%d, Z%d, Z%d", zSuper, zScale, zScale)
	a.op("VMULPS Z%d, Z%d, Z%d", zSuperOf, zOffset, zOffset)
}

func (a *asm) zero512(acc, n int) {
	for t := range n {
		a.op("VPXORD Z%d, Z%d, Z%d", acc+t, acc+t, acc+t)
	}
}

// blocks512 is a tile of a format with one scale per block.
func (a *asm) blocks512(f *format512, tokens int) {
	a.begin(f.name, "AVX512", tokens, fmt.Sprintf("Panels of %s times %d tokens.", f.name, tokens))
	if f.bytes < 512 {
		a.op("VPBROADCASTD low4<>(SB), Z%d", zMask)
	}
	a.panelLoop()
	a.point(tokens, f.head > 0, true)
	a.zero512(zAcc, tokens)
	if f.resume {
		a.resume("Z", zAcc, tokens, 0)
	}
	loop, done := a.fresh(f.name+"block"), a.fresh(f.name+"done")
	super := a.super512(f.super, true)
	a.label(loop)
	switch {
	case fetches(f.name, tokens):
		a.fetchAhead()
	case tokens <= 2:
		a.prefetch(f.bytes)
	}
	a.block512(f, tokens)
	a.step(tokens, f.bytes, f.head, f.super, loop, super, done)
	a.label(done)
	a.store512(tokens)
	a.end()
}

// block512 folds one block of all tokens.
func (a *asm) block512(f *format512, tokens int) {
	for t := range tokens {
		if f.signed {
			a.op("VPBROADCASTD %s, Z%d", sc(t, 8), t)
		} else {
			a.op("VPXOR X%d, X%d, X%d", t, t, t)
		}
	}
	for i := range 8 {
		w, g := f.weights(a, i)
		for t := range tokens {
			a.op("VPDPBUSD.BCST %s, Z%d, Z%d", x(t, 4*g), w, t)
		}
	}
	f.scales(a)
	for t := range tokens {
		a.op("VCVTDQ2PS Z%d, Z%d", t, t)
		a.op("VMULPS.BCST %s, Z%d, Z%d", sc(t, 0), zScale, zTmp)
		a.op("VFMADD231PS Z%d, Z%d, Z%d", zTmp, t, zAcc+t)
		switch {
		case f.super > 0:
			a.op("VFNMADD231PS.BCST %s, Z%d, Z%d", sc(t, 4), zOffset, zAcc+t)
		case f.offset:
			a.op("VFMADD231PS.BCST %s, Z%d, Z%d", sc(t, 4), zOffset, zAcc+t)
		}
	}
}

// super512 starts a super-block: its scales, its offsets, where there are any, and BX to the blocks' own.
func (a *asm) super512(bytes int, offsets bool) string {
	if bytes == 0 {
		return ""
	}
	l := a.fresh("super")
	a.label(l)
	a.op("VCVTPH2PS (DI), Z%d", zSuper)
	if offsets {
		a.op("VCVTPH2PS 32(DI), Z%d", zSuperOf)
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
	a.advance(super, loop, superLoop, done)
}

// prefetch asks for the lines that a single token will need soon.
func (a *asm) prefetch(bytes int) {
	for o := 0; o < bytes; o += 64 {
		a.op("PREFETCHT0 %d(DI)", prefetchAhead+o)
	}
}

// prefetchAhead is how far ahead a single token asks for weights: nearer gave 5 to 15 % less where unpacking takes long.
const prefetchAhead = 8192

func (a *asm) store512(tokens int) {
	var outs []out
	for t := range tokens {
		outs = append(outs, out{fmt.Sprintf("Z%d", zAcc+t), t, 0})
	}
	a.store(tokens, outs)
}

// q6k512 has two scales per block: sc0·S0 + sc1·S1 is exact in float32, as are the steps to it. The sums of the activations times
// 32·sc are subtracted for the 32 that each weight has too much.
func (a *asm) q6k512(tokens int) {
	a.begin("q6k", "AVX512", tokens, fmt.Sprintf("Panels of q6k times %d tokens.", tokens))
	a.op("VPBROADCASTD low4<>(SB), Z%d", zMask)
	a.panelLoop()
	a.point(tokens, false, true)
	a.zero512(zAcc, tokens)
	loop, done := a.fresh("q6kblock"), a.fresh("q6kdone")
	super := a.super512(320, false)
	a.label(loop)
	if tokens <= 2 {
		a.prefetch(384)
	}
	a.scales512q6()
	a.tokens512q6(tokens, zSuper, func(i int) (int, int) {
		w, g := a.nibbles512(0, i)
		a.shift512(4-2*(g%4), 256+64*(g/4), 14)
		a.op("VPTERNLOGD.BCST $0xf8, bits56<>(SB), Z14, Z%d", w)
		return w, g
	})
	a.step(tokens, 384, 0, 320, loop, super, done)
	a.label(done)
	a.store512(tokens)
	a.end()
}

// scales512q6 loads both scales of each row to Z10 and Z11 and 32 times them, in pairs, to Z16.
func (a *asm) scales512q6() {
	a.op("VPMOVSXBW (BX), Z16")
	a.op("VPSRAD $16, Z16, Z11")
	a.op("VPSLLD $16, Z16, Z10")
	a.op("VPSRAD $16, Z10, Z10")
	a.op("VCVTDQ2PS Z10, Z10")
	a.op("VCVTDQ2PS Z11, Z11")
	a.op("VPSLLW $5, Z16, Z16")
}

// tokens512q6 folds one block: four tokens at a time have three sums each, in Z0 to Z7 and, up to eight tokens, Z28 to Z31 or else
// Z8 to Z11. The scales are in Z10 and Z11 or Z17 and Z18, 32 times them in Z16.
func (a *asm) tokens512q6(tokens, d int, weights func(i int) (reg, group int)) {
	third, s0, s1 := 28, 10, 11
	if d != zSuper {
		third, s0, s1 = 8, 17, 18
	}
	for first := 0; first < tokens; first += 4 {
		n := min(4, tokens-first)
		for t := range n {
			for _, r := range []int{2 * t, 2*t + 1, third + t} {
				a.op("VPXORD Z%d, Z%d, Z%d", r, r, r)
			}
		}
		for i := range 8 {
			w, g := weights(i)
			for t := range n {
				a.op("VPDPBUSD.BCST %s, Z%d, Z%d", x(first+t, 4*g), w, 2*t+g/4)
			}
		}
		for t := range n {
			a.op("VPDPWSSD.BCST %s, Z16, Z%d", sc(first+t, 12), third+t)
		}
		for t := range n {
			u0, u1, c := 2*t, 2*t+1, third+t
			a.op("VCVTDQ2PS Z%d, Z%d", u0, u0)
			a.op("VCVTDQ2PS Z%d, Z%d", u1, u1)
			a.op("VCVTDQ2PS Z%d, Z%d", c, c)
			a.op("VFMSUB213PS Z%d, Z%d, Z%d", c, s0, u0)
			a.op("VFMADD231PS Z%d, Z%d, Z%d", u1, s1, u0)
			a.op("VMULPS.BCST %s, Z%d, Z%d", sc(first+t, 0), d, u1)
			a.op("VFMADD231PS Z%d, Z%d, Z%d", u1, u0, zAcc+first+t)
		}
	}
}

// wide6 is the tile of unpacked blocks of q6k: both scales as float32, 32 times them in pairs, the super-block's scale, bytes.
func (a *asm) wide6(tokens int) {
	a.begin("wide6", "AVX512", tokens, fmt.Sprintf("Unpacked panels of q6k times %d tokens.", tokens))
	a.panelLoop()
	a.point(tokens, false, true)
	a.zero512(zAcc, tokens)
	a.resume("Z", zAcc, tokens, 0)
	loop := a.fresh("wide6block")
	a.label(loop)
	a.fetchAhead()
	for i, r := range []int{17, 18, 16, 19} {
		a.op("VMOVUPS %d(DI), Z%d", 64*i, r)
	}
	a.tokens512q6(tokens, 19, func(i int) (int, int) {
		a.op("VMOVDQU64 %d(DI), Z%d", 256+64*i, zWeight+i%3)
		return zWeight + i%3, i
	})
	a.step(tokens, 768, 0, 0, loop, "", "")
	a.store512(tokens)
	a.end()
}

// unpack512q6 writes blocks of q6k as wide6 reads them.
func (a *asm) unpack512q6() {
	loop, done := a.unpackBegin("q6k", "AVX512")
	a.op("VPBROADCASTD low4<>(SB), Z%d", zMask)
	super := a.super512(320, false)
	a.label(loop)
	for i := range 8 {
		w, g := a.nibbles512(0, i)
		a.shift512(4-2*(g%4), 256+64*(g/4), 14)
		a.op("VPTERNLOGD.BCST $0xf8, bits56<>(SB), Z14, Z%d", w)
		a.op("VMOVDQU64 Z%d, %d(SI)", w, 256+64*g)
	}
	a.scales512q6()
	for i, r := range []int{10, 11, 16, zSuper} {
		a.op("VMOVUPS Z%d, %d(SI)", r, 64*i)
	}
	a.unpackEnd(384, 768, 320, loop, super, done)
}

// rows512 is the tile with one scale per row on both sides: integers to the end.
func (a *asm) rows512(tokens int) {
	const acc, w = 16, 0
	a.begin("i8", "AVX512", tokens, fmt.Sprintf("Panels of i8 times %d tokens.", tokens))
	a.panelLoop()
	a.point(tokens, true, true)
	// So many sums for each token that about a dozen are in flight.
	chains := [...]int{0, 8, 8, 4, 4, 2, 2, 2, 2, 0, 0, 0, 1, 0, 0, 0, 1}[tokens]
	for c := range chains {
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
	switch {
	case fetches("i8", tokens):
		a.fetchAhead()
	case tokens <= 2:
		a.prefetch(512)
	}
	for g := range 8 {
		a.op("VMOVDQU64 %d(DI), Z%d", 64*g, w+g)
		for t := range tokens {
			a.op("VPDPBUSD.BCST %s, Z%d, Z%d", x(t, 4*g), w+g, acc+g%chains*tokens+t)
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
	var outs []out
	for t := range tokens {
		outs = append(outs, out{fmt.Sprintf("Z%d", acc+t), t, 0})
	}
	a.store(tokens, outs)
	a.end()
}

// dense512 goes column by column. With few tokens several panels at a time hide the latency of the sums.
func (a *asm) dense512(format string, tokens int) {
	bytes, load := 64, "VMOVUPS"
	if format == "f16" {
		bytes, load = 32, "VCVTPH2PS"
	}
	a.begin(format, "AVX512", tokens, fmt.Sprintf("Panels of %s times %d tokens.", format, tokens))
	body := func(panels int) {
		a.point(tokens, false, false)
		a.panelStrides(panels)
		a.zero512(16, panels*tokens)
		loop := a.fresh(format + "column")
		a.label(loop)
		for p := range panels {
			a.op("%s %s, Z%d", load, panelAt(p, panels, 0), p)
		}
		for t := range tokens {
			if panels == 1 {
				a.op("VFMADD231PS.BCST %s, Z0, Z%d", x(t, 0), 16+t)
				continue
			}
			a.op("VBROADCASTSS %s, Z%d", x(t, 0), 8+t)
			for p := range panels {
				a.op("VFMADD231PS Z%d, Z%d, Z%d", 8+t, p, 16+p*tokens+t)
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
	a.severalPanels([...]int{8, 4, 2, 2, 1}[min(tokens, 5)-1], body)
}

// unpack512 writes the blocks of a panel as the wide tiles read them: float32 scales and offsets, then bytes.
func (a *asm) unpack512(f *format512) {
	loop, done := a.unpackBegin(f.name, "AVX512")
	a.op("VPBROADCASTD low4<>(SB), Z%d", zMask)
	super := a.super512(f.super, true)
	a.label(loop)
	for i := range 8 {
		w, g := f.weights(a, i)
		a.op("VMOVDQU64 Z%d, %d(SI)", w, 128+64*g)
	}
	f.scales(a)
	if f.super > 0 {
		a.op("VPXORD.BCST sign<>(SB), Z%d, Z%d", zOffset, zOffset)
	}
	a.op("VMOVUPS Z%d, (SI)", zScale)
	a.op("VMOVUPS Z%d, 64(SI)", zOffset)
	a.unpackEnd(f.bytes, 640, f.super, loop, super, done)
}
