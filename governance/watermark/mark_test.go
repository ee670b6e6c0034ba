package watermark

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// What has been marked with a key has to be found in ten years: keys and numbers never change.
func TestKeysStayWhatTheyAre(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	for _, c := range []struct {
		tenant string
		epoch  uint32
		params Params
		id     string
		sub    int
		bits   uint64
	}{
		{"acme", 1, Params{}, "8a344c2c2f0f8ea0", 219, 0x7153040710900642},
		{"acme", 2, Params{}, "b5a89882a389aed2", 209, 0x742928de1a60b69f},
		{"acme", 1, Params{SubKeys: 16}, "232256257cd94f25", 7, 0xcc74a5bf2dd54333},
		{"other", 1, Params{}, "db3ef24a53efa013", 246, 0x7dbf0c768c8389e4},
		{"acme", 1, Params{Scheme: KGW, Context: 2}, "010cc10667da296d", 19, 0xe277626514826fc},
	} {
		k, err := NewKey(KeyConfig{Secret: secret, Tenant: c.tenant, Epoch: c.epoch, Params: c.params})
		if err != nil {
			t.Fatal(err)
		}
		sub := k.subOf(7, 1)
		bits := k.sub(sub).numbers(at([]int32{5, 6, 7, 8}, 4, k.params.Context)).bits(9)
		if k.ID() != c.id || sub != c.sub || bits != c.bits {
			t.Errorf("{%q, %d, %#v, %q, %d, %#x},", c.tenant, c.epoch, c.params, k.ID(), sub, bits)
		}
		if k.Tenant() != c.tenant || k.Epoch() != c.epoch || k.Greedy() != (c.params.Scheme == KGW) {
			t.Errorf("%s: %s, epoch %d, greedy %v", k.ID(), k.Tenant(), k.Epoch(), k.Greedy())
		}
	}
}

// Every part of a configuration makes another key, and none of them shows in its name.
func TestKeysAreApart(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	other := []byte(strings.Repeat("t", 32))
	seen := map[string]KeyConfig{}
	for _, cfg := range []KeyConfig{
		{secret, "a", 1, Params{}},
		{other, "a", 1, Params{}},
		{secret, "b", 1, Params{}},
		{secret, "", 1, Params{}},
		{secret, "a", 2, Params{}},
		{secret, "a", 1, Params{SubKeys: 128}},
		{secret, "a", 1, Params{Scheme: KGW}},
		{secret, "a", 1, Params{Scheme: KGW, Context: 1}},
		{secret, "a", 1, Params{Scheme: KGW, Gamma: 0.5}},
		{secret, "a", 1, Params{Scheme: KGW, Delta: 1}},
	} {
		k, err := NewKey(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if was, ok := seen[k.ID()]; ok || len(k.ID()) != 16 {
			t.Errorf("%+v and %+v have the same name %q", cfg, was, k.ID())
		}
		if _, err := hex.DecodeString(k.ID()); err != nil {
			t.Error(err)
		}
		seen[k.ID()] = cfg
	}
	same, err := NewKey(KeyConfig{secret, "a", 1, Params{Scheme: Gumbel, SubKeys: 256, Context: 4}})
	if err != nil || seen[same.ID()].Params != (Params{}) {
		t.Errorf("the defaults, written out, are another key: %v, %v", same, err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	for want, cfg := range map[string]KeyConfig{
		"secret of 31":    {Secret: secret[1:]},
		"neither":         {Secret: secret, Params: Params{Scheme: "unigram"}},
		"no power of two": {Secret: secret, Params: Params{SubKeys: 3}},
		"0 is no power":   {Secret: secret, Params: Params{SubKeys: -4}},
		"131072 is no":    {Secret: secret, Params: Params{SubKeys: 1 << 17}},
		"of kgw alone":    {Secret: secret, Params: Params{Delta: 1}},
		"context: 5":      {Secret: secret, Params: Params{Scheme: KGW, Context: 5}},
		"context: -1":     {Secret: secret, Params: Params{Scheme: KGW, Context: -1}},
		"gamma: 1":        {Secret: secret, Params: Params{Scheme: KGW, Gamma: 1}},
		"gamma: NaN":      {Secret: secret, Params: Params{Scheme: KGW, Gamma: math.NaN()}},
		"delta: 21":       {Secret: secret, Params: Params{Scheme: KGW, Delta: 21}},
		"delta: -1":       {Secret: secret, Params: Params{Scheme: KGW, Delta: -1}},
	} {
		want = strings.Replace(want, "0 is no power", "is no power of two", 1)
		if _, err := NewKey(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg.Params, err, want)
		}
	}
}

// Over the keys, a token is drawn with exactly its probability, of all tokens and of few of them.
func TestTokensKeepTheirProbabilities(t *testing.T) {
	weights := newLanguage(30, 1.3).weights
	ids := make([]int32, len(weights))
	total := 0.0
	for i, w := range weights {
		ids[i], total = int32(i*1000+7), total+float64(w)
	}
	probabilities := make([]float64, len(weights))
	for i, w := range weights {
		probabilities[i] = float64(w) / total
	}
	for name, tokens := range map[string][]int32{"all": nil, "few": ids} {
		byKey, bySub, byContext := make([]int, len(weights)), make([]int, len(weights)), make([]int, len(weights))
		one := testKey(t, 5, Params{SubKeys: 1 << 14})
		marker := one.marker(3)
		for i := range 1 << 14 {
			c := []int32{1, 2, 3, 4}
			index, marked := testKey(t, uint64(i), Params{}).Begin(1, 0).Mark(c, tokens, weights)
			if !marked {
				t.Fatal("a new context was not marked")
			}
			byKey[index]++
			index, _ = one.marker(i).Mark(c, tokens, weights)
			bySub[index]++
			index, _ = marker.Mark([]int32{1, int32(i), 3, 4}, tokens, weights)
			byContext[index]++
		}
		for what, counts := range map[string][]int{"keys": byKey, "sub-keys": bySub, "contexts": byContext} {
			if p := fit(counts, probabilities); p < 1e-4 {
				t.Errorf("%s tokens over the %s: p %v: %v", name, what, p, counts)
			}
		}
	}
}

// Over the keys, whole answers have their distribution, too, since no context draws twice; without that they have not.
func TestAnswersKeepTheirProbabilities(t *testing.T) {
	const length, answers = 9, 60_000
	weights := []float32{3, 1}
	run := func(again bool) float64 {
		counts, probabilities := make([]int, 1<<length), make([]float64, 1<<length)
		r := rand.New(rand.NewPCG(1, 1))
		key := testKey(t, 1, Params{SubKeys: 1 << 16})
		for n := range answers {
			m, text, answer := key.marker(n), []int32{}, 0
			for range length {
				if again {
					clear(m.seen)
				}
				index, _ := m.Mark(text, nil, weights)
				if index < 0 {
					index = draw(r, weights)
				}
				text, answer = append(text, int32(index)), 2*answer+index
			}
			counts[answer]++
		}
		for i := range probabilities {
			p := 1.0
			for bit := range length {
				p *= []float64{0.75, 0.25}[i>>bit&1]
			}
			probabilities[i] = p
		}
		return fit(counts, probabilities)
	}
	if p := run(false); p < 1e-4 {
		t.Errorf("answers have another distribution: p %v", p)
	}
	if p := run(true); p > 1e-9 {
		t.Errorf("contexts that draw again make no difference: p %v", p)
	}
}

// A context that was there before, and the first tokens, are the engine's to draw, from unchanged weights.
func TestNotMarkedTwice(t *testing.T) {
	m := testKey(t, 1, Params{}).Begin(1, 0)
	weights := []float32{1, 2, 0, 3}
	before := slices.Clone(weights)
	for n := range Context {
		if i, marked := m.Mark(make([]int32, n), nil, weights); marked || i != -1 {
			t.Errorf("after %d tokens: %d, %v", n, i, marked)
		}
	}
	text := []int32{9, 8, 7, 6, 5}
	first, marked := m.Mark(text, nil, weights)
	if !marked || first < 0 || weights[first] == 0 {
		t.Errorf("%d, %v", first, marked)
	}
	if i, marked := m.Mark(append([]int32{1}, text[1:]...), nil, weights); marked || i != -1 {
		t.Errorf("the same context again: %d, %v", i, marked)
	}
	if _, marked := m.Mark(append(text, 4), nil, weights); !marked {
		t.Error("another context was not marked")
	}
	if !slices.Equal(weights, before) {
		t.Errorf("weights became %v", weights)
	}
	if i, _ := testKey(t, 1, Params{}).Begin(1, 0).Mark(text, nil, []float32{0, 0}); i != -1 {
		t.Errorf("of no token, %d was drawn", i)
	}
}

// Choices of one seed have sub-keys of their own while there are enough; the same seed and choice have the same.
func TestSubKeys(t *testing.T) {
	k := testKey(t, 1, Params{SubKeys: 16})
	used := map[int]int{}
	for seed := range uint64(2000) {
		mine := map[int]bool{}
		for choice := range 16 {
			n := k.subOf(seed, choice)
			if n != k.subOf(seed, choice) || n < 0 || n >= 16 {
				t.Fatal(n)
			}
			mine[n] = true
		}
		if len(mine) != 16 {
			t.Fatalf("seed %d: %d sub-keys for 16 choices", seed, len(mine))
		}
		used[k.subOf(seed, 0)]++
	}
	for n := range 16 {
		if used[n] < 80 || used[n] > 180 {
			t.Errorf("sub-key %d has %d of 2000 seeds", n, used[n])
		}
	}
}

// Choices and seeds say other things; the same seed and choice say the same, byte for byte.
func TestRepeats(t *testing.T) {
	for _, p := range []Params{{}, {Scheme: KGW}} {
		k, l := testKey(t, 1, p), newLanguage(1000, 1.2)
		write := func(seed uint64, choice int) []int32 {
			return l.write(k.Begin(seed, choice), rand.New(rand.NewPCG(seed, uint64(choice))), 60)
		}
		if !slices.Equal(write(5, 0), write(5, 0)) {
			t.Errorf("%s: a repeat with the same seed differs", k.params.Scheme)
		}
		if slices.Equal(write(5, 0), write(5, 1)) || slices.Equal(write(5, 0), write(6, 0)) {
			t.Errorf("%s: choices or seeds say the same", k.params.Scheme)
		}
	}
}

// KGW makes its share heavier, and draws nothing itself.
func TestKGWWeighs(t *testing.T) {
	k := testKey(t, 1, Params{Scheme: KGW, Context: 2, Gamma: 0.25, Delta: math.Log(8)})
	const vocab = 20_000
	weights, few := slices.Repeat([]float32{1}, vocab), []float32{1, 1, 1}
	i, marked := k.Begin(1, 0).Mark([]int32{3, 4}, nil, weights)
	if i != -1 || !marked {
		t.Fatal(i, marked)
	}
	heavy := 0
	for _, w := range weights {
		if w != 1 {
			heavy++
			if math.Abs(float64(w)-8) > 1e-5 {
				t.Fatal(w)
			}
		}
	}
	if math.Abs(float64(heavy)/vocab-0.25) > 0.015 {
		t.Errorf("%d of %d are heavier", heavy, vocab)
	}
	k.Begin(1, 0).Mark([]int32{9, 3, 4}, []int32{5, 600, 7000}, few)
	if few[0] != weights[5] || few[1] != weights[600] || few[2] != weights[7000] {
		t.Errorf("%v", few)
	}
	if _, marked := k.Begin(1, 0).Mark([]int32{3}, nil, weights); marked {
		t.Error("a token without a context was marked")
	}
}

// The short cuts change nothing: the token that wins is the one that wins when every token's number is looked at, listed or not.
func TestShortCutsChangeNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for round := range 2000 {
		n := numbers{r.Uint64(), r.Uint64()}
		weights := make([]float32, 1+r.IntN(300))
		ids := make([]int32, len(weights))
		spread := []float64{0, 1, 5, 20}[round%4]
		for i := range weights {
			ids[i], weights[i] = int32(i), float32(math.Exp(spread*r.NormFloat64()-spread))
			if r.IntN(10) == 0 {
				weights[i] = 0
			}
		}
		want, bound := -1, math.Inf(1)
		for i, w := range weights {
			if score := -math.Log1p(-unit(n.bits(int32(i)))) / float64(w); w > 0 && score < bound {
				want, bound = i, score
			}
		}
		if all, few := least(n, nil, weights), least(n, ids, weights); all != want || few != want {
			t.Fatalf("of %d tokens with spread %v: %d and %d, want %d", len(weights), spread, all, few, want)
		}
	}
}

// The numbers of tokens, and those of neighbours, are uniform and independent.
func TestNumbersAreUniform(t *testing.T) {
	sub := testKey(t, 1, Params{}).sub(0)
	var one []float64
	pairs := make([]int, 16*16)
	for i := range int32(20_000) {
		n := sub.numbers(context{1, 2, 3, i})
		u, v := unit(n.bits(40)), unit(n.bits(41))
		one = append(one, u, unit(n.bits(50_000)))
		pairs[int(u*16)*16+int(v*16)]++
	}
	if p := uniformity(one); p < 1e-4 {
		t.Errorf("over contexts: p %v", p)
	}
	if p := fit(pairs, slices.Repeat([]float64{1.0 / 256}, 256)); p < 1e-4 {
		t.Errorf("neighbours: p %v", p)
	}
	n, drawn := sub.numbers(context{4, 3, 2, 1}), []float64{}
	for i := range int32(20_000) {
		drawn = append(drawn, unit(n.bits(i)))
	}
	if p := uniformity(drawn); p < 1e-4 {
		t.Errorf("over tokens: p %v", p)
	}
	if least, most := unit(0), unit(math.MaxUint64); !(least > 0) || !(most < 1) {
		t.Error(least, most)
	}
}

func BenchmarkMark(b *testing.B) {
	const vocab = 49152
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]float32, vocab) // as a model has them: a few likely ones above a wide bulk
	for i := range all {
		all[i] = float32(math.Exp(2*r.NormFloat64() - 9))
	}
	for range 50 {
		all[r.IntN(vocab)] = float32(math.Exp(6*r.Float64() - 6))
	}
	ids, few := make([]int32, 100), make([]float32, 100)
	for i := range ids {
		ids[i], few[i] = int32(r.IntN(vocab)), r.Float32()
	}
	for _, c := range []struct {
		name    string
		params  Params
		tokens  []int32
		weights []float32
	}{
		{"gumbel-100", Params{}, ids, few},
		{"gumbel-49152", Params{}, nil, all},
		{"kgw-100", Params{Scheme: KGW}, ids, few},
		{"kgw-49152", Params{Scheme: KGW}, nil, all},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			m, text, weights := testKey(b, 1, c.params).Begin(1, 0), []int32{1, 2, 3, 4}, slices.Clone(c.weights)
			for i := int32(0); b.Loop(); i++ {
				text[3] = i & 1023
				if text[3] == 0 {
					clear(m.seen)
				}
				if c.params.Scheme == KGW {
					copy(weights, c.weights)
				}
				m.Mark(text, c.tokens, weights)
			}
		})
	}
}
