package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/tokenizer"
)

// prompts writes texts of an exact number of tokens of a model.
type prompts struct{ tokens tokenizer.Tokenizer }

func openPrompts(model string) (*prompts, error) {
	f, err := gguf.Open(model)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	v, err := tokenizer.FromMetadata(f.Value)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.New(v)
	return &prompts{t}, err
}

// asks returns requests with distinct prompts of n tokens. With shared, the first three quarters of all of them are the same text. The
// same seed gives the same requests.
func (p *prompts) asks(count, n, output int, shared bool, seed uint64) ([]ask, error) {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a load that can be repeated
	var head []int32
	if shared {
		head = p.tokens.Encode(prose(random, 3*n), false)[:n*3/4]
	}
	out := make([]ask, count)
	for i := range out {
		text, err := p.text(random, head, n)
		if err != nil {
			return nil, err
		}
		out[i] = ask{prompt: text, tokens: n, output: output, tenant: "acme", seed: random.Uint64() >> 32}
	}
	return out, nil
}

// text is a text whose tokens are head and then others, n in all. Cutting tokens off a text can change those before the cut, so it is
// tried until it does not.
func (p *prompts) text(random *rand.Rand, head []int32, n int) (string, error) {
	bos, add := p.tokens.BOS()
	if add && bos != tokenizer.None {
		n--
	}
	for range 100 {
		rest := " " + prose(random, 3*n)
		if len(head) == 0 {
			rest = rest[1:]
		}
		ids := slices.Concat(head, p.tokens.Encode(rest, false))[:n]
		text := p.tokens.Decode(ids)
		if slices.Equal(p.tokens.Encode(text, false), ids) {
			return text, nil
		}
	}
	return "", fmt.Errorf("no text of %d tokens was found", n)
}

// prose is a text of at least so many words. Every sentence has numbers and names of its own, so that no two texts begin alike.
func prose(random *rand.Rand, words int) string {
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	var b strings.Builder
	for n := 0; n < words; {
		s := strings.NewReplacer(
			"{who}", pick(people), "{place}", pick(places), "{thing}", pick(things), "{how}", pick(manners), "{n}", fmt.Sprint(10+random.IntN(9990)),
		).Replace(pick(sentences))
		n += strings.Count(s, " ") + 1
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s)
	}
	return b.String()
}

//nolint:gochecknoglobals // constant tables
var (
	sentences = []string{
		"On page {n} of the log, {who} wrote that the {thing} from {place} had arrived {how}.",
		"The {thing} near {place} was repaired {how}, and {who} counted {n} parts afterwards.",
		"{who} asked whether {n} copies of the {thing} could be sent to {place} before the end of the week.",
		"In {place}, nobody had seen the {thing} since entry {n}, although {who} looked for it {how}.",
		"A short report by {who} lists {n} reasons why the {thing} should stay in {place}.",
		"{n} visitors came to {place} to see the {thing}, which {who} had painted {how}.",
		"When the rain stopped, {who} carried the {thing} {how} from {place} to house number {n}.",
		"The council of {place} paid {n} coins for a {thing}, and {who} signed the receipt {how}.",
		"Question {n}: why did {who} leave the {thing} in {place}?",
		"{who} explained {how} that the {thing} weighs {n} grams more in {place} than elsewhere.",
	}
	people  = []string{"Anna", "the gardener", "Li Wei", "an old sailor", "the clerk", "Professor Okafor", "Maria", "the night guard", "Tom", "our neighbour"}
	places  = []string{"the harbour", "Chengdu", "the northern valley", "the library", "Lisbon", "the old mill", "room twelve", "the market", "Nairobi", "the station"}
	things  = []string{"blue lamp", "water pump", "map", "clock", "wooden boat", "letter", "engine", "garden gate", "telescope", "bread oven"}
	manners = []string{"with great care", "in a hurry", "without a word", "twice", "late at night", "for the first time", "as planned", "against all advice"}
)
