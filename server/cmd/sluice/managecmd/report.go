package managecmd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) reportCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "report", Short: cli.Both("cli.report.short")}
	flags.Register(cmd, a.App)
	cmd.AddCommand(a.costReportCommand(&flags), a.costBooksCommand(&flags), a.declareCostsCommand(&flags), a.reportSLACommand(&flags))
	return cmd
}

func (a *app) costReportCommand(flags *cli.RemoteFlags) *cobra.Command {
	var month, book, before, beforeBook string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "cost", Short: cli.Both("cli.report_cost.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.report_cost.long", "\n"),
		Example: `  sluice report cost --month 2026-10
  sluice report cost --month 2026-10 --before 2026-09
  sluice report cost --month 2026-10 --book v3 --before-book v2 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if month == "" {
				return cli.Misuse("cli.energy_report.no_month")
			}
			var out adminapi.CostComparison
			path := "/cost-report" + cli.Query("month", month, "book", book, "before", before, "before_book", beforeBook)
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, path, nil, &out); err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(a.Stdout, out)
			}
			a.printCosts(out)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&month, "month", "", cli.Both("cli.energy_report.month"))
	f.StringVar(&book, "book", "", cli.Both("cli.report_cost.book"))
	f.StringVar(&before, "before", "", cli.Both("cli.report_cost.before"))
	f.StringVar(&beforeBook, "before-book", "", cli.Both("cli.report_cost.before_book"))
	f.BoolVar(&asJSON, "json", false, cli.Both("cli.energy.json"))
	return cmd
}

func (a *app) printCosts(out adminapi.CostComparison) {
	r := out.After
	fmt.Fprintln(a.Stdout, a.Say("cli.report_cost.head", r.Month, r.From.Format(time.RFC3339), r.Until.Format(time.RFC3339), r.Book, r.BookDigest, r.Currency))
	lines := [][]string{{"ENGINE", "LINE", r.Currency, "BASIS"}}
	rates := [][]string{{"ENGINE", "REQUESTS", "REPEATED", "ANSWERED", "IN TIME", "TOKENS", "PER 1M", "PER 1M IN", "PER 1M OUT", "PER ANSWER", "PER 1M IN TIME", "PER ANSWER IN TIME", "TOKENS/" + r.Currency, "UTILISATION", "MARGIN"}}
	assumed := [][]string{{"ENGINE", "DECLARED", "VALUE", "DATE", "SOURCE"}}
	for _, e := range r.Engines {
		for _, l := range e.Lines {
			lines = append(lines, []string{e.Name, string(l.Kind), a.known(l.Nano, l.AtLeastNano), a.basis(l)})
		}
		lines = append(lines, []string{e.Name, "total", a.known(e.TotalNano, e.AtLeastNano), ""})
		good := strconv.FormatInt(e.Good, 10)
		if e.Untimed > 0 {
			good = a.Say("cli.report_cost.untimed", good, e.Untimed)
		}
		rates = append(rates, []string{
			e.Name, strconv.FormatInt(e.Requests, 10), strconv.FormatInt(e.Repeated, 10), strconv.FormatInt(e.Answered, 10), good, strconv.FormatInt(e.PromptTokens+e.CompletionTokens, 10),
			rate(e.PerMillionNano), rate(e.PerMillionPromptNano), rate(e.PerMillionOutputNano), rate(e.PerAnswerNano), rate(e.PerGoodMillionNano), rate(e.PerGoodAnswerNano),
			number(e.TokensPerUnit), percentOf(e.Utilisation, 1), percentOf(e.Margin, 1),
		})
		for _, x := range e.Assumptions {
			assumed = append(assumed, []string{e.Name, x.Name, x.Value, x.Date, x.Source})
		}
	}
	for _, table := range [][][]string{lines, rates, assumed} {
		cli.PrintColumns(a.Stdout, table)
		fmt.Fprintln(a.Stdout)
	}
	if b := out.Before; b != nil {
		fmt.Fprintln(a.Stdout, a.Say("cli.report_cost.changes", b.Month, b.Book, r.Month, r.Book))
		changes := [][]string{{"ENGINE", "LINE", "BEFORE", "AFTER", "CHANGE", "OF THE TOTAL BEFORE"}}
		for _, x := range out.Changes {
			changes = append(changes, []string{x.Engine, x.Kind, rate(x.BeforeNano), rate(x.AfterNano), rate(x.ChangeNano), percentOf(x.Share, 1)})
		}
		cli.PrintColumns(a.Stdout, changes)
	}
	for _, m := range r.Unassigned {
		fmt.Fprintln(a.Stdout, a.Say("cli.report_cost.unassigned", m.Model, m.Requests, m.Tokens))
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.report_cost.note"))
	if !r.Whole {
		fmt.Fprintln(a.Stdout, a.Say("cli.report_cost.partial"))
	}
}

// known writes an amount, or what is known of it.
func (a *app) known(nano *int64, least int64) string {
	if nano == nil {
		return a.Say("cli.report_cost.at_least", amount(least))
	}
	return amount(*nano)
}

func (a *app) basis(l adminapi.CostLine) string {
	if l.Missing != nil {
		return a.Say("cli.report_cost.missing", *l.Missing)
	}
	return valueOr(l.Basis)
}

// rate writes an amount, or that it is not known.
func rate(nano *int64) string {
	if nano == nil {
		return "-"
	}
	return amount(*nano)
}

func (a *app) costBooksCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "books [VERSION]", Short: cli.Both("cli.report_books.short"), Args: cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out adminapi.PriceBookList
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/cost-books", nil, &out); err != nil {
				return err
			}
			rows := [][]string{{"VERSION", "CURRENCY", "CREATED", "BY", "ACTIVE"}}
			for _, b := range out.Items {
				if len(args) > 0 && b.Version == args[0] {
					_, err := fmt.Fprint(a.Stdout, b.Yaml)
					return err
				}
				rows = append(rows, []string{b.Version, b.Currency, b.CreatedAt.Format(time.RFC3339), b.CreatedBy, strconv.FormatBool(b.Active)})
			}
			if len(args) > 0 {
				return cli.Failed("cli.report_books.none", args[0])
			}
			cli.PrintColumns(a.Stdout, rows)
			return nil
		},
	}
}

func (a *app) declareCostsCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "declare FILE", Short: cli.Both("cli.report_declare.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.report_declare.long", "\n"),
		Example: strings.TrimSuffix(costExample, "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.declareCosts(cmd.Context(), *flags, args[0])
		},
	}
}

func (a *app) declareCosts(ctx context.Context, flags cli.RemoteFlags, file string) error {
	doc, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out adminapi.PriceBook
	if err := a.Ask(ctx, flags, http.MethodPost, "/cost-books", adminapi.NewPriceBook{Yaml: string(doc)}, &out); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.report_declare.done", out.Version))
	return nil
}

// costExample is a cost book with every figure.
const costExample = `  sluice report declare costs.yaml

  schema: 1
  currency: CNY
  effective_from: 2026-10-01T00:00:00+08:00
  zone: Asia/Shanghai
  engines:
    - name: rack-a
      models: ["glm", "qwen-*"]
      machines: {value: 2, source: inventory 14, date: 2026-09-05}
      purchase_price: {value: 480000, source: contract 7, date: 2025-12-01}
      depreciation_months: {value: 48, source: accounting rule 3, date: 2025-01-01}
      pue: {value: 1.25, source: meters of the building, date: 2026-09-30}
      idle_watts: {value: 300, source: measured on site, date: 2026-09-30}
      request_watt_hours: {value: 0.3, source: measured on site, date: 2026-09-30}   # where nobody meters
      space_month: {value: 3000, source: lease, date: 2025-06-01}
      staff_month: {value: 40000, source: plan, date: 2026-01-01}
      staff_percent: {value: 12.5, source: time sheets, date: 2026-09-30}
      prompt_tokens_second: {value: 20000, source: sluice bench, date: 2026-09-20}
      output_tokens_second: {value: 1000, source: sluice bench, date: 2026-09-20}
      slo_first_token_ms: {value: 800, source: contract 9, date: 2026-01-01}
      slo_total_ms: {value: 20000, source: contract 9, date: 2026-01-01}
      power:
        - {hours: [10, 11, 14, 15, 16, 17], value: 1.2, source: tariff, date: 2025-12-20}
        - {hours: [0, 1, 2, 3, 4, 5, 6, 7], value: 0.3, source: tariff, date: 2025-12-20}
        - {value: 0.7, source: tariff, date: 2025-12-20}
`
