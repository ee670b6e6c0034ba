package jsonschema

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// realVocabulary is SmolLM2's: 49,152 tokens.
func realVocabulary(t testing.TB) (v *grammar.Vocabulary, text [][]byte, end int32) {
	t.Helper()
	path := testmodel.Path(t, testmodel.SmolLM2)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	from, err := tokenizer.FromMetadata(f.Value)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(from)
	if err != nil {
		t.Fatal(err)
	}
	text = make([][]byte, tok.Size())
	for id := range text {
		text[id] = slices.Clone(tok.Bytes(int32(id)))
	}
	end = tok.EOS()
	return grammar.NewVocabulary(func(id int32) []byte { return text[id] }, len(text), []int32{end}), text, end
}

// TestSetWithRealVocabulary walks through a part of the set with the tokens of a real model.
func TestSetWithRealVocabulary(t *testing.T) {
	if testing.Short() {
		t.Skip("needs some seconds")
	}
	v, text, end := realVocabulary(t)
	every := 24
	if long() {
		every = 1
	}
	t.Run("schemas", func(t *testing.T) {
		for i, r := range testSet(t) {
			if i%every != 0 {
				continue
			}
			t.Run(r.file+"/"+r.Name, func(t *testing.T) {
				t.Parallel()
				g, err := Parse(r.Schema, Options{}, grammar.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				valid := validate(t, r.Schema)
				random := rand.New(rand.NewPCG(uint64(i), 2))
				for range 2 {
					if out, ok := walk(t, g.Matcher(v), text, end, random, 150); ok {
						check(t, r, valid, out)
					}
				}
			})
		}
	})
}

// BenchmarkMask reports what a mask costs over the whole set with a real vocabulary, grammars being new: "first" is along the first
// text of each schema, "later" along the third, when the grammar has seen some of its states.
func BenchmarkMask(b *testing.B) {
	v, text, end := realVocabulary(b)
	records := testSet(b)
	var first, later, compile []time.Duration
	var mu sync.Mutex
	for b.Loop() {
		for i, r := range records {
			began := time.Now()
			g, err := Parse(r.Schema, Options{}, grammar.Limits{})
			if err != nil {
				b.Fatal(err)
			}
			m := g.Matcher(v)
			mu.Lock()
			compile = append(compile, time.Since(began))
			mu.Unlock()
			random := rand.New(rand.NewPCG(uint64(i), 3))
			for round := range 3 {
				times := timeMasks(b, m.Clone(), text, end, random)
				switch round {
				case 0:
					first = append(first, times...)
				case 2:
					later = append(later, times...)
				}
			}
		}
	}
	for name, list := range map[string][]time.Duration{"first": first, "later": later, "compile": compile} {
		slices.Sort(list)
		for _, q := range []struct {
			name string
			at   float64
		}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}} {
			i := min(int(q.at*float64(len(list))), len(list)-1)
			b.ReportMetric(float64(list[i].Nanoseconds())/1000, "µs-"+name+"-"+q.name)
		}
	}
	b.ReportMetric(float64(len(first)), "masks")
}

// timeMasks walks through one text and returns how long each mask took.
func timeMasks(b *testing.B, m *grammar.Matcher, text [][]byte, end int32, random *rand.Rand) []time.Duration {
	mask := make([]uint64, (len(text)+63)/64)
	var out []time.Duration
	var so []byte
	for step := range 100 {
		began := time.Now()
		err := m.Mask(mask)
		out = append(out, time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
		id := pick(mask, text, end, random, step, so)
		if id == end {
			break
		}
		if err := m.Accept(id); err != nil {
			b.Fatal(err)
		}
		so = append(so, text[id]...)
	}
	return out
}
