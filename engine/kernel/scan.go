package kernel

// The scan kernels compare one vector with many rows of bytes: the first stage of an exact vector search, which reads every row.

// scanBytes is about how many bytes of rows one call into assembly reads: some 30 µs.
const scanBytes = 256 << 10

// ScanRows writes, for each row r, the sum over the columns of row·query. A row has len(query) bytes, a multiple of 32; there are
// len(dst) rows, one after the other. Sums are exact modulo 2³²: 128·Σ|query| < 2³¹ is enough for exact ones.
func (k Kernels) ScanRows(dst []int32, rows []int8, query []int16) {
	dim := len(query)
	if dim%32 != 0 || len(rows) != len(dst)*dim {
		mismatch("ScanRows", len(dst), len(rows), dim)
	}
	if dim == 0 || k.reference() {
		refScan(dst, rows, query)
		return
	}
	whole := len(dst) &^ 3
	for at, step := 0, scanStep(dim); at < whole; at += step {
		groups := min(step, whole-at) / 4
		switch {
		case k.neon:
			scanRowsNEON(&dst[at], &rows[at*dim], &query[0], groups, dim)
		case k.avx512:
			scanRowsAVX512(&dst[at], &rows[at*dim], &query[0], groups, dim)
		default:
			scanRowsAVX2(&dst[at], &rows[at*dim], &query[0], groups, dim)
		}
	}
	if whole < len(dst) {
		k.scanRest(dst[whole:], rows[whole*dim:], query, []uint32{0, 1, 2}[:len(dst)-whole])
	}
}

// ScanRowsAt does the same for the rows with these numbers, in their order: dst[i] belongs to row at[i]. A number may come twice.
func (k Kernels) ScanRowsAt(dst []int32, rows []int8, query []int16, at []uint32) {
	dim := len(query)
	if dim%32 != 0 || len(dst) != len(at) || dim > 0 && len(rows)%dim != 0 {
		mismatch("ScanRowsAt", len(dst), len(rows), dim, len(at))
	}
	for _, r := range at {
		if dim > 0 && int64(r) >= int64(len(rows)/dim) {
			mismatch("ScanRowsAt", len(rows)/dim, int(r))
		}
	}
	if dim == 0 || k.reference() {
		refScanAt(dst, rows, query, at)
		return
	}
	whole := len(at) &^ 3
	for i, step := 0, scanStep(dim); i < whole; i += step {
		k.scanAt(&dst[i], &rows[0], &query[0], min(step, whole-i)/4, dim, &at[i])
	}
	if whole < len(at) {
		k.scanRest(dst[whole:], rows, query, at[whole:])
	}
}

// scanRest takes one to three rows, as a group that repeats the last one.
func (k Kernels) scanRest(dst []int32, rows []int8, query []int16, at []uint32) {
	var numbers [4]uint32
	var sums [4]int32
	for i := copy(numbers[:], at); i < 4; i++ {
		numbers[i] = at[len(at)-1]
	}
	k.scanAt(&sums[0], &rows[0], &query[0], 1, len(query), &numbers[0])
	copy(dst, sums[:])
}

func (k Kernels) scanAt(dst *int32, rows *int8, query *int16, groups, dim int, at *uint32) {
	switch {
	case k.neon:
		scanRowsAtNEON(dst, rows, query, groups, dim, at)
	case k.avx512:
		scanRowsAtAVX512(dst, rows, query, groups, dim, at)
	default:
		scanRowsAtAVX2(dst, rows, query, groups, dim, at)
	}
}

// scanStep is how many rows go into one call, a multiple of four.
func scanStep(dim int) int { return max(4, scanBytes/dim&^3) }

func refScan(dst []int32, rows []int8, query []int16) {
	for r := range dst {
		dst[r] = refScanRow(rows[r*len(query):], query)
	}
}

func refScanAt(dst []int32, rows []int8, query []int16, at []uint32) {
	for i, r := range at {
		dst[i] = refScanRow(rows[int(r)*len(query):], query)
	}
}

func refScanRow(row []int8, query []int16) int32 {
	row = row[:len(query)]
	var sum int32
	for i, q := range query {
		sum += int32(row[i]) * int32(q)
	}
	return sum
}
