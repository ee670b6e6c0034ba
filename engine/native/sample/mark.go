package sample

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-project/sluice/engine"
)

// list puts the candidates into s.ids and s.weighed, in their order.
func (s *Sampler) list() {
	s.ids, s.weighed = s.ids[:0], s.weighed[:0]
	for _, k := range s.keys {
		s.ids, s.weighed = append(s.ids, token(k)), append(s.weighed, float32(weight(k)))
	}
}

// marked lets the marker take part in the draw among the tokens in s.ids, or among all of them. It reports whether it did; if not, nothing
// has changed.
func (s *Sampler) marked(mark *Mark, r *Rules, best int32, at *Position, listed bool, u float64) (id int32, marked bool, err error) {
	tokens, weights := []int32(nil), s.scratch
	if listed {
		tokens, weights = s.ids, s.weighed
	}
	chosen := several(weights)
	var index int
	err = guarded(func() error {
		index, marked = mark.Marker(at.Completion, tokens, weights)
		return nil
	})
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("watermark: %w", err)
	case !marked:
		return 0, false, nil
	case index >= len(weights) || index >= 0 && !(weights[index] > 0):
		return 0, false, fmt.Errorf("watermark: place %d of %d holds no token that may be drawn", index, len(weights))
	case index < 0:
		if index, err = drawWeighed(tokens, weights, best, r.temperature, u); err != nil {
			return 0, false, err
		}
	}
	if chosen {
		mark.Tokens++
	} else {
		mark.Certain++
	}
	return named(tokens, index), true, nil
}

// several reports whether there are two weights at least above 0.
func several(weights []float32) bool {
	first := slices.IndexFunc(weights, func(w float32) bool { return w > 0 })
	return first >= 0 && slices.ContainsFunc(weights[first+1:], func(w float32) bool { return w > 0 })
}

func named(tokens []int32, index int) int32 {
	if tokens == nil {
		return int32(index)
	}
	return tokens[index]
}

// drawWeighed draws among weights that somebody has changed.
func drawWeighed(tokens []int32, weights []float32, best int32, temperature, u float64) (int, error) {
	total := 0.0
	for i, w := range weights {
		if !(w >= 0 && w <= math.MaxFloat32) {
			return 0, fmt.Errorf("watermark: the weight of token %d became %v; weights are numbers from 0 on", named(tokens, i), w)
		}
		total += float64(w)
	}
	switch {
	case total == 0:
		return 0, errors.New("watermark: it left no token with a weight above zero")
	case temperature == 0:
		return heaviest(tokens, weights, best), nil
	}
	target := u * total
	last, mass := 0, 0.0
	for i, w := range weights {
		if w > 0 {
			last = i
			mass += float64(w)
			if mass > target {
				break
			}
		}
	}
	return last, nil
}

// heaviest returns the place of the heaviest token: of best if it is among them, else of the lowest id.
func heaviest(tokens []int32, weights []float32, best int32) int {
	at := 0
	for i, w := range weights {
		id, chosen := named(tokens, i), named(tokens, at)
		if w > weights[at] || w == weights[at] && chosen != best && (id == best || id < chosen) {
			at = i
		}
	}
	return at
}

// Mark is the watermark of one choice.
type Mark struct {
	Marker engine.Marker
	Greedy bool // marks at temperature 0, too
	Tokens int  // that were marked so far where there was a choice
	// Certain is how many were drawn from one candidate alone, which no mark shows in.
	Certain int
}

// at returns the mark where there is something to choose, else nil.
func (m *Mark) at(temperature float64) *Mark {
	if m == nil || temperature == 0 && !m.Greedy {
		return nil
	}
	return m
}
