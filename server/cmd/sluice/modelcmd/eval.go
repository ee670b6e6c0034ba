package modelcmd

import (
	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// evalFlags are what the commands that measure share.
type evalFlags struct {
	model, plan, against, againstModel string
	data, field, calibration           string
	context, stride, limit, threads    int
	asJSON                             bool
}

// Eval returns the commands that measure quality, others among them.
func Eval(shared *cli.App, others ...*cobra.Command) *cobra.Command {
	a := &app{shared}
	cmd := &cobra.Command{
		Use: "eval", Short: cli.Both("cli.eval.short"),
		Long: message.Both("cli.eval.long", "\n\n"),
	}
	cmd.AddCommand(
		a.evalText("perplexity", cli.Both("cli.eval.perplexity_short"), message.Both("cli.eval.perplexity_long", " "), "",
			eval.Perplexity, eval.BaselinePerplexity, eval.PerplexityChange),
		a.evalText("kld", cli.Both("cli.eval.kld_short"), "", "f32",
			eval.MeanKLD, eval.KLD99, eval.MaxKLD, eval.RMSDeltaP, eval.MeanDeltaLogprob, eval.MaxDeltaLogprob),
		a.evalText("agreement", cli.Both("cli.eval.agreement_short"), "", "f32",
			eval.Agreement, eval.RMSDeltaP, eval.PerplexityChange),
		a.evalEmbeddings(),
	)
	cmd.AddCommand(others...)
	return cmd
}

func (f *evalFlags) register(cmd *cobra.Command, against string) {
	cmd.Flags().StringVar(&f.plan, "plan", "native", cli.Both("cli.eval_flags.plan"))
	cmd.Flags().StringVar(&f.against, "against", against, cli.Both("cli.eval_flags.against"))
	cmd.Flags().StringVar(&f.againstModel, "against-model", "", cli.Both("cli.eval_flags.against_model"))
	cmd.Flags().StringVar(&f.calibration, "calibration", "", cli.Both("cli.eval_flags.calibration"))
	cmd.Flags().StringVar(&f.data, "data", "", cli.Both("cli.eval_flags.data"))
	cmd.Flags().StringVar(&f.field, "field", "", cli.Both("cli.eval_flags.field"))
	cmd.Flags().IntVar(&f.threads, "threads", 0, cli.Both("cli.shared.threads"))
	cmd.Flags().BoolVar(&f.asJSON, "json", false, cli.Both("cli.eval_flags.json"))
}

func (a *app) evalText(name, short, long, against string, shown ...string) *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := f.check()
			if err != nil {
				return err
			}
			if f.model == "" {
				f.model, err = a.defaultModel()
			} else {
				f.model, err = a.modelPath(f.model)
			}
			if err == nil && f.againstModel != "" {
				f.againstModel, err = a.modelPath(f.againstModel)
			}
			if err != nil {
				return err
			}
			if f.againstModel != "" && f.against == "" {
				f.against = "f32"
			}
			report, err := a.files(f, data, a.Progress(a.Say("cli.progress.tokens"))).Predictions(cmd.Context())
			if err != nil {
				return cli.Interrupted(err)
			}
			report.Metric = name
			return a.printEvaluation(report, f.asJSON, shown)
		},
	}
	f.register(cmd, against)
	cmd.Flags().StringVar(&f.model, "model", "", cli.Both("cli.shared.model"))
	cmd.Flags().IntVar(&f.context, "context", 512, cli.Both("cli.eval.context"))
	cmd.Flags().IntVar(&f.stride, "stride", 0, cli.Both("cli.eval.stride"))
	cmd.Flags().IntVar(&f.limit, "limit", 0, cli.Both("cli.eval.limit"))
	return cmd
}

// check reads the text before a model is loaded: mistakes in the call should not take long.
func (f *evalFlags) check() (eval.Data, error) {
	if f.data == "" {
		if f.field != "" {
			return eval.Data{}, cli.Misuse("cli.eval.field_without_data")
		}
		return eval.Builtin(), nil
	}
	return eval.Load(f.data, f.field)
}

// files is what to measure, on data.
func (a *app) files(f *evalFlags, data eval.Data, progress func(done, total int)) eval.Files {
	return eval.Files{
		Model: f.model, Plan: f.plan, Calibration: f.calibration, BaselineModel: f.againstModel, BaselinePlan: f.against, Data: data,
		Context: f.context, Stride: f.stride, Limit: f.limit, Threads: f.threads, Version: a.Version, Progress: progress,
	}
}

func (a *app) evalEmbeddings() *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use: "embeddings --model DIR", Short: cli.Both("cli.eval_embeddings.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.eval_embeddings.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.model == "" {
				return cli.Misuse("cli.eval_embeddings.no_model")
			}
			path, err := a.modelPath(f.model)
			if err != nil {
				return err
			}
			f.model = path
			if f.againstModel != "" {
				if f.againstModel, err = a.modelPath(f.againstModel); err != nil {
					return err
				}
			}
			data, err := f.check()
			if err != nil {
				return err
			}
			if f.limit < 0 {
				return cli.Misuse("cli.eval_embeddings.negative_limit", f.limit)
			}
			report, err := a.files(f, data, a.Progress(a.Say("cli.progress.passages"))).Vectors(cmd.Context())
			if err != nil {
				return cli.Interrupted(err)
			}
			report.Metric = "embeddings"
			return a.printEvaluation(report, f.asJSON, []string{eval.MeanCosine, eval.MinCosine})
		},
	}
	f.register(cmd, "f32")
	cmd.Flags().StringVar(&f.model, "model", "", cli.Both("cli.eval_embeddings.model"))
	cmd.Flags().IntVar(&f.limit, "limit", 0, cli.Both("cli.eval_embeddings.limit"))
	return cmd
}
