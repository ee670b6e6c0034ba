//go:build !amd64 || purego

package kernel

func addAVX2(*float32, *float32, *float32, int)               { panic(unreachable) }
func mulAVX2(*float32, *float32, *float32, int)               { panic(unreachable) }
func siluMulAVX2(*float32, *float32, *float32, int)           { panic(unreachable) }
func geluTanhMulAVX2(*float32, *float32, *float32, int)       { panic(unreachable) }
func siluAVX2(*float32, *float32, int)                        { panic(unreachable) }
func geluAVX2(*float32, *float32, int)                        { panic(unreachable) }
func geluTanhAVX2(*float32, *float32, int)                    { panic(unreachable) }
func sigmoidAVX2(*float32, *float32, int)                     { panic(unreachable) }
func tanhAVX2(*float32, *float32, int)                        { panic(unreachable) }
func sumAVX2(*float32, int) float32                           { panic(unreachable) }
func sumSquaresAVX2(*float32, int) float32                    { panic(unreachable) }
func sumDeviationsAVX2(*float32, int, float32) float32        { panic(unreachable) }
func expSumAVX2(*float32, int, float32) float32               { panic(unreachable) }
func maxAVX2(*float32, int) float32                           { panic(unreachable) }
func maxMagnitudeAVX2(*float32, int) float32                  { panic(unreachable) }
func scaleMulAVX2(*float32, *float32, *float32, int, float32) { panic(unreachable) }
func shiftScaleMulAVX2(*float32, *float32, *float32, *float32, int, float32, float32) {
	panic(unreachable)
}
func quantizeBlocksAVX2(*int8, *blockScale, *float32, int)      { panic(unreachable) }
func quantizeFoursAVX2(*int8, *blockScale, *float32, int)       { panic(unreachable) }
func codesAVX2(*int8, *float32, int, float32, *[8]int32)        { panic(unreachable) }
func scaleAVX2(*float32, *float32, int, float32)                { panic(unreachable) }
func toHalfAVX2(*uint16, *float32, int)                         { panic(unreachable) }
func fromHalfAVX2(*float32, *uint16, int)                       { panic(unreachable) }
func ropePairsAVX2(*float32, int, int, int, *float32)           { panic(unreachable) }
func ropeHalvesAVX2(*float32, int, int, int, *float32)          { panic(unreachable) }
func addAVX512(*float32, *float32, *float32, int)               { panic(unreachable) }
func mulAVX512(*float32, *float32, *float32, int)               { panic(unreachable) }
func siluMulAVX512(*float32, *float32, *float32, int)           { panic(unreachable) }
func geluTanhMulAVX512(*float32, *float32, *float32, int)       { panic(unreachable) }
func siluAVX512(*float32, *float32, int)                        { panic(unreachable) }
func geluAVX512(*float32, *float32, int)                        { panic(unreachable) }
func geluTanhAVX512(*float32, *float32, int)                    { panic(unreachable) }
func sigmoidAVX512(*float32, *float32, int)                     { panic(unreachable) }
func tanhAVX512(*float32, *float32, int)                        { panic(unreachable) }
func sumAVX512(*float32, int) float32                           { panic(unreachable) }
func sumSquaresAVX512(*float32, int) float32                    { panic(unreachable) }
func sumDeviationsAVX512(*float32, int, float32) float32        { panic(unreachable) }
func expSumAVX512(*float32, int, float32) float32               { panic(unreachable) }
func maxAVX512(*float32, int) float32                           { panic(unreachable) }
func maxMagnitudeAVX512(*float32, int) float32                  { panic(unreachable) }
func scaleMulAVX512(*float32, *float32, *float32, int, float32) { panic(unreachable) }
func shiftScaleMulAVX512(*float32, *float32, *float32, *float32, int, float32, float32) {
	panic(unreachable)
}
func quantizeBlocksAVX512(*int8, *blockScale, *float32, int)    { panic(unreachable) }
func quantizeFoursAVX512(*int8, *blockScale, *float32, int)     { panic(unreachable) }
func codesAVX512(*int8, *float32, int, float32, *[8]int32)      { panic(unreachable) }
func scoresAVX2(*float32, int, *float32, int, *uint16, float32) { panic(unreachable) }
func combineAVX2(*float32, int, *float32, int, *uint16, int)    { panic(unreachable) }
