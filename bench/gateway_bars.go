package main

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// The side that the throughput of Sluice is held against, and the setup that answers before the outcome is durable.
const (
	peerOfBars       = "gomodel"
	setupAnswerFirst = "answer-first"
)

// checkpointPause is how long a record waits for the next signed checkpoint, however little there is to do: the server's default.
const checkpointPause = 1.0 // seconds

// bar is a figure that the gateway has to reach.
type bar struct {
	name  string
	limit float64
	least bool // the figure must not be less, else not more
	must  bool // a run that misses it fails, whatever machine it ran on

	measured bool
	value    float64 // the worst that was measured
}

// take notes a figure.
func (b *bar) take(v float64) {
	if worse := b.least && v < b.value || !b.least && v > b.value; !b.measured || worse || math.IsNaN(v) {
		b.value = v
	}
	b.measured = true
}

// missed reports whether a measured figure does not reach the bar; what is no number does not.
func (b *bar) missed() bool {
	if b.least {
		return b.measured && !(b.value >= b.limit)
	}
	return b.measured && !(b.value <= b.limit)
}

// gatewayBars are all bars.
type gatewayBars struct {
	governedRate, governedCPU, auditOnlyRate, memory bar // at 64 connections
	p50, p99, firstP50, firstP99                     bar // at one
	firstToken, plainChunk, maskedChunk              bar
	crowdMemory, crowdLost                           bar
	shipped, sealed                                  bar
}

func newGatewayBars() *gatewayBars {
	return &gatewayBars{
		governedRate:  bar{name: "governed ÷ GoModel, requests/s at 64 connections", limit: .7, least: true},
		governedCPU:   bar{name: "governed, CPU s per 1,000 requests at 64 connections", limit: .4},
		auditOnlyRate: bar{name: "audit-only ÷ GoModel, requests/s at 64 connections", limit: 1, least: true},
		memory:        bar{name: "governed, MiB at 64 connections", limit: 100},
		p50:           bar{name: "governed, added p50 ms at 1 connection", limit: 1},
		p99:           bar{name: "governed, added p99 ms at 1 connection", limit: 4},
		firstP50:      bar{name: "answer-first, added p50 ms at 1 connection", limit: .6},
		firstP99:      bar{name: "answer-first, added p99 ms at 1 connection", limit: 2.5},
		firstToken:    bar{name: "governed, added ms to the first token of a stream", limit: .7},
		plainChunk:    bar{name: "governed, added ms per chunk without values", limit: .015},
		maskedChunk:   bar{name: "governed, added ms per chunk with values", limit: .030},
		crowdMemory:   bar{name: "a crowd, MiB", limit: 1e9 / (1 << 20)},
		crowdLost:     bar{name: "a crowd, requests lost", must: true},
		shipped:       bar{name: "s after the load until all records and usage are in the database", limit: 1, must: true},
		sealed:        bar{name: "s until all are sealed, beyond the pause between checkpoints", limit: 1, must: true},
	}
}

func (g *gatewayBars) all() []*bar {
	return []*bar{
		&g.governedRate, &g.governedCPU, &g.auditOnlyRate, &g.memory, &g.p50, &g.p99, &g.firstP50, &g.firstP99,
		&g.firstToken, &g.plainChunk, &g.maskedChunk, &g.crowdMemory, &g.crowdLost, &g.shipped, &g.sealed,
	}
}

// loads takes what a row of that many connections showed: medians of the rounds, but of the backlog every round.
func (g *gatewayBars) loads(connections int, sides []*gatewaySide) {
	for _, s := range sides {
		r := s.row
		for i := range r.shipped {
			g.shipped.take(r.shipped[i])
			g.sealed.take(r.sealed[i] - checkpointPause)
		}
		switch {
		case connections == 64 && s.ours && s.name == setupGoverned:
			g.governedCPU.take(median(r.cpu))
			g.memory.take(median(r.peak))
		case connections == 1 && s.ours && s.name == setupGoverned:
			g.p50.take(median(r.p50.added))
			g.p99.take(median(r.p99.added))
		case connections == 1 && s.ours && s.name == setupAnswerFirst:
			g.firstP50.take(median(r.p50.added))
			g.firstP99.take(median(r.p99.added))
		}
		for _, peer := range sides {
			if connections != 64 || !s.ours || peer.ours || peer.name != peerOfBars {
				continue
			}
			switch ratio := median(ratios(r.rates, peer.row.rates)); s.name {
			case setupGoverned:
				g.governedRate.take(ratio)
			case setupAuditOnly:
				g.auditOnlyRate.take(ratio)
			}
		}
	}
}

// stream takes what a side added to streams of a prompt, in milliseconds.
func (g *gatewayBars) stream(s *gatewaySide, masked bool, first, chunk []float64) {
	if !s.ours || s.name != setupGoverned {
		return
	}
	g.firstToken.take(median(first))
	if masked {
		g.maskedChunk.take(median(chunk))
	} else {
		g.plainChunk.take(median(chunk))
	}
}

// crowd takes what became of a crowd in front of a side.
func (g *gatewayBars) crowd(s *gatewaySide, got crowd, peakMiB int) {
	if s.ours {
		g.crowdMemory.take(float64(peakMiB))
		g.crowdLost.take(float64(got.lost))
	}
}

// report prints what became of each bar. It fails if one was missed that must not be.
func (g *gatewayBars) report(w io.Writer) error {
	var failed []error
	fmt.Fprintf(w, "\n%-70s %10s %10s\n", "bar", "limit", "measured")
	for _, b := range g.all() {
		limit := "≤ " + figure(b.limit)
		if b.least {
			limit = "≥ " + figure(b.limit)
		}
		switch {
		case !b.measured:
			fmt.Fprintf(w, "%-70s %10s %10s not measured\n", b.name, limit, "-")
		case b.missed():
			fmt.Fprintf(w, "%-70s %10s %10s missed\n", b.name, limit, figure(b.value))
			if b.must {
				failed = append(failed, fmt.Errorf("%s: %s, must be %s", b.name, figure(b.value), limit))
			}
		default:
			fmt.Fprintf(w, "%-70s %10s %10s reached\n", b.name, limit, figure(b.value))
		}
	}
	return errors.Join(failed...)
}

// figure spells a number with the places that it needs.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a):
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}
