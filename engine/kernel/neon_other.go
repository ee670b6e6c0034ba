//go:build !arm64 || purego

package kernel

// Without the assembly these tiers are never selected; these stand in so that the callers compile.

func tileNEON(Format, int, *mulArgs) bool                          { panic(unreachable) }
func tileNEONDot(Format, int, *mulArgs) bool                       { panic(unreachable) }
func addNEON(*float32, *float32, *float32, int)                    { panic(unreachable) }
func mulNEON(*float32, *float32, *float32, int)                    { panic(unreachable) }
func siluMulNEON(*float32, *float32, *float32, int)                { panic(unreachable) }
func geluTanhMulNEON(*float32, *float32, *float32, int)            { panic(unreachable) }
func siluNEON(*float32, *float32, int)                             { panic(unreachable) }
func geluNEON(*float32, *float32, int)                             { panic(unreachable) }
func geluTanhNEON(*float32, *float32, int)                         { panic(unreachable) }
func sigmoidNEON(*float32, *float32, int)                          { panic(unreachable) }
func tanhNEON(*float32, *float32, int)                             { panic(unreachable) }
func sumNEON(*float32, int, *[blockLen]float32)                    { panic(unreachable) }
func sumSquaresNEON(*float32, int, *[blockLen]float32)             { panic(unreachable) }
func sumDeviationsNEON(*float32, int, *[blockLen]float32, float32) { panic(unreachable) }
func expSumNEON(*float32, int, *[blockLen]float32, float32)        { panic(unreachable) }
func maxNEON(*float32, int, *[blockLen]float32)                    { panic(unreachable) }
func maxMagnitudeNEON(*float32, int, *[blockLen]float32)           { panic(unreachable) }
func scaleMulNEON(*float32, *float32, *float32, int, float32)      { panic(unreachable) }
func shiftScaleMulNEON(*float32, *float32, *float32, *float32, int, float32, float32) {
	panic(unreachable)
}
func quantizeBlocksNEON(*int8, *blockScale, *float32, int)    { panic(unreachable) }
func codesNEON(*int8, *float32, int, float32, *[8]int32)      { panic(unreachable) }
func scaleNEON(*float32, *float32, int, float32)              { panic(unreachable) }
func toHalfNEON(*uint16, *float32, int)                       { panic(unreachable) }
func fromHalfNEON(*float32, *uint16, int)                     { panic(unreachable) }
func ropePairsNEON(*float32, int, int, int, *float32)         { panic(unreachable) }
func ropeHalvesNEON(*float32, int, int, int, *float32)        { panic(unreachable) }
func halfPageNEON(*pageArgs)                                  { panic(unreachable) }
func bytePageNEON(*pageArgs)                                  { panic(unreachable) }
func dotPageNEON(*pageArgs)                                   { panic(unreachable) }
func dotPageNEONDot(*pageArgs)                                { panic(unreachable) }
func scanRowsNEON(*int32, *int8, *int16, int, int)            { panic(unreachable) }
func scanRowsAtNEON(*int32, *int8, *int16, int, int, *uint32) { panic(unreachable) }
