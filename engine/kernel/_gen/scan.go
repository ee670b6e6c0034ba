package main

import "fmt"

// scans writes the scan kernels: rows of bytes times one vector of words, four rows at a time, so that a query's words are loaded
// once for four and their sums are folded together. Bytes are widened to words and pairs of products added in 32 bits: exact but
// for the wrap of a sum that is too large.
func scans(a *asm) {
	a.scan("scanRows", "(dst *int32, rows *int8, query *int16, groups, stride int)", `
		Groups of four rows of stride bytes, one after the other; stride is a positive multiple of 32.`, 40, func() {
		a.op("MOVQ", "SI", "R10")
		a.op("LEAQ", "(SI)(R9*1)", "R11")
		a.op("LEAQ", "(SI)(R9*2)", "R12")
		a.op("LEAQ", "(R11)(R9*2)", "R13")
		a.op("LEAQ", "(SI)(R9*4)", "SI")
	})
	a.scan("scanRowsAt", "(dst *int32, rows *int8, query *int16, groups, stride int, at *uint32)", `
		Groups of four rows with the numbers at; stride is a positive multiple of 32.`, 48, func() {
		for i, r := range []string{"R10", "R11", "R12", "R13"} {
			a.op("MOVL", at("DX", 4*i), "AX")
			a.op("IMULQ", "R9", "AX")
			a.op("LEAQ", "(SI)(AX*1)", r)
		}
		a.op("ADDQ", "$16", "DX")
	})
}

func (a *asm) scan(name, signature, comment string, args int, addresses func()) {
	a.text(name, signature, comment, args)
	a.op("MOVQ", "dst+0(FP)", "DI")
	a.op("MOVQ", "rows+8(FP)", "SI")
	a.op("MOVQ", "query+16(FP)", "R8")
	a.op("MOVQ", "groups+24(FP)", "CX")
	a.op("MOVQ", "stride+32(FP)", "R9")
	if args > 40 {
		a.op("MOVQ", "at+40(FP)", "DX")
	}
	group, columns := a.fresh("group"), a.fresh("columns")
	a.label(group)
	addresses()
	for i := range 4 {
		a.op("VPXOR", y(i), y(i), y(i))
	}
	a.op("XORQ", "BX", "BX")
	a.label(columns)
	a.say("32 columns.")
	rows := []string{"R10", "R11", "R12", "R13"}
	if a.lanes == 16 {
		a.op("VMOVDQU64", "(R8)(BX*2)", "Z12")
		for i, r := range rows {
			a.op("VPMOVSXBW", "("+r+")(BX*1)", a.v(4+i))
			a.op("VPDPWSSD", "Z12", a.v(4+i), a.v(i))
		}
	} else {
		a.op("VMOVDQU", "(R8)(BX*2)", "Y12")
		a.op("VMOVDQU", "32(R8)(BX*2)", "Y13")
		for half := range 2 {
			for i, r := range rows {
				a.op("VPMOVSXBW", at(r, 16*half)+"(BX*1)", a.v(4+i))
				a.op("VPMADDWD", a.v(12+half), a.v(4+i), a.v(4+i))
				a.op("VPADDD", a.v(4+i), a.v(i), a.v(i))
			}
		}
	}
	a.op("ADDQ", "$32", "BX")
	a.op("CMPQ", "BX", "R9")
	a.op("JNE", columns)
	a.say("Fold four sums into one vector.")
	if a.lanes == 16 {
		for i := range 4 {
			a.op("VEXTRACTI64X4", "$1", a.v(i), y(4+i))
			a.op("VPADDD", y(4+i), y(i), y(i))
		}
	}
	a.op("VPHADDD", "Y1", "Y0", "Y0")
	a.op("VPHADDD", "Y3", "Y2", "Y2")
	a.op("VPHADDD", "Y2", "Y0", "Y0")
	a.op("VEXTRACTI128", "$1", "Y0", "X1")
	a.op("VPADDD", "X1", "X0", "X0")
	a.op("VMOVDQU", "X0", "(DI)")
	a.op("ADDQ", "$16", "DI")
	a.op("DECQ", "CX")
	a.op("JNZ", group)
	a.ret()
}

// y names the register of 256 bits.
func y(i int) string { return fmt.Sprintf("Y%d", i) }
