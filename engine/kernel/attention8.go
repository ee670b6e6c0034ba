package kernel

import "unsafe"

// PageScores8 writes the scores of n query rows against the first count positions of a page of byte keys, [dim/4][64][4], whose
// scales are kd. Row t of the queries is q[t·dim:][:dim] with the scale qd[t] and the sum qsum[t], as [Kernels.QuantizeRow] gives
// them; no byte is −128. Row t of the result is scores[t·sStride:][:64], of which the scores from count on are not specified.
// One score is float32(S)·(kd·(qd·scale)), with S the exact sum of the products. dim is a multiple of four.
func (k Kernels) PageScores8(scores []float32, sStride int, q []int8, qd []float32, qsum []int32, n, dim int, keys []int8, kd []float32, count int, scale float32) {
	if !fit(len(scores), sStride, n, PagePositions) || !fit(len(q), dim, n, dim) || len(qd) < n || len(qsum) < n || dim < 4 || dim%4 != 0 ||
		len(keys) < dim*PagePositions || len(kd) < PagePositions || uint(count) > PagePositions {
		mismatch("PageScores8", len(scores), sStride, len(q), len(qd), len(qsum), n, dim, len(keys), len(kd), count)
	}
	if k.reference() {
		refPageScores8(scores, sStride, q, qd, n, dim, keys, kd, count, scale)
		return
	}
	for at := 0; at < n && count > 0; at += maxRows {
		args := pageArgs{
			out: &scores[at*sStride], outStride: 4 * sStride, left: unsafe.Pointer(&q[at*dim]), leftStride: dim,
			page: unsafe.Pointer(&keys[0]), depth: dim / 4, rows: min(maxRows, n-at), scale: scale,
			scales: &qd[at], sums: &qsum[at], columnScale: &kd[0],
		}
		switch {
		case k.dot:
			dotPageNEONDot(&args)
		case k.neon:
			dotPageNEON(&args)
		case k.avx512:
			dotPageAVX512(&args)
		default:
			dotPageAVX2(&args)
		}
	}
}

// combineRows is the number of rows whose weights are scaled together, fewRows that of a step that adds one token.
const (
	combineRows = 12
	fewRows     = 3
)

// PageCombine8 adds to n rows of out the first count rows of a page of byte values, [64][dim], whose scales are vd: with w' = w·vd,
// rounded, out = fma(w', v, out) in the order of the positions. See [Kernels.PageCombine] for the rows.
func (k Kernels) PageCombine8(out []float32, oStride int, w []float32, wStride, n, dim int, values []int8, vd []float32, count int) {
	if !fit(len(out), oStride, n, dim) || !fit(len(w), wStride, n, count) || dim < 1 || len(values) < dim*PagePositions || len(vd) < PagePositions || uint(count) > PagePositions {
		mismatch("PageCombine8", len(out), oStride, len(w), wStride, n, dim, len(values), len(vd), count)
	}
	if n <= fewRows { // a small array is cleared faster
		var scaled [fewRows * PagePositions]float32
		k.combine8(out, oStride, w, wStride, n, dim, values, vd[:count], scaled[:])
		return
	}
	var scaled [combineRows * PagePositions]float32
	for at := 0; at < n; at += combineRows {
		k.combine8(out[at*oStride:], oStride, w[at*wStride:], wStride, min(combineRows, n-at), dim, values, vd[:count], scaled[:])
	}
}

// combine8 is PageCombine8 for as many rows as scaled has room for.
func (k Kernels) combine8(out []float32, oStride int, w []float32, wStride, n, dim int, values []int8, vd, scaled []float32) {
	count := len(vd)
	if n == 0 || count == 0 {
		return
	}
	for t := range n {
		k.apply("PageCombine8", opMul, scaled[t*PagePositions:][:count], w[t*wStride:][:count], vd)
	}
	if k.reference() {
		portablePageCombine(out, oStride, scaled, PagePositions, n, dim, nil, values, count)
		return
	}
	head := 0
	if dim >= 8 {
		head = dim &^ 7
		k.bytePage(pageArgs{
			out: &out[0], outStride: 4 * oStride, left: unsafe.Pointer(&scaled[0]), leftStride: 4 * PagePositions,
			page: unsafe.Pointer(&values[0]), pageStride: dim, depth: count, rows: n, keep: 1,
		}, head)
	}
	refPageCombine8(out, oStride, scaled, n, dim, head, values, count)
}

// bytePage runs the page kernel of bytes over cols columns, as halfPage does.
func (k Kernels) bytePage(args pageArgs, cols int) {
	if args.cols = cols; k.neon {
		bytePageNEON(&args)
		return
	}
	for at := 0; at < cols; {
		block := args // written back into args, the pointers would count as escaping
		block.cols = k.pageBlock(cols - at)
		block.out = (*float32)(unsafe.Add(unsafe.Pointer(args.out), 4*at))
		block.page = unsafe.Add(args.page, at)
		if k.avx512 && block.cols > 8 {
			bytePageAVX512(&block)
		} else {
			bytePageAVX2(&block)
		}
		at += block.cols
	}
}

// storeLen is how many elements of a key are converted at a time before they are scattered.
const storeLen = 64

// StoreKey rounds x to half precision, the largest number at most, into position pos of a page of keys, [len(x)][64].
func (k Kernels) StoreKey(keys []uint16, pos int, x []float32) {
	if len(keys) < len(x)*PagePositions || uint(pos) >= PagePositions {
		mismatch("StoreKey", len(keys), len(x), pos)
	}
	var half [storeLen]uint16
	for at := 0; at < len(x); at += storeLen {
		n := min(storeLen, len(x)-at)
		k.ToHalf(half[:n], x[at:at+n])
		to := keys[at*PagePositions+pos:]
		for d, h := range half[:n] {
			to[d*PagePositions] = bounded(h)
		}
	}
}

// StoreValue rounds x to half precision, the largest number at most, into position pos of a page of values, [64][len(x)].
func (k Kernels) StoreValue(values []uint16, pos int, x []float32) {
	if len(values) < len(x)*PagePositions || uint(pos) >= PagePositions {
		mismatch("StoreValue", len(values), len(x), pos)
	}
	to := values[pos*len(x):][:len(x)]
	k.ToHalf(to, x)
	for d, h := range to {
		to[d] = bounded(h)
	}
}

// bounded turns what is too large for half precision, or no number, into the largest one of its sign. An infinite value would make
// positions that a row does not look at count, since zero times infinity is no number.
func bounded(h uint16) uint16 {
	if h&0x7c00 == 0x7c00 {
		return h&0x8000 | 0x7bff
	}
	return h
}

// StoreKey8 quantises x under one scale, as [Kernels.QuantizeRow] does, into position pos of a page of byte keys, [len(x)/4][64][4],
// and its scale into kd[pos]. len(x) is a multiple of four.
func (k Kernels) StoreKey8(keys []int8, kd []float32, pos int, x []float32) {
	if len(keys) < len(x)*PagePositions || len(kd) < PagePositions || uint(pos) >= PagePositions || len(x)%4 != 0 {
		mismatch("StoreKey8", len(keys), len(kd), len(x), pos)
	}
	d, inverse := k.rowScale(x)
	kd[pos] = d
	var code [storeLen]int8
	for at := 0; at < len(x); at += storeLen {
		n := min(storeLen, len(x)-at)
		k.codes(code[:n], x[at:at+n], inverse)
		to := keys[at*PagePositions+pos*4:]
		for g := 0; g < n; g += 4 {
			*(*[4]int8)(to[g*PagePositions:]) = [4]int8(code[g:])
		}
	}
}

// StoreValue8 quantises x under one scale into position pos of a page of byte values, [64][len(x)], and its scale into vd[pos].
func (k Kernels) StoreValue8(values []int8, vd []float32, pos int, x []float32) {
	if len(values) < len(x)*PagePositions || len(vd) < PagePositions || uint(pos) >= PagePositions {
		mismatch("StoreValue8", len(values), len(vd), len(x), pos)
	}
	vd[pos], _ = k.QuantizeRow(values[pos*len(x):][:len(x)], x)
}
