// Package price is a leaf: it reads price books and rates tokens with them.
//
// A book is a YAML document. Prices are whole numbers of 10⁻⁹ currency unit per token, so a rated request is exact: nothing is
// ever rounded. Books are values that nobody changes after [Parse].
package price

import (
	"math"
	"time"
)

// The limits that keep every product and sum inside 63 bits: three classes of MaxTokens at MaxUnit stay below 3.1 × 10¹⁸.
const (
	// MaxUnit is the highest price of one token: one whole currency unit.
	MaxUnit = 1_000_000_000
	// MaxTokens is the highest count of one token class that one request may have.
	MaxTokens = 1_000_000_000
)

// Tokens counts what one request used. Cached tokens are those of Prompt that a prefix cache served; they are part of Prompt.
type Tokens struct{ Prompt, Cached, Completion int64 }

// Book is one price book.
type Book struct {
	Currency      string    // ISO 4217 code
	EffectiveFrom time.Time // requests admitted at or after this instant are rated with the book, until a later one is in force
	batch         int64     // percent, of models that say nothing else
	models        []entry
}

type entry struct {
	pattern                               string
	prompt, cached, completion, embedding *int64
	batch                                 int64 // percent
}

// whole is the percentage that changes nothing.
const whole = 100

// Rate holds the prices of one model for one purpose, in 10⁻⁹ currency unit per token.
type Rate struct{ Prompt, Cached, Completion int64 }

// Generate returns the rate for generating with model. It is false when the book does not price that: such a request must be
// refused, never rated at zero.
func (b *Book) Generate(model string) (Rate, bool) {
	e := b.find(model, func(e *entry) bool { return e.prompt != nil })
	if e == nil {
		return Rate{}, false
	}
	return Rate{Prompt: *e.prompt, Cached: *e.cached, Completion: *e.completion}, true
}

// Embed returns the rate for embedding with model. It is false when the book does not price that.
func (b *Book) Embed(model string) (Rate, bool) {
	e := b.find(model, func(e *entry) bool { return e.embedding != nil })
	if e == nil {
		return Rate{}, false
	}
	return Rate{Prompt: *e.embedding, Cached: *e.embedding}, true
}

// Batch returns the rate r of a model for requests of the queue class batch, and whether the book has one of their own for it; embed as r was asked for. It is
// never higher than r.
func (b *Book) Batch(r Rate, model string, embed bool) (Rate, bool) {
	e := b.find(model, func(e *entry) bool { return embed && e.embedding != nil || !embed && e.prompt != nil })
	if e == nil || e.batch == whole {
		return r, false
	}
	return Rate{Prompt: part(r.Prompt, e.batch), Cached: part(r.Cached, e.batch), Completion: part(r.Completion, e.batch)}, true
}

// part returns percent of the price of one token, rounded up to a whole one: so nothing is rounded when a request is rated.
func part(unit, percent int64) int64 { return (unit*percent + whole - 1) / whole }

// find prefers the entry that spells the model out, then the first pattern in document order.
func (b *Book) find(model string, priced func(*entry) bool) *entry {
	var glob *entry
	for i := range b.models {
		e := &b.models[i]
		if !priced(e) {
			continue
		}
		if e.pattern == model {
			return e
		}
		if glob == nil && Match(e.pattern, model) {
			glob = e
		}
	}
	return glob
}

// Match reports whether s fits pattern, where * stands for any run of characters and everything else for itself.
func Match(pattern, s string) bool {
	star, back := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, back = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p, i = p+1, i+1
		case star >= 0:
			back++
			p, i = star+1, back
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// Bounded returns t with counts outside 0…[MaxTokens] moved to the nearer end, and Cached to at most Prompt: what a faulty engine
// reports can neither earn the caller money nor overflow.
func (t Tokens) Bounded() Tokens {
	prompt := clamp(t.Prompt, MaxTokens)
	return Tokens{Prompt: prompt, Cached: clamp(t.Cached, prompt), Completion: clamp(t.Completion, MaxTokens)}
}

// Cost rates t, bounded, exactly.
func (r Rate) Cost(t Tokens) int64 {
	t = t.Bounded()
	return (t.Prompt-t.Cached)*r.Prompt + t.Cached*r.Cached + t.Completion*r.Completion
}

// Worst returns the highest cost of a request with at most these counts, whatever share of the prompt a cache serves. It is
// false when a count lies outside 0…[MaxTokens].
func (r Rate) Worst(prompt, completion int64) (int64, bool) {
	if prompt < 0 || completion < 0 || prompt > MaxTokens || completion > MaxTokens {
		return math.MaxInt64, false
	}
	return prompt*max(r.Prompt, r.Cached) + completion*r.Completion, true
}

func clamp(n, high int64) int64 { return max(0, min(n, high)) }
