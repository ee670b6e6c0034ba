package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// uniformity is the test by Kolmogorov and Smirnov that numbers are uniform between 0 and 1: the statistic and its p.
func uniformity(ps []float64) (d, p float64) {
	ps = slices.Sorted(slices.Values(ps))
	n := float64(len(ps))
	for i, v := range ps {
		d = max(d, v-float64(i)/n, float64(i+1)/n-v)
	}
	x := (math.Sqrt(n) + 0.12 + 0.11/math.Sqrt(n)) * d
	if x < 0.2 {
		return d, 1 // the series converges too slowly, and 1 is right to twelve digits
	}
	for k := 1.0; k <= 100; k++ {
		p += 2 * math.Pow(-1, k-1) * math.Exp(-2*k*k*x*x)
	}
	return d, min(1, max(0, p))
}

// atMost is the probability of at most k successes of n, each of probability p.
func atMost(k, n int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	all, _ := math.Lgamma(float64(n) + 1)
	sum := 0.0
	for i := k; i >= 0; i-- {
		some, _ := math.Lgamma(float64(i) + 1)
		others, _ := math.Lgamma(float64(n-i) + 1)
		term := math.Exp(all - some - others + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
		if sum += term; term < 1e-18*sum {
			break
		}
	}
	return min(1, sum)
}

// solve returns where a function that falls from 0 to 1 passes a value.
func solve(value float64, f func(p float64) float64) float64 {
	low, high := 0.0, 1.0
	for range 200 {
		if middle := (low + high) / 2; f(middle) > value {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// upper is the bound by Clopper and Pearson that a rate is below with 95 %, after k of n.
func upper(k, n int) float64 {
	if n == 0 {
		return 1
	}
	return solve(0.05, func(p float64) float64 { return atMost(k, n, p) })
}

// interval is theirs of 95 %, with both ends.
func interval(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	if high = 1; k < n {
		high = solve(0.025, func(p float64) float64 { return atMost(k, n, p) })
	}
	if k > 0 {
		low = solve(0.975, func(p float64) float64 { return atMost(k-1, n, p) })
	}
	return low, high
}

// share writes k of n in percent, with its interval.
func share(k, n int) string {
	if n == 0 {
		return "–"
	}
	low, high := interval(k, n)
	return fmt.Sprintf("%.0f %% [%.0f…%.0f]", 100*float64(k)/float64(n), 100*low, 100*high)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// estimate is a mean, and half its interval of 95 % by Student's t (expanded in the degrees of freedom, which takes four values at least).
func estimate(v []float64) (m, half float64) {
	m = mean(v)
	square := 0.0
	for _, x := range v {
		square += (x - m) * (x - m)
	}
	n := float64(len(v))
	if n < 4 {
		return m, math.NaN()
	}
	const z = 1.959964
	t := z + (z*z*z+z)/(4*(n-1)) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*(n-1)*(n-1))
	return m, t * math.Sqrt(square/(n-1)/n)
}

func quantile[T cmp.Ordered](v []T, q float64) T {
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}
