package price_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/internal/fault"
)

const good = `
schema: 1
currency: CNY
effective_from: 2026-01-01T00:00:00+08:00
models:
  - {model: "small-*", prompt: 7, cached_prompt: 2, completion: 30}
  - {model: "small-exact", prompt: 1, cached_prompt: 0, completion: 5, embedding: 4}
  - {model: "*", embedding: 9}
`

func TestRates(t *testing.T) {
	b, err := price.Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2025, 12, 31, 16, 0, 0, 0, time.UTC); b.Currency != "CNY" || !b.EffectiveFrom.Equal(want) {
		t.Errorf("got %s from %s", b.Currency, b.EffectiveFrom)
	}
	for model, want := range map[string]price.Rate{
		"small-a":     {Prompt: 7, Cached: 2, Completion: 30},
		"small-a/b@1": {Prompt: 7, Cached: 2, Completion: 30},
		"small-exact": {Prompt: 1, Completion: 5}, // exact wins over the earlier pattern
	} {
		if got, ok := b.Generate(model); !ok || got != want {
			t.Errorf("%s: got %+v, %v", model, got, ok)
		}
	}
	if _, ok := b.Generate("large"); ok {
		t.Error("a model without generation price got one")
	}
	if r, ok := b.Embed("small-exact"); !ok || r.Prompt != 4 {
		t.Errorf("got %+v, %v", r, ok)
	}
	if r, ok := b.Embed("org/anything"); !ok || r.Prompt != 9 || r.Cost(price.Tokens{Prompt: 3, Cached: 2}) != 27 {
		t.Errorf("got %+v, %v", r, ok)
	}
}

func TestCostNeverExceedsWorst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		r := price.Rate{Prompt: rng.Int64N(price.MaxUnit + 1), Cached: rng.Int64N(price.MaxUnit + 1), Completion: rng.Int64N(price.MaxUnit + 1)}
		prompt, completion := rng.Int64N(price.MaxTokens+1), rng.Int64N(price.MaxTokens+1)
		worst, ok := r.Worst(prompt, completion)
		got := r.Cost(price.Tokens{Prompt: prompt, Cached: rng.Int64N(2*price.MaxTokens) - 1000, Completion: completion})
		if !ok || got < 0 || got > worst {
			t.Fatalf("%+v: cost %d, worst %d", r, got, worst)
		}
	}
	if got := (price.Rate{Prompt: 1, Cached: 1, Completion: 1}).Cost(price.Tokens{Prompt: -5, Cached: -5, Completion: -5}); got != 0 {
		t.Errorf("negative counts cost %d", got)
	}
	if _, ok := (price.Rate{}).Worst(price.MaxTokens+1, 0); ok {
		t.Error("a count above the limit was accepted")
	}
}

// TestBatchPrices: a model costs the percentage of its own price, else of the book's, each price rounded up to a whole one; without a percentage nothing differs.
func TestBatchPrices(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, c := range map[string]struct {
		doc, model string
		embed, own bool
		want       price.Rate
	}{
		"none":                     {good, "small-a", false, false, price.Rate{Prompt: 7, Cached: 2, Completion: 30}},
		"the book's":               {edit("schema: 1", "schema: 1\nbatch_percent: 50"), "small-a", false, true, price.Rate{Prompt: 4, Cached: 1, Completion: 15}},
		"the model's":              {edit("completion: 30", "completion: 30, batch_percent: 10"), "small-a", false, true, price.Rate{Prompt: 1, Cached: 1, Completion: 3}},
		"the model's, not another": {edit("completion: 30", "completion: 30, batch_percent: 10"), "small-exact", false, false, price.Rate{Prompt: 1, Completion: 5}},
		"the model's before":       {edit("schema: 1", "schema: 1\nbatch_percent: 50") + "  - {model: own, embedding: 9, batch_percent: 100}\n", "own", true, false, price.Rate{Prompt: 9, Cached: 9}},
		"an embedding":             {edit("schema: 1", "schema: 1\nbatch_percent: 50"), "other", true, true, price.Rate{Prompt: 5, Cached: 5}},
		"nothing":                  {edit("schema: 1", "schema: 1\nbatch_percent: 0"), "small-a", false, true, price.Rate{}},
	} {
		b, err := price.Parse([]byte(c.doc))
		if err != nil {
			t.Fatal(name, err)
		}
		r, ok := b.Generate(c.model)
		if c.embed {
			r, ok = b.Embed(c.model)
		}
		if got, own := b.Batch(r, c.model, c.embed); !ok || got != c.want || own != c.own {
			t.Errorf("%s: %+v, %v", name, got, own)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, c := range map[string]struct{ doc, path string }{
		"empty":            {"", "document"},
		"not yaml":         {"\t{", "document"},
		"not utf-8":        {good + "#\xff", "document"},
		"two documents":    {good + "\n---\nschema: 1\n", "document"},
		"unknown key":      {edit("schema: 1", "schema: 1\ndiscount: 3"), "document"},
		"schema":           {edit("schema: 1", "schema: 2"), "schema"},
		"currency":         {edit("CNY", "yuan"), "currency"},
		"no zone":          {edit("+08:00", ""), "effective_from"},
		"before 1970":      {edit("2026", "0026"), "effective_from"},
		"no models":        {good[:strings.Index(good, "models:")] + "models: []", "models"},
		"fraction":         {edit("prompt: 7", "prompt: 7.5"), "document"},
		"text":             {edit("prompt: 7", "prompt: seven"), "document"},
		"negative":         {edit("prompt: 7", "prompt: -7"), "models[0].prompt"},
		"too dear":         {edit("prompt: 7", "prompt: 1000000001"), "models[0].prompt"},
		"beyond 64 bits":   {edit("prompt: 7", "prompt: 99999999999999999999"), "document"},
		"class missing":    {edit("cached_prompt: 2, ", ""), "models[0]"},
		"null price":       {edit("prompt: 7", "prompt: null"), "models[0]"},
		"no price":         {edit(", embedding: 9", ""), "models[2]"},
		"no name":          {edit(`"*"`, `""`), "models[2].model"},
		"repeated":         {edit("small-exact", "small-*"), "models[1].model"},
		"above the whole":  {edit("schema: 1", "schema: 1\nbatch_percent: 101"), "batch_percent"},
		"half a percent":   {edit("schema: 1", "schema: 1\nbatch_percent: 0.5"), "document"},
		"below nothing":    {edit("prompt: 7", "batch_percent: -1, prompt: 7"), "models[0].batch_percent"},
		"repeated key":     {edit("schema: 1", "schema: 1\nschema: 1"), "document"},
		"beyond the limit": {good + "#" + strings.Repeat("x", price.MaxBytes), "document"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := price.Parse([]byte(c.doc))
			var e *price.Error
			if !errors.As(err, &e) || e.Path != c.path || e.Reason.String() == "" {
				t.Errorf("got %v, want an error at %s", err, c.path)
			}
		})
	}
}

func TestReasonsInChinese(t *testing.T) {
	for doc, want := range map[string]string{
		strings.Replace(good, "prompt: 7", "prompt: 7.5", 1): "不是整数",
		strings.Replace(good, "prompt: 7", "pr: 7", 1):       "不符合价格表格式（",
		strings.Replace(good, "schema: 1", "schema: 2", 1):   "须为 1",
	} {
		_, err := price.Parse([]byte(doc))
		var e *price.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		if m := fault.New(fault.CodeInvalidPriceBook, e.Path, e.Reason).Message(fault.Chinese); !strings.Contains(m, want) {
			t.Error(m)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good), "small-a")
	f.Add([]byte("schema: 1\ncurrency: USD\neffective_from: 2026-01-01T00:00:00Z\nmodels: [{model: a*b*c, embedding: 0}]"), "aXbYc")
	f.Add([]byte("a: &a [*a]"), "")
	f.Fuzz(func(t *testing.T, doc []byte, model string) {
		b, err := price.Parse(doc)
		if err != nil {
			var e *price.Error
			if !errors.As(err, &e) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if r, ok := b.Generate(model); ok {
			if c := r.Cost(price.Tokens{Prompt: price.MaxTokens, Cached: 5, Completion: price.MaxTokens}); c < 0 {
				t.Fatalf("cost %d", c)
			}
		}
		b.Embed(model)
	})
}

// TestHostileBooksTakeLinearTime: the largest document is refused in moments, and in one line, also where every key stands in the same mapping.
func TestHostileBooksTakeLinearTime(t *testing.T) {
	t.Parallel()
	many := strings.Builder{}
	for i := 0; many.Len() < price.MaxBytes-20; i++ {
		fmt.Fprintf(&many, "k%d: v\n", i)
	}
	for name, doc := range map[string]string{
		"one key": strings.Repeat("models:\n", price.MaxBytes/8), "many keys": many.String(), "unknown keys": strings.Repeat("? {a: b}\n", 20) + "c: d\n",
	} {
		done := make(chan error, 1)
		go func() { _, err := price.Parse([]byte(doc)); done <- err }()
		select {
		case err := <-done:
			if err == nil || len(err.Error()) > 500 {
				t.Errorf("%s: %.600v", name, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: it takes forever", name)
		}
	}
}
