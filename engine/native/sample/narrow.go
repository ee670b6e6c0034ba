package sample

import (
	"math"
	"slices"
)

// A key is a candidate as one number: weights fall and, among equals, ids rise with it.
func key(p float32, id int) uint64 { return uint64(^math.Float32bits(p))<<32 | uint64(uint32(id)) }

func weight(key uint64) float64 { return float64(math.Float32frombits(^uint32(key >> 32))) }

func token(key uint64) int32 { return int32(uint32(key)) }

// narrow applies top-k, top-p and min-p and reports whether any of them is asked for; what they let through is in s.keys then.
func (s *Sampler) narrow(r *Rules, best int32, sum float32) bool {
	s.keys = s.keys[:0]
	switch {
	case r.topK == 1: // exactly the likeliest, even if its weight is rounded to another's
		s.keys = append(s.keys, key(s.scratch[best], int(best)))
	case r.topK > 0:
		s.heaviest(r.topK)
		slices.Sort(s.keys)
		total := 0.0
		for _, k := range s.keys {
			total += weight(k)
		}
		s.cutMass(r.topP, total)
	case r.topP < 1:
		// Tokens below this share are less than 1−topP together, so the nucleus is among the others.
		s.gather(float32((1 - r.topP) * float64(sum) / float64(len(s.scratch))))
		s.discard(r.topP * float64(sum))
		s.sort()
		s.cutMass(r.topP, float64(sum))
	case r.minP > 0:
		s.gather(float32(r.minP * float64(s.scratch[best]) * (1 - 1e-6))) // a little less than the least, which the rounding may move
	default:
		return false
	}
	if least := r.minP * float64(s.scratch[best]); least > 0 {
		s.keys = slices.DeleteFunc(s.keys, func(k uint64) bool { return weight(k) < least })
	}
	return true
}

// gather makes candidates of the tokens with at least this weight, in the order of their ids.
func (s *Sampler) gather(least float32) {
	keys := s.keys
	least = max(least, math.SmallestNonzeroFloat32)
	for i, p := range s.scratch {
		if p >= least {
			keys = append(keys, key(p, i))
		}
	}
	s.keys = keys
}

// cutMass keeps the fewest first candidates whose weights add up to the share topP of total.
func (s *Sampler) cutMass(topP, total float64) {
	if topP >= 1 {
		return
	}
	mass, n := 0.0, 0
	for n < len(s.keys) && mass < topP*total {
		mass += weight(s.keys[n])
		n++
	}
	s.keys = s.keys[:n]
}

// few candidates are sorted faster than sifted.
const few = 256

// discard drops candidates that cannot be among the heaviest that weigh mass together, before anybody sorts them: it adds weights up
// in buckets of an eighth of a power of two.
func (s *Sampler) discard(mass float64) {
	if len(s.keys) <= few {
		return
	}
	const first, count = 0xc07, 1<<12 - 0xc07 // the bucket of weight 1, and how many there are down to the least number
	if s.buckets == nil {
		s.buckets = make([]float64, count)
	}
	clear(s.buckets)
	for _, k := range s.keys {
		s.buckets[max(int(k>>52)-first, 0)] += weight(k)
	}
	have, last := 0.0, 0
	for have < mass*(1+1e-9) && last < count { // the margin is for sums in another order
		have += s.buckets[last]
		last++
	}
	if last == count {
		return
	}
	end := uint64(first+last) << 52
	s.keys = slices.DeleteFunc(s.keys, func(k uint64) bool { return k >= end })
}

// many candidates are sorted faster by their digits.
const many = 1 << 11

// sort puts candidates that are in the order of their ids into that of their keys.
func (s *Sampler) sort() {
	if len(s.keys) < many {
		slices.Sort(s.keys)
		return
	}
	const digit = 11 // bits; three of them cover a weight
	for shift := 32; shift < 64; shift += digit {
		var place [1 << digit]int32
		for _, k := range s.keys {
			place[k>>shift&(1<<digit-1)]++
		}
		next := int32(0)
		for d, n := range place {
			place[d], next = next, next+n
		}
		s.spare = slices.Grow(s.spare[:0], len(s.keys))[:len(s.keys)]
		for _, k := range s.keys {
			d := k >> shift & (1<<digit - 1)
			s.spare[place[d]] = k
			place[d]++
		}
		s.keys, s.spare = s.spare, s.keys
	}
}

// heaviest makes candidates of the k heaviest tokens: a heap with the lightest of them at its root.
func (s *Sampler) heaviest(k int) {
	least := float32(0)
	for i, p := range s.scratch {
		if p <= least { // of equals the first ones stay
			continue
		}
		if len(s.keys) < k {
			s.keys = append(s.keys, key(p, i))
			if len(s.keys) < k {
				continue
			}
			for root := k/2 - 1; root >= 0; root-- {
				sift(s.keys, root)
			}
		} else {
			s.keys[0] = key(p, i)
			sift(s.keys, 0)
		}
		least = float32(weight(s.keys[0]))
	}
}

// sift lets the root sink until no child has a larger key.
func sift(heap []uint64, root int) {
	for {
		child := 2*root + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1] > heap[child] {
			child++
		}
		if heap[root] >= heap[child] {
			return
		}
		heap[root], heap[child] = heap[child], heap[root]
		root = child
	}
}
