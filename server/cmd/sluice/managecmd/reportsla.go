package managecmd

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/sla"
)

func (a *app) reportSLACommand(flags *cli.RemoteFlags) *cobra.Command {
	var month, tenant, model, class, format, out string
	cmd := &cobra.Command{
		Use: "sla", Short: cli.Both("cli.report_sla.short"), Long: message.Both("cli.report_sla.long", "\n"), Args: cli.Exactly(0),
		Example: `  sluice report sla --month 2026-11
  sluice report sla --month 2026-11 --tenant "*" --out november.pdf`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if month == "" {
				return cli.Misuse("cli.report_sla.no_month")
			}
			switch {
			case format != "":
			case out == "":
				format = "table"
			default:
				format = strings.TrimPrefix(strings.ToLower(filepath.Ext(out)), ".")
			}
			path := "/sla" + cli.Query("month", month, "tenant", tenant, "model", model, "class", class)
			if format == "table" && out == "" {
				var r sla.Report
				if err := a.Ask(cmd.Context(), *flags, http.MethodGet, path, nil, &r); err != nil {
					return err
				}
				a.printSLA(r)
				return nil
			}
			if !slices.Contains([]string{"csv", "json", "md", "pdf", "docx"}, format) {
				return cli.Misuse("cli.report_sla.no_format", format)
			}
			return a.download(cmd.Context(), *flags, path+"&format="+format, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&month, "month", "", cli.Both("cli.report_sla.month"))
	f.StringVar(&tenant, "tenant", "", cli.Both("cli.report_sla.tenant"))
	f.StringVar(&model, "model", "", cli.Both("cli.report_sla.model"))
	f.StringVar(&class, "class", "", cli.Both("cli.report_sla.class"))
	f.StringVar(&format, "format", "", cli.Both("cli.report_sla.format"))
	f.StringVar(&out, "out", "", cli.Both("cli.report_sla.out"))
	return cmd
}

// printSLA prints a row for each line and one for the total. What is not known is a dash.
func (a *app) printSLA(r sla.Report) {
	at := func(t time.Time) string { return t.Format("2006-01-02 15:04Z07:00") }
	fmt.Fprintln(a.Stdout, a.Say("cli.report_sla.head", at(r.From), at(r.To), r.HoursWithTraffic, r.HoursOver, at(r.BudgetFrom)))
	rows := [][]string{{
		a.Say("sla.line"), a.Say("sla.requests"), a.Say("sla.failures"), a.Say("sla.availability"), a.Say("sla.budget_left"), a.Say("sla.goodput"),
		a.Say("sla.of_first_token") + " P95", "P99", "P99.9", a.Say("sla.of_total") + " P95", "P99", "P99.9", a.Say("sla.jitter"),
	}}
	for i, l := range append(slices.Clone(r.Lines), r.Total) {
		of := "-"
		switch {
		case i == len(r.Lines):
			of = a.Say("sla.total")
		case l.Model != nil && *l.Model != "":
			of = *l.Model
		}
		left := "-"
		if b := slices.IndexFunc(l.Budgets, func(b sla.Budget) bool { return b.Of == "availability" }); b >= 0 {
			left = percentOf(l.Budgets[b].Left, 1)
		}
		row := []string{of, strconv.FormatInt(l.Requests, 10), strconv.FormatInt(l.Failures, 10), percentOf(l.Availability, 4), left, number(l.Goodput)}
		for _, s := range []*sla.Spread{l.FirstToken, l.Total} {
			if s == nil {
				row = append(row, "-", "-", "-")
				continue
			}
			for _, us := range []int64{s.P95, s.P99, s.P999} {
				row = append(row, strconv.FormatFloat(float64(us)/1000, 'f', 1, 64)+" ms")
			}
		}
		jitter := "-"
		if l.FirstToken != nil && l.FirstToken.Jitter != nil {
			jitter = strconv.FormatFloat(*l.FirstToken.Jitter, 'f', 2, 64)
		}
		rows = append(rows, append(row, jitter))
	}
	cli.PrintColumns(a.Stdout, rows)
}

// percentOf writes a share with some digits behind the point, or that it is not known.
func percentOf(share *float64, digits int) string {
	if share == nil {
		return "-"
	}
	return strconv.FormatFloat(100**share, 'f', digits, 64) + "%"
}
