package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/governance/watermark"
)

// nullOptions say what is measured of texts that nobody marked.
type nullOptions struct {
	model, figures, keep             string
	sets                             []string
	window, most, letters            int
	trials, every, tenants, epochs   int
	manyEvery                        int
	tokens                           tokenizer.Tokenizer
	single, whole, passages, byShare *watermark.Detector // of one key: one sub-key; all, the whole text alone; all, with passages; the same by KGW
	many                             *watermark.Detector // of the keys of many tenants and epochs
}

// bounds are the values of p at which false findings are counted.
func bounds() []float64 { return []float64{1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-9} }

// null measures what the detector says of texts that were written without the key.
func null(ctx context.Context, args []string) error {
	var o nullOptions
	set := flag.NewFlagSet("null", flag.ContinueOnError)
	set.StringVar(&o.model, "tokenizer", "", "GGUF file of the model whose tokenizer cuts the texts")
	set.Func("set", "LANGUAGE/KIND/NAME[@WINDOWS]=DIRECTORY of texts, or =templates or =corpus; may be given again", func(s string) error {
		o.sets = append(o.sets, s)
		return nil
	})
	set.StringVar(&o.figures, "figures", "", "folder for figures")
	set.StringVar(&o.keep, "keep", "", "folder for what came of each set: a set of which there is a file there is not measured again")
	set.IntVar(&o.window, "window", 200, "tokens of a window that count")
	set.IntVar(&o.most, "most", 20_000, "windows of a set that does not say how many, at most: evenly spread over it")
	set.IntVar(&o.letters, "letters", 1500, "letters of each template")
	set.IntVar(&o.trials, "trials", 32, "keys that each window is tried with, one by one")
	set.IntVar(&o.every, "every", 8, "of so many windows one is searched with KGW, and with the whole text alone")
	set.IntVar(&o.manyEvery, "many-every", 400, "of so many windows one is searched with the keys of all tenants and epochs")
	set.IntVar(&o.tenants, "tenants", 10, "tenants whose keys are tried")
	set.IntVar(&o.epochs, "epochs", 3, "epochs of each")
	if err := set.Parse(args); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	c := &chart{
		title: "Texts without a mark: how many have a p at most so small (one sub-key)", x: "p", y: "share of windows with such a p or a smaller one",
		xTicks: []tick{{0, "1"}, {-1, "1e-1"}, {-2, "1e-2"}, {-3, "1e-3"}, {-4, "1e-4"}, {-5, "1e-5"}, {-6, "1e-6"}},
		yTicks: []tick{{-6, "1e-6"}, {-5, "1e-5"}, {-4, "1e-4"}, {-3, "1e-3"}, {-2, "1e-2"}, {-1, "1e-1"}, {0, "1"}},
	}
	var results []*nullResult
	for _, spec := range o.sets {
		r, err := o.kept(ctx, spec)
		if err != nil {
			return err
		}
		results = append(results, r)
		c.lines = append(c.lines, r.curve())
		fmt.Println(r.progress())
	}
	c.lines = append(c.lines, line{name: "theory: p itself", dashed: true, points: [][2]float64{{0, 0}, {-6, -6}}})
	report(&o, results)
	return c.save(o.figures, "watermark-null.svg")
}

// open makes the detectors.
func (o *nullOptions) open() (err error) {
	if o.tokens, err = openTokens(o.model); err != nil {
		return err
	}
	for _, d := range []struct {
		to     **watermark.Detector
		params watermark.Params
		whole  bool
		owners int
		epochs int
	}{
		{&o.single, watermark.Params{SubKeys: 1}, true, 1, 1},
		{&o.whole, watermark.Params{}, true, 1, 1},
		{&o.passages, watermark.Params{}, false, 1, 1},
		{&o.byShare, watermark.Params{Scheme: watermark.KGW}, false, 1, 1},
		{&o.many, watermark.Params{}, false, o.tenants, o.epochs},
	} {
		var keys []*watermark.Key
		for owner := range d.owners {
			for epoch := range d.epochs {
				k, err := key(string(rune('a'+owner)), epoch, d.params)
				if err != nil {
					return err
				}
				keys = append(keys, k)
			}
		}
		if *d.to, err = watermark.NewDetector(watermark.DetectorConfig{Keys: keys, WholeOnly: d.whole}); err != nil {
			return err
		}
	}
	return nil
}

// nullResult is what came of a set.
type nullResult struct {
	Set, Language, Sum  string
	Texts               int
	Tokens, Counted     int
	Windows             int
	One                 []float64 // p of each window with one and the same sub-key
	Trials              []float64 // with many sub-keys of its own, one by one
	Whole               []float64 // with all sub-keys of a key
	Passages, KGW, Many []float64 // with passages; the same of KGW; the same of many keys
	Documents           []float64 // of whole documents, with passages
	Repeats             float64   // share of the tokens of documents whose context was there before
}

// kept measures a set, or reads what came of it.
func (o *nullOptions) kept(ctx context.Context, spec string) (*nullResult, error) {
	if o.keep == "" {
		return o.measure(ctx, spec)
	}
	what, _, _ := strings.Cut(spec, "=")
	name := filepath.Join(o.keep, strings.ReplaceAll(what, "/", "-")+".json")
	var r nullResult
	data, err := os.ReadFile(name)
	if err == nil {
		return &r, json.Unmarshal(data, &r)
	}
	measured, err := o.measure(ctx, spec)
	if err != nil {
		return nil, err
	}
	if data, err = json.Marshal(measured); err == nil {
		err = os.WriteFile(name, data, 0o600)
	}
	return measured, err
}

// measure reads a set, cuts it and looks for marks.
func (o *nullOptions) measure(ctx context.Context, spec string) (*nullResult, error) {
	spec, most, err := split(spec, o.most)
	if err != nil {
		return nil, err
	}
	set, err := readSet(spec, o.letters)
	if err != nil {
		return nil, err
	}
	r := &nullResult{Set: set.String(), Language: set.language, Sum: set.sum(), Texts: len(set.texts)}
	var windows [][]int32
	every := max(1, len(set.texts)/150) // of the documents
	for n, text := range set.texts {
		tokens := o.tokens.Encode(text, false)
		r.Tokens += len(tokens)
		windows = append(windows, cut(tokens, o.window)...)
		if n%every == 0 && len(tokens) <= 20_000 {
			if err := o.document(ctx, r, tokens); err != nil {
				return nil, err
			}
		}
	}
	r.Repeats /= max(1, r.Repeats+float64(r.Counted))
	r.Windows = min(len(windows), most)
	for i := range r.Windows {
		if err := o.search(ctx, r, i, windows[i*len(windows)/r.Windows]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// split takes the number of windows out of a set's name.
func split(spec string, most int) (string, int, error) {
	what, dir, _ := strings.Cut(spec, "=")
	name, number, ok := strings.Cut(what, "@")
	if !ok {
		return spec, most, nil
	}
	n, err := strconv.Atoi(number)
	return name + "=" + dir, n, err
}

// document looks for marks in a whole document.
func (o *nullOptions) document(ctx context.Context, r *nullResult, tokens []int32) error {
	res, err := o.passages.Detect(ctx, tokens)
	if err != nil {
		return err
	}
	if res.Verdict != watermark.CannotSay {
		r.Documents = append(r.Documents, res.P)
	}
	r.Counted += res.Counted
	r.Repeats += float64(len(tokens) - res.Counted)
	return nil
}

// search looks for marks in a window.
func (o *nullOptions) search(ctx context.Context, r *nullResult, i int, window []int32) error {
	for trial := range o.trials {
		k, err := key(fmt.Sprint("trial ", trial, " of ", i, " of ", r.Set), 1, watermark.Params{SubKeys: 1})
		if err != nil {
			return err
		}
		d, err := watermark.NewDetector(watermark.DetectorConfig{Keys: []*watermark.Key{k}, WholeOnly: true})
		if err != nil {
			return err
		}
		if err := look(ctx, d, window, &r.Trials); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		detector *watermark.Detector
		to       *[]float64
		every    int
	}{{o.single, &r.One, 1}, {o.passages, &r.Passages, 1}, {o.whole, &r.Whole, o.every}, {o.byShare, &r.KGW, o.every}, {o.many, &r.Many, o.manyEvery}} {
		if i%d.every == 0 {
			if err := look(ctx, d.detector, window, d.to); err != nil {
				return err
			}
		}
	}
	return nil
}

func look(ctx context.Context, d *watermark.Detector, window []int32, to *[]float64) error {
	res, err := d.Detect(ctx, window)
	*to = append(*to, res.P)
	return err
}

// cut returns windows that follow each other, of which so many tokens count; what is left at the end is none.
func cut(tokens []int32, count int) (out [][]int32) {
	seen, from := map[[watermark.Context]int32]bool{}, 0
	for i := range tokens {
		if i-from < watermark.Context {
			continue
		}
		if seen[[watermark.Context]int32(tokens[i-watermark.Context:i])] = true; len(seen) == count {
			out, from = append(out, tokens[from:i+1]), i+1
			clear(seen)
		}
	}
	return out
}

func (r *nullResult) progress() string {
	return fmt.Sprintf("%s: %d texts, sum %s, %.1f M tokens, %d windows", r.Set, r.Texts, r.Sum, float64(r.Tokens)/1e6, r.Windows)
}

// curve is the distribution of p with one sub-key, in powers of ten.
func (r *nullResult) curve() line {
	l := line{name: r.Set}
	ps := slices.Sorted(slices.Values(r.Trials))
	for at := 0.0; at >= -6; at -= 0.125 {
		n, _ := slices.BinarySearch(ps, math.Pow(10, at)*(1+1e-12))
		if n > 0 {
			l.points = append(l.points, [2]float64{at, math.Log10(float64(n) / float64(len(ps)))})
		}
	}
	return l
}

func below(ps []float64, bound float64) (n int) {
	for _, p := range ps {
		if p <= bound {
			n++
		}
	}
	return n
}

// report prints the tables.
func report(o *nullOptions, results []*nullResult) {
	fmt.Printf("\nTokenizer %s, windows of %d tokens that count.\n\n", filepath.Base(o.model), o.window)
	fmt.Println("| texts | documents | SHA-256 begins | tokens | contexts seen before | windows |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, r := range results {
		fmt.Printf("| %s | %d | `%s` | %.1f M | %.1f %% | %d |\n", r.Set, r.Texts, r.Sum, float64(r.Tokens)/1e6, 100*r.Repeats, r.Windows)
	}
	fmt.Printf("\nUniform between 0 and 1 (Kolmogorov–Smirnov: greatest distance D, and its p):\n\n")
	fmt.Println("| texts | one sub-key for all windows | sub-keys of its own for each window | all sub-keys of one key, whole text alone | p ≤ 1e-2 with passages, as a share of what theory allows |")
	fmt.Println("|---|---|---|---|---|")
	for _, r := range results {
		fmt.Printf("| %s | %s | %s | %s | %.2f |\n", r.Set, fits(r.One), fits(r.Trials), fits(r.Whole), float64(below(r.Passages, 0.01))/(0.01*float64(len(r.Passages))))
	}
	languages(results)
}

func fits(ps []float64) string {
	d, p := uniformity(ps)
	return fmt.Sprintf("D %.4f, p %.2g (n %d)", d, p, len(ps))
}

// languages prints what is found where nothing is, for each language.
func languages(results []*nullResult) {
	for _, kind := range []struct {
		what string
		of   func(*nullResult) []float64
	}{
		{"one sub-key (each window with many sub-keys in turn; each is a trial)", func(r *nullResult) []float64 { return r.Trials }},
		{"the detector as it is: one key, all sub-keys and passages", func(r *nullResult) []float64 { return r.Passages }},
		{"the same of whole documents", func(r *nullResult) []float64 { return r.Documents }},
		{"the same with KGW", func(r *nullResult) []float64 { return r.KGW }},
		{"the keys of all tenants and epochs, all sub-keys and passages", func(r *nullResult) []float64 { return r.Many }},
	} {
		fmt.Printf("\nFalse findings, %s: found, and the bound that the rate is below with 95 %%:\n\n| texts | trials |", kind.what)
		for _, b := range bounds() {
			fmt.Printf(" p ≤ %.0e |", b)
		}
		fmt.Print("\n|---|---|---|---|---|---|---|---|\n")
		for _, r := range results {
			counts(r.Set, kind.of(r))
		}
		for _, language := range []string{"en", "zh"} {
			var all []float64
			for _, r := range results {
				if r.Language == language {
					all = append(all, kind.of(r)...)
				}
			}
			if len(all) > 0 {
				counts("**"+language+", all**", all)
			}
		}
	}
}

func counts(name string, ps []float64) {
	fmt.Printf("| %s | %d |", name, len(ps))
	for _, b := range bounds() {
		n := below(ps, b)
		fmt.Printf(" %d, < %.1e |", n, upper(n, len(ps)))
	}
	fmt.Println()
}
