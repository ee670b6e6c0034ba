package managecmd

import (
	"encoding/json"
	"fmt"
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
			if format == "" {
				format = strings.TrimPrefix(strings.ToLower(filepath.Ext(out)), ".")
			}
			if format == "" {
				format = "table"
			}
			if !slices.Contains([]string{"table", "csv", "json", "md", "pdf", "docx"}, format) {
				return cli.Misuse("cli.report_sla.no_format", format)
			}
			asked := format
			if format == "table" {
				asked = "json"
			}
			path := "/sla" + cli.Query("month", month, "tenant", tenant, "model", model, "class", class, "format", asked)
			if format != "table" {
				return a.download(cmd.Context(), *flags, path, out)
			}
			remote, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			content, err := remote.Fetch(cmd.Context(), path)
			if err != nil {
				return err
			}
			var r sla.Report
			if err := json.Unmarshal(content, &r); err != nil {
				return fmt.Errorf("read the report: %w", err)
			}
			return a.printSLA(r)
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
func (a *app) printSLA(r sla.Report) error {
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
	return nil
}

func percentOf(share *float64, digits int) string {
	if share == nil {
		return "-"
	}
	return strconv.FormatFloat(100**share, 'f', digits, 64) + "%"
}
