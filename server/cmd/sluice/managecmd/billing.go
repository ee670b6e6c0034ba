package managecmd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) billingCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "billing", Aliases: []string{"bill"}, Short: cli.Both("cli.billing.short")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.AddCommand(
		a.statementCommand(&flags, &tenant), a.listStatementsCommand(&flags, &tenant), a.closeMonthCommand(&flags, &tenant),
		a.correctCommand(&flags, &tenant), a.listCorrectionsCommand(&flags, &tenant),
	)
	return cmd
}

func (a *app) statementCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var month, format, out string
	cmd := &cobra.Command{
		Use: "statement", Aliases: []string{"export"}, Short: cli.Both("cli.billing_statement.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.billing_statement.long", "\n"),
		Example: `  sluice billing statement --tenant demo --month 2026-10 --out october.pdf
  sluice billing statement --month 2026-10 --format csv > october.csv
  sluice bill export --month 2026-10 --format focus --out october.focus.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if month == "" {
				return cli.Misuse("cli.billing_statement.no_month")
			}
			if format == "" {
				format = formatOf(out)
			}
			if !slices.Contains(statement.Formats(), statement.Format(format)) {
				return cli.Misuse("cli.billing_statement.no_format", format)
			}
			return a.download(cmd.Context(), *flags, "/billing/statements/"+url.PathEscape(month)+cli.Query("tenant", *tenant, "format", format), out)
		},
	}
	cmd.Flags().StringVar(&month, "month", "", cli.Both("cli.billing_statement.month"))
	cmd.Flags().StringVar(&format, "format", "", cli.Both("cli.billing_statement.format"))
	cmd.Flags().StringVar(&out, "out", "", cli.Both("cli.billing_statement.out"))
	return cmd
}

// formatOf returns the format that the name of a file ends in, "" if there is none: focus.csv is not csv.
func formatOf(name string) string {
	found, ending := "", ""
	for _, f := range statement.Formats() {
		if e := f.Ending(); strings.HasSuffix(strings.ToLower(name), "."+e) && len(e) > len(ending) {
			found, ending = string(f), e
		}
	}
	return found
}

// download writes what a server has at a path into a file that is not there yet, or to standard output. A file that stays is whole.
func (a *app) download(ctx context.Context, flags cli.RemoteFlags, path, out string) error {
	r, err := a.Login(ctx, flags)
	if err != nil {
		return err
	}
	content, err := r.Fetch(ctx, path)
	if err != nil {
		return err
	}
	if out == "" {
		_, err := a.Stdout.Write(content)
		return err
	}
	return cli.WriteNew(out, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

func (a *app) listStatementsCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.billing_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.StatementList
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/billing/statements"+cli.Query("tenant", *tenant), nil, &out); err != nil {
				return err
			}
			rows := [][]string{{"NUMBER", "MONTH", "CLOSED", "BY", "TOTAL", "PAYABLE", "CURRENCY", "SHA-256"}}
			for _, s := range out.Items {
				rows = append(rows, []string{s.Number, s.Month, s.ClosedAt.Format(time.RFC3339), s.ClosedBy, amount(s.TotalNano), amount(s.PayableNano), s.Currency, s.Digest})
			}
			cli.PrintColumns(a.Stdout, rows)
			return nil
		},
	}
}

func (a *app) closeMonthCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "close MONTH", Short: cli.Both("cli.billing_close.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.billing_close.long", "\n"),
		Example: `  sluice billing close 2026-10 --tenant demo`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var out adminapi.StatementSummary
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/billing/statements/"+url.PathEscape(args[0])+"/close"+cli.Query("tenant", *tenant), nil, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.billing_close.done", out.Month, out.Tenant, amount(out.PayableNano), out.Currency, out.Number, out.Digest))
			return nil
		},
	}
}

func (a *app) correctCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var in adminapi.NewCorrection
	var month, request string
	cmd := &cobra.Command{
		Use: "correct AMOUNT", Short: cli.Both("cli.billing_correct.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.billing_correct.long", "\n"),
		Example: `  sluice billing correct --tenant demo --month 2026-09 --reason 'outage of 12 September' -- -12.50
  sluice billing correct --tenant demo --request 01a20301-0000-7000-8000-000000000000 --reason 'counted twice' -- -0.0031`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, less := strings.CutPrefix(args[0], "-")
			sum, err := billing.ParseMoney(text)
			if err != nil || sum == 0 {
				return cli.Misuse("cli.billing_correct.no_amount", args[0])
			}
			if less {
				sum = -sum
			}
			if strings.TrimSpace(in.Reason) == "" {
				return cli.Misuse("cli.billing_correct.no_reason")
			}
			in.AmountNano, in.Tenant, in.Month, in.Request = int64(sum), cli.IfGiven(*tenant), cli.IfGiven(month), cli.IfGiven(request)
			var out adminapi.Correction
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/billing/corrections", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.billing_correct.done", amount(out.AmountNano), out.Id))
			return nil
		},
	}
	cmd.Flags().StringVar(&month, "month", "", cli.Both("cli.billing_correct.month"))
	cmd.Flags().StringVar(&request, "request", "", cli.Both("cli.billing_correct.request"))
	cmd.Flags().StringVar(&in.Reason, "reason", "", cli.Both("cli.billing_correct.reason"))
	return cmd
}

func (a *app) listCorrectionsCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "corrections", Short: cli.Both("cli.billing_corrections.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.CorrectionList
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/billing/corrections"+cli.Query("tenant", *tenant), nil, &out); err != nil {
				return err
			}
			rows := [][]string{{"ID", "AT", "AMOUNT", "MONTH", "REQUEST", "BY", "REASON"}}
			for _, c := range out.Items {
				rows = append(rows, []string{c.Id, c.At.Format(time.RFC3339), amount(c.AmountNano), orDash(valueOr(c.Month)), orDash(valueOr(c.Request)), c.Actor, c.Reason})
			}
			cli.PrintColumns(a.Stdout, rows)
			return nil
		},
	}
}
