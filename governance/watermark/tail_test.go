package watermark

import (
	"math"
	"math/big"
	"testing"
)

const precision = 400

// logOf is the natural logarithm of a positive number of any size.
func logOf(x *big.Float) float64 {
	m := new(big.Float)
	exponent := x.MantExp(m)
	f, _ := m.Float64()
	return math.Log(f) + float64(exponent)*math.Ln2
}

func number(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// Against the sum of Poisson's terms, to four hundred bits, far beyond where a float64 is 0.
func TestGammaTailIsExact(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 63, 64, 200, 1000, 5000} {
		for _, ratio := range []float64{0.01, 0.5, 0.9, 0.99, 1, 1.01, 1.1, 1.5, 2, 5, 20} {
			s := math.Round(ratio*float64(n)*8) / 8
			if s == 0 {
				continue
			}
			sum, term := number(1), number(1)
			for k := 1; k < n; k++ {
				term.Mul(term, number(s)).Quo(term, number(float64(k)))
				sum.Add(sum, term)
			}
			want := logOf(sum) - s
			got := gammaTail(n, s)
			if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want))+1e-9 {
				t.Errorf("n %d, s %v: %v, want %v", n, s, got, want)
			}
		}
	}
	if gammaTail(0, 5) != 0 || gammaTail(5, 0) != 0 || gammaTail(5, -1) != 0 || gammaTail(5, math.NaN()) != 0 {
		t.Error("without a sum p is 1")
	}
}

// power returns x to the n-th.
func power(x *big.Float, n int) *big.Float {
	out, x := new(big.Float).SetPrec(x.Prec()).SetInt64(1), new(big.Float).Copy(x)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			out.Mul(out, x)
		}
		x.Mul(x, x)
	}
	return out
}

func TestBinomialTailIsExact(t *testing.T) {
	for _, n := range []int{1, 2, 64, 700} {
		for _, p := range []float64{0.01, 0.25, 0.5, 0.9} {
			for _, hits := range []int{0, 1, n / 10, n / 4, n/4 + 1, n / 2, n/2 + 7, n - 1, n} {
				if hits > n {
					continue
				}
				sum := number(0)
				for k := hits; k <= n; k++ {
					term := new(big.Float).SetPrec(precision).SetInt(new(big.Int).Binomial(int64(n), int64(k)))
					term.Mul(term, power(number(p), k))
					term.Mul(term, power(new(big.Float).SetPrec(precision).Sub(number(1), number(p)), n-k))
					sum.Add(sum, term)
				}
				want, got := logOf(sum), binomialTail(n, hits, p)
				if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want))+1e-9 {
					t.Errorf("%d of %d at %v: %v, want %v", hits, n, p, got, want)
				}
			}
		}
	}
}

func TestAnyOf(t *testing.T) {
	for _, p := range []float64{1, 0.9, 0.5, 0.01, 1e-6, 1e-14, 1e-17, 1e-200} {
		for _, k := range []float64{1, 2, 256, 1e6} {
			q := new(big.Float).SetPrec(4000).Sub(new(big.Float).SetPrec(4000).SetInt64(1), new(big.Float).SetPrec(4000).SetFloat64(p))
			want := logOf(new(big.Float).SetPrec(4000).Sub(new(big.Float).SetPrec(4000).SetInt64(1), power(q, int(k))))
			got := anyOf(math.Log(p), k)
			if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
				t.Errorf("the least of %v at %v: %v, want %v", k, p, got, want)
			}
		}
	}
}
