package main

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// p is uniform on texts that people wrote and on letters of templates, whose lines come again and again: it would not be if what comes again counted again.
func TestPIsUniformOnTextsWithoutAMark(t *testing.T) {
	t.Parallel()
	tokens, err := openTokens(testmodel.Path(t, testmodel.SmolLM2))
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []string{"en", "zh"} {
		prose, err := os.ReadFile("testdata/" + language + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		letters, err := readSet(language+"/template/letters=templates", 20)
		if err != nil {
			t.Fatal(err)
		}
		for kind, text := range map[string]string{"prose": string(prose), "letters": strings.Join(letters.texts, "\n")} {
			windows := cut(tokens.Encode(text, false), 200)
			if len(windows) < 40 {
				t.Fatalf("%s %s: %d windows", language, kind, len(windows))
			}
			const most = 3000
			var ps []float64
			for i := range most {
				k, err := key(fmt.Sprint(language, kind, i), 1, watermark.Params{SubKeys: 1})
				if err != nil {
					t.Fatal(err)
				}
				d, err := watermark.NewDetector(watermark.DetectorConfig{Keys: []*watermark.Key{k}, WholeOnly: true})
				if err != nil {
					t.Fatal(err)
				}
				if err := look(t.Context(), d, windows[i%len(windows)], &ps); err != nil {
					t.Fatal(err)
				}
			}
			distance, p := uniformity(ps)
			t.Logf("%s %s: %d windows, D %.4f, p %.3g", language, kind, len(windows), distance, p)
			if p < 1e-3 {
				t.Errorf("%s %s: p is not uniform: D %.4f, p %.3g", language, kind, distance, p)
			}
		}
	}
}

// The bounds are those of tables.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n              int
		upper, low, high2 float64
	}{
		{0, 30_000, 9.985e-5, 0, 1.2296e-4},
		{3, 30_000, 2.584e-4, 2.062e-5, 2.922e-4},
		{10, 10, 1, 0.6915, 1},
		{5, 10, 0.7776, 0.1871, 0.8129},
	} {
		low, high := interval(c.k, c.n)
		for _, v := range [][2]float64{{upper(c.k, c.n), c.upper}, {low, c.low}, {high, c.high2}} {
			if math.Abs(v[0]-v[1]) > 1e-3*v[1] {
				t.Errorf("%d of %d: %v, want %v", c.k, c.n, v[0], v[1])
			}
		}
	}
}

// What is no uniform distribution is found out, and what is one is not.
func TestUniformity(t *testing.T) {
	t.Parallel()
	even, skewed := make([]float64, 1000), make([]float64, 1000)
	for i := range even {
		even[i] = (float64(i) + 0.5) / 1000
		skewed[i] = math.Pow(even[i], 1.2)
	}
	if d, p := uniformity(even); d > 0.0006 || p < 0.999 {
		t.Errorf("even: D %v, p %v", d, p)
	}
	if d, p := uniformity(skewed); d < 0.05 || p > 0.01 {
		t.Errorf("skewed: D %v, p %v", d, p)
	}
}

// Windows follow each other, have as many tokens that count as they are to, and no more.
func TestCut(t *testing.T) {
	t.Parallel()
	tokens := make([]int32, 1000)
	for i := range tokens {
		tokens[i] = int32(i % 60) // from the 65th token on nothing is new
	}
	for i := 500; i < 1000; i++ {
		tokens[i] = int32(i)
	}
	windows := cut(tokens, 100)
	if len(windows) != 5 || len(windows[0]) < 500 {
		t.Fatalf("%d windows", len(windows))
	}
	k, err := key("a", 1, watermark.Params{SubKeys: 1})
	if err != nil {
		t.Fatal(err)
	}
	d, err := watermark.NewDetector(watermark.DetectorConfig{Keys: []*watermark.Key{k}})
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for i, w := range windows {
		res, err := d.Detect(t.Context(), w)
		if err != nil || res.Counted != 100 || w[0] != tokens[at] {
			t.Errorf("window %d: %d tokens count, %v", i, res.Counted, err)
		}
		at += len(w)
	}
}

// Edits change as much as they say.
func TestEdits(t *testing.T) {
	t.Parallel()
	english := strings.Repeat("One word follows another here. And a sentence follows that one! ", 30)
	chinese := strings.Repeat("每一个字都跟着另一个字。一句话之后还有一句话！", 30)
	for name, text := range map[string]string{"en": english, "zh": chinese} {
		if got := strings.Join(pieces(text), ""); got != text {
			t.Errorf("%s: pieces are %q", name, got)
		}
		if got := strings.Join(sentences(text), ""); got != text || len(sentences(text)) != 60 {
			t.Errorf("%s: %d sentences", name, len(sentences(text)))
		}
		before := float64(len(pieces(text)))
		for _, e := range edits() {
			r := testRandom()
			after := float64(len(pieces(e.do(r, text, 0.25)))) / before
			if want := map[string]float64{"insert": 1.25, "delete": 0.75}[e.name]; want > 0 && math.Abs(after-want) > 0.06 || want == 0 && math.Abs(after-1) > 0.01 {
				t.Errorf("%s: %s 25 %%: %.2f of the words", name, e.name, after)
			}
			if got := e.do(r, text, 0); got != text {
				t.Errorf("%s: %s 0 %% changes the text", name, e.name)
			}
		}
	}
}
