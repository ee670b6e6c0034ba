package kernel

import "math"

//go:generate go run ./_gen/neon

// This file leads to the NEON kernels of arm64. They work on blocks of sixteen elements, as the others do; reductions keep their
// sixteen accumulators in memory between calls, so that the rest goes through a block filled up with elements that change nothing.

// applyNEON does an operation on whole blocks.
func applyNEON(op element, dst, x, y *float32, blocks int) {
	switch op {
	case opAdd:
		addNEON(dst, x, y, blocks)
	case opMul:
		mulNEON(dst, x, y, blocks)
	case opSiLUMul:
		siluMulNEON(dst, x, y, blocks)
	case opGELUTanhMul:
		geluTanhMulNEON(dst, x, y, blocks)
	case opSiLU:
		siluNEON(dst, x, blocks)
	case opGELU:
		geluNEON(dst, x, blocks)
	case opGELUTanh:
		geluTanhNEON(dst, x, blocks)
	case opSigmoid:
		sigmoidNEON(dst, x, blocks)
	case opTanh:
		tanhNEON(dst, x, blocks)
	}
}

func reduceNEON(op reduction, x []float32, arg float32) float32 {
	var lanes [blockLen]float32
	neutral := neutralElement(op, arg)
	if op == largestElement {
		for i := range lanes {
			lanes[i] = neutral
		}
	}
	if n := len(x) / blockLen; n > 0 {
		reduceBlocksNEON(op, &x[0], n, &lanes, arg)
	}
	if head := len(x) &^ (blockLen - 1); head < len(x) {
		var rest [blockLen]float32
		for i := copy(rest[:], x[head:]); i < blockLen; i++ {
			rest[i] = neutral
		}
		reduceBlocksNEON(op, &rest[0], 1, &lanes, arg)
		if op == sumOfExponentials {
			copy(x[head:], rest[:])
		}
	}
	return foldLanes(op, &lanes)
}

// neutralElement changes no accumulator.
func neutralElement(op reduction, arg float32) float32 {
	switch op {
	case sumOfDeviations:
		return arg
	case sumOfExponentials, largestElement:
		return float32(math.Inf(-1))
	default:
		return 0
	}
}

func reduceBlocksNEON(op reduction, x *float32, blocks int, lanes *[blockLen]float32, arg float32) {
	switch op {
	case sumOfElements:
		sumNEON(x, blocks, lanes)
	case sumOfSquares:
		sumSquaresNEON(x, blocks, lanes)
	case sumOfDeviations:
		sumDeviationsNEON(x, blocks, lanes, arg)
	case sumOfExponentials:
		expSumNEON(x, blocks, lanes, arg)
	case largestElement:
		maxNEON(x, blocks, lanes)
	case largestMagnitude:
		maxMagnitudeNEON(x, blocks, lanes)
	}
}
