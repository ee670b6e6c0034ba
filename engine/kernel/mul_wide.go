package kernel

// With many tokens it pays to unpack the weights of a panel once, some columns at a time, to a form that tiles read without
// further ado. The operations on numbers and their order stay the same, so the results do.
const (
	wideTokens = 20  // from how many tokens on
	wideBlocks = 24  // blocks of 32 columns unpacked at a time: a multiple of those of a super-block
	wideSums   = 96  // tokens whose sums wait for the next columns
	wideBytes  = 768 // of an unpacked block at most
)

// wideScratch is room on the stack; only a part that begins at a multiple of 64 bytes is used.
type wideScratch struct {
	blocks [wideBlocks*wideBytes + 64]byte
	sums   [wideSums * panelRows]float32
}

// mulWide multiplies rows first, first+1, … of a: n of them.
func (k Kernels) mulWide(dst []float32, stride int, w *Matrix, from, to int, a *Activations, first, n int, add bool, bias []float32) {
	var room wideScratch
	scratch := &room.blocks[alignedAt(room.blocks[:])]
	blocks := w.cols / 32
	step := w.wideStep()
	group := n
	if step < blocks {
		group = wideSums
	}
	for p := from; p < to; p++ {
		panel := w.data[p*w.panelBytes:]
		for t0 := 0; t0 < n; t0 += group {
			count := min(group, n-t0)
			for b := 0; b < blocks; b += step {
				args := mulArgs{w: scratch, panels: 1, blocks: min(step, blocks-b), xStride: a.stride}
				k.unpack(w.format, scratch, &panel[b*w.layout.bytes/(w.layout.cols/32)], args.blocks)
				last := b+step >= blocks
				if last && add {
					args.add = 1
				}
				if last && bias != nil {
					args.bias = &bias[p*panelRows]
				}
				for t := 0; t < count; {
					args.x, args.scales = a.at(first+t0+t, b)
					if b > 0 {
						args.sums = &room.sums[t*panelRows]
					}
					if last {
						args.dst, args.dstStride = &dst[(t0+t)*stride+p*panelRows], 4*stride
					} else {
						args.dst, args.dstStride = &room.sums[t*panelRows], 4*panelRows
					}
					t += k.tile(k.unpacked(w.format), count-t, &args)
				}
			}
		}
	}
}

// unpacked is the format that the products of many tokens unpack f to, where the tier does so.
func (k Kernels) unpacked(f Format) Format {
	switch {
	case f == Q6K:
		return wide6
	case f == Q4 || f == Q4K || k.avx512:
		return wide
	default:
		return wide5
	}
}

func (k Kernels) unpacks(f Format) bool {
	return k.avx2 && (f == Q4 || f == Q4K || f == Q5 || f == Q5K || f == Q6K)
}

func (k Kernels) unpack(f Format, dst, w *byte, blocks int) {
	if k.avx512 {
		unpackAVX512(f, dst, w, blocks)
	} else {
		unpackAVX2(f, dst, w, blocks)
	}
}

// wideStep splits the blocks into equal parts, of whole super-blocks if the format has them.
func (w *Matrix) wideStep() int {
	blocks, unit := w.cols/32, w.layout.cols/32
	parts := (blocks + wideBlocks - 1) / wideBlocks
	return ((blocks+parts-1)/parts + unit - 1) / unit * unit
}
