package main

// limits writes the two loops that measure what a core can do: multiplications on registers alone, loads alone. They take rounds,
// and a pointer with rounds of 512 bytes.
func (a *asm) limits(isa string, vectors int) {
	reg := map[int]string{32: "Y", 64: "Z"}[a.width]
	a.line("\n// func multiply%s(rounds int)\n// Each round has %d independent multiplications of vectors.", isa, vectors)
	a.line("TEXT ·multiply%s(SB), NOSPLIT, $0-8", isa)
	a.op("MOVQ rounds+0(FP), CX")
	for i := range 16 {
		a.op("VPXOR X%d, X%d, X%d", i, i, i)
	}
	loop := a.fresh("multiply")
	a.label(loop)
	for i := range vectors {
		if a.width == 64 {
			a.op("VPDPBUSD Z15, Z14, Z%d", i)
			continue
		}
		a.op("VPMADDUBSW Y15, Y14, Y%d", i)
		a.op("VPMADDWD Y13, Y%d, Y%d", i, i)
		a.op("VPADDD Y%d, Y%d, Y%d", i, 6+i, 6+i)
	}
	a.op("DECQ CX")
	a.op("JNZ %s", loop)
	a.op("VZEROUPPER")
	a.op("RET")
	a.line("\n// func read%s(p *byte, rounds int)\n// Each round loads 512 bytes.", isa)
	a.line("TEXT ·read%s(SB), NOSPLIT, $0-16", isa)
	a.op("MOVQ p+0(FP), DI")
	a.op("MOVQ rounds+8(FP), CX")
	loop = a.fresh("read")
	a.label(loop)
	for o := 0; o < 512; o += a.width {
		a.op("VMOVDQU%s %d(DI), %s%d", map[int]string{32: "", 64: "64"}[a.width], o, reg, o/a.width)
	}
	a.op("ADDQ $512, DI")
	a.op("DECQ CX")
	a.op("JNZ %s", loop)
	a.op("VZEROUPPER")
	a.op("RET")
}
