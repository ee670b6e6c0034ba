package main

// scans writes the scan kernels: rows of bytes times one vector of words, four rows at a time. Bytes are widened to words and
// multiplied into 32 bits: exact but for the wrap of a sum that is too large.
func (a *asm) scans() {
	a.scan("scanRows", "(dst *int32, rows *int8, query *int16, groups, stride int)",
		"Groups of four rows of stride bytes, one after the other; stride is a positive multiple of 32.", 40, func() {
			a.op("MOVD R1, R6")
			a.op("ADD R5, R6, R7")
			a.op("ADD R5, R7, R8")
			a.op("ADD R5, R8, R9")
			a.op("ADD R5, R9, R1")
		})
	a.scan("scanRowsAt", "(dst *int32, rows *int8, query *int16, groups, stride int, at *uint32)",
		"Groups of four rows with the numbers at; stride is a positive multiple of 32.", 48, func() {
			for i := range 4 {
				a.op("MOVWU.P 4(R2), R12")
				a.op("MADD R5, R1, R12, R%d", 6+i)
			}
		})
}

// scan keeps the sums of row i in registers i and 4+i.
func (a *asm) scan(name, signature, comment string, args int, addresses func()) {
	a.text(name, signature, comment, args)
	a.op("MOVD dst+0(FP), R0")
	a.op("MOVD rows+8(FP), R1")
	a.op("MOVD query+16(FP), R3")
	a.op("MOVD groups+24(FP), R4")
	a.op("MOVD stride+32(FP), R5")
	if args > 40 {
		a.op("MOVD at+40(FP), R2")
	}
	a.loop("R4", func() {
		addresses()
		a.op("MOVD R3, R10")
		a.op("LSR $4, R5, R11")
		for i := range 8 {
			a.zero(i)
		}
		a.loop("R11", func() {
			a.say("16 columns.")
			a.op("FLDPQ.P 32(R10), (F16, F17)")
			for i := range 4 {
				a.op("FMOVQ.P 16(R%d), F%d", 6+i, 20+i)
			}
			for i := range 4 {
				a.v2(sxtl8, 24+i, 20+i)
				a.v2(sxtl28, 20+i, 20+i)
				a.v3(smlal4, i, 24+i, 16)
				a.v3(smlal24, 4+i, 24+i, 16)
				a.v3(smlal4, i, 20+i, 17)
				a.v3(smlal24, 4+i, 20+i, 17)
			}
		})
		for i := range 4 {
			a.v3(add4, i, i, 4+i)
		}
		a.v3(addp4, 0, 0, 1)
		a.v3(addp4, 2, 2, 3)
		a.v3(addp4, 0, 0, 2)
		a.op("FMOVQ.P F0, 16(R0)")
	})
	a.op("RET")
}
