package modelcmd

import (
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// printEvaluation prints the figures in the order of shown, or all of them as JSON.
func (a *app) printEvaluation(r eval.Report, asJSON bool, shown []string) error {
	if asJSON {
		return cli.PrintJSON(a.Stdout, r)
	}
	head := [][]string{{a.Say("cli.shared.of_model"), a.describeSubject(r.Model)}}
	if r.Baseline != nil {
		head = append(head, []string{a.Say("cli.eval_print.baseline"), a.describeSubject(*r.Baseline)})
	}
	scored := a.Say("cli.eval_print.windows", r.Tokens, r.Context, r.Stride)
	if r.Tokens == 0 {
		scored = a.Say("cli.eval_print.passages", r.Texts, r.Skipped)
	}
	head = append(
		head,
		[]string{a.Say("cli.eval_print.text"), fmt.Sprintf("%s (%.19s…)", r.Data.Name, r.Data.Digest)},
		[]string{a.Say("cli.eval_print.compared"), scored},
		[]string{a.Say("cli.eval_print.engine"), fmt.Sprintf("%s, %s, %.1f s", r.Engine.Version, r.Engine.ISA, r.Seconds)},
	)
	cli.PrintColumns(a.Stdout, head)
	var rows [][]string
	method := ""
	for _, name := range shown {
		i := slices.IndexFunc(r.Figures, func(f eval.Figure) bool { return f.Name == name })
		if i < 0 {
			continue // needs a baseline, and there is none
		}
		f, u := r.Figures[i], unitOf(name)
		rows = append(rows, []string{u.name.In(a.Lang()), u.show(f.Value) + u.suffix, u.interval(f.Interval)})
		if len(rows) == 1 {
			method = f.Method
		}
	}
	fmt.Fprintln(a.Stdout)
	cli.PrintColumns(a.Stdout, rows)
	fmt.Fprintln(a.Stdout, "\n"+a.Say("cli.eval_print.intervals", method))
	return nil
}

func (a *app) describeSubject(s eval.Subject) string {
	return a.Say("cli.eval_print.subject", s.File, s.Digest, s.Plan, s.Precision)
}

// unit says how people read a figure: value·scale in a format, with a suffix.
type unit struct {
	name           message.Phrase
	format, suffix string
	scale          float64
}

func (u unit) show(v float64) string { return fmt.Sprintf(u.format, v*u.scale) }

func (u unit) interval(i *[2]float64) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("[%s … %s]", u.show(i[0]), u.show(i[1]))
}

func unitOf(name string) unit {
	switch name {
	case eval.Perplexity:
		return unit{message.Say("cli.shared.perplexity"), "%.3f", "", 1}
	case eval.BaselinePerplexity:
		return unit{message.Say("cli.eval_print.baseline_perplexity"), "%.3f", "", 1}
	case eval.PerplexityChange:
		return unit{message.Say("cli.eval_print.perplexity_change"), "%+.3f", " %", 100}
	case eval.MeanKLD:
		return unit{message.Say("cli.eval_print.kld_mean"), "%.6f", " nats", 1}
	case eval.KLD99:
		return unit{message.Say("cli.eval_print.kld_99"), "%.6f", " nats", 1}
	case eval.MaxKLD:
		return unit{message.Say("cli.eval_print.kld_max"), "%.6f", " nats", 1}
	case eval.Agreement:
		return unit{message.Say("cli.eval_print.agreement"), "%.2f", " %", 100}
	case eval.RMSDeltaP:
		return unit{message.Say("cli.eval_print.probability_rms"), "%.3f", " %", 100}
	case eval.MeanDeltaLogprob:
		return unit{message.Say("cli.eval_print.logprob_mean"), "%.4f", " nats", 1}
	case eval.MaxDeltaLogprob:
		return unit{message.Say("cli.eval_print.logprob_max"), "%.4f", " nats", 1}
	case eval.MeanCosine:
		return unit{message.Say("cli.eval_print.cosine_mean"), "%.6f", "", 1}
	case eval.MinCosine:
		return unit{message.Say("cli.eval_print.cosine_min"), "%.6f", "", 1}
	}
	return unit{message.Quote(name, name), "%g", "", 1}
}
