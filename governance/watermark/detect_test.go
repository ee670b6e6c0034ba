package watermark

import (
	stdctx "context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// p is uniform on texts that were not marked, over the keys: on random tokens, on tokens by Zipf's law and on templates that repeat.
func TestPIsUniformWithoutAMark(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	uniform := make([]int32, 200)
	for i := range uniform {
		uniform[i] = int32(r.IntN(50_000))
	}
	for name, text := range map[string][]int32{
		"uniform": uniform, "zipf": newLanguage(2000, 1.1).write(nil, r, 250), "low entropy": newLanguage(50, 2.5).write(nil, r, 600), "templated": templated(r, 400),
	} {
		for _, subs := range []int{1, 8} {
			var ps []float64
			for n := range uint64(800) {
				d := testDetector(t, DetectorConfig{Keys: []*Key{testKey(t, n, Params{SubKeys: subs})}, WholeOnly: true, Least: 20})
				res := detect(t, d, text)
				ps = append(ps, res.P)
			}
			if p := uniformity(ps); p < 1e-3 {
				t.Errorf("%s text, %d sub-keys: p is not uniform (%v)", name, subs, p)
			}
		}
	}
}

// The same over texts, with one key.
func TestPIsUniformOverTexts(t *testing.T) {
	r, l := rand.New(rand.NewPCG(2, 1)), newLanguage(400, 0.9)
	d := testDetector(t, DetectorConfig{Keys: []*Key{testKey(t, 1, Params{SubKeys: 8}), testKey(t, 2, Params{SubKeys: 8})}, WholeOnly: true})
	var ps []float64
	for range 500 {
		ps = append(ps, detect(t, d, l.write(nil, r, 120)).P)
	}
	if p := uniformity(ps); p < 1e-3 {
		t.Errorf("p is not uniform (%v)", p)
	}
}

// With passages, and with KGW, p is never too small: no more texts than promised fall below a bound.
func TestPKeepsItsPromise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	texts := map[string][]int32{"zipf": newLanguage(2000, 1.1).write(nil, r, 500), "templated": templated(r, 1000)}
	for name, p := range map[string]Params{"gumbel": {SubKeys: 4}, "kgw": {Scheme: KGW, SubKeys: 4}, "kgw of one": {Scheme: KGW, SubKeys: 4, Context: 1}} {
		for kind, text := range texts {
			const keys = 1000
			below := map[float64]int{0.2: 0, 0.05: 0, 0.01: 0}
			for n := range uint64(keys) {
				res := detect(t, testDetector(t, DetectorConfig{Keys: []*Key{testKey(t, n, p)}}), text)
				if res.Runs == 0 && kind == "zipf" {
					t.Fatalf("no passages were tried: %+v", res)
				}
				for bound := range below {
					if res.P <= bound {
						below[bound]++
					}
				}
			}
			for bound, n := range below {
				if most := keys*bound + 4*math.Sqrt(keys*bound); float64(n) > most {
					t.Errorf("%s, %s: %d of %d have p ≤ %v", name, kind, n, keys, bound)
				}
			}
		}
	}
}

// Counted again and again, repeats make findings of texts that nobody marked. That is why a context counts once.
func TestRepeatsInflateWhatCountsThem(t *testing.T) {
	text := templated(rand.New(rand.NewPCG(4, 1)), 400)
	false1, false2 := 0, 0
	const keys = 1000
	for n := range uint64(keys) {
		k := testKey(t, n, Params{SubKeys: 1})
		var every []pair
		for i := Context; i < len(text); i++ {
			every = append(every, pair{at(text, i, Context), text[i], i})
		}
		if f := newScorer(k, every).find(0, runs{}); math.Exp(f.logP) < 0.01 {
			false1++
		}
		if detect(t, testDetector(t, DetectorConfig{Keys: []*Key{k}, WholeOnly: true, Least: 20}), text).P < 0.01 {
			false2++
		}
	}
	t.Logf("p < 0.01 on a templated text: %.1f %% of the keys when repeats count, %.1f %% as they do", float64(false1)/keys*100, float64(false2)/keys*100)
	if false1 < keys*10/100 || false2 > keys*22/1000 {
		t.Errorf("p < 0.01: %d of %d when repeats count, %d as they do", false1, keys, false2)
	}
}

// How sure a mark is found, by what there was to choose and by length.
func TestPower(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, c := range []struct {
		exponent float64
		tokens   int
		params   Params
		least    int // of 20 found at 1e-9
	}{
		{1.1, 100, Params{SubKeys: 32}, 20},
		{1.5, 200, Params{SubKeys: 32}, 20},
		{2, 200, Params{SubKeys: 32}, 20},
		{2.5, 200, Params{SubKeys: 32}, 15},
		{3, 200, Params{SubKeys: 32}, 1},
		{3, 600, Params{SubKeys: 32}, 10},
		{1.1, 200, Params{Scheme: KGW, SubKeys: 32}, 12},
		{1.1, 400, Params{Scheme: KGW, SubKeys: 32}, 20},
		{6, 400, Params{SubKeys: 32}, 0},
	} {
		l := newLanguage(400, c.exponent)
		k := testKey(t, 1, c.params)
		d := testDetector(t, DetectorConfig{Keys: []*Key{k, testKey(t, 2, c.params)}})
		found, right := 0, 0
		var ps []float64
		for n := range 20 {
			m := k.Begin(uint64(n), 0)
			res := detect(t, d, l.write(m, r, c.tokens))
			ps = append(ps, res.LogP/math.Ln10)
			if res.Verdict == Found {
				found++
				if res.Best.Key == k && res.Best.SubKey == k.subOf(uint64(n), 0) && res.Best.LogP <= res.LogP {
					right++
				}
			}
		}
		slices.Sort(ps)
		t.Logf("%-6s entropy %.2f nats, %d tokens: found %d of 20, p of the median 1e%.0f", k.params.Scheme, l.entropy(), c.tokens, found, ps[10])
		if found < c.least || right != found || c.least == 0 && found > 0 {
			t.Errorf("exponent %v, %d tokens: found %d of 20, want %d; the right key and sub-key in %d", c.exponent, c.tokens, found, c.least, right)
		}
	}
}

// With another tenant's key, another epoch or other parameters there is nothing to be found, however strong the mark.
func TestAnotherKeyFindsNothing(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	key := func(tenant string, epoch uint32, p Params) *Key {
		k, err := NewKey(KeyConfig{secret, tenant, epoch, p})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	text := newLanguage(1000, 1).write(key("a", 1, Params{}).Begin(1, 0), rand.New(rand.NewPCG(6, 1)), 400)
	if res := detect(t, testDetector(t, DetectorConfig{Keys: []*Key{key("a", 1, Params{})}}), text); res.Verdict != Found {
		t.Fatalf("with the key itself: %+v", res)
	}
	for name, k := range map[string]*Key{
		"tenant": key("b", 1, Params{}), "epoch": key("a", 2, Params{}), "sub-keys": key("a", 1, Params{SubKeys: 128}), "scheme": key("a", 1, Params{Scheme: KGW}),
	} {
		if res := detect(t, testDetector(t, DetectorConfig{Keys: []*Key{k}}), text); res.Verdict != NotFound || res.P < 1e-3 || res.Best != nil {
			t.Errorf("another %s: %+v", name, res)
		}
	}
	var ps []float64
	for n := range uint64(500) {
		ps = append(ps, detect(t, testDetector(t, DetectorConfig{Keys: []*Key{testKey(t, n, Params{SubKeys: 1})}, WholeOnly: true}), text).P)
	}
	if p := uniformity(ps); p < 1e-3 {
		t.Errorf("p of a marked text is not uniform over other keys (%v)", p)
	}
}

// A marked passage in a long text is found where it is; without the search for passages it is not.
func TestPassages(t *testing.T) {
	r, l, k := rand.New(rand.NewPCG(7, 1)), newLanguage(500, 1.3), testKey(t, 1, Params{SubKeys: 64})
	whole, passages := testDetector(t, DetectorConfig{Keys: []*Key{k}, WholeOnly: true}), testDetector(t, DetectorConfig{Keys: []*Key{k}})
	missed := 0
	for n := range 5 {
		text := l.write(nil, r, 6000)
		copy(text[2500:], l.write(k.Begin(uint64(n), 0), r, 120))
		res := detect(t, passages, text)
		if res.Verdict != Found || res.Best.Begin > 2560 || res.Best.End < 2560 || res.Best.End > 2750 || res.Best.SubKey != k.subOf(uint64(n), 0) {
			t.Errorf("tokens 2500 to 2620 are marked: %+v, %+v", res, res.Best)
		}
		if detect(t, whole, text).Verdict != Found {
			missed++
		}
	}
	if missed < 3 {
		t.Errorf("the search for passages makes little difference: %d of 5 are missed without", missed)
	}
}

// Edits cost what they touch: a text of which a part was replaced, deleted or written in between, cut off at both ends and copied into another one is found.
func TestEdits(t *testing.T) {
	r, l, k := rand.New(rand.NewPCG(8, 1)), newLanguage(2000, 0.9), testKey(t, 1, Params{})
	d := testDetector(t, DetectorConfig{Keys: []*Key{k}})
	text := l.write(k.Begin(1, 0), r, 400)
	other := func() int32 { return int32(r.IntN(2000)) }
	for _, kind := range []struct {
		what string
		edit func(text []int32, token int32) []int32
	}{
		{"replaced", func(text []int32, _ int32) []int32 { return append(text, other()) }},
		{"deleted", func(text []int32, _ int32) []int32 { return text }},
		{"inserted", func(text []int32, token int32) []int32 { return append(text, other(), token) }},
	} {
		for _, share := range []float64{0.05, 0.1, 0.2, 0.3, 0.5} {
			var edited []int32
			for _, token := range text {
				if r.Float64() < share {
					edited = kind.edit(edited, token)
				} else {
					edited = append(edited, token)
				}
			}
			res := detect(t, d, edited)
			t.Logf("%2.0f %% of the tokens %s: %s, p 1e%.0f", share*100, kind.what, res.Verdict, res.LogP/math.Ln10)
			if share <= 0.3 && res.Verdict != Found || res.Verdict == CannotSay {
				t.Errorf("%v %s: %+v", share, kind.what, res)
			}
		}
	}
	if res := detect(t, d, text[31:250]); res.Verdict != Found {
		t.Errorf("cut: %+v", res)
	}
	if res := detect(t, d, slices.Concat(l.write(nil, r, 300), text[20:220], l.write(nil, r, 300))); res.Verdict != Found {
		t.Errorf("copied into another text: %+v", res)
	}
}

// What is too short is not judged, and of known texts nothing counts.
func TestCannotSay(t *testing.T) {
	r, l, k := rand.New(rand.NewPCG(9, 1)), newLanguage(2000, 0.9), testKey(t, 1, Params{})
	d := testDetector(t, DetectorConfig{Keys: []*Key{k}})
	text := l.write(k.Begin(1, 0), r, 300)
	for _, short := range [][]int32{nil, text[:1], text[:4], text[:5], text[:defaultLeast+Context-1], slices.Repeat(text[:8], 40)} {
		if res := detect(t, d, short); res.Verdict != CannotSay || res.P != 1 || res.Best != nil || res.Counted >= defaultLeast {
			t.Errorf("%d tokens: %+v", len(short), res)
		}
	}
	if res := detect(t, d, text[:defaultLeast+Context]); res.Verdict != Found || res.Counted != defaultLeast {
		t.Errorf("%+v", res)
	}
	if res := detect(t, d, text, text[:200], text[190:]); res.Verdict != CannotSay || res.Counted != 0 {
		t.Errorf("of a known text: %+v", res)
	}
	if res := detect(t, d, text, text[:100]); res.Verdict != Found || res.Counted < 195 || res.Best.Begin < 96 {
		t.Errorf("half known: %+v, %+v", res, res.Best)
	}
}

// Attempts, keys and sub-keys make p larger by what they are.
func TestEverythingTriedCounts(t *testing.T) {
	r, l, k := rand.New(rand.NewPCG(10, 1)), newLanguage(2000, 1.2), testKey(t, 1, Params{SubKeys: 32})
	text := l.write(k.Begin(1, 0), r, 80)
	alone := detect(t, testDetector(t, DetectorConfig{Keys: []*Key{k}, WholeOnly: true}), text)
	if math.Abs(alone.LogP-alone.Best.LogP-math.Log(32)) > 1e-6 || alone.Tries != 32 || alone.Runs != 0 {
		t.Errorf("%+v, %+v", alone, alone.Best)
	}
	more := detect(t, testDetector(t, DetectorConfig{Keys: []*Key{testKey(t, 2, Params{SubKeys: 32}), k, testKey(t, 3, Params{SubKeys: 64})}, Attempts: 3, WholeOnly: true}), text)
	if math.Abs(more.LogP-alone.LogP-math.Log(4*3)) > 1e-6 || more.Tries != 384 || more.Best.Key != k {
		t.Errorf("%+v, %+v", more, more.Best)
	}
	runs := detect(t, testDetector(t, DetectorConfig{Keys: []*Key{k}}), text)
	if math.Abs(runs.LogP-alone.LogP-math.Ln2) > 1e-6 || runs.Runs != 2 {
		t.Errorf("%+v, %+v", runs, runs.Best)
	}
	careful := detect(t, testDetector(t, DetectorConfig{Keys: []*Key{k}, Found: 1e-200, Indication: 1e-5}), text)
	if careful.Verdict != Indication || careful.Best == nil {
		t.Errorf("%+v", careful)
	}
}

func TestBadDetectors(t *testing.T) {
	keys := []*Key{testKey(t, 1, Params{})}
	for want, cfg := range map[string]DetectorConfig{
		"needs a key": {}, "attempts": {Keys: keys, Attempts: -1}, "least number": {Keys: keys, Least: -1},
		"0.1 for a finding": {Keys: keys, Found: 0.1}, "2 for an indication": {Keys: keys, Indication: 2}, "NaN for a finding": {Keys: keys, Found: math.NaN()},
	} {
		if _, err := NewDetector(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
	d := testDetector(t, DetectorConfig{Keys: keys})
	long := make([]int32, MaxTokens+1)
	if _, err := d.Detect(t.Context(), long); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if _, err := d.Detect(t.Context(), nil, long); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if _, err := d.Detect(t.Context(), long[:1], long[:MaxTokens/2], long[:MaxTokens/2]); !errors.Is(err, ErrTooLong) {
		t.Errorf("many known texts: %v", err)
	}
	for _, texts := range [][][]int32{{{1, 2, -3}, nil}, {{1, 2}, {1, -1}}} {
		if _, err := d.Detect(t.Context(), texts[0], texts[1]); err == nil {
			t.Errorf("a token below 0 was accepted: %v", texts)
		}
	}
	left, cancel := stdctx.WithCancel(t.Context())
	cancel()
	if _, err := d.Detect(left, newLanguage(100, 1).write(nil, rand.New(rand.NewPCG(1, 1)), 300)); !errors.Is(err, stdctx.Canceled) {
		t.Error(err)
	}
}

// FuzzDetect: whatever the tokens, the answer is consistent, and the same again.
func FuzzDetect(f *testing.F) {
	f.Add([]byte("some text of some length, some text of some length"), uint8(0), uint8(3))
	f.Add(slices.Repeat([]byte{0, 1, 2, 3, 0xff, 0x7f}, 60), uint8(1), uint8(200))
	f.Add([]byte{}, uint8(2), uint8(1))
	keys := []*Key{}
	for n, p := range []Params{{SubKeys: 4}, {Scheme: KGW, SubKeys: 2, Context: 1}, {Scheme: KGW, SubKeys: 1, Gamma: 0.99, Context: 3}} {
		keys = append(keys, testKey(f, uint64(n), p))
	}
	f.Fuzz(func(t *testing.T, data []byte, key, least uint8) {
		var tokens []int32
		for len(data) >= 2 {
			tokens, data = append(tokens, int32(binary.LittleEndian.Uint16(data))*int32(least|1)), data[2:]
		}
		d := testDetector(t, DetectorConfig{Keys: keys[:1+int(key)%3], Least: 1 + int(least)})
		res, again := detect(t, d, tokens), detect(t, d, tokens)
		if (res.Best == nil) != (again.Best == nil) || res.LogP != again.LogP || res.Verdict != again.Verdict {
			t.Fatalf("%+v, then %+v", res, again)
		}
		if !(res.P >= 0 && res.P <= 1) || res.LogP > 0 || res.Counted < 0 || res.Counted > len(tokens) {
			t.Fatalf("%+v", res)
		}
		switch hit := res.Best != nil; {
		case hit != (res.Verdict == Found || res.Verdict == Indication), res.Verdict == Found && res.P > 1e-9, res.Verdict == NotFound && res.P <= 3.2e-5:
			t.Fatalf("%+v", res)
		case hit && (res.Best.Begin < 0 || res.Best.End <= res.Best.Begin || res.Best.End > len(tokens)):
			t.Fatalf("%+v", res.Best)
		}
	})
}

func BenchmarkDetect(b *testing.B) {
	text := newLanguage(2000, 1).write(nil, rand.New(rand.NewPCG(1, 1)), 1000)
	for name, p := range map[string]Params{"gumbel": {}, "kgw": {Scheme: KGW}} {
		d := testDetector(b, DetectorConfig{Keys: []*Key{testKey(b, 1, p)}})
		b.Run(name+"-1000-tokens-256-sub-keys", func(b *testing.B) {
			for b.Loop() {
				detect(b, d, text)
			}
		})
	}
}
