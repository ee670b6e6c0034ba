package maskcmd

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/eval"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

type maskingFlags struct {
	set, corpus, baseline string
	asJSON, misses        bool
}

// Eval returns the command that scores the detectors.
func Eval(shared *cli.App) *cobra.Command {
	a := &app{shared}
	f := &maskingFlags{}
	cmd := &cobra.Command{
		Use: "masking", Short: cli.Both("cli.eval_masking.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.eval_masking.long", "\n\n"),
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
				Set: set, Detector: eval.Of(corpus.DefaultClasses()...), Optional: eval.Of(corpus.OptionalClasses()...), Progress: a.Progress(a.Say("cli.progress.texts")),
			})
			if err != nil {
				return cli.Interrupted(err)
			}
			return a.printMasking(f, set, report, baseline)
		},
	}
	cmd.Flags().StringVar(&f.set, "set", "gate", cli.Both("cli.eval_masking.set"))
	cmd.Flags().StringVar(&f.corpus, "corpus", "", cli.Both("cli.eval_masking.corpus"))
	cmd.Flags().StringVar(&f.baseline, "baseline", "", cli.Both("cli.eval_masking.baseline"))
	cmd.Flags().BoolVar(&f.asJSON, "json", false, cli.Both("cli.eval_masking.json"))
	cmd.Flags().BoolVar(&f.misses, "show-misses", false, cli.Both("cli.eval_masking.show_misses"))
	return cmd
}

func (f *maskingFlags) open() (corpus.Set, error) {
	if f.set != "gate" && f.set != "tune" {
		return corpus.Set{}, cli.Misuse("cli.eval_masking.no_set", f.set)
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
		err = cli.Failed("cli.eval_masking.no_documents")
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
		if err := cli.PrintJSON(a.Stdout, out); err != nil {
			return err
		}
	} else {
		a.printMaskingTables(out)
		if f.misses {
			a.printMisses(set, r)
		}
	}
	if len(out.Gates) > 0 || out.Change != nil && out.Change.Worse() {
		return cli.ErrFindings
	}
	return nil
}

func (a *app) printMaskingTables(r maskingResult) {
	cli.PrintColumns(a.Stdout, [][]string{
		{a.Say("cli.eval_masking.of_set"), fmt.Sprintf("%s (%.19s…)", r.Set, r.Digest)},
		{a.Say("cli.eval_masking.texts"), fmt.Sprint(r.Documents)},
		{
			a.Say("cli.eval_masking.negatives"), a.Say("cli.eval_masking.touched", r.Negatives.Touched,
				r.Negatives.Documents, percent(r.Negatives.Rate), percent(r.Negatives.Low), percent(r.Negatives.High)),
		},
		{a.Say("cli.eval_masking.speed"), fmt.Sprintf("%.1f MB/s", r.Throughput.MBPerSecond)},
	})
	a.printRows(a.Say("cli.shared.type"), append([]eval.Row{r.Overall}, r.Classes...))
	a.printRows(a.Say("cli.eval_masking.family"), r.Families)
	a.printRows(a.Say("cli.eval_masking.noise"), r.Noises)
	if c := r.Change; c != nil {
		a.printList(a.Say("cli.eval_masking.newly_missed"), c.NewlyMissed)
		a.printList(a.Say("cli.eval_masking.newly_touched"), c.NewlyTouched)
		a.printList(a.Say("cli.eval_masking.newly_wrong"), c.NewlyWrong)
		a.printList(a.Say("cli.eval_masking.newly_found"), c.NoLonger)
	}
	for i, g := range r.Gates {
		if i == 0 {
			fmt.Fprintf(a.Stdout, "\n%s\n", a.Say("cli.eval_masking.gates"))
		}
		fmt.Fprintln(a.Stdout, "  "+message.Quote(g.English, g.Chinese).In(a.Lang()))
	}
}

func percent(v float64) string { return fmt.Sprintf("%.2f%%", 100*v) }

func (a *app) printRows(head string, rows []eval.Row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(a.Stdout)
	table := [][]string{{
		head, a.Say("cli.eval_masking.values"), a.Say("cli.eval_masking.found"), a.Say("cli.eval_masking.in_part"), a.Say("cli.eval_masking.recall"), a.Say("cli.eval_masking.bounds"),
		a.Say("cli.eval_masking.findings"), a.Say("cli.eval_masking.precision"), "F2", a.Say("cli.eval_masking.misnamed"),
	}}
	for _, r := range rows {
		name := r.Name
		if name == "overall" {
			name = a.Say("cli.eval_masking.all")
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
	cli.PrintColumns(a.Stdout, table)
}

func (a *app) printList(head string, items []string) {
	fmt.Fprintf(a.Stdout, "\n%s: %d\n", head, len(items))
	for _, item := range items {
		fmt.Fprintln(a.Stdout, "  "+item)
	}
}

// printMisses prints every text in which something was missed or found wrongly, with what was.
func (a *app) printMisses(set corpus.Set, r eval.Report) {
	missed, wrong := byDocument(r.Missed, "#"), byDocument(r.Wrong, "@")
	for _, d := range set.Documents {
		if len(missed[d.ID])+len(wrong[d.ID]) == 0 {
			continue
		}
		fmt.Fprintf(a.Stdout, "\n%s  %s\n", d.ID, strings.ReplaceAll(marked(d), "\n", "⏎"))
		for _, m := range missed[d.ID] {
			fmt.Fprintln(a.Stdout, "  "+a.Say("cli.eval_masking.missed")+" "+m)
		}
		for _, w := range wrong[d.ID] {
			fmt.Fprintln(a.Stdout, "  "+a.Say("cli.eval_masking.wrong")+" "+w)
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
