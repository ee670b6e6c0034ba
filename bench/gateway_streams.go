package main

import (
	"context"
	"fmt"
)

// benchStreams measures what each side adds to the first byte and to each chunk of a stream, of a prompt with values and of one without.
func benchStreams(ctx context.Context, o gatewayOptions, direct target, sides []*gatewaySide, bars *gatewayBars) error {
	fmt.Printf("\nstreams, 1 connection, %d chunks\n%-14s %-24s %-28s %-28s\n", words, "prompt", "side", "added first byte ms", "added per chunk ms")
	for _, p := range bothPrompts() {
		first, chunk := make([]pair, len(sides)), make([]pair, len(sides))
		for n := range o.rounds {
			d, err := load(ctx, direct, 1, o.length, direct.dialect.body(p.text, true), true)
			if err != nil {
				return err
			}
			for i := range sides {
				at := (i + n) % len(sides)
				g, err := load(ctx, sides[at].target, 1, o.length, sides[at].dialect.body(p.text, true), true)
				if err != nil {
					return err
				}
				first[at].add(ms(quantile(d.firstToken, .5)), ms(quantile(g.firstToken, .5)))
				chunk[at].add(d.perChunk(), g.perChunk())
			}
		}
		for i, s := range sides {
			fmt.Printf("%-14s %-24s %-28s %-28s\n", p.name, s.name, spread(first[i].added), spread(chunk[i].added))
			bars.stream(s, p.text == prompt, first[i].added, chunk[i].added)
		}
	}
	return nil
}

// perChunk is the time of a stream behind its first byte, in milliseconds a chunk.
func (s sample) perChunk() float64 { return ms(s.quantile(.5)-quantile(s.firstToken, .5)) / words }

// named is a prompt and what it is called in reports.
type named struct{ name, text string }

func bothPrompts() []named { return []named{{"with values", prompt}, {"without", plainPrompt}} }
