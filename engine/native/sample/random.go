package sample

import "math"

// random draws a token. x may be the scratch memory; best is its likeliest token.
func (s *Sampler) random(x []float32, best int32, r *Rules, at *Position) (int32, error) {
	sum := s.weights(x, best, r.temperature)
	narrowed := s.narrow(r, best, sum)
	u := uniform(r.seed, at.Choice, at.Step)
	if r.hook != nil {
		return s.hooked(r, best, at, narrowed, u)
	}
	if mark := at.Mark.at(r.temperature); mark != nil {
		if narrowed {
			s.list()
		}
		if id, marked, err := s.marked(mark, r, best, at, narrowed, u); marked || err != nil {
			return id, err
		}
	}
	switch {
	case r.temperature == 0:
		return best, nil
	case narrowed:
		return s.drawKey(best, u), nil
	}
	return s.drawAny(best, u*float64(sum)), nil
}

// weights fills the scratch memory with the tokens' probabilities but for a common factor, and returns their sum. At temperature 0,
// which a hook or a marker gets to see, they are those at temperature 1.
func (s *Sampler) weights(x []float32, best int32, temperature float64) float32 {
	inv := float32(1)
	if temperature > 0 {
		// Within these bounds a forbidden token stays one, and the likeliest one possible: no product is zero times infinity.
		inv = min(max(float32(1/temperature), math.SmallestNonzeroFloat32), math.MaxFloat32)
	}
	top, dst := x[best], s.scratch[:len(x)]
	for i, v := range x {
		dst[i] = (v - top) * inv
	}
	return s.k.ExpSum(dst, 0)
}

// drawAny returns the token at which the sum of all weights exceeds target; with rounding against us, the last possible one.
func (s *Sampler) drawAny(best int32, target float64) int32 {
	last, mass := best, 0.0
	for i, p := range s.scratch {
		if p > 0 {
			last = int32(i)
			mass += float64(p)
			if mass > target {
				break
			}
		}
	}
	return last
}

// drawKey does the same among the candidates, in their order.
func (s *Sampler) drawKey(best int32, u float64) int32 {
	total := 0.0
	for _, k := range s.keys {
		total += weight(k)
	}
	target := u * total
	last, mass := best, 0.0
	for _, k := range s.keys {
		last = token(k)
		mass += weight(k)
		if mass > target {
			break
		}
	}
	return last
}

// uniform returns a number in [0, 1): a hash of its arguments, so that no state is carried from token to token.
func uniform(seed uint64, choice, step int) float64 {
	h := mix(seed + 0x9e3779b97f4a7c15)
	h = mix(h ^ uint64(choice)*0xd1342543de82ef95)
	h = mix(h ^ uint64(step)*0x9e3779b97f4a7c15)
	return float64(h>>11) / (1 << 53)
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
