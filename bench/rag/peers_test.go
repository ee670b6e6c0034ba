package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
)

func sides() *contest {
	t := &contest{
		vectors: [][]float32{{1, 0}, {0.8, 0.6}, {0.8, 0.6}, {0, 1}}, queries: [][]float32{{1, 0}}, shares: []string{"100 %", "1 %"},
		masks: map[string]*roaring.Bitmap{"100 %": roaring.BitmapOf(0, 1, 2, 3), "1 %": roaring.BitmapOf(1, 3)},
		truth: map[string][][]uint32{}, scores: map[string][]float64{},
	}
	for _, mask := range t.shares {
		t.solve(mask)
	}
	return t
}

// TestRecall: what is as near as the last of the nearest counts, the same one twice does not, and what a filter hides is an error.
func TestRecall(t *testing.T) {
	t.Parallel()
	c := sides()
	for i := range c.truth["100 %"] { // only the nearest two are asked for
		c.truth["100 %"][i], c.scores["100 %"][i] = c.truth["100 %"][i][:2], 0.8
	}
	for _, try := range []struct {
		ids  []uint32
		want float64
	}{{[]uint32{0, 1}, 1}, {[]uint32{0, 2}, 1}, {[]uint32{0, 0}, 0.5}, {[]uint32{3, 0}, 0.5}, {nil, 0}} {
		if got, err := c.recall("100 %", [][]uint32{try.ids}); err != nil || got != try.want {
			t.Errorf("%v: %v, %v", try.ids, got, err)
		}
	}
	if _, err := c.recall("1 %", [][]uint32{{0}}); err == nil {
		t.Error("what the filter hides was found, and nobody said so")
	}
}

// TestRounds: a library is timed at the first effort that reaches each step and no further; one that does not reach the last is named.
func TestRounds(t *testing.T) {
	t.Parallel()
	c := sides()
	asked := map[int]int{}
	err := c.rounds(t.Context(), []*contender{
		{name: "sluice", filters: true, search: func(_ context.Context, mask string, _ int) ([][]uint32, []time.Duration, error) {
			return c.truth[mask], []time.Duration{time.Millisecond}, nil
		}},
		{name: "graph", efforts: []int{1, 2, 3, 4}, search: func(_ context.Context, mask string, effort int) ([][]uint32, []time.Duration, error) {
			asked[effort]++
			found := c.truth[mask]
			if effort < 3 {
				found = [][]uint32{nil}
			}
			return found, []time.Duration{time.Second}, nil
		}},
	}, 5, c.recall)
	if err != nil || asked[1] != 1 || asked[2] != 1 || asked[3] != 6 || asked[4] != 0 {
		t.Errorf("%v, %v", asked, err)
	}
	recalls, timed := []float64{0.91, 0.92, 0.96, 0.9991}, map[int]int{}
	step := &contender{name: "sluice", efforts: []int{0, 1, 2, 3}, search: func(_ context.Context, _ string, effort int) ([][]uint32, []time.Duration, error) {
		timed[effort]++
		return [][]uint32{{uint32(effort)}}, []time.Duration{1}, nil
	}}
	err = c.rounds(t.Context(), []*contender{step}, 2, func(_ string, found [][]uint32) (float64, error) { return recalls[found[0][0]], nil })
	if err != nil || timed[0] != 3 || timed[1] != 1 || timed[2] != 3 || timed[3] != 3 {
		t.Errorf("%v, %v", timed, err)
	}
	hidden := &contender{name: "leak", filters: true, search: func(context.Context, string, int) ([][]uint32, []time.Duration, error) {
		return [][]uint32{{0}}, []time.Duration{1}, nil
	}}
	if err := c.rounds(t.Context(), []*contender{hidden}, 1, c.recall); err == nil || !strings.Contains(err.Error(), "hidden") {
		t.Errorf("a library that ignores filters: %v", err)
	}
}
