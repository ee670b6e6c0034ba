package kernel

import "unsafe"

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
	blocks, step, group := w.cols/32, w.wideStep(), n
	if step < blocks {
		group = wideSums
	}
	for p := from; p < to; p++ {
		for t := 0; t < n; t += group {
			count := min(group, n-t)
			for b := 0; b < blocks; b += step {
				args := mulArgs{panels: 1, blocks: min(step, blocks-b), xStride: a.stride}
				args.w = &room.blocks[alignedAt(room.blocks[:])]
				args.ahead = k.unpack(args.w, w, p, b, args.blocks)
				if b+step < blocks {
					k.wideTiles(nil, 0, b, a, first+t, count, w.format, &room, args)
					continue
				}
				if add {
					args.add = 1
				}
				if bias != nil {
					args.bias = &bias[p*panelRows]
				}
				k.wideTiles(dst[t*stride+p*panelRows:], stride, b, a, first+t, count, w.format, &room, args)
			}
		}
	}
}

// wideTiles multiplies the unpacked columns from block b on by n rows. The results go to dst or, if that is nil, wait in room. (args
// is a copy, since a pointer to it would move room to the heap.)
func (k Kernels) wideTiles(dst []float32, stride, b int, a *Activations, first, n int, f Format, room *wideScratch, args mulArgs) {
	for t := 0; t < n; {
		args.x, args.scales = a.at(first+t, b)
		if b > 0 {
			args.sums = &room.sums[t*panelRows]
		}
		if dst != nil {
			args.dst, args.dstStride = &dst[t*stride], 4*stride
		} else {
			args.dst, args.dstStride = &room.sums[t*panelRows], 4*panelRows
		}
		t += k.tile(k.unpacked(f), n-t, &args)
		args.ahead += uintptr(aheadBytes * args.blocks)
	}
}

// unpack unpacks blocks of panel p from b on and returns where the ones that follow are.
func (k Kernels) unpack(dst *byte, w *Matrix, p, b, blocks int) (next uintptr) {
	per := w.layout.bytes * 32 / w.layout.cols
	packed := &w.data[p*w.panelBytes+b*per]
	if k.avx512 {
		unpackAVX512(w.format, dst, packed, blocks)
	} else {
		unpackAVX2(w.format, dst, packed, blocks)
	}
	return uintptr(unsafe.Pointer(packed)) + uintptr(blocks*per)
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

// wideStep splits the blocks into equal parts, of whole super-blocks if the format has them.
func (w *Matrix) wideStep() int {
	blocks, unit := w.cols/32, w.layout.cols/32
	parts := (blocks + wideBlocks - 1) / wideBlocks
	return ((blocks+parts-1)/parts + unit - 1) / unit * unit
}
