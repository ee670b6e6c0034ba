package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/governance/watermark"
)

func base(path string) string { return strings.TrimSuffix(filepath.Base(path), ".gguf") }

type detectOptions struct {
	models         []string
	texts, figures string
	human          []string // a text of each language to put passages into
	entropies      int
	judges         map[string]*judge // by the name of the model
	humans         map[string]*textSet
}

// A cell is what is found under one condition.
type cell struct {
	model, language, scheme string
	temperature             float64
}

func (c cell) short() string { return fmt.Sprintf("%s %s T %.1f", c.language, c.scheme, c.temperature) }

// detect looks for the mark in texts that have it, whole, in part and edited.
func detect(ctx context.Context, args []string) error {
	o := detectOptions{judges: map[string]*judge{}, humans: map[string]*textSet{}}
	set := flag.NewFlagSet("detect", flag.ContinueOnError)
	set.Func("model", "GGUF file of a model that wrote texts; may be given again", func(s string) error {
		o.models = append(o.models, s)
		return nil
	})
	set.StringVar(&o.texts, "texts", "texts.jsonl", "what generate wrote")
	set.Func("human", "LANGUAGE/KIND/NAME=DIRECTORY of texts that passages are put into; may be given again", func(s string) error {
		o.human = append(o.human, s)
		return nil
	})
	set.StringVar(&o.figures, "figures", "", "folder for figures")
	set.IntVar(&o.entropies, "entropies", 6, "texts of each condition whose entropy is computed")
	if err := set.Parse(args); err != nil {
		return err
	}
	samples, err := readSamples(o.texts)
	if err != nil {
		return err
	}
	for _, path := range o.models {
		j, err := openJudge(path, 1)
		if err != nil {
			return err
		}
		o.judges[filepath.Base(path)] = j
	}
	for _, spec := range o.human {
		s, err := readSet(spec, 100)
		if err != nil {
			return err
		}
		o.humans[s.language] = s
	}
	cells := map[cell][]*found{}
	for i := range samples {
		f, err := o.prepare(&samples[i])
		if err != nil {
			return err
		}
		c := cell{f.Model, f.Language, f.Scheme, f.Temperature}
		cells[c] = append(cells[c], f)
	}
	if len(cells) == 0 {
		return errors.New("no texts")
	}
	order := slices.SortedFunc(maps.Keys(cells), func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.language, b.language), cmp.Compare(a.scheme, b.scheme), cmp.Compare(a.temperature, b.temperature))
	})
	if err := o.lengths(ctx, order, cells); err != nil {
		return err
	}
	return o.edited(ctx, order, cells)
}

// found is a text with its tokens and what looks for its mark.
type found struct {
	*sample
	tokens   []int32
	judge    *judge
	detector *watermark.Detector
	other    *watermark.Detector // of another tenant
}

func (o *detectOptions) prepare(s *sample) (*found, error) {
	j := o.judges[s.Model]
	if j == nil {
		return nil, fmt.Errorf("there are texts of %s: name that file with -model", s.Model)
	}
	f := &found{sample: s, judge: j}
	f.tokens = j.tokens.Encode(s.Text, false)
	for _, d := range []struct {
		tenant string
		to     **watermark.Detector
	}{{"a", &f.detector}, {"b", &f.other}} {
		k, err := key(d.tenant, 1, watermark.Params{Scheme: watermark.Scheme(s.Scheme), SubKeys: s.SubKeys})
		if err != nil {
			return nil, err
		}
		*d.to, err = watermark.NewDetector(watermark.DetectorConfig{Keys: []*watermark.Key{k}, Least: 32})
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// score collects −log10 p of texts.
type score []float64

func (s *score) look(ctx context.Context, d *watermark.Detector, tokens []int32) error {
	res, err := d.Detect(ctx, tokens)
	*s = append(*s, max(0, -res.LogP/math.Ln10))
	return err
}

func (s score) least(power float64) (n int) {
	for _, v := range s {
		if v >= power {
			n++
		}
	}
	return n
}

// A table has what was found of the conditions of its rows and columns.
type table struct {
	corner        string
	rows, columns []string
	cells         map[[2]string]score
}

func (t *table) put(row, column string, s score) {
	if t.cells == nil {
		t.cells = map[[2]string]score{}
	}
	t.rows, t.columns = with(t.rows, row), with(t.columns, column)
	t.cells[[2]string{row, column}] = s
}

// print prints it three times: what is found at two bounds, with intervals, and the medians.
func (t *table) print() {
	for _, what := range []struct {
		name string
		of   func(score) string
	}{
		{"Found at p ≤ 1e-6, with the interval of 95 % (Clopper–Pearson)", func(s score) string { return share(s.least(6), len(s)) }},
		{"Found at p ≤ 1e-9", func(s score) string { return share(s.least(9), len(s)) }},
		{"Median of −log₁₀ p, quarters, and number of texts", func(s score) string {
			return fmt.Sprintf("%.1f (%.1f…%.1f), %d", quantile(s, 0.5), quantile(s, 0.25), quantile(s, 0.75), len(s))
		}},
	} {
		fmt.Printf("\n%s:\n\n| %s | %s |\n|%s\n", what.name, t.corner, strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)+1))
		for _, row := range t.rows {
			fmt.Printf("| %s |", row)
			for _, column := range t.columns {
				if s := t.cells[[2]string{row, column}]; len(s) > 0 {
					fmt.Printf(" %s |", what.of(s))
				} else {
					fmt.Print(" – |")
				}
			}
			fmt.Println()
		}
	}
}

// lengths looks for the mark in the beginnings of texts.
func (o *detectOptions) lengths(ctx context.Context, order []cell, cells map[cell][]*found) error {
	c := &chart{
		title: "Texts with a mark: how many are found at p ≤ 1e-9", x: "tokens of the text", y: "found",
		xTicks: []tick{{math.Log(50), "50"}, {math.Log(100), "100"}, {math.Log(200), "200"}, {math.Log(400), "400"}, {math.Log(800), "800"}},
		yTicks: []tick{{0, "0 %"}, {0.25, "25 %"}, {0.5, "50 %"}, {0.75, "75 %"}, {1, "100 %"}},
	}
	t := &table{corner: "condition, entropy in nats a token"}
	for _, at := range order {
		entropy, err := o.entropy(cells[at])
		if err != nil {
			return err
		}
		l := line{name: at.short(), dashed: at.scheme == string(watermark.KGW)}
		for _, size := range []int{50, 100, 200, 400, 800} {
			var s score
			for _, f := range cells[at] {
				if len(f.tokens)*20 < size*19 {
					continue // cut into pieces again, a text has some more or fewer
				}
				if err := s.look(ctx, f.detector, f.tokens[:min(size, len(f.tokens))]); err != nil {
					return err
				}
			}
			if len(s) > 0 {
				t.put(at.short()+", "+entropy, fmt.Sprint(size, " tokens"), s)
				l.points = append(l.points, [2]float64{math.Log(float64(size)), float64(s.least(9)) / float64(len(s))})
			}
		}
		c.lines = append(c.lines, l)
	}
	fmt.Println("### By length: the first tokens of each text")
	t.print()
	fmt.Println()
	return c.save(o.figures, "watermark-length.svg")
}

// entropy of some of the texts, at the temperature at which they were written.
func (o *detectOptions) entropy(texts []*found) (string, error) {
	var all []float64
	for _, f := range texts[:min(o.entropies, len(texts))] {
		_, h, err := f.judge.read(f.Prompt, f.Text, f.Temperature, 400)
		if err != nil {
			return "", err
		}
		all = append(all, h)
	}
	if len(all) == 0 {
		return "–", nil
	}
	m, half := estimate(all)
	return fmt.Sprintf("%.2f ± %.2f", m, half), nil
}

// edited looks for the mark in texts of some 400 tokens that were changed.
func (o *detectOptions) edited(ctx context.Context, order []cell, cells map[cell][]*found) error {
	const size = 400
	c := &chart{
		title: "Edited texts of 400 tokens, Gumbel-max: how many are found at p ≤ 1e-9", x: "share of the words, or of the sentences, that was edited", y: "found",
		xTicks: []tick{{0, "0"}, {0.05, "5 %"}, {0.1, "10 %"}, {0.25, "25 %"}, {0.5, "50 %"}},
		yTicks: []tick{{0, "0 %"}, {0.25, "25 %"}, {0.5, "50 %"}, {0.75, "75 %"}, {1, "100 %"}},
	}
	t := &table{corner: "edit"}
	for _, at := range order {
		if at.temperature < 0.7 || at.temperature > 1 {
			continue
		}
		var texts []*found
		for _, f := range cells[at] {
			if len(f.tokens)*20 >= size*19 && f.Tokens <= size {
				texts = append(texts, f)
			}
		}
		if len(texts) == 0 {
			continue
		}
		lines, err := o.edit(ctx, t, at, texts)
		if err != nil {
			return err
		}
		if at.scheme == string(watermark.Gumbel) && at.language == "en" {
			c.lines = append(c.lines, lines...)
		}
	}
	fmt.Printf("### After edits, of texts of %d tokens\n", size)
	t.print()
	fmt.Println()
	return c.save(o.figures, "watermark-edits.svg")
}

// edit fills a column of the table and returns its curves.
func (o *detectOptions) edit(ctx context.Context, t *table, at cell, texts []*found) (lines []line, err error) {
	whole, err := scored(ctx, texts, func(f *found) (*watermark.Detector, []int32, error) { return f.detector, f.tokens, nil })
	if err != nil {
		return nil, err
	}
	t.put("none", at.short(), whole)
	n := float64(len(whole))
	for _, e := range edits() {
		l := line{name: fmt.Sprintf("%s, T %.1f", e.name, at.temperature), points: [][2]float64{{0, float64(whole.least(9)) / n}}, dashed: at.temperature < 1}
		for _, part := range []float64{0.05, 0.1, 0.25, 0.5} {
			s, err := scored(ctx, texts, func(f *found) (*watermark.Detector, []int32, error) {
				r := rand.New(rand.NewPCG(uint64(f.Index), uint64(part*100))) //nolint:gosec // no secrets
				return f.detector, f.judge.tokens.Encode(e.do(r, f.Text, part), false), nil
			})
			if err != nil {
				return nil, err
			}
			t.put(fmt.Sprintf("%s %.0f %%", e.name, part*100), at.short(), s)
			l.points = append(l.points, [2]float64{part, float64(s.least(9)) / n})
		}
		lines = append(lines, l)
	}
	for _, other := range o.others() {
		s, err := scored(ctx, texts, other.of)
		if err != nil {
			return nil, err
		}
		t.put(other.name, at.short(), s)
	}
	return lines, nil
}

// A view is a way to look at a text that is no edit of its words.
type view struct {
	name string
	of   func(f *found) (*watermark.Detector, []int32, error)
}

func (o *detectOptions) others() []view {
	out := []view{
		{"truncated: its middle 200 tokens", func(f *found) (*watermark.Detector, []int32, error) {
			return f.detector, f.tokens[100:min(300, len(f.tokens))], nil
		}},
		{"with another tenant's key", func(f *found) (*watermark.Detector, []int32, error) { return f.other, f.tokens, nil }},
	}
	for _, size := range []int{100, 200} {
		out = append(out, view{fmt.Sprintf("its first %d tokens in 2,000 of human text", size), func(f *found) (*watermark.Detector, []int32, error) {
			tokens, err := o.inside(f, size)
			return f.detector, tokens, err
		}})
	}
	return out
}

// inside puts the beginning of a text into the middle of one that a person wrote.
func (o *detectOptions) inside(f *found, size int) ([]int32, error) {
	set := o.humans[f.Language]
	if set == nil {
		return nil, fmt.Errorf("there are texts in %s: name human ones with -human", f.Language)
	}
	for n := range set.texts {
		text := set.texts[(n+f.Index)%len(set.texts)]
		if len(text) < 12_000 {
			continue
		}
		tokens := f.judge.tokens.Encode(text, false)
		if len(tokens) >= 2000 {
			return slices.Concat(tokens[:1000], f.tokens[:min(size, len(f.tokens))], tokens[1000:2000]), nil
		}
	}
	return nil, errors.New("no human text has 2,000 tokens")
}

func scored(ctx context.Context, texts []*found, of func(*found) (*watermark.Detector, []int32, error)) (s score, err error) {
	for _, f := range texts {
		d, tokens, err := of(f)
		if err != nil {
			return nil, err
		}
		if err := s.look(ctx, d, tokens); err != nil {
			return nil, err
		}
	}
	return s, nil
}
