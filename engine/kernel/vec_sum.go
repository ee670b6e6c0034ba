package kernel

import "math"

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

// neutral is what fills up a block without changing the result.
func (op reduction) neutral(arg float32) float32 {
	switch op {
	case sumOfDeviations:
		return arg
	case sumOfExponentials, largestElement:
		return float32(math.Inf(-1))
	}
	return 0
}

// ExpSum replaces x by exp(x−top) and returns the sum; top is meant to be the largest element.
func (k Kernels) ExpSum(x []float32, top float32) float32 { return k.sum(sumOfExponentials, x, top) }

// Max returns the largest element, or −∞ if there is none. A zero is positive.
func (k Kernels) Max(x []float32) float32 {
	var lanes [blockLen]float32
	for i := range lanes {
		lanes[i] = float32(math.Inf(-1))
	}
	k.reduce(largestElement, x, 0, &lanes)
	return foldMax(&lanes) + 0 // which turns −0 into 0: the order does not decide
}

// sum reduces x to the sum of what op makes of its elements.
func (k Kernels) sum(op reduction, x []float32, arg float32) float32 {
	var lanes [blockLen]float32
	k.reduce(op, x, arg, &lanes)
	return foldSum(&lanes)
}

func (k Kernels) reduce(op reduction, x []float32, arg float32, lanes *[blockLen]float32) {
	n := len(x)
	if !k.avx2 {
		refReduce(op, x, arg, lanes)
		return
	}
	if n >= blockLen {
		k.reduceBlocks(op, &x[0], n/blockLen, arg, lanes)
	}
	if head := n &^ (blockLen - 1); head < n {
		var rest [blockLen]float32
		fill := op.neutral(arg)
		for i := copy(rest[:], x[head:]); i < blockLen; i++ {
			rest[i] = fill
		}
		k.reduceBlocks(op, &rest[0], 1, arg, lanes)
		if op == sumOfExponentials {
			copy(x[head:], rest[:])
		}
	}
}

func (k Kernels) reduceBlocks(op reduction, x *float32, blocks int, arg float32, lanes *[blockLen]float32) {
	if k.avx512 {
		switch op {
		case sumOfElements:
			sumAVX512(x, blocks, lanes)
		case sumOfSquares:
			sumSquaresAVX512(x, blocks, lanes)
		case sumOfDeviations:
			sumDeviationsAVX512(x, blocks, arg, lanes)
		case sumOfExponentials:
			expSumAVX512(x, blocks, arg, lanes)
		case largestElement:
			maxAVX512(x, blocks, lanes)
		case largestMagnitude:
			maxMagnitudeAVX512(x, blocks, lanes)
		}
		return
	}
	switch op {
	case sumOfElements:
		sumAVX2(x, blocks, lanes)
	case sumOfSquares:
		sumSquaresAVX2(x, blocks, lanes)
	case sumOfDeviations:
		sumDeviationsAVX2(x, blocks, arg, lanes)
	case sumOfExponentials:
		expSumAVX2(x, blocks, arg, lanes)
	case largestElement:
		maxAVX2(x, blocks, lanes)
	case largestMagnitude:
		maxMagnitudeAVX2(x, blocks, lanes)
	}
}

// foldSum adds the upper half of the lanes to the lower one until one is left.
func foldSum(l *[blockLen]float32) float32 {
	for n := blockLen / 2; n > 0; n /= 2 {
		for i := range n {
			l[i] += l[i+n]
		}
	}
	return l[0]
}

func foldMax(l *[blockLen]float32) float32 {
	top := l[0]
	for _, v := range l[1:] {
		if v > top {
			top = v
		}
	}
	return top
}
