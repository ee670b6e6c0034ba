package main

import (
	"fmt"
	"strings"
)

// A tile is one panel of 16 rows times one or a few tokens. A register holds a quarter of a panel's vector: four rows. One token
// takes all quarters of a block before the next block, so that weights are read in order; several tokens take one quarter through
// all columns, then the next one: weights are unpacked once for all tokens.
//
// Vector registers: weights 0 to 7 (one per column group), sums of tokens 8 to 15 (of quarters with one token), activations 16 and
// 17 (with one token and without dot product, each group repeated, 16 to 23; with several tokens and dot product, those of two
// tokens, 16 to 19, and their integer sums, 20 to 23), integer sums 24, 25, scale 26, offset 27, the block's activation scale 28,
// temporary 29, masks 30, 31.
//
// General registers: R0 arguments; R10 panel, R11 destination, R12 bias, R13 panels left, R15 quarter; R1 weights, R2 scales of half
// precision, R9 a super-block's byte scales; R3 and R4 bytes and scales of the first token, R7 and R8 those of the token at hand,
// R5 their stride, R6 blocks left.
const (
	acc, xs, sums     = 8, 16, 20
	lo, hi            = 24, 25
	scale, offset, sc = 26, 27, 28
	tmp, low4, mask   = 29, 30, 31
)

// Offsets in mulArgs.
const (
	argDst = 8 * iota
	argDstStride
	argW
	argPanelBytes
	argPanels
	argBlocks
	argX
	argXStride
	argScales
	argHead
	argBias
	argAdd
)

type mulTile struct {
	format, name string
	tokens       int
}

// format is what the frame of the block formats needs to know.
type format struct {
	name   string
	bytes  int // of a block of 32 columns in the stream of weights
	head   int // bytes per block in the panel's head, if any
	super  int // bytes before every eighth block
	mask   uint8
	chain  int    // products that fit a sum of 16 bits
	offset string // the instruction that adds the offset, if there is one
	unpack func(a *asm, q int)
	// of formats with two scales per block
	pair bool
}

func formats() []format {
	return []format{
		{name: "q4", bytes: 320, chain: 8, offset: "fmla", unpack: func(a *asm, q int) {
			a.nibbles(64 + 16*q)
			a.halves(0, 32, q)
		}},
		{name: "q4k", bytes: 256, super: 320, chain: 8, offset: "fmls", unpack: func(a *asm, q int) {
			a.nibbles(16 * q)
			a.scalesK(q)
		}},
		{name: "q5", bytes: 384, mask: 0x10, chain: 8, offset: "fmla", unpack: func(a *asm, q int) {
			a.nibbles(64 + 16*q)
			a.fifths(320 + 16*q)
			a.halves(0, 32, q)
		}},
		{name: "q5k", bytes: 320, super: 320, mask: 0x10, chain: 8, offset: "fmls", unpack: func(a *asm, q int) {
			a.nibbles(16 * q)
			a.fifths(256 + 16*q)
			a.scalesK(q)
		}},
		{name: "q6k", bytes: 384, super: 320, mask: 0x30, chain: 4, pair: true, unpack: func(a *asm, q int) {
			a.nibbles(16 * q)
			a.sixths(256 + 16*q)
		}},
		{name: "q8", bytes: 512, head: 32, mask: 0x80, chain: 2, unpack: func(a *asm, q int) {
			a.codes(16 * q)
			a.halves(0, -1, q)
		}},
		{name: "q8x", bytes: 640, mask: 0x80, chain: 2, offset: "fmla", unpack: func(a *asm, q int) {
			a.codes(128 + 16*q)
			a.op("FMOVQ %d(R1), F%d", 16*q, scale)
			a.op("FMOVQ %d(R1), F%d", 64+16*q, offset)
		}},
	}
}

func (a *asm) products() {
	widths := []int{1, 4}
	if a.dot {
		widths = []int{1, 2, 4, 8}
	}
	for _, f := range formats() {
		for _, n := range widths {
			a.blocks(&f, n)
		}
	}
	for _, n := range widths {
		a.rows(n)
	}
	if a.dot {
		return // the dense tiles do not differ
	}
	for _, f := range []string{"f32", "f16"} {
		for _, n := range []int{1, 4} {
			a.dense(f, n)
		}
	}
}

// registers is how many sums a tile has: the quarters of one token, or one quarter of each token.
func registers(tokens int) int {
	if tokens == 1 {
		return 4
	}
	return tokens
}

// nibbles unpacks all eight groups of a quarter.
func (a *asm) nibbles(off int) {
	for v := range 4 {
		a.op("FMOVQ %d(R1), F%d", off+64*v, v)
	}
	for v := range 4 {
		a.ushr16(4+v, v, 4)
		a.v3(and16, v, v, low4)
	}
}

// fifths adds the bit that each byte at off has for each group.
func (a *asm) fifths(off int) {
	a.op("FMOVQ %d(R1), F%d", off, hi)
	for g := range 8 {
		a.high(g, hi, 4-g)
	}
}

// sixths adds two bits to each weight and takes 32 off.
func (a *asm) sixths(off int) {
	for half := range 2 {
		a.op("FMOVQ %d(R1), F%d", off+64*half, hi)
		for g := range 4 {
			a.high(4*half+g, hi, 4-2*g)
		}
	}
	a.bytes(hi, 32)
	for g := range 8 {
		a.v3(sub16, g, g, hi)
	}
}

// high adds the masked bits of a register, shifted left.
func (a *asm) high(d, from, by int) {
	switch {
	case by > 0:
		a.shl16(tmp, from, by)
		from = tmp
	case by < 0:
		a.ushr16(tmp, from, -by)
		from = tmp
	}
	a.v3(and16, tmp, from, mask)
	a.v3(orr16, d, d, tmp)
}

// codes loads bytes that have 128 added.
func (a *asm) codes(off int) {
	for g := range 8 {
		a.op("FMOVQ %d(R1), F%d", off+64*g, g)
	}
	for g := range 8 {
		a.v3(eor16, g, g, mask)
	}
}

// halves loads scales and offsets of half precision.
func (a *asm) halves(d, m, q int) {
	a.op("FMOVD %d(R2), F%d", d+8*q, scale)
	a.v2(fcvtl, scale, scale)
	if m >= 0 {
		a.op("FMOVD %d(R2), F%d", m+8*q, offset)
		a.v2(fcvtl, offset, offset)
	}
}

// scalesK multiplies the block's 6-bit scales by those of the super-block: exact products.
func (a *asm) scalesK(q int) {
	a.halves(0, 32, q)
	for i, r := range []int{scale, offset} {
		a.op("FMOVS %d(R9), F%d", 16*i+4*q, tmp)
		a.v2(uxtl8, tmp, tmp)
		a.v2(uxtl4, tmp, tmp)
		a.v2(scvtf, tmp, tmp)
		a.v3(fmul, r, r, tmp)
	}
}

// begin opens a function and its loop over panels; end closes both.
func (a *asm) begin(format string, tokens int) (panel string) {
	name := fmt.Sprintf("%sx%d", format, tokens)
	a.tiles = append(a.tiles, mulTile{format, name + a.suffix, tokens})
	a.text(name, "(a *mulArgs)", fmt.Sprintf("Panels of %s times %d tokens.", format, tokens), 8)
	a.op("MOVD a+0(FP), R0")
	a.op("MOVD %d(R0), R10", argW)
	a.op("MOVD %d(R0), R11", argDst)
	a.op("MOVD %d(R0), R12", argBias)
	a.op("MOVD %d(R0), R13", argPanels)
	a.op("MOVD %d(R0), R5", argXStride)
	return name + "panel"
}

func (a *asm) end(panel string) {
	unbiased := a.fresh("unbiased")
	a.op("MOVD %d(R0), R1", argPanelBytes)
	a.op("ADD R1, R10")
	a.op("ADD $64, R11")
	a.op("CBZ R12, %s", unbiased)
	a.op("ADD $64, R12")
	a.label(unbiased)
	a.op("SUB $1, R13")
	a.op("CBNZ R13, %s", panel)
	a.op("RET")
}

// quarters writes the body once, in a loop over quarters, or for all quarters at once.
func (a *asm) quarters(all bool, body func()) {
	if all {
		body()
		return
	}
	loop := a.fresh("quarter")
	a.op("MOVD $0, R15")
	a.label(loop)
	body()
	a.op("ADD $1, R15")
	a.op("CMP $4, R15")
	a.op("BLT %s", loop)
}

// point sets the registers to the begin of the panel, at the quarter in R15 unless all are taken at once.
func (a *asm) point(all, quantised bool) {
	a.op("MOVD R10, R2")
	a.op("MOVD %d(R0), R1", argHead)
	a.op("ADD R10, R1")
	if !all {
		a.op("ADD R15<<4, R1")
		a.op("ADD R15<<3, R2")
	}
	a.op("MOVD %d(R0), R3", argX)
	if quantised {
		a.op("MOVD %d(R0), R4", argScales)
	}
	a.op("MOVD %d(R0), R6", argBlocks)
}

// blocks is a tile of a block format.
func (a *asm) blocks(f *format, tokens int) {
	all := tokens == 1
	panel := a.begin(f.name, tokens)
	a.bytes(low4, 0x0f)
	if f.mask != 0 {
		a.bytes(mask, f.mask)
	}
	a.label(panel)
	a.quarters(all, func() {
		a.point(all, true)
		for i := range registers(tokens) {
			a.zero(acc + i)
		}
		loop, done := a.fresh("block"), a.fresh("done")
		super := ""
		if f.super > 0 {
			super = a.fresh("super")
			a.label(super)
			a.superBlock(f, all)
		}
		a.label(loop)
		if all {
			a.prefetch(f.bytes)
			a.activations(f)
			for q := range 4 {
				f.unpack(a, q)
				a.fold(f, acc+q, q, true)
			}
		} else {
			f.unpack(a, 0)
			a.op("MOVD R3, R7")
			a.op("MOVD R4, R8")
			if a.dot && !f.pair {
				a.together(tokens, func(t, sum int) { a.foldOne(f, acc+t, sum) })
			} else {
				for t := range tokens {
					a.activations(f)
					a.fold(f, acc+t, 0, t == 0)
				}
			}
		}
		a.step(f, loop, super, done)
		a.label(done)
		a.store(tokens)
	})
	a.end(panel)
}

// superBlock starts one: R2 at its scales, R9 at those of its blocks, R1 at the weights.
func (a *asm) superBlock(f *format, all bool) {
	a.op("MOVD R1, R2")
	a.op("ADD $64, R1, R9")
	if !all { // R1 is 16 bytes per quarter on
		a.op("SUB R15<<3, R2")
		if f.pair {
			a.op("SUB R15<<3, R9")
		} else {
			a.op("SUB R15<<4, R9")
			a.op("ADD R15<<2, R9")
		}
	}
	a.op("ADD $%d, R1", f.super)
}

// step moves to the next block.
func (a *asm) step(f *format, loop, super, done string) {
	a.op("ADD $%d, R1", f.bytes)
	a.op("ADD $32, R3")
	a.op("ADD $16, R4")
	switch {
	case f.head > 0:
		a.op("ADD $%d, R2", f.head)
	case f.super == 0:
		a.op("ADD $%d, R2", f.bytes)
	}
	a.op("SUB $1, R6")
	if f.super == 0 {
		a.op("CBNZ R6, %s", loop)
		return
	}
	a.op("ADD $32, R9")
	a.op("CBZ R6, %s", done)
	a.op("AND $7, R6, R16")
	a.op("CBNZ R16, %s", loop)
	a.op("B %s", super)
}

// prefetch asks for the lines that a single token will need soon.
func (a *asm) prefetch(bytes int) {
	for o := 0; o < bytes; o += 64 {
		a.op("PRFM %d(R1), PLDL1KEEP", 2048+o)
	}
}

// repeated reports whether the groups of activations are repeated ahead, for all quarters.
func (a *asm) repeated(f *format) bool {
	return !a.dot && !f.pair && a.tiles[len(a.tiles)-1].tokens == 1
}

// activations loads a block of a token with its scales and, if there are several, goes on to the next token.
func (a *asm) activations(f *format) {
	from, scales := "R3", "R4"
	if a.tiles[len(a.tiles)-1].tokens > 1 {
		from, scales = "R7", "R8"
	}
	if a.repeated(f) {
		a.op("FLDPQ (%s), (F%d, F%d)", from, lo, hi)
		for g := range 8 {
			a.dup(xs+g, lo+g/4, g%4)
		}
	} else {
		a.op("FLDPQ (%s), (F%d, F%d)", from, xs, xs+1)
	}
	a.op("FMOVQ (%s), F%d", scales, sc)
	if from == "R7" {
		a.op("ADD R5, R7")
		a.op("ADD R5, R8")
	}
}

// sum leaves the integer sums of the weights of groups [from, to) in lo. Without dot product, the 16 bits of lo and hi take chain
// products before they are added to 32 bits.
func (a *asm) sum(f *format, from, to int) {
	if a.dot {
		a.zero(lo)
		for g := from; g < to; g++ {
			a.sdot(lo, g, xs+g/4, g%4)
		}
		return
	}
	// 32-bit sums in 18 and 19 where there is more than one chain: with repeated activations, in the weights' registers that are
	// done with.
	wideLo, wideHi := 18, 19
	if a.repeated(f) {
		wideLo, wideHi = 0, 1
	}
	for g := from; g < to; g++ {
		x := 22
		if a.repeated(f) {
			x = xs + g
		} else {
			a.dup(x, xs+g/4, g%4)
		}
		low, high := smlal, smlal2
		if (g-from)%f.chain == 0 {
			low, high = smull, smull2
		}
		a.v3(low, lo, g, x)
		a.v3(high, hi, g, x)
		if (g-from)%f.chain < f.chain-1 {
			continue
		}
		if to-from == f.chain {
			a.v2(saddlp, lo, lo)
			a.v2(saddlp, hi, hi)
			break
		}
		how := sadalp
		if g-from == f.chain-1 {
			how = saddlp
		}
		a.v2(how, wideLo, lo)
		a.v2(how, wideHi, hi)
	}
	if to-from > f.chain {
		a.v3(addp4, lo, wideLo, wideHi)
		return
	}
	a.v3(addp4, lo, lo, hi)
}

// together multiplies tokens two by two, each with two integer sums, so that a processor that issues in order need not wait for one;
// each token's sum goes to f.
func (a *asm) together(tokens int, f func(t, sum int)) {
	for first := 0; first < tokens; first += 2 {
		for t := range 2 {
			a.op("FLDPQ (R7), (F%d, F%d)", xs+2*t, xs+2*t+1)
			a.op("ADD R5, R7")
			a.zero(sums + 2*t)
			a.zero(sums + 2*t + 1)
		}
		for g := range 8 {
			for t := range 2 {
				a.sdot(sums+2*t+g%2, g, xs+2*t+g/4, g%4)
			}
		}
		for t := range 2 {
			a.v3(add4, sums+2*t, sums+2*t, sums+2*t+1)
			f(first+t, sums+2*t)
		}
	}
}

// foldOne adds a block of the token at R8.
func (a *asm) foldOne(f *format, acc, sum int) {
	a.op("FMOVQ (R8), F%d", sc)
	a.op("ADD R5, R8")
	a.v2(scvtf, sum, sum)
	a.byElement("fmul", tmp, scale, sc, 0)
	a.v3(fmla, acc, sum, tmp)
	if f.offset != "" {
		a.byElement(f.offset, acc, offset, sc, 1)
	}
}

// fold adds a block of one token to its sum. The first of several tokens prepares what all share.
func (a *asm) fold(f *format, acc, q int, first bool) {
	if f.pair {
		a.foldPair(f, acc, q, first)
		return
	}
	a.sum(f, 0, 8)
	a.v2(scvtf, lo, lo)
	a.byElement("fmul", tmp, scale, sc, 0)
	a.v3(fmla, acc, lo, tmp)
	if f.offset != "" {
		a.byElement(f.offset, acc, offset, sc, 1)
	}
}

// foldPair has two scales per block, in 20 and 21: sc0·S0 + sc1·S1 is exact in 32 bits and in float32.
func (a *asm) foldPair(f *format, acc, q int, first bool) {
	if first {
		a.halves(0, -1, q)
		a.op("FMOVD %d(R9), F21", 8*q)
		a.v2(sxtl8, 21, 21)
		a.shl4(20, 21, 16)
		a.sshr4(20, 20, 16)
		a.sshr4(21, 21, 16)
	}
	a.sum(f, 0, 4)
	a.v3(mul4, 23, lo, 20)
	a.sum(f, 4, 8)
	a.v3(mla4, 23, lo, 21)
	a.v2(scvtf, 23, 23)
	a.byElement("fmul", tmp, scale, sc, 0)
	a.v3(fmla, acc, 23, tmp)
}

// rows is the tile with one scale per row on both sides: integers to the end.
func (a *asm) rows(tokens int) {
	f := format{name: "i8", bytes: 512, mask: 0x80, chain: 2}
	all := tokens == 1
	panel := a.begin(f.name, tokens)
	a.bytes(mask, f.mask)
	a.label(panel)
	a.quarters(all, func() {
		a.point(all, true)
		if !all {
			a.op("ADD R15<<3, R2") // scales are of single precision
		}
		for i := range registers(tokens) {
			a.zero(acc + i)
		}
		loop := a.fresh("block")
		a.label(loop)
		if all {
			a.prefetch(f.bytes)
			a.activations(&f)
			for q := range 4 {
				a.codes(16 * q)
				a.sum(&f, 0, 8)
				a.v3(add4, acc+q, acc+q, lo)
			}
		} else {
			a.codes(0)
			a.op("MOVD R3, R7")
			a.op("MOVD R4, R8")
			if a.dot {
				a.together(tokens, func(t, sum int) { a.v3(add4, acc+t, acc+t, sum) })
			} else {
				for t := range tokens {
					a.activations(&f)
					a.sum(&f, 0, 8)
					a.v3(add4, acc+t, acc+t, lo)
				}
			}
		}
		a.op("ADD $512, R1")
		a.op("ADD $32, R3")
		a.op("SUB $1, R6")
		a.op("CBNZ R6, %s", loop)
		for i := range registers(tokens) {
			if all {
				a.op("FMOVQ %d(R2), F%d", 16*i, scale)
			} else if i == 0 {
				a.op("FMOVQ (R2), F%d", scale)
			}
			if !all || i == 0 {
				a.op("FMOVS (R4), F%d", sc)
				a.op("ADD R5, R4")
			}
			a.byElement("fmul", tmp, scale, sc, 0)
			a.v2(scvtf, acc+i, acc+i)
			a.v3(fmul, acc+i, acc+i, tmp)
		}
		a.store(tokens)
	})
	a.end(panel)
}

// store adds bias and residual to the sums and writes them: the four quarters of one token, or one quarter of several tokens.
func (a *asm) store(tokens int) {
	bias, add := a.fresh("bias"), a.fresh("add")
	all := tokens == 1
	a.op("MOVD %d(R0), R7", argDstStride)
	a.op("MOVD R11, R1")
	if !all {
		a.op("ADD R15<<4, R1")
	}
	a.op("CBZ R12, %s", bias)
	if !all {
		a.op("ADD R15<<4, R12, R8")
		a.op("FMOVQ (R8), F%d", tmp)
	}
	for i := range registers(tokens) {
		if all {
			a.op("FMOVQ %d(R12), F%d", 16*i, tmp)
		}
		a.v3(fadd, acc+i, acc+i, tmp)
	}
	a.label(bias)
	a.op("MOVD %d(R0), R8", argAdd)
	a.op("CBZ R8, %s", add)
	a.op("MOVD R1, R8")
	for i := range registers(tokens) {
		a.op("FMOVQ (R8), F%d", tmp)
		a.v3(fadd, acc+i, acc+i, tmp)
		a.nextOut(all, "R8")
	}
	a.label(add)
	for i := range registers(tokens) {
		a.op("FMOVQ F%d, (R1)", acc+i)
		a.nextOut(all, "R1")
	}
}

func (a *asm) nextOut(all bool, r string) {
	if all {
		a.op("ADD $16, %s", r)
	} else {
		a.op("ADD R7, %s", r)
	}
}

// dense goes column by column. Sums of token t, quarter q: register 4t+q; weights 16 to 19; activations of four columns from 20 on.
func (a *asm) dense(name string, tokens int) {
	f := map[string]int{"f32": 64, "f16": 32}[name]
	panel := a.begin(name, tokens)
	a.label(panel)
	a.op("MOVD R10, R1")
	a.op("MOVD %d(R0), R3", argX)
	a.op("MOVD %d(R0), R6", argBlocks)
	for i := range 4 * tokens {
		a.zero(i)
	}
	four, rest, column, done := a.fresh("four"), a.fresh("rest"), a.fresh("column"), a.fresh("done")
	weights := func(off int) {
		if name == "f32" {
			a.op("FLDPQ %d(R1), (F16, F17)", off)
			a.op("FLDPQ %d(R1), (F18, F19)", off+32)
			return
		}
		a.op("FLDPQ %d(R1), (F17, F19)", off)
		a.v2(fcvtl, 16, 17)
		a.v2(fcvtl2, 17, 17)
		a.v2(fcvtl, 18, 19)
		a.v2(fcvtl2, 19, 19)
	}
	multiply := func(i int) {
		for t := range tokens {
			for q := range 4 {
				a.byElement("fmla", 4*t+q, 16+q, 20+t, i)
			}
		}
	}
	load := func(register string) {
		a.op("MOVD R3, R7")
		for t := range tokens {
			a.op("%s (R7), F%d", register, 20+t)
			a.op("ADD R5, R7")
		}
	}
	a.op("SUBS $4, R6")
	a.op("BLT %s", rest)
	a.label(four)
	if tokens == 1 {
		a.prefetch(4 * f)
	}
	load("FMOVQ")
	for i := range 4 {
		weights(i * f)
		multiply(i)
	}
	a.op("ADD $%d, R1", 4*f)
	a.op("ADD $16, R3")
	a.op("SUBS $4, R6")
	a.op("BGE %s", four)
	a.label(rest)
	a.op("ADDS $4, R6")
	a.op("BEQ %s", done)
	a.label(column)
	load("FMOVS")
	weights(0)
	multiply(0)
	a.op("ADD $%d, R1", f)
	a.op("ADD $4, R3")
	a.op("SUB $1, R6")
	a.op("CBNZ R6, %s", column)
	a.label(done)
	a.storeDense(tokens)
	a.end(panel)
}

func (a *asm) storeDense(tokens int) {
	bias, add := a.fresh("bias"), a.fresh("add")
	a.op("MOVD %d(R0), R7", argDstStride)
	a.op("CBZ R12, %s", bias)
	for q := range 4 {
		a.op("FMOVQ %d(R12), F%d", 16*q, 16+q)
	}
	for i := range 4 * tokens {
		a.v3(fadd, i, i, 16+i%4)
	}
	a.label(bias)
	a.op("MOVD %d(R0), R8", argAdd)
	a.op("CBZ R8, %s", add)
	a.op("MOVD R11, R1")
	for i := range 4 * tokens {
		a.op("FMOVQ %d(R1), F16", 16*(i%4))
		a.v3(fadd, i, i, 16)
		if i%4 == 3 {
			a.op("ADD R7, R1")
		}
	}
	a.label(add)
	a.op("MOVD R11, R1")
	for i := range 4 * tokens {
		a.op("FMOVQ F%d, %d(R1)", i, 16*(i%4))
		if i%4 == 3 {
			a.op("ADD R7, R1")
		}
	}
}

// dispatch is the declarations and a switch per form. Direct calls let the arguments stay on the stack.
func dispatch(files []*asm) string {
	var b strings.Builder
	for _, a := range files {
		fmt.Fprintf(&b, "\n// tile%s multiplies with the tile for so many tokens and reports whether there is one.\nfunc tile%s(f Format, tokens int, a *mulArgs) bool {\n\tswitch int(f)<<8 | tokens {\n", a.suffix, a.suffix)
		for _, t := range a.tiles {
			fmt.Fprintf(&b, "\tcase int(%s)<<8 | %d:\n\t\t%s(a)\n", strings.ToUpper(t.format), t.tokens, t.name)
		}
		if a.dot {
			b.WriteString("\tdefault:\n\t\treturn tileNEON(f, tokens, a)\n\t}\n\treturn true\n}\n")
		} else {
			b.WriteString("\tdefault:\n\t\treturn false\n\t}\n\treturn true\n}\n")
		}
		for _, t := range a.tiles {
			fmt.Fprintf(&b, "\n//go:noescape\nfunc %s(a *mulArgs)\n", t.name)
		}
	}
	return b.String()
}
