package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/engine/prune"
	"github.com/sluice-project/sluice/internal/message"
)

// pruneFlags say what to leave out and how to tell what that costs.
type pruneFlags struct {
	out              string
	options          prune.Options
	calibrate, data  string
	field            string
	measure, threads int
	asJSON           bool
}

func (a *app) modelsPruneCommand() *cobra.Command {
	p := &pruneFlags{}
	cmd := &cobra.Command{
		Use: "prune MODEL --out FILE", Short: both("cli.models_prune.short"), Args: exactly(1),
		Long: message.Both("cli.models_prune.long", "\n\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.out == "" {
				return usageError{errors.New("name the new file with --out")}
			}
			if p.options.Heads == 0 && p.options.FFN == 0 {
				return usageError{errors.New("say how many heads or channels each layer keeps, with --heads or --ffn; sluice models inspect shows how many there are")}
			}
			path, err := a.modelPath(args[0])
			if err != nil {
				return err
			}
			if err := a.preparePruning(cmd.Context(), p, path); err != nil {
				return interrupted(err)
			}
			report, err := prune.Prune(path, p.out, p.options)
			if err != nil {
				return interrupted(err)
			}
			if p.asJSON {
				return printJSON(a.env.stdout, report)
			}
			a.printPruning(p.out, report)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.out, "out", "", both("cli.models_prune.out"))
	f.IntVar(&p.options.Heads, "heads", 0, both("cli.models_prune.heads"))
	f.IntVar(&p.options.FFN, "ffn", 0, both("cli.models_prune.ffn"))
	f.BoolVar(&p.options.SameFormat, "same-format", false, both("cli.models_prune.same_format"))
	f.StringVar(&p.calibrate, "calibrate", "", both("cli.models_prune.calibrate"))
	f.StringVar(&p.data, "data", "", both("cli.models_prune.data"))
	f.StringVar(&p.field, "field", "", both("cli.models_prune.field"))
	f.IntVar(&p.measure, "measure", 1000, both("cli.models_prune.measure"))
	f.IntVar(&p.threads, "threads", 0, both("cli.shared.threads"))
	f.BoolVar(&p.asJSON, "json", false, both("cli.shared.json"))
	return cmd
}

// preparePruning reads the texts, and the activations on the one for calibration.
func (a *app) preparePruning(ctx context.Context, p *pruneFlags, path string) error {
	texts := evalFlags{data: p.data, threads: p.threads}
	if p.data != "" {
		texts.field = p.field
	}
	data, err := texts.check()
	if err != nil {
		return err
	}
	if p.measure < 0 {
		return usageError{fmt.Errorf("--measure is %d; use a positive number, or 0 to measure nothing", p.measure)}
	}
	if p.measure > 0 {
		p.options.Measure = func(path string) (float64, error) {
			return eval.PerplexityOf(ctx, path, p.threads, data, p.measure, a.progress(a.say("cli.progress.tokens")))
		}
	}
	if p.calibrate == "" {
		return nil
	}
	text, err := eval.Load(p.calibrate, p.field)
	if err != nil {
		return err
	}
	p.options.Importance, err = eval.Importance(ctx, path, p.threads, text, a.progress(a.say("cli.progress.tokens")))
	return err
}

func (a *app) printPruning(out string, r prune.Report) {
	change := func(what string, before, after int64) []string {
		return []string{what, fmt.Sprintf("%d → %d", before, after), fmt.Sprintf("%+.1f %%", 100*(float64(after)/float64(before)-1))}
	}
	b, n := r.Before, r.After
	rows := [][]string{
		change(a.say("cli.models_prune.heads_kept"), int64(b.Heads), int64(n.Heads)),
		change(a.say("cli.models_prune.channels_kept"), int64(b.FFN), int64(n.FFN)),
		change(a.say("cli.models.parameters"), b.Parameters, n.Parameters),
		change(a.say("cli.models_prune.bytes"), b.Bytes, n.Bytes),
	}
	if r.PerplexityAfter > 0 {
		rows = append(rows, []string{
			a.say("cli.shared.perplexity"), fmt.Sprintf("%.3f → %.3f", r.PerplexityBefore, r.PerplexityAfter),
			fmt.Sprintf("%+.1f %%", 100*(r.PerplexityAfter/r.PerplexityBefore-1)),
		})
	}
	rows = append(
		rows,
		[]string{a.say("cli.models_prune.importance"), a.say("cli.models_prune.shares", 100*r.HeadsKept.Mean, 100*r.FFNKept.Mean, r.Importance)},
		[]string{a.say("cli.models_prune.rounded"), a.say("cli.models_prune.tensors", len(r.Requantised))},
		[]string{a.say("cli.models.file"), out},
		[]string{a.say("cli.models.digest"), r.Digest},
	)
	printColumns(a.env.stdout, rows)
}
