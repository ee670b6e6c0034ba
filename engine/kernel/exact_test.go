package kernel

import (
	"math"
	"math/big"
)

// exactFMA computes x·y+z without error and rounds it once.
func exactFMA(x, y, z float32) float32 {
	if s := float64(x)*float64(y) + float64(z); math.IsNaN(s) || math.IsInf(s, 0) {
		return float32(s)
	}
	exact := func(f float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(f)) }
	sum := new(big.Float).SetPrec(2000).Mul(exact(x), exact(y))
	sum.Add(sum, exact(z))
	if sum.Sign() == 0 {
		return float32(float64(x)*float64(y) + float64(z)) // the sign of zero
	}
	f, _ := sum.Float32()
	return f
}
