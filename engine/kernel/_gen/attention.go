package main

import "fmt"

// The arguments of the page kernels lie in a struct (pageArgs in attention.go) that AX points to.
const (
	argOut, argOutStride       = "0(AX)", "8(AX)"
	argLeft, argLeftStride     = "16(AX)", "24(AX)"
	argPage, argPageStride     = "32(AX)", "40(AX)"
	argDepth, argRows, argCols = "48(AX)", "56(AX)", "64(AX)"
	argKeep, argScale          = "72(AX)", "80(AX)"
	argScales, argSums, argKD  = "88(AX)", "96(AX)", "104(AX)"
)

// load converts the elements at an address to float32.
type load struct {
	name string
	size int // bytes of an element
	emit func(a *asm, from, to string)
}

func attention(a *asm) {
	half := load{"half", 2, func(a *asm, from, to string) { a.op("VCVTPH2PS", from, to) }}
	bytes := load{"byte", 1, func(a *asm, from, to string) {
		a.op("VPMOVSXBD", from, to)
		a.op("VCVTDQ2PS", to, to)
	}}
	for _, l := range []load{half, bytes} {
		pageProduct(a, l)
	}
	pageDots(a)
}

// tile is a block of accumulators: rows × vectors. cols is how many columns a call of it covers, in passes of vectors.
type tile struct{ rows, vectors, cols int }

// bases hold the addresses of rows 0, 3, 6 and 9 of the left side; R9 is the stride.
var bases = []string{"R11", "R12", "R14", "R15"}

// leftRow returns the address of the element of row i that is due.
func leftRow(i int) string {
	if i%3 == 0 {
		return "(" + bases[i/3] + ")"
	}
	return fmt.Sprintf("(%s)(R9*%d)", bases[i/3], i%3)
}

// leftRows sets the bases for a tile.
func (a *asm) leftRows(rows int) {
	a.op("MOVQ", "SI", bases[0])
	if rows > 3 {
		a.op("LEAQ", "(R9)(R9*2)", "R13")
	}
	for g := 1; g < (rows+2)/3; g++ {
		a.op("LEAQ", fmt.Sprintf("(%s)(R13*1)", bases[g-1]), bases[g])
	}
}

// nextLeft moves on by one element.
func (a *asm) nextLeft(rows int) {
	for g := range (rows + 2) / 3 {
		a.op("ADDQ", "$4", bases[g])
	}
}

// outRows runs f for every row of the output, with R13 at its beginning.
func (a *asm) outRows(rows int, f func(i int)) {
	a.op("MOVQ", "DX", "R13")
	for i := range rows {
		f(i)
		if i < rows-1 {
			a.op("ADDQ", "R8", "R13")
		}
	}
}

// rowLoop runs, for each number of columns, tiles of rows until none are left.
func rowLoop(a *asm, widths []int, rowsOf func(cols int) []int, body func(cols, rows int)) {
	a.op("MOVQ", "args+0(FP)", "AX")
	a.op("MOVQ", argOut, "DX")
	a.op("MOVQ", argOutStride, "R8")
	a.op("MOVQ", argLeft, "SI")
	a.op("MOVQ", argLeftStride, "R9")
	a.op("MOVQ", argPage, "DI")
	a.op("MOVQ", argPageStride, "R10")
	a.op("MOVQ", argRows, "BX")
	done := a.fresh("done")
	for i, cols := range widths {
		next := a.fresh("narrower")
		if i < len(widths)-1 {
			a.op("CMPQ", argCols, fmt.Sprintf("$%d", cols))
			a.op("JLT", next)
		}
		for _, rows := range rowsOf(cols) {
			top, out := a.fresh("tile"), a.fresh("fewer")
			a.label(top)
			a.op("CMPQ", "BX", fmt.Sprintf("$%d", rows))
			a.op("JLT", out)
			body(cols, rows)
			for range rows {
				a.op("ADDQ", "R8", "DX")
				a.op("ADDQ", "R9", "SI")
			}
			a.op("SUBQ", fmt.Sprintf("$%d", rows), "BX")
			a.op("JMP", top)
			a.label(out)
		}
		a.op("JMP", done)
		a.label(next)
	}
	a.label(done)
	a.ret()
}

// pageProduct multiplies rows of float32 by a page: out[t][c] = Σ left[t][i]·page[i][c], one accumulator each, in the order of i.
func pageProduct(a *asm, l load) {
	a.text(l.name+"Page", "(args *pageArgs)", `
		One block of columns of a page times any number of rows. Without keep the sums begin at zero and are multiplied by scale at
		the end; with keep they begin at what out holds.`, 8)
	widths := []int{32, 8}
	if a.lanes == 16 {
		widths = []int{64, 32, 16}
	}
	rows := func(cols int) []int {
		if cols < widths[0] {
			return []int{6, 3, 1} // the rest of a head: no tile for every count
		}
		if a.lanes == 16 {
			return []int{12, 6, 4, 3, 2, 1}
		}
		return []int{6, 4, 3, 2, 1}
	}
	rowLoop(a, widths, rows, func(cols, rows int) {
		vectors := 4
		if a.lanes == 8 && rows > 3 || rows > 6 {
			vectors = 2 // all registers but a few
		}
		t := tile{rows, min(vectors, cols/a.lanes), cols}
		for from := 0; from < cols; from += t.vectors * a.lanes {
			productTile(a, l, t, from)
		}
	})
}

func productTile(a *asm, l load, t tile, from int) {
	acc := func(i, v int) string { return a.v(i*t.vectors + v) }
	at := func(v, size int) string { return fmt.Sprintf("%d(R13)", (from+v*a.lanes)*size) }
	zero, begin, loop, unscaled := a.fresh("zero"), a.fresh("begin"), a.fresh("loop"), a.fresh("unscaled")
	n := t.rows * t.vectors
	a.say("%d rows × %d columns from %d.", t.rows, t.vectors*a.lanes, from)
	a.leftRows(t.rows)
	a.op("CMPQ", argKeep, "$0")
	a.op("JEQ", zero)
	a.outRows(t.rows, func(i int) {
		for v := range t.vectors {
			a.op("VMOVUPS", at(v, 4), acc(i, v))
		}
	})
	a.op("JMP", begin)
	a.label(zero)
	for i := range n {
		a.op("VPXOR"+a.d(), a.v(i), a.v(i), a.v(i))
	}
	a.label(begin)
	a.op("MOVQ", "DI", "R13")
	a.op("MOVQ", argDepth, "CX")
	a.label(loop)
	if t.rows <= 3 {
		a.prefetch(from*l.size, t.vectors*a.lanes*l.size)
	}
	if n+t.vectors+1 <= a.regs {
		for v := range t.vectors {
			l.emit(a, at(v, l.size), a.v(n+v))
		}
		b := a.v(n + t.vectors)
		for i := range t.rows {
			a.op("VBROADCASTSS", leftRow(i), b)
			for v := range t.vectors {
				a.op("VFMADD231PS", b, a.v(n+v), acc(i, v))
			}
		}
	} else {
		for i := range t.rows {
			a.op("VBROADCASTSS", leftRow(i), a.v(n+1+i))
		}
		for v := range t.vectors {
			l.emit(a, at(v, l.size), a.v(n))
			for i := range t.rows {
				a.op("VFMADD231PS", a.v(n+1+i), a.v(n), acc(i, v))
			}
		}
	}
	a.nextLeft(t.rows)
	a.op("ADDQ", "R10", "R13")
	a.op("DECQ", "CX")
	a.op("JNZ", loop)
	a.op("CMPQ", argKeep, "$0")
	a.op("JNE", unscaled)
	a.op("VBROADCASTSS", argScale, a.v(n))
	for i := range n {
		a.op("VMULPS", a.v(n), a.v(i), a.v(i))
	}
	a.label(unscaled)
	a.outRows(t.rows, func(i int) {
		for v := range t.vectors {
			a.op("VMOVUPS", acc(i, v), at(v, 4))
		}
	})
}

// prefetch asks for bytes of the page 2 KiB ahead: at its end, for what follows it in memory.
func (a *asm) prefetch(from, size int) {
	for at := 0; at < size; at += 64 {
		a.op("PREFETCHT0", fmt.Sprintf("%d(R13)", 2048+from+at))
	}
}

// d is the suffix that EVEX forms of integer logic need.
func (a *asm) d() string {
	if a.lanes == 16 {
		return "D"
	}
	return ""
}

// pageDots multiplies rows of signed bytes by a page of keys in groups of four: exact integer sums, then the scales.
func pageDots(a *asm) {
	a.text("dotPage", "(args *pageArgs)", `
		All 64 positions of a page of byte keys times any number of rows of bytes: float32(S)·(kd[p]·(scales[t]·scale)).`, 8)
	if a.lanes == 8 {
		a.op("VPCMPEQW", "Y15, Y15, Y15")
		a.op("VPABSW", "Y15, Y15")
		rowLoop(a, []int{64}, func(int) []int { return []int{3, 2, 1} }, func(_, rows int) {
			dotTile(a, tile{rows, 4, 64}, 0)
			dotTile(a, tile{rows, 4, 64}, 32)
		})
		return
	}
	a.op("MOVQ", "$0x80808080", "R11")
	a.op("VPBROADCASTD", "R11", "Z31")
	rowLoop(a, []int{64}, func(int) []int { return []int{6, 4, 3, 2, 1} }, func(_, rows int) {
		dotTile(a, tile{rows, 4, 64}, 0)
	})
}

// rowPointer puts the address of the tile's first element of a vector with one element per row into R10; R13 is lost.
func (a *asm) rowPointer(vector string) {
	a.op("MOVQ", argRows, "R13")
	a.op("SUBQ", "BX", "R13")
	a.op("MOVQ", vector, "R10")
	a.op("LEAQ", "(R10)(R13*4)", "R10")
}

func dotTile(a *asm, t tile, from int) {
	acc := func(i, v int) string { return a.v(i*t.vectors + v) }
	at := func(v int) string { return fmt.Sprintf("%d(R13)", (from+v*a.lanes)*4) }
	loop := a.fresh("loop")
	n := t.rows * t.vectors
	a.say("%d rows × %d positions from %d.", t.rows, t.vectors*a.lanes, from)
	a.leftRows(t.rows)
	if a.lanes == 16 {
		a.say("Keys are taken as k+128, so the sums begin at −128·Σq.")
		a.rowPointer(argSums)
		for i := range t.rows {
			a.op("VPBROADCASTD", fmt.Sprintf("%d(R10)", i*4), acc(i, 0))
			a.op("VPSLLD", "$7", acc(i, 0), acc(i, 0))
			a.op("VPXORD", acc(i, 1), acc(i, 1), acc(i, 1))
			a.op("VPSUBD", acc(i, 0), acc(i, 1), acc(i, 0))
			for v := 1; v < t.vectors; v++ {
				a.op("VMOVDQA32", acc(i, 0), acc(i, v))
			}
		}
	} else {
		for i := range n {
			a.op("VPXOR", a.v(i), a.v(i), a.v(i))
		}
	}
	a.op("MOVQ", "DI", "R13")
	a.op("MOVQ", argDepth, "CX")
	a.label(loop)
	if t.rows <= 3 {
		a.prefetch(from*4, t.vectors*a.lanes*4)
	}
	if a.lanes == 16 {
		for v := range t.vectors {
			a.op("VPXORD", at(v), "Z31", a.v(n+v))
		}
		for i := range t.rows {
			b := a.v(n + t.vectors)
			a.op("VPBROADCASTD", leftRow(i), b)
			for v := range t.vectors {
				a.op("VPDPBUSD", b, a.v(n+v), acc(i, v))
			}
		}
	} else {
		for v := range t.vectors {
			a.op("VMOVDQU", at(v), "Y12")
			a.op("VPABSB", "Y12", "Y13")
			for i := range t.rows {
				a.op("VPBROADCASTD", leftRow(i), "Y14")
				a.op("VPSIGNB", "Y12", "Y14", "Y14")
				a.op("VPMADDUBSW", "Y14", "Y13", "Y14")
				a.op("VPMADDWD", "Y15", "Y14", "Y14")
				a.op("VPADDD", "Y14", acc(i, v), acc(i, v))
			}
		}
	}
	a.nextLeft(t.rows)
	a.op("ADDQ", "$256", "R13")
	a.op("DECQ", "CX")
	a.op("JNZ", loop)
	a.scaleDots(t, from)
}

// scaleDots turns the integer sums of a tile into scores and stores them.
func (a *asm) scaleDots(t tile, from int) {
	s, f := "Y12", "Y13"
	if a.lanes == 16 {
		s, f = "Z28", "Z29"
	}
	a.rowPointer(argScales)
	a.op("MOVQ", argKD, "R11")
	a.outRows(t.rows, func(i int) {
		a.op("VBROADCASTSS", argScale, f)
		a.op("VBROADCASTSS", fmt.Sprintf("%d(R10)", i*4), s)
		a.op("VMULPS", f, s, s)
		for v := range t.vectors {
			acc, at := a.v(i*t.vectors+v), (from+v*a.lanes)*4
			a.op("VMULPS", fmt.Sprintf("%d(R11)", at), s, f)
			a.op("VCVTDQ2PS", acc, acc)
			a.op("VMULPS", f, acc, acc)
			a.op("VMOVUPS", acc, fmt.Sprintf("%d(R13)", at))
		}
	})
}
