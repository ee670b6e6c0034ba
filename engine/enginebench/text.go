package enginebench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the report for people.
func (r *Report) Print(out io.Writer) error {
	plan := r.Plan
	if plan == "" {
		plan = "default"
	}
	fmt.Fprintf(out, "machine  %s, %d processors, %s, %s\n", r.Machine.CPU, r.Machine.Processors, r.Machine.Platform, r.Machine.Go)
	fmt.Fprintf(out, "model    %s; a token reads %.1f MB of packed weights and takes %.1f M multiply-accumulates, the last of a prompt %.1f M more\n",
		r.Model, float64(r.Work.WeightBytes)/1e6, float64(r.Work.TokenMACs)/1e6, float64(r.Work.LastMACs)/1e6)
	fmt.Fprintf(out, "plan     %s; %d rounds; every figure is the median (least…most) of them\n\n", plan, r.Rounds)
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "threads\ttier\tmeasured\ttokens/s\tshare of the limit")
	for _, run := range r.Runs {
		for _, p := range run.Prompt {
			fmt.Fprintf(w, "%d\t%s\tprompt of %d\t%v\t%s\n", run.Threads, run.ISA, p.Tokens, p.TokensPerSecond, share(p.Share, "int8 multiplying"))
		}
		for _, g := range run.Generation {
			fmt.Fprintf(w, "%d\t%s\tgeneration of %d behind %d\t%v\t%s\n",
				run.Threads, run.ISA, g.Tokens, g.Depth, g.TokensPerSecond, share(g.Share, "reading, weights alone"))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "threads\tfirst load, s\tload, s\tpeak of memory\treading, GB/s\tint8, GMAC/s\thand-over, ns")
	for _, run := range r.Runs {
		fmt.Fprintf(w, "%d\t%.3f\t%v\t%d MiB\t%v\t%s\t%s\n", run.Threads, run.FirstLoad, run.Load, run.Memory.Peak>>20, run.Limits.Read,
			known(run.Limits.Multiply), known(run.Limits.HandOver))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, `
load: a fresh process from opening the file to the first token; the first one also packs the weights and keeps them for the others.
peak: most that was resident, mapped files included.
reading: a loop over a block of the weights' size, on all threads. hand-over: from one thread to another and back;
below 100 ns the processors may be two halves of one core, and a second thread then adds little.`)
	return err
}

func share(s Spread, of string) string {
	if s == (Spread{}) {
		return "-"
	}
	return fmt.Sprintf("%.0f %% (%.0f…%.0f) of %s", 100*s.Median, 100*s.Min, 100*s.Max, of)
}

func known(s Spread) string {
	if s == (Spread{}) {
		return "-"
	}
	return s.String()
}
