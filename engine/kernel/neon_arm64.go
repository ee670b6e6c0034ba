//go:build !purego

package kernel

//go:noescape
func addNEON(dst, x, y *float32, blocks int)

//go:noescape
func mulNEON(dst, x, y *float32, blocks int)

//go:noescape
func siluMulNEON(dst, x, y *float32, blocks int)

//go:noescape
func geluTanhMulNEON(dst, x, y *float32, blocks int)

//go:noescape
func siluNEON(dst, x *float32, blocks int)

//go:noescape
func geluNEON(dst, x *float32, blocks int)

//go:noescape
func geluTanhNEON(dst, x *float32, blocks int)

//go:noescape
func sigmoidNEON(dst, x *float32, blocks int)

//go:noescape
func tanhNEON(dst, x *float32, blocks int)

//go:noescape
func sumNEON(x *float32, blocks int, lanes *[blockLen]float32)

//go:noescape
func sumSquaresNEON(x *float32, blocks int, lanes *[blockLen]float32)

//go:noescape
func sumDeviationsNEON(x *float32, blocks int, lanes *[blockLen]float32, arg float32)

//go:noescape
func expSumNEON(x *float32, blocks int, lanes *[blockLen]float32, arg float32)

//go:noescape
func maxNEON(x *float32, blocks int, lanes *[blockLen]float32)

//go:noescape
func maxMagnitudeNEON(x *float32, blocks int, lanes *[blockLen]float32)

//go:noescape
func scaleMulNEON(dst, x, w *float32, blocks int, s float32)

//go:noescape
func shiftScaleMulNEON(dst, x, w, b *float32, blocks int, mean, s float32)

//go:noescape
func quantizeBlocksNEON(q *int8, scales *blockScale, x *float32, blocks int)

//go:noescape
func codesNEON(q *int8, x *float32, blocks int, inverse float32, sums *[8]int32)

//go:noescape
func scaleNEON(dst, x *float32, blocks int, s float32)

//go:noescape
func toHalfNEON(dst *uint16, x *float32, blocks int)

//go:noescape
func fromHalfNEON(dst *float32, x *uint16, blocks int)

//go:noescape
func ropePairsNEON(x *float32, heads, stride, eights int, table *float32)

//go:noescape
func ropeHalvesNEON(x *float32, heads, stride, eights int, table *float32)

//go:noescape
func halfPageNEON(args *pageArgs)

//go:noescape
func bytePageNEON(args *pageArgs)

//go:noescape
func dotPageNEON(args *pageArgs)

//go:noescape
func dotPageNEONDot(args *pageArgs)

//go:noescape
func scanRowsNEON(dst *int32, rows *int8, query *int16, groups, stride int)

//go:noescape
func scanRowsAtNEON(dst *int32, rows *int8, query *int16, groups, stride int, at *uint32)
