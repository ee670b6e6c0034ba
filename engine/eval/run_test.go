package eval

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
)

// bigram is a model over letters whose scores depend on the last token and on how many came before, so that a wrong window, a wrong
// position or a wrong pairing of the two models changes every figure.
type bigram struct {
	noise   float64
	begin   int32 // −1: none
	context int
	vocab   int
	fail    error
	open    *int // sequences that were not released

	computed, scored int
}

func (b *bigram) Encode(text string) ([]int32, error) {
	var out []int32
	if b.begin >= 0 {
		out = append(out, b.begin)
	}
	for _, c := range []byte(text) {
		out = append(out, int32(c)%int32(b.vocab))
	}
	return out, nil
}

func (b *bigram) Begin() (int32, bool) { return b.begin, b.begin >= 0 }
func (b *bigram) Vocab() int           { return b.vocab }
func (b *bigram) Context() int         { return b.context }
func (b *bigram) Start() Sequence {
	*b.open++
	return &walk{b: b}
}

type walk struct {
	b    *bigram
	seen []int32
}

func (w *walk) Release() { *w.b.open-- }

func (w *walk) Feed(tokens []int32, from int, visit func(int, []float32)) error {
	for i, id := range tokens {
		w.seen = append(w.seen, id)
		w.b.computed++
		if i >= from {
			w.b.scored++
			visit(i, w.b.scores(w.seen))
		}
	}
	return w.b.fail
}

func (b *bigram) scores(seen []int32) []float32 {
	out := make([]float32, b.vocab)
	for j := range out {
		a := float64(seen[len(seen)-1])*1.7 + float64(j)*0.9
		out[j] = float32(2*math.Sin(a) + float64(len(seen))*0.001*float64(j) + b.noise*math.Cos(3*a))
	}
	return out
}

func pair(begin int32) (measured, baseline *bigram) {
	open := new(int)
	return &bigram{noise: 0.1, begin: begin, context: 4096, vocab: 50, open: open}, &bigram{begin: begin, context: 4096, vocab: 50, open: open}
}

var prose = strings.Repeat("The quick brown fox jumps over the lazy dog while 24 ships sail. ", 12)

// TestRunEqualsTheDefinition compares with figures computed token by token, each from a sequence of its own.
func TestRunEqualsTheDefinition(t *testing.T) {
	for _, begin := range []int32{-1, 7} {
		measured, baseline := pair(begin)
		data := Data{Documents: []string{prose, "", "short", prose[:300]}}
		cfg := Config{Measured: measured, Baseline: baseline, Data: data, Context: 200, Stride: 130, Seed: 1}
		got, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if *measured.open != 0 {
			t.Errorf("%d sequences were not released", *measured.open)
		}
		c, _ := cfg.cut()
		var documents [][]int32
		for _, text := range data.Documents {
			if text != "" {
				ids, _ := tokens(text, measured, nil)
				documents = append(documents, ids)
			}
		}
		list, n := c.windows(documents)
		var all sums
		for _, w := range list {
			for i := w.score; i < len(w.tokens); i++ {
				s, err := compare(baseline.scores(w.tokens[:i]), measured.scores(w.tokens[:i]), w.tokens[i])
				if err != nil {
					t.Fatal(err)
				}
				all.add(s)
			}
		}
		want := map[string]float64{
			Perplexity: math.Exp(all.nll / all.n), BaselinePerplexity: math.Exp(all.base / all.n), MeanKLD: all.kld / all.n,
			Agreement: all.sameTop / all.n, RMSDeltaP: math.Sqrt(all.squareP / all.n),
		}
		for name, v := range want {
			if f, ok := got.Get(name); !ok || !near(f.Value, v, 1e-12) {
				t.Errorf("begin %d: %s is %g, want %g", begin, name, f.Value, v)
			}
		}
		if got.Items != n || got.Context != 200 || got.Stride != 130 || want[MeanKLD] < 1e-4 || want[Agreement] == 1 {
			t.Errorf("begin %d: %+v, want %d tokens", begin, got, n)
		}
		alone, err := Run(t.Context(), Config{Measured: measured, Data: data, Context: 200, Stride: 130})
		if f, _ := alone.Get(Perplexity); err != nil || !near(f.Value, want[Perplexity], 1e-12) || len(alone.Figures) != 1 {
			t.Errorf("without a baseline: %+v, %v", alone, err)
		}
	}
}

func TestRunWithItselfIsPerfect(t *testing.T) {
	measured, _ := pair(-1)
	var last, total int
	r, err := Run(t.Context(), Config{Measured: measured, Baseline: measured, Data: Data{Documents: []string{prose}}, Limit: 400, Progress: func(done, of int) {
		if done < last {
			t.Errorf("progress fell from %d to %d", last, done)
		}
		last, total = done, of
	}})
	if err != nil || last != 400 || total != 400 || r.Items != 400 || r.Context != 512 || r.Stride != 256 {
		t.Fatalf("%d of %d: %+v, %v", last, total, r, err)
	}
	for name, want := range map[string]float64{PerplexityChange: 0, MeanKLD: 0, MaxKLD: 0, Agreement: 1, RMSDeltaP: 0} {
		if f, _ := r.Get(name); f.Value != want {
			t.Errorf("%s is %g", name, f.Value)
		}
	}
	if f, _ := r.Get(Agreement); f.Interval[0] > 0.995 || f.Interval[0] < 0.98 || f.Interval[1] < 1-1e-12 {
		t.Errorf("400 of 400 tokens agree: %v", *f.Interval)
	}
}

func TestRunRefuses(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		ctx    context.Context
		change func(cfg *Config, measured, baseline *bigram)
		want   string
	}{
		"small window":   {change: func(c *Config, _, _ *bigram) { c.Context = 1 }, want: "at least 2"},
		"large window":   {change: func(c *Config, _, b *bigram) { b.context = 100; c.Context = 101 }, want: "at most 100"},
		"stride":         {change: func(c *Config, _, _ *bigram) { c.Context, c.Stride = 10, 11 }, want: "1 to 10"},
		"limit":          {change: func(c *Config, _, _ *bigram) { c.Limit = -1 }, want: "limit"},
		"one token":      {change: func(c *Config, _, _ *bigram) { c.Data.Documents = []string{"x", ""} }, want: "at least two"},
		"vocabulary":     {change: func(_ *Config, _, b *bigram) { b.vocab = 51 }, want: "different tokens"},
		"measured fails": {change: func(_ *Config, m, _ *bigram) { m.fail = broken }, want: "broken"},
		"baseline fails": {change: func(_ *Config, _, b *bigram) { b.fail = broken }, want: "baseline: broken"},
		"NaN":            {change: func(_ *Config, m, _ *bigram) { m.noise = math.NaN() }, want: "the score of token 0 is NaN"},
		"cancelled":      {ctx: cancelled, change: func(*Config, *bigram, *bigram) {}, want: "canceled"},
		"infinite":       {change: func(c *Config, m, _ *bigram) { m.noise, c.Baseline = 1e30, nil }, want: "beyond the range"},
	} {
		measured, baseline := pair(-1)
		cfg := Config{Measured: measured, Baseline: baseline, Data: Data{Documents: []string{prose}}}
		c.change(&cfg, measured, baseline)
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		if _, err := Run(c.ctx, cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if *measured.open != 0 {
			t.Errorf("%s: %d sequences were not released", name, *measured.open)
		}
	}
}

// TestReadFeedsEachTokenOnce: a calibration sees what the model would, in windows of their own, up to its last layer.
func TestReadFeedsEachTokenOnce(t *testing.T) {
	m, _ := pair(7)
	m.context = 100
	data := Data{Documents: []string{prose[:250], "", prose[:30]}}
	last := 0
	if err := Read(t.Context(), m, data, 0, func(done, total int) {
		if done <= last || total != 280 {
			t.Errorf("%d of %d", done, total)
		}
		last = done
	}); err != nil || last != 280 || m.computed != 280+4 || m.scored != m.computed || *m.open != 0 {
		t.Errorf("%d tokens of 280 with 4 begin tokens, %d scored, %d open, %v", m.computed, m.scored, *m.open, err)
	}
	m.computed = 0
	if err := Read(t.Context(), m, data, 120, nil); err != nil || m.computed != 120+2 {
		t.Errorf("%d tokens, %v", m.computed, err)
	}
	m.fail = errors.New("broken")
	if err := Read(t.Context(), m, data, 0, nil); !errors.Is(err, m.fail) || *m.open != 0 {
		t.Error(err)
	}
	m.begin = -1
	if err := Read(t.Context(), m, Data{Documents: []string{"x"}}, 0, nil); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Error(err)
	}
}

func TestVectors(t *testing.T) {
	turn := func(angle float64) Embed {
		return func(_ context.Context, texts []string) ([][]float32, error) {
			if strings.HasPrefix(texts[0], "long") {
				return nil, fault.New(fault.CodeContextLength, 4, 5)
			}
			a := float64(len(texts[0])) * angle
			return [][]float32{{float32(math.Cos(a)), float32(math.Sin(a))}}, nil
		}
	}
	data := Data{Documents: []string{"a\n\nbb\r\n\r\nccc\n\nlong one", strings.Repeat("x\n\n", 20)}}
	r, err := Vectors(t.Context(), VectorConfig{Measured: turn(0.1), Baseline: turn(0), Data: data, Seed: 1})
	if err != nil || r.Items != 23 || r.Skipped != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	mean := (21*math.Cos(0.1) + math.Cos(0.2) + math.Cos(0.3)) / 23
	if f, _ := r.Get(MeanCosine); !near(f.Value, mean, 1e-6) || f.Interval[0] > f.Value || f.Interval[1] < f.Value {
		t.Errorf("%+v, want %g", f, mean)
	}
	if f, _ := r.Get(MinCosine); !near(f.Value, math.Cos(0.3), 1e-6) {
		t.Errorf("%+v", f)
	}
	few, err := Vectors(t.Context(), VectorConfig{Measured: turn(0.1), Baseline: turn(0), Data: data, Limit: 2})
	if f, _ := few.Get(MeanCosine); err != nil || few.Items != 2 || f.Interval != nil || !strings.Contains(f.Method, "2 texts") {
		t.Errorf("%+v, %v", few, err)
	}
	zero := func(context.Context, []string) ([][]float32, error) { return [][]float32{{0, 0}}, nil }
	three := func(context.Context, []string) ([][]float32, error) { return [][]float32{{0, 0, 1}}, nil }
	for i, c := range []struct {
		measured Embed
		data     Data
		want     string
	}{
		{zero, data, "no direction"}, {three, data, "2 and 3"}, {turn(0), Data{Documents: []string{"long"}}, "none of the 1"},
	} {
		if _, err := Vectors(t.Context(), VectorConfig{Measured: c.measured, Baseline: turn(0), Data: c.data}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v, want %q", i, err, c.want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, content, field string
		want                 []string
	}{
		{"a.txt", "one\ntwo\n", "", []string{"one\ntwo\n"}},
		{"b.jsonl", "{\"text\":\"one\"}\n\n{\"text\":\"二\",\"n\":1}", "", []string{"one", "二"}},
		{"c.NDJSON", `{"q":"one","text":3}`, "q", []string{"one"}},
		{"d.txt", `{"body":"one"}` + "\r\n", "body", []string{"one"}},
	} {
		d, err := Load(write(c.name, c.content), c.field)
		if err != nil || strings.Join(d.Documents, "|") != strings.Join(c.want, "|") || d.Name != c.name || d.Digest != digest([]byte(c.content)) {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
	}
	for _, c := range []struct{ name, content, field, want string }{
		{"e.txt", "", "", "no text"},
		{"f.txt", " \n\t", "", "no text"},
		{"g.txt", "a\xff", "", "UTF-8"},
		{"h.jsonl", "{\"text\":\"a\"}\n{\"text\":\"secret\"", "", "line 2"},
		{"i.jsonl", "{\"text\":\"a\xff\"}", "", "line 1 is not UTF-8"},
		{"j.jsonl", `{"secret":"a"}`, "", `no field "text"`},
		{"k.jsonl", `{"text":null}`, "", "no string"},
		{"l.jsonl", `{"text":["secret"]}`, "", "no string"},
		{"m.jsonl", `["secret"]`, "", "not a JSON object"},
	} {
		if _, err := Load(write(c.name, c.content), c.field); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	huge := filepath.Join(dir, "huge.txt")
	if err := errors.Join(os.WriteFile(huge, nil, 0o600), os.Truncate(huge, maxData+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(huge, ""); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Error(err)
	}
	if b := Builtin(); len(b.Passages()) < 20 || len(b.Documents[0]) < 12000 || !strings.HasPrefix(b.Digest, "sha256:") {
		t.Errorf("%d passages", len(b.Passages()))
	}
}

func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "{\"text\":\"a\"}\n", "{\"text\":\"a\"}\n{", "[]", "null", "{\"text\":null}", "{\"text\":\"\\ud800\"}", "\xff"} {
		f.Add([]byte(s), "text")
	}
	f.Fuzz(func(t *testing.T, raw []byte, field string) {
		docs, err := lines(raw, field)
		if err != nil && docs != nil {
			t.Error("texts and an error")
		}
		if len(docs) > strings.Count(string(raw), "\n")+1 {
			t.Errorf("%d texts", len(docs))
		}
	})
}
