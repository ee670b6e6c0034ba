package watermark

import (
	stdctx "context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// testKey returns the key of a number.
func testKey(t testing.TB, number uint64, p Params) *Key {
	t.Helper()
	secret := make([]byte, 32)
	binary.LittleEndian.PutUint64(secret, number)
	k, err := NewKey(KeyConfig{Secret: secret, Tenant: "tenant", Epoch: 1, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func testDetector(t testing.TB, cfg DetectorConfig) *Detector {
	t.Helper()
	d, err := NewDetector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func detect(t testing.TB, d *Detector, tokens []int32, known ...[]int32) Result {
	t.Helper()
	r, err := d.Detect(stdctx.Background(), tokens, known...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// language is a model of a language: tokens by Zipf's law with an exponent, in another order after each token.
type language struct {
	weights  []float32 // by rank
	exponent float64
	buffer   []float32
}

func newLanguage(vocab int, exponent float64) *language {
	l := &language{exponent: exponent, buffer: make([]float32, vocab)}
	for i := range vocab {
		l.weights = append(l.weights, float32(math.Pow(float64(i+1), -exponent)))
	}
	return l
}

// entropy of a token, in nats.
func (l *language) entropy() float64 {
	sum, h := 0.0, 0.0
	for _, w := range l.weights {
		sum += float64(w)
	}
	for _, w := range l.weights {
		p := float64(w) / sum
		h -= p * math.Log(p)
	}
	return h
}

// next returns the weights of all tokens behind a text.
func (l *language) next(text []int32) []float32 {
	last := uint64(0)
	if len(text) > 0 {
		last = uint64(text[len(text)-1]) + 1
	}
	offset := last * 0x9e3779b97f4a7c15 >> 32
	n := uint64(len(l.weights))
	for i, w := range l.weights {
		l.buffer[(uint64(i)*7919+offset)%n] = w
	}
	return l.buffer
}

// draw draws as an engine does without a watermark.
func draw(r *rand.Rand, weights []float32) int {
	total := 0.0
	for _, w := range weights {
		total += float64(w)
	}
	target := r.Float64() * total
	for i, w := range weights {
		if target -= float64(w); target < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// write makes a text of n tokens, marked by m if there is one.
func (l *language) write(m *Marker, r *rand.Rand, n int) []int32 {
	text := make([]int32, 0, n)
	for len(text) < n {
		w := l.next(text)
		index := -1
		if m != nil {
			index, _ = m.Mark(text, nil, w)
		}
		if index < 0 {
			index = draw(r, w)
		}
		text = append(text, int32(index))
	}
	return text
}

// templated is a text whose sentences come again and again, with other words in their gaps.
func templated(r *rand.Rand, n int) []int32 {
	sentences := make([][]int32, 3)
	for i := range sentences {
		for range 20 {
			sentences[i] = append(sentences[i], int32(r.IntN(5000)))
		}
	}
	var text []int32
	for len(text) < n {
		s := slices.Clone(sentences[r.IntN(len(sentences))])
		s[r.IntN(len(s))] = int32(r.IntN(5000))
		text = append(text, s...)
	}
	return text[:n]
}

// uniformity returns the p of the test by Kolmogorov and Smirnov that numbers are uniform between 0 and 1.
func uniformity(ps []float64) float64 {
	ps = slices.Sorted(slices.Values(ps))
	n, d := float64(len(ps)), 0.0
	for i, p := range ps {
		d = max(d, p-float64(i)/n, float64(i+1)/n-p)
	}
	x, sum := (math.Sqrt(n)+0.12+0.11/math.Sqrt(n))*d, 0.0
	for k := 1; k <= 100; k++ {
		sum += 2 * math.Pow(-1, float64(k-1)) * math.Exp(-2*float64(k*k)*x*x)
	}
	return min(1, max(0, sum))
}

// fit returns the p of Pearson's chi-square test, by the approximation of Wilson and Hilferty.
func fit(counts []int, probabilities []float64) float64 {
	total, x := 0, 0.0
	for _, c := range counts {
		total += c
	}
	for i, p := range probabilities {
		want := p * float64(total)
		x += (float64(counts[i]) - want) * (float64(counts[i]) - want) / want
	}
	k := float64(len(counts) - 1)
	z := (math.Cbrt(x/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
	return math.Erfc(z/math.Sqrt2) / 2
}
