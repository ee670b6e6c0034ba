package exec

import "math"

// Eight-bit weights have one scale for each row. The largest magnitude of a row over 127 clips nothing, but a single large weight
// then makes the steps of all others coarse. fitter looks for the scale with the least squared error instead.

// clipSteps is how finely the search looks at scales: 1, 127/128, … 1/2 of the one that clips nothing.
const clipSteps = 64

// smallestRow is the least magnitude of a row that is not rounded to zero, as in [kernel.Kernels.QuantizeRow].
const smallestRow = 1.0 / (1 << 100)

// fitter quantises rows one after the other.
type fitter struct {
	energy []float32 // weight of each column's squared error, about 1; nil: all alike
	u      []float32 // the row in steps of the scale that clips nothing
	large  []int32   // the columns that a smaller scale may clip
}

// fit returns the scale for a row whose error Σ energy·(x − d·q)² is least among the scales that it tries, and sets q. It is never
// larger than with the scale max|x|/127.
func (f *fitter) fit(q []int8, x []float32) float32 {
	top := f.prepare(x)
	if top == 0 {
		clear(q)
		return 0
	}
	best, least := float32(1), f.loss(1)
	for n := 1; n <= clipSteps; n++ {
		ratio := 1 - float32(n)/(2*clipSteps)
		// What is clipped only grows as the scale falls.
		if f.clipped(ratio) >= least {
			break
		}
		if loss := f.loss(ratio); loss < least {
			best, least = ratio, loss
		}
	}
	return float32(f.refine(q, best) * float64(top) / 127)
}

// prepare fills u and large and returns the largest magnitude, or zero where the row becomes zero.
func (f *fitter) prepare(x []float32) float32 {
	top := float32(0)
	for _, v := range x {
		top = max(top, magnitude(v))
	}
	if !(top >= smallestRow) || math.IsInf(float64(top), 0) {
		return 0
	}
	if len(f.u) != len(x) {
		f.u = make([]float32, len(x))
	}
	f.large = f.large[:0]
	inverse := 127 / top
	for i, v := range x {
		v *= inverse
		f.u[i] = v
		if v > 63 || v < -63 {
			f.large = append(f.large, int32(i))
		}
	}
	return top
}

func magnitude(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// clipped is a lower bound of the loss: that of the weights beyond the range.
func (f *fitter) clipped(ratio float32) float32 {
	sum, limit := float32(0), 127*ratio
	for _, i := range f.large {
		d := magnitude(f.u[i]) - limit
		if d <= 0 {
			continue
		}
		loss := float32(d * d)
		if f.energy != nil {
			loss *= f.energy[i]
		}
		sum += loss
	}
	return sum
}

// rounder, added to a small number and taken away again, leaves it rounded to the nearest even integer.
const errorRounder = 3 << 22

func whole(steps float32) float32 { return float32(steps+errorRounder) - errorRounder }

// code is a number of steps rounded to the nearest even integer in range.
func code(steps float32) float32 {
	c := whole(steps)
	if c > 127 {
		return 127
	}
	if c < -127 {
		return -127
	}
	return c
}

// loss is the weighted squared error of the row at a scale. The conversions keep compilers from fusing, so that it is the same
// everywhere. Most columns cannot be clipped: all are rounded without a limit first, then those that it may concern once more.
func (f *fitter) loss(ratio float32) float32 {
	inverse := 1 / ratio
	sum := f.unlimited(ratio, inverse)
	for _, i := range f.large {
		a := f.u[i]
		steps := float32(a * inverse)
		free, held := a-float32(ratio*whole(steps)), a-float32(ratio*code(steps))
		more := float32(held*held) - float32(free*free)
		if f.energy != nil {
			more *= f.energy[i]
		}
		sum += more
	}
	return sum
}

func (f *fitter) unlimited(ratio, inverse float32) float32 {
	var s0, s1, s2, s3 float32
	u := f.u
	if e := f.energy; e != nil {
		e = e[:len(u)]
		for i, a := range u {
			a -= float32(ratio * whole(float32(a*inverse)))
			s0 += float32(float32(a*a) * e[i])
		}
		return s0
	}
	for ; len(u) >= 4; u = u[4:] {
		a, b, c, d := u[0], u[1], u[2], u[3]
		a -= float32(ratio * whole(float32(a*inverse)))
		b -= float32(ratio * whole(float32(b*inverse)))
		c -= float32(ratio * whole(float32(c*inverse)))
		d -= float32(ratio * whole(float32(d*inverse)))
		s0 += float32(a * a)
		s1 += float32(b * b)
		s2 += float32(c * c)
		s3 += float32(d * d)
	}
	for _, a := range u {
		a -= float32(ratio * whole(float32(a*inverse)))
		s0 += float32(a * a)
	}
	return (s0 + s1) + (s2 + s3)
}

// refine sets q for a scale and returns the best scale for these integers, in steps of the one that clips nothing.
func (f *fitter) refine(q []int8, ratio float32) float64 {
	inverse := 1 / ratio
	var xq, qq float64
	for i, a := range f.u {
		c := code(float32(a * inverse))
		q[i] = int8(c)
		w := float64(c)
		if f.energy != nil {
			w *= float64(f.energy[i])
		}
		xq += float64(w * float64(a))
		qq += float64(w * float64(c))
	}
	if !(qq > 0) || !(xq > 0) {
		return float64(ratio)
	}
	return xq / qq
}
