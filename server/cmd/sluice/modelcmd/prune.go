package modelcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/engine/prune"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
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
		Use: "prune MODEL --out FILE", Short: cli.Both("cli.models_prune.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.models_prune.long", "\n\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.out == "" {
				return cli.Misuse("cli.models_prune.no_out")
			}
			if p.options.Heads == 0 && p.options.FFN == 0 {
				return cli.Misuse("cli.models_prune.nothing_to_prune")
			}
			path, err := a.modelPath(args[0])
			if err != nil {
				return err
			}
			if err := a.preparePruning(cmd.Context(), p, path); err != nil {
				return cli.Interrupted(err)
			}
			report, err := prune.Prune(path, p.out, p.options)
			if err != nil {
				return cli.Interrupted(err)
			}
			if p.asJSON {
				return cli.PrintJSON(a.Stdout, report)
			}
			a.printPruning(p.out, report)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.out, "out", "", cli.Both("cli.models_prune.out"))
	f.IntVar(&p.options.Heads, "heads", 0, cli.Both("cli.models_prune.heads"))
	f.IntVar(&p.options.FFN, "ffn", 0, cli.Both("cli.models_prune.ffn"))
	f.BoolVar(&p.options.SameFormat, "same-format", false, cli.Both("cli.models_prune.same_format"))
	f.StringVar(&p.calibrate, "calibrate", "", cli.Both("cli.models_prune.calibrate"))
	f.StringVar(&p.data, "data", "", cli.Both("cli.models_prune.data"))
	f.StringVar(&p.field, "field", "", cli.Both("cli.models_prune.field"))
	f.IntVar(&p.measure, "measure", 1000, cli.Both("cli.models_prune.measure"))
	f.IntVar(&p.threads, "threads", 0, cli.Both("cli.shared.threads"))
	f.BoolVar(&p.asJSON, "json", false, cli.Both("cli.shared.json"))
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
		return cli.Misuse("cli.models_prune.negative_measure", p.measure)
	}
	if p.measure > 0 {
		p.options.Measure = func(path string) (float64, error) {
			return eval.PerplexityOf(ctx, path, p.threads, data, p.measure, a.Progress(a.Say("cli.progress.tokens")))
		}
	}
	if p.calibrate == "" {
		return nil
	}
	text, err := eval.Load(p.calibrate, p.field)
	if err != nil {
		return err
	}
	p.options.Importance, err = eval.Importance(ctx, path, p.threads, text, a.Progress(a.Say("cli.progress.tokens")))
	return err
}

func (a *app) printPruning(out string, r prune.Report) {
	change := func(what string, before, after int64) []string {
		return []string{what, fmt.Sprintf("%d → %d", before, after), fmt.Sprintf("%+.1f %%", 100*(float64(after)/float64(before)-1))}
	}
	b, n := r.Before, r.After
	rows := [][]string{
		change(a.Say("cli.models_prune.heads_kept"), int64(b.Heads), int64(n.Heads)),
		change(a.Say("cli.models_prune.channels_kept"), int64(b.FFN), int64(n.FFN)),
		change(a.Say("cli.models.parameters"), b.Parameters, n.Parameters),
		change(a.Say("cli.models_prune.bytes"), b.Bytes, n.Bytes),
	}
	if r.PerplexityAfter > 0 {
		rows = append(rows, []string{
			a.Say("cli.shared.perplexity"), fmt.Sprintf("%.3f → %.3f", r.PerplexityBefore, r.PerplexityAfter),
			fmt.Sprintf("%+.1f %%", 100*(r.PerplexityAfter/r.PerplexityBefore-1)),
		})
	}
	rows = append(
		rows,
		[]string{a.Say("cli.models_prune.importance"), a.Say("cli.models_prune.shares", 100*r.HeadsKept.Mean, 100*r.FFNKept.Mean, r.Importance)},
		[]string{a.Say("cli.models_prune.rounded"), a.Say("cli.models_prune.tensors", len(r.Requantised))},
		[]string{a.Say("cli.models.file"), out},
		[]string{a.Say("cli.models.digest"), r.Digest},
	)
	cli.PrintColumns(a.Stdout, rows)
}
