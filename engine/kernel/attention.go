package kernel

import "unsafe"

//go:generate go run ./_gen

// PagePositions is how many positions a page of the key and value cache holds.
const PagePositions = 64

// maxRows bounds the rows of one assembly call.
const maxRows = 192

// pageArgs are the arguments of the page kernels; strides are in bytes. The assembly knows the offsets.
type pageArgs struct {
	out         *float32
	outStride   int
	left        unsafe.Pointer // float32, or int8 for dots
	leftStride  int
	page        unsafe.Pointer
	pageStride  int // from one row of the page to the next
	depth       int // rows of the page
	rows        int // rows of left and out
	cols        int // columns of this call
	keep        int // 1: add to out; 0: begin at zero and multiply by scale
	scale       float32
	scales      *float32 // dots: the scale of each row of left
	sums        *int32   // dots: the sum of each row of left
	columnScale *float32 // dots: the scale of each column of the page
}

// PageScores writes scale·(q·k) of n query rows against the first count positions of a page of half-precision keys, [dim][64]. Row
// t of the queries is q[t·qStride:][:dim], row t of the result is scores[t·sStride:][:64], of which the scores from count on are
// not specified. One score is one sum over the dimensions in order, acc = fma(q, k, acc), then acc·scale.
func (k Kernels) PageScores(scores []float32, sStride int, q []float32, qStride, n, dim int, keys []uint16, count int, scale float32) {
	if !fit(len(scores), sStride, n, PagePositions) || !fit(len(q), qStride, n, dim) || dim < 1 || len(keys) < dim*PagePositions || uint(count) > PagePositions {
		mismatch("PageScores", len(scores), sStride, len(q), qStride, n, dim, len(keys), count)
	}
	if k.reference() {
		portablePageScores(scores, sStride, q, qStride, n, dim, keys, count, scale)
		return
	}
	for at := 0; at < n && count > 0; at += maxRows {
		args := pageArgs{
			out: &scores[at*sStride], outStride: 4 * sStride, left: unsafe.Pointer(&q[at*qStride]), leftStride: 4 * qStride,
			page: unsafe.Pointer(&keys[0]), pageStride: 2 * PagePositions, depth: dim, rows: min(maxRows, n-at), scale: scale,
		}
		k.halfPage(args, (count+7)&^7)
	}
}

// PageCombine adds to n rows of out the first count rows of a page of half-precision values, [64][dim], weighted: row t of out is
// out[t·oStride:][:dim], its weights are w[t·wStride:][:count]. One element is one sum in the order of the positions,
// out = fma(w, v, out). The weights of a row must not overlap out.
func (k Kernels) PageCombine(out []float32, oStride int, w []float32, wStride, n, dim int, values []uint16, count int) {
	if !fit(len(out), oStride, n, dim) || !fit(len(w), wStride, n, count) || dim < 1 || len(values) < dim*PagePositions || uint(count) > PagePositions {
		mismatch("PageCombine", len(out), oStride, len(w), wStride, n, dim, len(values), count)
	}
	if k.reference() {
		portablePageCombine(out, oStride, w, wStride, n, dim, values, nil, count)
		return
	}
	head := 0
	if n > 0 && count > 0 {
		head = dim &^ 7
	}
	for at := 0; at < n && head > 0; at += maxRows {
		args := pageArgs{
			out: &out[at*oStride], outStride: 4 * oStride, left: unsafe.Pointer(&w[at*wStride]), leftStride: 4 * wStride,
			page: unsafe.Pointer(&values[0]), pageStride: 2 * dim, depth: count, rows: min(maxRows, n-at), keep: 1,
		}
		k.halfPage(args, head)
	}
	refPageCombine(out, oStride, w, wStride, n, dim, head, values, count)
}

// fit reports whether n rows of width elements, stride apart, lie in length elements.
func fit(length, stride, n, width int) bool {
	return n >= 0 && (n == 0 || stride >= 0 && length >= width && (n-1)*stride <= length-width)
}

// halfPage runs the page kernel of half-precision elements over cols columns, a multiple of eight, in the widest blocks that fit.
func (k Kernels) halfPage(args pageArgs, cols int) {
	if args.cols = cols; k.neon {
		halfPageNEON(&args)
		return
	}
	for at := 0; at < cols; {
		block := args // written back into args, the pointers would count as escaping
		block.cols = k.pageBlock(cols - at)
		block.out = (*float32)(unsafe.Add(unsafe.Pointer(args.out), 4*at))
		block.page = unsafe.Add(args.page, 2*at)
		if k.avx512 && block.cols > 8 {
			halfPageAVX512(&block)
		} else {
			halfPageAVX2(&block)
		}
		at += block.cols
	}
}

// pageBlock is the number of columns of the widest block among rest columns.
func (k Kernels) pageBlock(rest int) int {
	switch {
	case k.avx512 && rest >= 64:
		return 64
	case rest >= 32:
		return 32
	case k.avx512 && rest >= 16:
		return 16
	}
	return 8
}
