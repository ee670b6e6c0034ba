//go:build !purego

package kernel

//go:noescape
func addAVX2(dst, x, y *float32, blocks int)

//go:noescape
func mulAVX2(dst, x, y *float32, blocks int)

//go:noescape
func siluMulAVX2(dst, x, y *float32, blocks int)

//go:noescape
func geluTanhMulAVX2(dst, x, y *float32, blocks int)

//go:noescape
func siluAVX2(dst, x *float32, blocks int)

//go:noescape
func geluAVX2(dst, x *float32, blocks int)

//go:noescape
func geluTanhAVX2(dst, x *float32, blocks int)

//go:noescape
func sigmoidAVX2(dst, x *float32, blocks int)

//go:noescape
func tanhAVX2(dst, x *float32, blocks int)

//go:noescape
func sumAVX2(x *float32, n int) float32

//go:noescape
func sumSquaresAVX2(x *float32, n int) float32

//go:noescape
func sumDeviationsAVX2(x *float32, n int, mean float32) float32

//go:noescape
func expSumAVX2(x *float32, n int, top float32) float32

//go:noescape
func maxAVX2(x *float32, n int) float32

//go:noescape
func maxMagnitudeAVX2(x *float32, n int) float32

//go:noescape
func scaleMulAVX2(dst, x, w *float32, blocks int, s float32)

//go:noescape
func shiftScaleMulAVX2(dst, x, w, b *float32, blocks int, mean, s float32)

//go:noescape
func quantizeBlocksAVX2(q *int8, scales *blockScale, x *float32, blocks int)

//go:noescape
func quantizeFoursAVX2(q *int8, scales *blockScale, x *float32, blocks int)

//go:noescape
func codesAVX2(q *int8, x *float32, blocks int, inverse float32, sums *[8]int32)

//go:noescape
func scaleAVX2(dst, x *float32, blocks int, s float32)

//go:noescape
func toHalfAVX2(dst *uint16, x *float32, blocks int)

//go:noescape
func fromHalfAVX2(dst *float32, x *uint16, blocks int)

//go:noescape
func ropePairsAVX2(x *float32, heads, stride, eights int, table *float32)

//go:noescape
func ropeHalvesAVX2(x *float32, heads, stride, eights int, table *float32)

//go:noescape
func addAVX512(dst, x, y *float32, blocks int)

//go:noescape
func mulAVX512(dst, x, y *float32, blocks int)

//go:noescape
func siluMulAVX512(dst, x, y *float32, blocks int)

//go:noescape
func geluTanhMulAVX512(dst, x, y *float32, blocks int)

//go:noescape
func siluAVX512(dst, x *float32, blocks int)

//go:noescape
func geluAVX512(dst, x *float32, blocks int)

//go:noescape
func geluTanhAVX512(dst, x *float32, blocks int)

//go:noescape
func sigmoidAVX512(dst, x *float32, blocks int)

//go:noescape
func tanhAVX512(dst, x *float32, blocks int)

//go:noescape
func sumAVX512(x *float32, n int) float32

//go:noescape
func sumSquaresAVX512(x *float32, n int) float32

//go:noescape
func sumDeviationsAVX512(x *float32, n int, mean float32) float32

//go:noescape
func expSumAVX512(x *float32, n int, top float32) float32

//go:noescape
func maxAVX512(x *float32, n int) float32

//go:noescape
func maxMagnitudeAVX512(x *float32, n int) float32

//go:noescape
func scaleMulAVX512(dst, x, w *float32, blocks int, s float32)

//go:noescape
func shiftScaleMulAVX512(dst, x, w, b *float32, blocks int, mean, s float32)

//go:noescape
func quantizeBlocksAVX512(q *int8, scales *blockScale, x *float32, blocks int)

//go:noescape
func quantizeFoursAVX512(q *int8, scales *blockScale, x *float32, blocks int)

//go:noescape
func codesAVX512(q *int8, x *float32, blocks int, inverse float32, sums *[8]int32)

//go:noescape
func scoresAVX2(scores *float32, rows int, q *float32, n int, k *uint16, scale float32)

//go:noescape
func combineAVX2(dst *float32, n int, weights *float32, rows int, v *uint16, vStride int)
