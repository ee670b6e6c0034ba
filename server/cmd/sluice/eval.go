package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/progress"
)

// evalFlags are what the commands that measure share.
type evalFlags struct {
	model, plan, against, againstModel string
	data, field, calibration           string
	context, stride, limit, threads    int
	asJSON                             bool
}

func (a *app) evalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "eval", Short: both("cli.eval.short"),
		Long: message.Both("cli.eval.long", "\n\n"),
	}
	cmd.AddCommand(
		a.evalText("perplexity", both("cli.eval.perplexity_short"), message.Both("cli.eval.perplexity_long", " "), "",
			eval.Perplexity, eval.BaselinePerplexity, eval.PerplexityChange),
		a.evalText("kld", both("cli.eval.kld_short"), "", "f32",
			eval.MeanKLD, eval.KLD99, eval.MaxKLD, eval.RMSDeltaP, eval.MeanDeltaLogprob, eval.MaxDeltaLogprob),
		a.evalText("agreement", both("cli.eval.agreement_short"), "", "f32",
			eval.Agreement, eval.RMSDeltaP, eval.PerplexityChange),
		a.evalEmbeddings(),
		a.evalMasking(),
	)
	return cmd
}

func (f *evalFlags) register(cmd *cobra.Command, against string) {
	cmd.Flags().StringVar(&f.plan, "plan", "native", both("cli.eval_flags.plan"))
	cmd.Flags().StringVar(&f.against, "against", against, both("cli.eval_flags.against"))
	cmd.Flags().StringVar(&f.againstModel, "against-model", "", both("cli.eval_flags.against_model"))
	cmd.Flags().StringVar(&f.calibration, "calibration", "", both("cli.eval_flags.calibration"))
	cmd.Flags().StringVar(&f.data, "data", "", both("cli.eval_flags.data"))
	cmd.Flags().StringVar(&f.field, "field", "", both("cli.eval_flags.field"))
	cmd.Flags().IntVar(&f.threads, "threads", 0, both("cli.shared.threads"))
	cmd.Flags().BoolVar(&f.asJSON, "json", false, both("cli.eval_flags.json"))
}

func (a *app) evalText(name, short, long, against string, shown ...string) *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Args: exactly(0),
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
			report, err := a.files(f, data, a.progress(a.say("cli.progress.tokens"))).Predictions(cmd.Context())
			if err != nil {
				return interrupted(err)
			}
			report.Metric = name
			return a.printEvaluation(report, f.asJSON, shown)
		},
	}
	f.register(cmd, against)
	cmd.Flags().StringVar(&f.model, "model", "", both("cli.shared.model"))
	cmd.Flags().IntVar(&f.context, "context", 512, both("cli.eval.context"))
	cmd.Flags().IntVar(&f.stride, "stride", 0, both("cli.eval.stride"))
	cmd.Flags().IntVar(&f.limit, "limit", 0, both("cli.eval.limit"))
	return cmd
}

// check reads the text before a model is loaded: mistakes in the call should not take long.
func (f *evalFlags) check() (eval.Data, error) {
	if f.data == "" {
		if f.field != "" {
			return eval.Data{}, usageError{errors.New("--field is for a file; name it with --data")}
		}
		return eval.Builtin(), nil
	}
	return eval.Load(f.data, f.field)
}

// interrupted names the end by a signal as other commands do.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return err
}

// files is what to measure, on data.
func (a *app) files(f *evalFlags, data eval.Data, progress func(done, total int)) eval.Files {
	return eval.Files{
		Model: f.model, Plan: f.plan, Calibration: f.calibration, BaselineModel: f.againstModel, BaselinePlan: f.against, Data: data,
		Context: f.context, Stride: f.stride, Limit: f.limit, Threads: f.threads, Version: version, Progress: progress,
	}
}

func (a *app) evalEmbeddings() *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use: "embeddings --model DIR", Short: both("cli.eval_embeddings.short"), Args: exactly(0),
		Long: message.Both("cli.eval_embeddings.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.model == "" {
				return usageError{errors.New("name the encoder's directory with --model; sluice models list shows those that are here")}
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
				return usageError{fmt.Errorf("--limit is %d; use a positive number, or 0 for all", f.limit)}
			}
			report, err := a.files(f, data, a.progress(a.say("cli.progress.passages"))).Vectors(cmd.Context())
			if err != nil {
				return interrupted(err)
			}
			report.Metric = "embeddings"
			return a.printEvaluation(report, f.asJSON, []string{eval.MeanCosine, eval.MinCosine})
		},
	}
	f.register(cmd, "f32")
	cmd.Flags().StringVar(&f.model, "model", "", both("cli.eval_embeddings.model"))
	cmd.Flags().IntVar(&f.limit, "limit", 0, both("cli.eval_embeddings.limit"))
	return cmd
}

// progress returns a function that keeps one line of a terminal up to date, or nil where nobody looks.
func (a *app) progress(what string) func(done, total int) {
	if !isTerminal(a.env.stderr) {
		return nil
	}
	line := progress.New(a.env.stderr, what, a.say("cli.progress.left"), time.Now)
	return func(done, total int) {
		if done >= total {
			line.Clear()
			return
		}
		line.Update(int64(done), int64(total))
	}
}
