package main

import (
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/engine/eval"
)

// printEvaluation prints the figures in the order of shown, or all of them as JSON.
func (a *app) printEvaluation(r eval.Report, asJSON bool, shown []string) error {
	if asJSON {
		return printJSON(a.env.stdout, r)
	}
	head := [][]string{{a.say("model", "模型"), describeSubject(r.Model)}}
	if r.Baseline != nil {
		head = append(head, []string{a.say("baseline", "基准"), describeSubject(*r.Baseline)})
	}
	scored := fmt.Sprintf(a.say("%d tokens in windows of %d, one every %d", "%d 个词元，窗口 %d，步长 %d"), r.Tokens, r.Context, r.Stride)
	if r.Tokens == 0 {
		scored = fmt.Sprintf(a.say("%d passages; %d left out, too long for the model", "%d 段；%d 段超长略过"), r.Texts, r.Skipped)
	}
	head = append(
		head,
		[]string{a.say("text", "文本"), fmt.Sprintf("%s (%.19s…)", r.Data.Name, r.Data.Digest)},
		[]string{a.say("compared", "范围"), scored},
		[]string{a.say("engine", "引擎"), fmt.Sprintf("%s, %s, %.1f s", r.Engine.Version, r.Engine.ISA, r.Seconds)},
	)
	printColumns(a.env.stdout, head)
	var rows [][]string
	method := a.say("Intervals: 95 %, ", "95 % 置信区间：")
	for _, name := range shown {
		i := slices.IndexFunc(r.Figures, func(f eval.Figure) bool { return f.Name == name })
		if i < 0 {
			continue // needs a baseline, and there is none
		}
		f, u := r.Figures[i], unitOf(name)
		rows = append(rows, []string{a.say(u.english, u.chinese), u.show(f.Value) + u.suffix, u.interval(f.Interval)})
		if len(rows) == 1 {
			method += f.Method
		}
	}
	fmt.Fprintln(a.env.stdout)
	printColumns(a.env.stdout, rows)
	fmt.Fprintf(a.env.stdout, "\n%s\n", method)
	return nil
}

func describeSubject(s eval.Subject) string {
	return fmt.Sprintf("%s (%.19s…), plan %s (%s)", s.File, s.Digest, s.Plan, s.Precision)
}

// unit says how people read a figure: value·scale in a format, with a suffix.
type unit struct {
	english, chinese string
	format, suffix   string
	scale            float64
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
		return unit{"perplexity", "困惑度", "%.3f", "", 1}
	case eval.BaselinePerplexity:
		return unit{"perplexity of the baseline", "基准困惑度", "%.3f", "", 1}
	case eval.PerplexityChange:
		return unit{"change of perplexity", "困惑度变化", "%+.3f", " %", 100}
	case eval.MeanKLD:
		return unit{"mean KL divergence", "平均 KL 散度", "%.6f", " nats", 1}
	case eval.KLD99:
		return unit{"99th percentile of it", "KL 散度 99 分位", "%.6f", " nats", 1}
	case eval.MaxKLD:
		return unit{"largest KL divergence", "最大 KL 散度", "%.6f", " nats", 1}
	case eval.Agreement:
		return unit{"same likeliest token", "首选词元一致率", "%.2f", " %", 100}
	case eval.RMSDeltaP:
		return unit{"RMS change of the token's probability", "词元概率变化（均方根）", "%.3f", " %", 100}
	case eval.MeanDeltaLogprob:
		return unit{"mean change of its log-probability", "对数概率变化（平均）", "%.4f", " nats", 1}
	case eval.MaxDeltaLogprob:
		return unit{"largest change of its log-probability", "对数概率变化（最大）", "%.4f", " nats", 1}
	case eval.MeanCosine:
		return unit{"mean cosine", "平均余弦", "%.6f", "", 1}
	case eval.MinCosine:
		return unit{"smallest cosine", "最小余弦", "%.6f", "", 1}
	}
	return unit{name, name, "%g", "", 1}
}
