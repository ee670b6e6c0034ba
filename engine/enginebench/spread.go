package enginebench

import (
	"fmt"
	"slices"
)

// Spread is what several rounds measured.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf sums rounds up; of an even number the median is the mean of the middle two. Without rounds it is zero.
func SpreadOf(rounds []float64) Spread {
	if len(rounds) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(rounds))
	n := len(s)
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
}

// String prints median (min…max), with digits that suit the size.
func (s Spread) String() string {
	digits := 0
	switch {
	case s.Median < 1:
		digits = 3
	case s.Median < 10:
		digits = 2
	case s.Median < 100:
		digits = 1
	}
	return fmt.Sprintf("%.*f (%.*f…%.*f)", digits, s.Median, digits, s.Min, digits, s.Max)
}
