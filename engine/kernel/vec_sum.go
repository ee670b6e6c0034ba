package kernel

// Reductions have sixteen accumulators: element i goes to accumulator i mod 16, and in the end they are folded by halves.

type reduction uint8

const (
	sumOfElements reduction = iota
	sumOfSquares
	sumOfDeviations   // (x−arg)²
	sumOfExponentials // exp(x−arg), which replaces x
	largestElement
	largestMagnitude
)

// ExpSum replaces x by exp(x−top) and returns the sum; top is meant to be the largest element.
func (k Kernels) ExpSum(x []float32, top float32) float32 { return k.reduce(sumOfExponentials, x, top) }

// Max returns the largest element, or −∞ if there is none. A zero is positive.
func (k Kernels) Max(x []float32) float32 { return k.reduce(largestElement, x, 0) }

// Sum returns the sum of the elements. It is not a number if one of them is none.
func (k Kernels) Sum(x []float32) float32 { return k.reduce(sumOfElements, x, 0) }

func (k Kernels) reduce(op reduction, x []float32, arg float32) float32 {
	switch {
	case k.reference() || len(x) == 0:
		return refReduce(op, x, arg)
	case k.neon:
		return reduceNEON(op, x, arg)
	case k.avx512:
		return reduceAVX512(op, &x[0], len(x), arg)
	}
	return reduceAVX2(op, &x[0], len(x), arg)
}

func reduceAVX512(op reduction, x *float32, n int, arg float32) float32 {
	switch op {
	case sumOfElements:
		return sumAVX512(x, n)
	case sumOfSquares:
		return sumSquaresAVX512(x, n)
	case sumOfDeviations:
		return sumDeviationsAVX512(x, n, arg)
	case sumOfExponentials:
		return expSumAVX512(x, n, arg)
	case largestElement:
		return maxAVX512(x, n)
	default:
		return maxMagnitudeAVX512(x, n)
	}
}

func reduceAVX2(op reduction, x *float32, n int, arg float32) float32 {
	switch op {
	case sumOfElements:
		return sumAVX2(x, n)
	case sumOfSquares:
		return sumSquaresAVX2(x, n)
	case sumOfDeviations:
		return sumDeviationsAVX2(x, n, arg)
	case sumOfExponentials:
		return expSumAVX2(x, n, arg)
	case largestElement:
		return maxAVX2(x, n)
	default:
		return maxMagnitudeAVX2(x, n)
	}
}
