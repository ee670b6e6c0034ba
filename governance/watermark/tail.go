package watermark

import "math"

// gammaTail returns the natural logarithm of the probability that the sum of n exponential numbers of mean 1 is at least s. It is exact
// but for rounding, however far out s is.
func gammaTail(n int, s float64) float64 {
	switch {
	case n <= 0 || !(s > 0):
		return 0
	case s > float64(n): // e^−s · Σ s^k/k! for k < n, from its last term, the largest one, down
		sum, term := 1.0, 1.0
		for k := n - 1; k >= 1 && term > 1e-17*sum; k-- {
			term *= float64(k) / s
			sum += term
		}
		return min(0, poisson(n-1, s)+math.Log(sum))
	}
	sum, term := 1.0, 1.0 // of the other tail: Σ s^k/k! for k ≥ n
	for k := n + 1; term > 1e-17*sum; k++ {
		term *= s / float64(k)
		sum += term
	}
	return log1mexp(poisson(n, s) + math.Log(sum))
}

// poisson returns ln(e^−s · s^k/k!).
func poisson(k int, s float64) float64 {
	l, _ := math.Lgamma(float64(k) + 1)
	return float64(k)*math.Log(s) - s - l
}

// binomialTail returns the natural logarithm of the probability of at least hits successes in n trials of probability p.
func binomialTail(n, hits int, p float64) float64 {
	if n <= 0 || hits <= 0 {
		return 0
	}
	odds := p / (1 - p)
	sum, term := 1.0, 1.0
	if float64(hits) > float64(n)*p {
		for k := hits; k < n && term > 1e-17*sum; k++ {
			term *= float64(n-k) / float64(k+1) * odds
			sum += term
		}
		return min(0, binomial(n, hits, p)+math.Log(sum))
	}
	for k := hits - 1; k > 0 && term > 1e-17*sum; k-- {
		term *= float64(k) / float64(n-k+1) / odds
		sum += term
	}
	return log1mexp(binomial(n, hits-1, p) + math.Log(sum))
}

// binomial returns ln of the probability of exactly k successes.
func binomial(n, k int, p float64) float64 {
	all, _ := math.Lgamma(float64(n) + 1)
	some, _ := math.Lgamma(float64(k) + 1)
	others, _ := math.Lgamma(float64(n-k) + 1)
	return all - some - others + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p)
}

// log1mexp returns ln(1−e^x).
func log1mexp(x float64) float64 {
	switch {
	case x >= 0:
		return math.Inf(-1)
	case x > -math.Ln2:
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}

// anyOf returns the natural logarithm of the probability that the least of k independent p is as small as the one whose logarithm is given.
func anyOf(logP, k float64) float64 {
	if logP < -35 { // 1−(1−p)^k is k·p here, or a little less
		return min(0, logP+math.Log(k))
	}
	if logP >= 0 {
		return 0
	}
	return log1mexp(k * log1mexp(logP))
}
