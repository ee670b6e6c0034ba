package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/enginebench"
)

// report is the result in the form that is written as JSON and as Markdown.
type report struct {
	Date    string              `json:"date"`
	Machine enginebench.Machine `json:"machine"`
	Ours    string              `json:"sluice"`
	Peer    string              `json:"peer"`
	Model   string              `json:"model"`
	Rounds  int                 `json:"rounds"`
	Rows    []reportRow         `json:"rows"`
	Process []reportProcess     `json:"processes,omitempty"`
	Limits  []reportLimit       `json:"limits,omitempty"`
}

type reportRow struct {
	Threads int                `json:"threads"`
	Row     string             `json:"row"`
	Ours    string             `json:"ours"` // tier and plan
	Theirs  string             `json:"theirs"`
	Rate    enginebench.Spread `json:"tokens_per_second"`
	Peer    enginebench.Spread `json:"peer_tokens_per_second"`
	Ratio   enginebench.Spread `json:"ratio"` // the median is that of the medians
	Share   enginebench.Spread `json:"share_of_limit,omitzero"`
	Floor   float64            `json:"floor,omitempty"`
	Aim     float64            `json:"aim,omitempty"`
	Reached string             `json:"reached"`
}

type reportProcess struct {
	Threads    int                `json:"threads"`
	Load       enginebench.Spread `json:"load_seconds"`
	FirstLoad  enginebench.Spread `json:"first_load_seconds"`
	PeerLoad   enginebench.Spread `json:"peer_load_seconds"`
	Memory     enginebench.Spread `json:"peak_bytes"`
	PeerMemory enginebench.Spread `json:"peer_peak_bytes"`
}

type reportLimit struct {
	Threads int    `json:"threads"`
	ISA     string `json:"isa"`
	enginebench.LimitSpreads
}

func (c *comparison) report(started time.Time) report {
	out, _ := exec.Command(c.binary, "version").Output() //nolint:noctx // it prints a line; without it the report says less
	r := report{
		Date: started.Format(time.DateOnly), Machine: enginebench.ThisMachine(), Ours: strings.TrimSpace(string(out)),
		Peer: "llama.cpp build " + peerBuild, Model: filepath.Base(c.model), Rounds: c.rounds,
	}
	for i, row := range c.rows {
		s := c.theirs[i].best(c.settings[i])
		theirs := c.theirs[i][s]
		for _, v := range c.variants {
			t := c.ours[ourKey{row.threads, v, row.test}]
			ours, peer := enginebench.SpreadOf(t.rates), enginebench.SpreadOf(theirs)
			ratio := enginebench.SpreadOf(ratios(t.rates, theirs))
			ratio.Median = ours.Median / peer.Median
			r.Rows = append(r.Rows, reportRow{
				Threads: row.threads, Row: row.name(), Ours: v.name(), Theirs: c.peer.name(s), Rate: ours, Peer: peer, Ratio: ratio,
				Share: enginebench.SpreadOf(t.shares), Floor: row.floor, Aim: row.aim, Reached: row.verdict(ratio.Median),
			})
		}
	}
	for _, p := range c.process {
		sum := enginebench.SpreadOf
		r.Process = append(r.Process, reportProcess{
			p.threads, sum(p.ourLoad), sum(p.ourFirst), sum(p.theirLoad), sum(p.ourMemory), sum(p.peerBytes),
		})
	}
	for _, t := range c.threads {
		for _, tier := range slices.Sorted(maps.Keys(c.limits)) {
			if m := c.machine[limitKey{t, tier}]; len(m.read) > 0 {
				r.Limits = append(r.Limits, reportLimit{t, tier, enginebench.LimitSpreads{
					Read: enginebench.SpreadOf(m.read), Multiply: enginebench.SpreadOf(m.multiply), HandOver: enginebench.SpreadOf(m.handOver),
				}})
			}
		}
	}
	return r
}

// write prints the Markdown and keeps both forms.
func (c *comparison) write(started time.Time) error {
	r := c.report(started)
	base := c.out
	if base == "" {
		base = filepath.Join(c.cache, "results", started.Format("2006-01-02T15-04-05"))
	}
	var text strings.Builder
	r.markdown(&text)
	if err := keep(base, r, text.String()); err != nil {
		return err
	}
	fmt.Print(text.String())
	fmt.Fprintf(os.Stderr, "\nkept as %s.md and .json, %v after the start\n", base, time.Since(started).Round(time.Second))
	return nil
}

func (r report) markdown(w io.Writer) {
	fmt.Fprintf(w, "%s, %s, %d processors, %s. %s. Peer: %s. Model: %s. %d rounds, alternating.\n", r.Date, r.Machine.CPU, r.Machine.Processors,
		r.Machine.Platform, r.Ours, r.Peer, r.Model, r.Rounds)
	fmt.Fprintln(w, "\nThe limit of a prompt is int8 multiplying (aim: 60 %), that of generation is reading, weights alone (aim: 85 % at depth 0).")
	var threads []int
	for _, row := range r.Rows {
		if !slices.Contains(threads, row.Threads) {
			threads = append(threads, row.Threads)
		}
	}
	for _, t := range threads {
		fmt.Fprintf(w, "\n%s: tokens/s, median (least…most)\n\n", plural(t))
		fmt.Fprintln(w, "| row | ours | Sluice | share of the limit | the peer | the peer's fastest setting | ratio | floor, aim | reached |\n|---|---|---|---|---|---|---|---|---|")
		for _, row := range r.Rows {
			if row.Threads != t {
				continue
			}
			asked := "–"
			if row.Floor > 0 {
				asked = fmt.Sprintf("%.1f×, %.1f×", row.Floor, row.Aim)
			}
			fmt.Fprintf(w, "| %s | %s | %v | %s | %v | %s | **%.2f×** (%.2f…%.2f) | %s | %s |\n", row.Row, row.Ours, row.Rate, percent(row.Share),
				row.Peer, row.Theirs, row.Ratio.Median, row.Ratio.Min, row.Ratio.Max, asked, row.Reached)
		}
	}
	r.markdownProcess(w)
	if len(r.Limits) > 0 {
		markdownLimits(w, r.Limits)
	}
}

func markdownLimits(w io.Writer, limits []reportLimit) {
	fmt.Fprintln(w, "\nLimits measured between the rows\n\n| threads | tier | reading, GB/s | int8 multiplying, GMAC/s | hand-over and back, ns |\n|---|---|---|---|---|")
	for _, l := range limits {
		fmt.Fprintf(w, "| %d | %s | %v | %s | %s |\n", l.Threads, l.ISA, l.Read, known(l.Multiply), known(l.HandOver))
	}
}

func (r report) markdownProcess(w io.Writer) {
	if len(r.Process) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWhole processes\n\n| threads | what | Sluice | the peer | peer ÷ Sluice |\n|---|---|---|---|---|")
	for _, p := range r.Process {
		mib := func(s enginebench.Spread) enginebench.Spread {
			return enginebench.Spread{Median: s.Median / (1 << 20), Min: s.Min / (1 << 20), Max: s.Max / (1 << 20)}
		}
		line := func(what string, ours, theirs enginebench.Spread) {
			fmt.Fprintf(w, "| %d | %s | %v | %v | %.2f× |\n", p.Threads, what, ours, theirs, theirs.Median/ours.Median)
		}
		line("load to the first token, seconds", p.Load, p.PeerLoad)
		line("the same, nothing kept by an earlier load", p.FirstLoad, p.PeerLoad)
		line("peak of memory over prompt 512 and a generation, MiB", mib(p.Memory), mib(p.PeerMemory))
	}
}

func plural(threads int) string {
	if threads == 1 {
		return "One thread"
	}
	return fmt.Sprintf("%d threads", threads)
}

func percent(s enginebench.Spread) string {
	if s == (enginebench.Spread{}) {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*s.Median)
}

func known(s enginebench.Spread) string {
	if s == (enginebench.Spread{}) {
		return "–"
	}
	return s.String()
}
