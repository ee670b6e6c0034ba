package kernel

// The attention kernels of caches with one row per position, until their last caller has moved to pages.

// Scores writes scale·(q·row) for each row of rows: len(scores) rows of len(q) half-precision numbers one after the other.
func (k Kernels) Scores(scores, q []float32, rows []uint16, scale float32) {
	if len(rows) != len(scores)*len(q) {
		mismatch("Scores", len(scores), len(q), len(rows))
	}
	if k.avx2 && len(q)%8 == 0 && len(rows) > 0 {
		scoresAVX2(&scores[0], len(scores), &q[0], len(q)/8, &rows[0], scale)
		return
	}
	refScores(scores, q, rows, scale)
}

// Combine adds the sum of weights[i]·row i to dst, one row after the other: len(weights) rows of len(dst) half-precision numbers one after the other.
func (k Kernels) Combine(dst, weights []float32, rows []uint16) {
	if len(rows) != len(weights)*len(dst) {
		mismatch("Combine", len(dst), len(weights), len(rows))
	}
	head := 0
	if k.avx2 && len(dst) >= 8 && len(weights) > 0 {
		head = len(dst) &^ 7
		combineAVX2(&dst[0], head/8, &weights[0], len(weights), &rows[0], len(dst)*2)
	}
	refCombine(dst, head, weights, rows)
}

func refScores(scores, q []float32, rows []uint16, scale float32) {
	for i := range scores {
		var lanes [8]float32
		for j, h := range rows[i*len(q) : (i+1)*len(q)] {
			lanes[j&7] = fma(q[j], fromHalf(h), lanes[j&7])
		}
		scores[i] = sumLanes(&lanes) * scale
	}
}

// refCombine adds to the elements of dst from the index head on.
func refCombine(dst []float32, head int, weights []float32, rows []uint16) {
	for j := head; j < len(dst); j++ {
		acc := dst[j]
		for i, w := range weights {
			acc = fma(w, fromHalf(rows[i*len(dst)+j]), acc)
		}
		dst[j] = acc
	}
}

func sumLanes(l *[8]float32) float32 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}
