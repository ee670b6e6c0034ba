package watermark

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWhatIsCounted: Gumbel counts a context once, whatever follows it, KGW a context with its token; known texts count for nothing.
func TestWhatIsCounted(t *testing.T) {
	t.Parallel()
	text := []int32{1, 2, 3, 4, 5, 1, 2, 3, 4, 6, 1, 2, 3, 4, 5} // the context 1 2 3 4 three times: before 5, 6 and 5
	for name, c := range map[string]struct {
		kind  Params
		known [][]int32
		want  []int
	}{
		"gumbel":        {Params{Scheme: Gumbel, Context: 4}, nil, []int{4, 5, 6, 7, 8, 10, 11, 12, 13}},
		"kgw":           {Params{Scheme: KGW, Context: 4}, nil, []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
		"kgw of one":    {Params{Scheme: KGW, Context: 1}, nil, []int{1, 2, 3, 4, 5, 9, 10}},
		"gumbel, known": {Params{Scheme: Gumbel, Context: 4}, [][]int32{{1, 2, 3, 4, 9}}, []int{5, 6, 7, 8, 10, 11, 12, 13}},
		"kgw, known":    {Params{Scheme: KGW, Context: 4}, [][]int32{{1, 2, 3, 4, 9}, {1, 2, 3, 4, 5}}, []int{5, 6, 7, 8, 9, 10, 11, 12, 13}},
	} {
		var got []int
		for _, p := range countable(c.kind, text, c.known) {
			got = append(got, p.place)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestPassagesPayForAll: a mark in a passage is found, also at the very end of a text, and its p pays for the whole text, for all passages and for all sub-keys.
func TestPassagesPayForAll(t *testing.T) {
	t.Parallel()
	l := newLanguage(500, 1)
	k := testKey(t, 1, Params{SubKeys: 8})
	r := rand.New(rand.NewPCG(5, 6))
	text := l.write(nil, r, 700)
	text = append(text, l.write(k.marker(3), r, 140)...)
	d := testDetector(t, DetectorConfig{Keys: []*Key{k}, Attempts: 3})
	got := detect(t, d, text)
	if got.Verdict != Found || got.Best.SubKey != 3 || got.Best.End != len(text) || got.Best.Begin < 690 {
		t.Fatalf("%+v, best %+v", got, got.Best)
	}
	if want := got.Best.LogP + math.Ln2 + math.Log(float64(got.Runs)) + math.Log(8) + math.Log(3); math.Abs(got.LogP-want) > 1e-6 {
		t.Errorf("p is e^%v, want e^%v: something that was tried is not paid for", got.LogP, want)
	}
	if got.Tries != 24 {
		t.Errorf("%v tries", got.Tries)
	}
}

// TestGreenIsExact: what weighs more is decided by all bits of a number, not by its first byte.
func TestGreenIsExact(t *testing.T) {
	t.Parallel()
	for _, gamma := range []float64{0.01, 0.25, 0.3, 0.5, 0.9} {
		k := testKey(t, 3, Params{Scheme: KGW, Gamma: gamma, SubKeys: 1})
		m := k.marker(0)
		n := m.sub.numbers(context{1, 2, 3, 4})
		weights := make([]float32, 40_000)
		for i := range weights {
			weights[i] = 1
		}
		m.weigh(n, nil, weights)
		for i, w := range weights {
			if green := n.bits(int32(i)) < m.green; green != (w > 1) {
				t.Fatalf("gamma %v: token %d weighs %v", gamma, i, w)
			}
		}
	}
}

func TestSecretsDoNotShow(t *testing.T) {
	t.Parallel()
	c := KeyConfig{Secret: []byte("a secret of more than 32 bytes, all told"), Tenant: "acme", Epoch: 2}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %v", c, c, &c)} {
		if strings.Contains(text, "secret") || strings.Contains(text, "115") || !strings.Contains(text, "acme") {
			t.Error(text)
		}
	}
}
