package main

// The page kernels. General registers: R0 arguments; R1 and R5 the columns at hand of the output and of the page, R3 the left side,
// R2, R6 and R4 their strides; R7 rows left, R8 columns left; R9 and R10 the tile's first rows of output and left side; R11 the
// page's row, R12 rows of it left, R13 and R14 temporary; R19 to R24 the tile's rows of the left side. R15 to R17 are the dots'.
//
// Vector registers: sums 0 to 23 (row i, vector v: i·vectors+v), the page's columns 24 to 27, temporary 28 to 31.

// Offsets in pageArgs.
const (
	pageOut = 8 * iota
	pageOutStride
	pageLeft
	pageLeftStride
	pagePage
	pageStride
	pageDepth
	pageRows
	pageCols
	pageKeep
	pageScale
	pageScales
	pageSums
	pageKD
)

func (a *asm) pages() {
	if !a.dot {
		a.page("halfPage", 2)
		a.page("bytePage", 1)
	}
	a.dots()
}

func (a *asm) pageBegin(name, comment string) {
	a.text(name, "(args *pageArgs)", comment, 8)
	a.op("MOVD args+0(FP), R0")
	for i, r := range []string{"R1", "R2", "R3", "R4", "R5"} {
		a.op("MOVD %d(R0), %s", 8*i, r)
	}
}

// tiles runs body over all rows, in tiles of so many.
func (a *asm) rowTiles(body func(rows int)) {
	a.op("MOVD R1, R9")
	a.op("MOVD R3, R10")
	a.op("MOVD %d(R0), R7", pageRows)
	for _, rows := range []int{6, 3, 2, 1} {
		top, fewer := a.fresh("tile"), a.fresh("fewer")
		a.label(top)
		a.op("CMP $%d, R7", rows)
		a.op("BLT %s", fewer)
		a.op("MOVD R10, R19")
		for i := 1; i < rows; i++ {
			a.op("ADD R4, R%d, R%d", 18+i, 19+i)
		}
		a.op("ADD R4, R%d, R10", 18+rows)
		body(rows)
		a.op("SUB $%d, R7", rows)
		a.op("B %s", top)
		a.label(fewer)
	}
}

// page multiplies rows of float32 by a page: out[t][c] = Σ left[t][i]·page[i][c], one sum each, in the order of i.
func (a *asm) page(name string, size int) {
	a.pageBegin(name, "Columns of a page (a multiple of eight) times any number of rows. Without keep the sums begin at zero and are multiplied by\n// scale at the end; with keep they begin at what out holds.")
	a.op("MOVD %d(R0), R6", pageStride)
	a.op("MOVD %d(R0), R8", pageCols)
	wide, narrow, done := a.fresh("wide"), a.fresh("narrow"), a.fresh("done")
	a.label(wide)
	a.op("CMP $16, R8")
	a.op("BLT %s", narrow)
	a.rowTiles(func(rows int) { a.pageTile(rows, 4, size) })
	a.op("ADD $64, R1")
	a.op("ADD $%d, R5", 16*size)
	a.op("SUB $16, R8")
	a.op("B %s", wide)
	a.label(narrow)
	a.op("CBZ R8, %s", done)
	a.rowTiles(func(rows int) { a.pageTile(rows, 2, size) })
	a.label(done)
	a.op("RET")
}

func (a *asm) pageTile(rows, vectors, size int) {
	n := rows * vectors
	zero, begin, loop, keep := a.fresh("zero"), a.fresh("begin"), a.fresh("loop"), a.fresh("keep")
	a.op("MOVD %d(R0), R14", pageKeep)
	a.op("CBZ R14, %s", zero)
	a.outRows(rows, vectors, "FMOVQ %d(R13), F%d")
	a.op("B %s", begin)
	a.label(zero)
	for i := range n {
		a.zero(i)
	}
	a.label(begin)
	a.op("MOVD R5, R11")
	a.op("MOVD %d(R0), R12", pageDepth)
	a.label(loop)
	a.columns(vectors, size)
	for i := range rows {
		x := 28 + i%2
		a.op("FMOVS.P 4(R%d), F%d", 19+i, x)
		for v := range vectors {
			a.byElement("fmla", i*vectors+v, 24+v, x, 0)
		}
	}
	a.op("ADD R6, R11")
	a.op("SUB $1, R12")
	a.op("CBNZ R12, %s", loop)
	a.op("CBNZ R14, %s", keep)
	a.op("FMOVS %d(R0), F28", pageScale)
	for i := range n {
		a.byElement("fmul", i, i, 28, 0)
	}
	a.label(keep)
	a.outRows(rows, vectors, "FMOVQ F%[2]d, %[1]d(R13)")
	a.op("MOVD R13, R9")
}

// outRows goes through the rows of the output, and ends behind them.
func (a *asm) outRows(rows, vectors int, format string) {
	a.op("MOVD R9, R13")
	for i := range rows {
		for v := range vectors {
			a.op(format, 16*v, i*vectors+v)
		}
		a.op("ADD R2, R13")
	}
}

// columns converts elements of the page to float32.
func (a *asm) columns(vectors, size int) {
	switch {
	case size == 2 && vectors == 4:
		a.op("FLDPQ (R11), (F25, F27)")
		a.v2(fcvtl, 24, 25)
		a.v2(fcvtl2, 25, 25)
		a.v2(fcvtl, 26, 27)
		a.v2(fcvtl2, 27, 27)
	case size == 2:
		a.op("FMOVQ (R11), F25")
		a.v2(fcvtl, 24, 25)
		a.v2(fcvtl2, 25, 25)
	case vectors == 4:
		a.op("FMOVQ (R11), F30")
		a.v2(sxtl8, 31, 30)
		a.v2(sxtl28, 30, 30)
		a.v2(sxtl4, 24, 31)
		a.v2(sxtl24, 25, 31)
		a.v2(sxtl4, 26, 30)
		a.v2(sxtl24, 27, 30)
	default:
		a.op("FMOVD (R11), F30")
		a.v2(sxtl8, 31, 30)
		a.v2(sxtl4, 24, 31)
		a.v2(sxtl24, 25, 31)
	}
	for v := range vectors {
		if size == 1 {
			a.v2(scvtf, 24+v, 24+v)
		}
	}
}

// dots multiplies rows of signed bytes by a page of keys in groups of four: exact integer sums, then the scales.
func (a *asm) dots() {
	a.pageBegin("dotPage", "All 64 positions of a page of byte keys times any number of rows of bytes: float32(S)·(kd[p]·(scales[t]·scale)).")
	a.op("MOVD %d(R0), R16", pageKD)
	a.op("MOVD $4, R8")
	loop := a.fresh("quarter")
	a.label(loop)
	a.op("MOVD %d(R0), R15", pageScales)
	a.rowTiles(a.dotTile)
	a.op("ADD $64, R1")
	a.op("ADD $64, R5")
	a.op("ADD $64, R16")
	a.op("SUB $1, R8")
	a.op("CBNZ R8, %s", loop)
	a.op("RET")
}

func (a *asm) dotTile(rows int) {
	for i := range 4 * rows {
		a.zero(i)
	}
	loop := a.fresh("loop")
	a.op("MOVD R5, R11")
	a.op("MOVD %d(R0), R12", pageDepth)
	a.label(loop)
	a.op("FLDPQ (R11), (F24, F25)")
	a.op("FLDPQ 32(R11), (F26, F27)")
	a.op("ADD $256, R11")
	for i := range rows {
		if a.dot {
			x := 28 + i%2
			a.op("FMOVS.P 4(R%d), F%d", 19+i, x)
			for v := range 4 {
				a.sdot(4*i+v, 24+v, x, 0)
			}
			continue
		}
		a.op("VLD1R.P 4(R%d), [V28.S4]", 19+i)
		for v := range 4 {
			a.v3(smull, 29, 24+v, 28)
			a.v3(smull2, 30, 24+v, 28)
			a.v3(addp8, 29, 29, 30)
			a.v2(sadalp, 4*i+v, 29)
		}
	}
	a.op("SUB $1, R12")
	a.op("CBNZ R12, %s", loop)
	a.op("FMOVS %d(R0), F28", pageScale)
	for v := range 4 {
		a.op("FMOVQ %d(R16), F%d", 16*v, 24+v)
	}
	for i := range rows {
		a.op("FMOVS.P 4(R15), F29")
		a.op("FMULS F28, F29")
		for v := range 4 {
			a.v2(scvtf, 4*i+v, 4*i+v)
			a.byElement("fmul", 30, 24+v, 29, 0)
			a.v3(fmul, 4*i+v, 4*i+v, 30)
		}
	}
	a.outRows(rows, 4, "FMOVQ F%[2]d, %[1]d(R13)")
	a.op("MOVD R13, R9")
}
