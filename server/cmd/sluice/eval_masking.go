package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/eval"
)

type maskingFlags struct {
	set, corpus, baseline string
	asJSON, misses        bool
}

func (a *app) evalMasking() *cobra.Command {
	f := &maskingFlags{}
	cmd := &cobra.Command{
		Use: "masking", Short: "How much of what is sensitive is found, and what else / 敏感信息识别的召回率与精确率", Args: exactly(0),
		Long: `Measures the detectors on texts whose sensitive values are known: on the set that comes with the program, or on your own with --corpus.
A value counts as found only if no character of it survives; all bounds are Wilson's at 95 %. On the built-in gate set the result is
held against the project's gates; where one is not reached, or where something is missed that --baseline found, the exit code is 3.
A corpus of your own is a JSON Lines file of {"id", "text", "spans": [{"start", "end", "type", "wellformed"}]} with offsets in characters, or a folder
with such files or with frames/SET/*.txt, negatives/SET.txt and lines/SET.txt.

在已知敏感值的文本上评测识别器：缺省使用内置评测集，也可用 --corpus 指定自己的语料。敏感值须完全遮盖才算命中；所有区间均为 95 % Wilson 区间。
内置 gate 集按项目门槛核对；未达门槛，或漏检了 --baseline 中命中的值时，退出码为 3。自有语料可为 JSON Lines 文件（偏移按字符计），
也可为文件夹，内含此类文件或 frames/SET/*.txt、negatives/SET.txt、lines/SET.txt。`,
		Example: `  sluice eval masking
  sluice eval masking --json > report.json
  sluice eval masking --baseline report.json
  sluice eval masking --corpus labelled.jsonl --show-misses`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := f.open()
			if err != nil {
				return err
			}
			var baseline *eval.Report
			if f.baseline != "" {
				if baseline, err = readBaseline(f.baseline); err != nil {
					return err
				}
			}
			report, err := eval.Run(cmd.Context(), eval.Config{
				Set: set, Detector: eval.Of(corpus.DefaultClasses()...), Quiet: eval.Of(corpus.QuietClasses()...), Progress: a.progress("texts", "篇"),
			})
			if err != nil {
				return interrupted(err)
			}
			return a.printMasking(f, set, report, baseline)
		},
	}
	cmd.Flags().StringVar(&f.set, "set", "gate", "gate, to be measured by, or tune, to work with / 评测集：gate 用于评测，tune 用于调优")
	cmd.Flags().StringVar(&f.corpus, "corpus", "", "corpus of your own: a folder or a .jsonl file / 自有语料：文件夹或 .jsonl 文件")
	cmd.Flags().StringVar(&f.baseline, "baseline", "", "report of --json to compare with / 用于比较的 --json 报告")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "as JSON, with the identifiers of all that was missed / 以 JSON 输出，含全部漏检项的标识")
	cmd.Flags().BoolVar(&f.misses, "show-misses", false, "print the texts of what was missed; not to those who tune detectors, on the gate set / 打印漏检文本（调优者不应查看 gate 集）")
	return cmd
}

func (f *maskingFlags) open() (corpus.Set, error) {
	if f.set != "gate" && f.set != "tune" {
		return corpus.Set{}, usageError{fmt.Errorf("--set is %q; want gate or tune", f.set)}
	}
	if f.corpus == "" {
		return corpus.Open(f.set)
	}
	info, err := os.Stat(f.corpus)
	if err != nil {
		return corpus.Set{}, err
	}
	if info.IsDir() {
		set, err := corpus.Load(os.DirFS(f.corpus), f.set)
		if err != nil {
			return set, fmt.Errorf("%s: %w", f.corpus, err)
		}
		return set, nil
	}
	file, err := os.Open(f.corpus)
	if err != nil {
		return corpus.Set{}, err
	}
	defer func() { _ = file.Close() }()
	documents, err := corpus.ReadDocuments(file)
	if err == nil && len(documents) == 0 {
		err = errors.New("the file holds no documents")
	}
	if err != nil {
		return corpus.Set{}, fmt.Errorf("%s: %w", f.corpus, err)
	}
	return corpus.Set{Name: "own", Documents: documents}, nil
}

func readBaseline(path string) (*eval.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	r, err := eval.ReadReport(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

// maskingResult is what --json prints: a report, which gates it misses, and what changed.
type maskingResult struct {
	eval.Report
	Gates  []eval.Failure `json:"gates_missed"`
	Change *eval.Change   `json:"change,omitempty"`
}

func (a *app) printMasking(f *maskingFlags, set corpus.Set, r eval.Report, baseline *eval.Report) error {
	out := maskingResult{Report: r, Gates: []eval.Failure{}}
	if f.set == "gate" && f.corpus == "" {
		out.Gates = append(out.Gates, eval.Published().Check(r)...)
	}
	if baseline != nil {
		change, err := r.Since(*baseline)
		if err != nil {
			return err
		}
		out.Change = &change
	}
	if f.asJSON {
		if err := printJSON(a.env.stdout, out); err != nil {
			return err
		}
	} else {
		a.printMaskingTables(out)
		if f.misses {
			a.printMisses(set, r)
		}
	}
	if len(out.Gates) > 0 || out.Change != nil && out.Change.Worse() {
		return errFindings
	}
	return nil
}

func (a *app) printMaskingTables(r maskingResult) {
	printColumns(a.env.stdout, [][]string{
		{a.say("set", "评测集"), fmt.Sprintf("%s (%.19s…)", r.Set, r.Digest)},
		{a.say("texts", "文本"), fmt.Sprint(r.Documents)},
		{
			a.say("hard negatives", "难负例"), fmt.Sprintf(a.say("%d of %d touched: %s [%s … %s]", "%d/%d 篇被误遮盖：%s [%s … %s]"), r.Negatives.Touched,
				r.Negatives.Documents, percent(r.Negatives.Rate), percent(r.Negatives.Low), percent(r.Negatives.High)),
		},
		{a.say("speed", "速度"), fmt.Sprintf("%.1f MB/s", r.Throughput.MBPerSecond)},
	})
	a.printRows(a.say("type", "类型"), append([]eval.Row{r.Overall}, r.Classes...))
	a.printRows(a.say("family", "行业"), r.Families)
	a.printRows(a.say("noise", "噪声"), r.Noises)
	if c := r.Change; c != nil {
		a.printList(a.say("missed now, found before", "新漏检"), c.NewlyMissed)
		a.printList(a.say("hard negatives touched now", "新误遮盖的难负例"), c.NewlyTouched)
		a.printList(a.say("found wrongly now", "新误检"), c.NewlyWrong)
		a.printList(a.say("found now, missed before", "不再漏检"), c.NoLonger)
	}
	for i, g := range r.Gates {
		if i == 0 {
			fmt.Fprintf(a.env.stdout, "\n%s\n", a.say("Gates not reached:", "未达门槛："))
		}
		fmt.Fprintln(a.env.stdout, "  "+a.say(g.English, g.Chinese))
	}
}

func percent(v float64) string { return fmt.Sprintf("%.2f%%", 100*v) }

func (a *app) printRows(head string, rows []eval.Row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(a.env.stdout)
	table := [][]string{{
		head, a.say("values", "敏感值"), a.say("found", "命中"), a.say("in part", "部分"), a.say("recall", "召回率"), a.say("bounds", "区间"),
		a.say("findings", "检出"), a.say("precision", "精确率"), "F2", a.say("misnamed", "类型错误"),
	}}
	for _, r := range rows {
		name := r.Name
		if name == "overall" {
			name = a.say("all", "全部")
		}
		precision := percent(r.Precision)
		if r.Findings == 0 {
			precision = "–"
		}
		table = append(table, []string{
			name, fmt.Sprint(r.Spans), fmt.Sprint(r.Hits), fmt.Sprint(r.Partial), percent(r.Recall), percent(r.Low) + "…" + percent(r.High),
			fmt.Sprint(r.Findings), precision, percent(r.F2), percent(r.WrongClassRate),
		})
	}
	printColumns(a.env.stdout, table)
}

func (a *app) printList(head string, items []string) {
	fmt.Fprintf(a.env.stdout, "\n%s: %d\n", head, len(items))
	for _, item := range items {
		fmt.Fprintln(a.env.stdout, "  "+item)
	}
}

// printMisses prints every text in which something was missed or found wrongly, with what was.
func (a *app) printMisses(set corpus.Set, r eval.Report) {
	missed, wrong := byDocument(r.Missed, "#"), byDocument(r.Wrong, "@")
	for _, d := range set.Documents {
		if len(missed[d.ID])+len(wrong[d.ID]) == 0 {
			continue
		}
		fmt.Fprintf(a.env.stdout, "\n%s  %s\n", d.ID, strings.ReplaceAll(marked(d), "\n", "⏎"))
		for _, m := range missed[d.ID] {
			fmt.Fprintln(a.env.stdout, "  "+a.say("missed", "漏检")+" "+m)
		}
		for _, w := range wrong[d.ID] {
			fmt.Fprintln(a.env.stdout, "  "+a.say("wrong", "误检")+" "+w)
		}
	}
}

// byDocument parts the identifiers of a report at the sign behind the document's.
func byDocument(items []string, sign string) map[string][]string {
	out := map[string][]string{}
	for _, item := range items {
		if i := strings.LastIndex(item, sign); i >= 0 {
			out[item[:i]] = append(out[item[:i]], item[i:])
		}
	}
	return out
}

// marked shows a document's values as the files of marked lines do.
func marked(d corpus.Document) string {
	text, out, last := []rune(d.Text), strings.Builder{}, 0
	for _, s := range d.Spans {
		out.WriteString(string(text[last:s.Start]) + "⟪" + s.Type + ":" + string(text[s.Start:s.End]) + "⟫")
		last = s.End
	}
	return out.String() + string(text[last:])
}
