package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/engine/prune"
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
		Use: "prune MODEL --out FILE", Short: "Write a smaller model file without its least important parts / 结构化剪枝", Args: exactly(1),
		Long: `Leaves out attention heads and feed-forward channels of a GGUF file, in every layer as many, and measures the perplexity before
and after. With --calibrate, what matters is judged by what the model does on that text, else by its weights alone. The result is
a plain GGUF file. Pruning costs quality; look at the figures before you use it.

从 GGUF 文件中去掉不重要的注意力头和前馈通道（每层数量相同），并测量剪枝前后的困惑度。用 --calibrate 指定校准文本时按模型在该文本上的
激活判断重要性，否则仅按权重判断。结果是普通的 GGUF 文件。剪枝会降低质量，使用前请查看数值。`,
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
	f.StringVar(&p.out, "out", "", "the new file / 输出文件")
	f.IntVar(&p.options.Heads, "heads", 0, "attention heads that each layer keeps; 0: all / 每层保留的注意力头数")
	f.IntVar(&p.options.FFN, "ffn", 0, "feed-forward channels that each layer keeps; 0: all / 每层保留的前馈通道数")
	f.BoolVar(&p.options.SameFormat, "same-format", false, "round what is not copied into its old format instead of Q8_0 / 重新量化时沿用原格式")
	f.StringVar(&p.calibrate, "calibrate", "", "text or JSONL file that shows what matters / 校准文本")
	f.StringVar(&p.data, "data", "", "text or JSONL file to measure on (default: built in) / 评测文本")
	f.StringVar(&p.field, "field", "", "field of JSONL objects that holds the text (default: text) / JSONL 中的文本字段")
	f.IntVar(&p.measure, "measure", 1000, "tokens to measure on; 0: do not measure / 评测词元数")
	f.IntVar(&p.threads, "threads", 0, "threads that compute; 0: all processors / 计算线程数")
	f.BoolVar(&p.asJSON, "json", false, "as JSON / 以 JSON 输出")
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
			return eval.PerplexityOf(ctx, path, p.threads, data, p.measure, a.progress("tokens", "词元"))
		}
	}
	if p.calibrate == "" {
		return nil
	}
	text, err := eval.Load(p.calibrate, p.field)
	if err != nil {
		return err
	}
	p.options.Importance, err = eval.Importance(ctx, path, p.threads, text, a.progress("tokens", "词元"))
	return err
}

func (a *app) printPruning(out string, r prune.Report) {
	change := func(what, chinese string, before, after int64) []string {
		return []string{a.say(what, chinese), fmt.Sprintf("%d → %d", before, after), fmt.Sprintf("%+.1f %%", 100*(float64(after)/float64(before)-1))}
	}
	b, n := r.Before, r.After
	rows := [][]string{
		change("heads a layer", "每层注意力头", int64(b.Heads), int64(n.Heads)),
		change("channels a layer", "每层前馈通道", int64(b.FFN), int64(n.FFN)),
		change("parameters", "参数量", b.Parameters, n.Parameters),
		change("bytes", "字节", b.Bytes, n.Bytes),
	}
	if r.PerplexityAfter > 0 {
		rows = append(rows, []string{
			a.say("perplexity", "困惑度"), fmt.Sprintf("%.3f → %.3f", r.PerplexityBefore, r.PerplexityAfter),
			fmt.Sprintf("%+.1f %%", 100*(r.PerplexityAfter/r.PerplexityBefore-1)),
		})
	}
	rows = append(
		rows,
		[]string{a.say("importance kept", "保留的重要性"), fmt.Sprintf(a.say("heads %.1f %%, channels %.1f %%, by %s", "注意力头 %.1f %%，前馈通道 %.1f %%，依据 %s"), 100*r.HeadsKept.Mean, 100*r.FFNKept.Mean, r.Importance)},
		[]string{a.say("rounded again", "重新量化"), strconv.Itoa(len(r.Requantised)) + a.say(" tensors", " 个张量")},
		[]string{a.say("file", "文件"), out},
		[]string{a.say("digest", "摘要"), r.Digest},
	)
	printColumns(a.env.stdout, rows)
}
