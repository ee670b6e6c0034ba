package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/enginebench"
)

// servingReport is the result in the form that is written as JSON and as Markdown. Times are in milliseconds.
type servingReport struct {
	Date    string              `json:"date"`
	Machine enginebench.Machine `json:"machine"`
	Ours    string              `json:"sluice"`
	Peer    string              `json:"peer,omitempty"`
	Model   string              `json:"model"`
	ISA     string              `json:"isa"`
	Threads int                 `json:"threads"`
	Output  int                 `json:"output_tokens"`
	Rounds  int                 `json:"rounds"`
	Rows    []servingLine       `json:"rows"`
	Mixed   []servingTalk       `json:"mixed,omitempty"`
	Fair    *servingFair        `json:"fairness,omitempty"`
	Limits  reportLimit         `json:"limits"`
}

// servingLine is one side of one row. The ratios say how many times better we are: more tokens, less time.
type servingLine struct {
	Row       string             `json:"row"`
	Side      string             `json:"side"`
	Setting   string             `json:"setting,omitempty"`
	Arrivals  float64            `json:"requests_per_second,omitempty"` // of an open loop
	Rate      enginebench.Spread `json:"tokens_per_second"`
	First50   enginebench.Spread `json:"first_token_p50"`
	First99   enginebench.Spread `json:"first_token_p99"`
	Gap50     enginebench.Spread `json:"inter_token_p50"`
	Gap99     enginebench.Spread `json:"inter_token_p99"`
	Seconds   enginebench.Spread `json:"seconds"`
	PerChunk  float64            `json:"tokens_per_chunk"`
	Cached    float64            `json:"cached_prompt_share"`
	Generator float64            `json:"load_generator_processors"`
	Ratio     *servingRatio      `json:"ratio,omitempty"` // ours to this side
}

type servingRatio struct {
	Rate    enginebench.Spread `json:"tokens_per_second"`
	First50 enginebench.Spread `json:"first_token_p50"`
	First99 enginebench.Spread `json:"first_token_p99"`
	Gap50   enginebench.Spread `json:"inter_token_p50"`
	Gap99   enginebench.Spread `json:"inter_token_p99"`
	Floor   float64            `json:"floor,omitempty"`
	Aim     float64            `json:"aim,omitempty"`
	Reached string             `json:"reached,omitempty"`
}

type servingTalk struct {
	What    string             `json:"what"`
	First50 enginebench.Spread `json:"first_token_p50"`
	First99 enginebench.Spread `json:"first_token_p99"`
	Gap50   enginebench.Spread `json:"inter_token_p50"`
	Gap99   enginebench.Spread `json:"inter_token_p99"`
}

type servingFair struct {
	Idle   enginebench.Spread `json:"idle_first_token"`
	Beside enginebench.Spread `json:"beside_first_token"`
	Ratio  enginebench.Spread `json:"ratio"`
}

func (c *servingRun) report(started time.Time) servingReport {
	out, _ := exec.Command(c.binary, "version").Output() //nolint:noctx // it prints a line; without it the report says less
	r := servingReport{
		Date: started.Format(time.DateOnly), Machine: enginebench.ThisMachine(), Ours: strings.TrimSpace(string(out)),
		Model: filepath.Base(c.model), ISA: c.isa, Threads: c.threads, Output: c.output, Rounds: c.rounds,
		Limits: reportLimit{c.threads, c.isa, enginebench.LimitSpreads{
			Read: enginebench.SpreadOf(c.machine.read), Multiply: enginebench.SpreadOf(c.machine.multiply), HandOver: enginebench.SpreadOf(c.machine.handOver),
		}},
	}
	if c.peer != nil {
		r.Peer = "llama.cpp build " + peerBuild
	}
	for i := range c.plan {
		for j := range c.sides {
			r.Rows = append(r.Rows, c.line(i, j))
		}
	}
	talk := func(what string, rounds []figures) {
		if len(rounds) > 0 {
			l := lineOf(rounds)
			r.Mixed = append(r.Mixed, servingTalk{what, l.First50, l.First99, l.Gap50, l.Gap99})
		}
	}
	talk("alone", c.mixed.alone)
	talk("beside batch work", c.mixed.with)
	talk("beside batch work, without latency targets", c.mixed.without)
	if len(c.fair.idle) > 0 {
		ratio := enginebench.SpreadOf(c.fair.ratio)
		idle, beside := enginebench.SpreadOf(c.fair.idle), enginebench.SpreadOf(c.fair.beside)
		ratio.Median = beside.Median / idle.Median
		r.Fair = &servingFair{idle, beside, ratio}
	}
	return r
}

// line sums up one side of one row.
func (c *servingRun) line(i, j int) servingLine {
	r, s, own, rounds := c.plan[i], c.sides[j], c.results[resultKey{i, 0}], c.results[resultKey{i, j}]
	l := lineOf(rounds)
	l.Row, l.Side, l.Arrivals = r.name(), s.name, c.rates[r]
	if s.peer {
		l.Setting = c.peer.serverName(c.settings[settingKey{s.form, r.clients}])
	}
	if j == 0 {
		return l
	}
	l.Ratio = &servingRatio{
		Rate:    ratioOf(own, rounds, func(f figures) float64 { return f.rate }),
		First50: ratioOf(rounds, own, func(f figures) float64 { return f.first50 }), First99: ratioOf(rounds, own, func(f figures) float64 { return f.first99 }),
		Gap50: ratioOf(rounds, own, func(f figures) float64 { return f.gap50 }), Gap99: ratioOf(rounds, own, func(f figures) float64 { return f.gap99 }),
	}
	if s.peer {
		l.Ratio.Floor, l.Ratio.Aim = r.bar(s.form)
		l.Ratio.Reached = row{floor: l.Ratio.Floor, aim: l.Ratio.Aim}.verdict(l.Ratio.Rate.Median)
	}
	return l
}

func lineOf(rounds []figures) servingLine {
	return servingLine{
		Rate:    spreadOf(rounds, func(f figures) float64 { return f.rate }),
		First50: spreadOf(rounds, func(f figures) float64 { return f.first50 }), First99: spreadOf(rounds, func(f figures) float64 { return f.first99 }),
		Gap50: spreadOf(rounds, func(f figures) float64 { return f.gap50 }), Gap99: spreadOf(rounds, func(f figures) float64 { return f.gap99 }),
		Seconds:   spreadOf(rounds, func(f figures) float64 { return f.seconds }),
		PerChunk:  spreadOf(rounds, func(f figures) float64 { return f.perChunk }).Median,
		Cached:    spreadOf(rounds, func(f figures) float64 { return f.cached }).Median,
		Generator: spreadOf(rounds, func(f figures) float64 { return f.generator }).Median,
	}
}

// write prints the Markdown and keeps both forms.
func (c *servingRun) write(started time.Time) error {
	r := c.report(started)
	base := c.out
	if base == "" {
		base = filepath.Join(c.cache, "results", "serving-"+started.Format("2006-01-02T15-04-05"))
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

// keep writes a report as JSON and as Markdown.
func keep(base string, report any, text string) error {
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil { //nolint:gosec // figures are no secret
		return err
	}
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".json", append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return os.WriteFile(base+".md", []byte(text), 0o600)
}

func (r servingReport) markdown(w io.Writer) {
	fmt.Fprintf(w, "%s, %s, %d processors, %s. %s, tier %s. ", r.Date, r.Machine.CPU, r.Machine.Processors, r.Machine.Platform, r.Ours, r.ISA)
	if r.Peer != "" {
		fmt.Fprintf(w, "Peer: %s. ", r.Peer)
	}
	fmt.Fprintf(w, "Model: %s. %d threads, %d tokens out. %d rounds, alternating.\n", r.Model, r.Threads, r.Output, r.Rounds)
	last := ""
	for _, l := range r.Rows {
		if l.Row != last {
			last = l.Row
			fmt.Fprintf(w, "\n%s", l.Row)
			if l.Arrivals > 0 {
				fmt.Fprintf(w, ", %.2f requests/s", l.Arrivals)
			}
			fmt.Fprint(w, "\n\n| | tokens/s | first token p50, ms | p99 | inter-token p50, ms | p99 | s in all | tokens per chunk | cached | "+
				"load generator, processors |\n|---|---|---|---|---|---|---|---|---|---|\n")
		}
		l.markdown(w)
	}
	r.markdownMore(w)
	if r.Limits.Read.Median > 0 { // otherwise there is no row between which they would be measured
		markdownLimits(w, []reportLimit{r.Limits})
	}
}

func (l servingLine) markdown(w io.Writer) {
	side := l.Side
	if l.Setting != "" {
		side += " (" + l.Setting + ")"
	}
	fmt.Fprintf(w, "| %s | %v | %v | %v | %v | %v | %v | %.2f | %.0f %% | %.2f |\n", side, l.Rate, l.First50, l.First99, l.Gap50, l.Gap99, l.Seconds,
		l.PerChunk, 100*l.Cached, l.Generator)
	if l.Ratio == nil {
		return
	}
	fmt.Fprintf(w, "| → Sluice is better by | %s | %s | %s | %s | %s | %s | | | |\n", times(l.Ratio.Rate), times(l.Ratio.First50), times(l.Ratio.First99),
		times(l.Ratio.Gap50), times(l.Ratio.Gap99), l.Ratio.asked())
}

func (r servingRatio) asked() string {
	if r.Floor == 0 {
		return ""
	}
	return fmt.Sprintf("asked %.1f×, %.1f×: %s", r.Floor, r.Aim, r.Reached)
}

func times(s enginebench.Spread) string {
	return fmt.Sprintf("**%.2f×** (%.2f…%.2f)", s.Median, s.Min, s.Max)
}

func (r servingReport) markdownMore(w io.Writer) {
	if len(r.Mixed) > 0 {
		fmt.Fprintf(w, "\nOne interactive client (128 tokens in) beside %d batch clients\n\n| | first token p50, ms | p99 | inter-token p50, ms | p99 |\n|---|---|---|---|---|\n", batchClients)
	}
	for _, m := range r.Mixed {
		fmt.Fprintf(w, "| %s | %v | %v | %v | %v |\n", m.What, m.First50, m.First99, m.Gap50, m.Gap99)
	}
	if r.Fair != nil {
		fmt.Fprintf(w, "\nA tenant with one request beside one with %d: first token p50 %v ms, on an idle engine %v ms: %s\n", manyClients, r.Fair.Beside,
			r.Fair.Idle, times(r.Fair.Ratio))
	}
}
