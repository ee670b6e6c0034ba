package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/eval"
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
		Use: "eval", Short: "Measure precision plans of models, and the masking / 评测模型精度方案与脱敏效果",
		Long: `sluice eval masking measures the detectors of sensitive values; the other commands measure a model file on a text: on your own with --data, else on a short one in English and Chinese that comes with the
program. Plans: native (the file's own), int8, both with -kv8 behind for keys and values in eight bits, f16, f32; "int8,head=i8" sets
single classes. Every figure has a 95 % confidence interval; --json prints all of them with what they were measured on.

sluice eval masking 评测敏感信息识别；其余命令在文本上评测模型文件：用 --data 指定自己的文本，缺省使用内置的中英文短文。精度方案：native（文件自身）、int8（加 -kv8 则键值缓存
也用八位）、f16、f32；"int8,head=i8" 可单独指定某类权重。每个数值都带 95 % 置信区间；--json 输出全部数值及其评测条件。`,
	}
	cmd.AddCommand(
		a.evalText("perplexity", "How well the model predicts the text / 困惑度", `Without --against only the model itself is measured. 不带 --against 时只评测模型本身。`, "",
			eval.Perplexity, eval.BaselinePerplexity, eval.PerplexityChange),
		a.evalText("kld", "How far the predictions move from a baseline / 与基准的 KL 散度", "", "f32",
			eval.MeanKLD, eval.KLD99, eval.MaxKLD, eval.RMSDeltaP, eval.MeanDeltaLogprob, eval.MaxDeltaLogprob),
		a.evalText("agreement", "How often the likeliest token is the baseline's / 首选词元一致率", "", "f32",
			eval.Agreement, eval.RMSDeltaP, eval.PerplexityChange),
		a.evalEmbeddings(),
		a.evalMasking(),
	)
	return cmd
}

func (f *evalFlags) register(cmd *cobra.Command, against string) {
	cmd.Flags().StringVar(&f.plan, "plan", "native", "precision plan to measure / 待评测的精度方案")
	cmd.Flags().StringVar(&f.against, "against", against, "precision plan of the baseline / 基准的精度方案")
	cmd.Flags().StringVar(&f.againstModel, "against-model", "", "model of the baseline (default: the same) / 基准模型")
	cmd.Flags().StringVar(&f.calibration, "calibration", "", "text file by which int8 weights of --plan are rounded / 校准文本文件")
	cmd.Flags().StringVar(&f.data, "data", "", "UTF-8 text, or JSON objects line by line (.jsonl) (default: built in) / 文本或 JSONL 文件")
	cmd.Flags().StringVar(&f.field, "field", "", "field of the objects that holds the text (default: text) / JSONL 中的文本字段")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads that compute; 0: all processors / 计算线程数")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "as JSON, all figures / 以 JSON 输出全部数值")
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
			report, err := a.files(f, data, a.progress("tokens", "词元")).Predictions(cmd.Context())
			if err != nil {
				return interrupted(err)
			}
			report.Metric = name
			return a.printEvaluation(report, f.asJSON, shown)
		},
	}
	f.register(cmd, against)
	cmd.Flags().StringVar(&f.model, "model", "", "model file, or its name in sluice models list; without it the model of the configuration / 模型文件或名称，默认取配置中的模型")
	cmd.Flags().IntVar(&f.context, "context", 512, "tokens of a window / 窗口词元数")
	cmd.Flags().IntVar(&f.stride, "stride", 0, "tokens from one window to the next (default: half a window) / 窗口步长")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "tokens to score; 0: all / 评测词元数上限")
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
		Use: "embeddings --model DIR", Short: "How far an encoder's vectors turn from a baseline's / 向量与基准的余弦相似度", Args: exactly(0),
		Long: `Compares the vectors of each passage: of a text the paragraphs, which end at empty lines. Passages that are too long for the
model are left out and counted. 逐段比较向量：文本按空行分段，超出模型长度的段落会被略过并计数。`,
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
			report, err := a.files(f, data, a.progress("texts", "段")).Vectors(cmd.Context())
			if err != nil {
				return interrupted(err)
			}
			report.Metric = "embeddings"
			return a.printEvaluation(report, f.asJSON, []string{eval.MeanCosine, eval.MinCosine})
		},
	}
	f.register(cmd, "f32")
	cmd.Flags().StringVar(&f.model, "model", "", "directory of the encoder, or its name in sluice models list / 向量模型的目录或名称")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "passages to compare; 0: all / 段落数上限")
	return cmd
}

// progress returns a function that keeps one line of a terminal up to date, or nil where nobody looks.
func (a *app) progress(english, chinese string) func(done, total int) {
	if !isTerminal(a.env.stderr) {
		return nil
	}
	line := progress.New(a.env.stderr, a.say(english, chinese), a.say("left", "剩余"), time.Now)
	return func(done, total int) {
		if done >= total {
			line.Clear()
			return
		}
		line.Update(int64(done), int64(total))
	}
}
