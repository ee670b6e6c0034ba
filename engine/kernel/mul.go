package kernel

import "unsafe"

// aheadBytes is what a tile fetches ahead for each block.
const aheadBytes = 128

// mulArgs are the arguments of the assembly; strides are in bytes. The assembly knows the offsets.
type mulArgs struct {
	dst        *float32
	dstStride  int
	w          *byte // the first panel
	panelBytes int
	panels     int
	blocks     int   // of 32 columns; dense matrices: columns
	x          *byte // row of the first token
	xStride    int
	scales     *byte // of the first token
	head       int   // bytes before the panel's first block
	bias       *float32
	add        int
	sums       *float32 // wide tiles: the sums so far, 64 bytes each, or nil
	ahead      uintptr  // what to fetch into the cache, 128 bytes for each block; it may lie past the end
}

// Mul multiplies the panels [from, to) of w by the first n rows of a, which must have the format's Input. Row t of the result goes
// to dst[t·stride:]; only the columns of these panels are written, padding included. The result is the product, plus bias if that
// is not nil, plus what dst held if add is set; each addition rounds once, in this order. bias has w.Rows or w.Stride elements.
func (k Kernels) Mul(dst []float32, stride int, w *Matrix, from, to int, a *Activations, n int, add bool, bias []float32) {
	if a.in != w.format.Input() || a.cols != w.cols || uint(n) > uint(a.rows) || from < 0 || from > to || to > w.Panels() {
		mismatch("Mul", int(a.in), int(w.format), a.cols, w.cols, a.rows, n, from, to)
	}
	if n == 0 || from == to {
		return
	}
	if stride < to*panelRows || len(dst) < (n-1)*stride+to*panelRows || (bias != nil && len(bias) < w.rows) {
		mismatch("Mul", len(dst), stride, to*panelRows, len(bias), w.rows)
	}
	if bias != nil && len(bias) < to*panelRows { // the last panel reaches past the bias
		to--
		w.portablePanel(dst[to*panelRows:], stride, to, a, n, add, bias)
	}
	if k.reference() {
		for p := from; p < to; p++ {
			w.portablePanel(dst[p*panelRows:], stride, p, a, n, add, bias)
		}
		return
	}
	chunk := tokenChunk(a.stride, n)
	for t := 0; t < n; t += chunk {
		count := min(chunk, n-t)
		if count >= wideTokens && k.unpacks(w.format) {
			k.mulWide(dst[t*stride:], stride, w, from, to, a, t, count, add, bias)
		} else {
			k.mulTiles(dst[t*stride:], stride, w, from, to, a, t, count, add, bias)
		}
	}
}

// Tokens that pass all panels together should stay in the second cache; reading the weights again for the next ones costs little.
const (
	tokenCache = 384 << 10
	leastChunk = 48
)

// tokenChunk splits n tokens with rows of so many bytes into equal parts, whole tiles each.
func tokenChunk(rowBytes, n int) int {
	most := max(leastChunk, tokenCache/rowBytes)
	parts := (n + most - 1) / most
	return ((n+parts-1)/parts + 11) / 12 * 12
}

// Bounds of one call of the assembly, so that it stays short: multiplications of a tile, bytes of one token. Panels that pass all
// tokens together should stay in the first cache.
const (
	tileWork   = 4 << 20
	tokenWork  = 512 << 10
	panelCache = 24 << 10
)

// mulTiles multiplies rows first, first+1, … of a: n of them.
func (k Kernels) mulTiles(dst []float32, stride int, w *Matrix, from, to int, a *Activations, first, n int, add bool, bias []float32) {
	args := mulArgs{
		dstStride: 4 * stride, panelBytes: w.panelBytes, blocks: w.cols / 32, xStride: a.stride, head: w.layout.head,
	}
	if w.format.Input() == Dense {
		args.blocks = w.cols
	}
	if add {
		args.add = 1
	}
	group := max(1, tokenWork/w.panelBytes)
	if n > 1 {
		group = max(1, min(tileWork/(w.cols*panelRows*refTokens), panelCache/w.panelBytes))
	}
	for p := from; p < to; p += group {
		args.panels = min(group, to-p)
		args.w = &w.data[p*w.panelBytes]
		args.ahead = uintptr(unsafe.Pointer(args.w)) + uintptr(args.panels*w.panelBytes)
		if bias != nil {
			args.bias = &bias[p*panelRows]
		}
		for t := 0; t < n; {
			args.dst = &dst[t*stride+p*panelRows]
			args.x, args.scales = a.at(first+t, 0)
			t += k.tile(w.format, n-t, &args)
			args.ahead += uintptr(aheadBytes * args.panels * args.blocks)
		}
	}
}

// at points to block b of row t and to its scale.
func (a *Activations) at(t, b int) (x, scale *byte) {
	row := a.row(t)
	if a.in == Dense {
		return &row[0], nil
	}
	return &row[b*32], &row[a.cols+b*scaleBytes]
}

// tile multiplies with the largest tile that the tokens left fill, and returns its tokens.
func (k Kernels) tile(f Format, left int, args *mulArgs) int {
	for _, n := range [...]int{16, 12, 8, 7, 6, 5, 4, 3, 2} {
		if n <= left && k.tileOf(f, n, args) {
			return n
		}
	}
	k.tileOf(f, 1, args)
	return 1
}

// tileOf multiplies with the tile for so many tokens and reports whether the tier has one.
func (k Kernels) tileOf(f Format, tokens int, args *mulArgs) bool {
	switch {
	case k.dot:
		return tileNEONDot(f, tokens, args)
	case k.neon:
		return tileNEON(f, tokens, args)
	case k.avx512:
		return tileAVX512(f, tokens, args)
	}
	return tileAVX2(f, tokens, args)
}
