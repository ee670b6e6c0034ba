package auditcmd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// shownFindings bounds what the command lists.
const shownFindings = 1000

func (a *app) reconcileCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "reconcile", Short: cli.Both("cli.reconcile.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.reconcile.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			found, err := server.Reconcile(cmd.Context(), cfg, shownFindings, log)
			if err != nil {
				return err
			}
			return a.printReconciliation(found, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.reconcile.json"))
	return cmd
}

func (a *app) printReconciliation(r adminapi.Reconciliation, asJSON bool) error {
	open := int64(0)
	for _, n := range r.Open {
		open += n
	}
	if asJSON {
		if err := cli.PrintJSON(a.Stdout, r); err != nil {
			return err
		}
	} else {
		currency := ""
		if r.Currency != nil {
			currency = *r.Currency
		}
		fmt.Fprintln(a.Stdout, a.Say("cli.reconcile.summary", *r.Hours, *r.Repaired, open))
		for _, f := range r.Items {
			fmt.Fprintf(a.Stdout, "  %s\n", a.describeFinding(f, currency))
		}
		if int64(len(r.Items)) < open {
			fmt.Fprintln(a.Stdout, "  "+a.Say("cli.shared.and_more"))
		}
	}
	if open > 0 {
		return cli.ErrFindings
	}
	return nil
}

// describeFinding puts a finding into one line.
func (a *app) describeFinding(f adminapi.ReconciliationFinding, currency string) string {
	item := strconv.Quote(f.Item)
	what, ok := map[string]string{
		"unfinished": a.Say("cli.reconcile.unfinished", item),
		"unadmitted": a.Say("cli.reconcile.unadmitted", item),
		"unbooked":   a.Say("cli.reconcile.unbooked", item),
		"missing":    a.Say("cli.reconcile.missing", item),
		"surplus":    a.Say("cli.reconcile.surplus", item),
		"sums":       a.Say("cli.reconcile.sums", item),
	}[f.Kind]
	if !ok {
		what = item
	}
	text := a.Say("cli.reconcile.finding", f.Kind, f.Tenant, f.FirstSeen.Format(time.RFC3339), what)
	details := a.details(f.Detail, currency)
	if len(details) == 0 {
		return text
	}
	all := details[0]
	for _, d := range details[1:] {
		all = a.Say("cli.shared.list", all, d)
	}
	return a.Say("cli.shared.aside", text, all)
}

// details are the figures of a finding, costs with their unit and times as such.
func (a *app) details(detail map[string]string, currency string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(detail)) {
		name, value := a.detailName(k), detail[k]
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			switch {
			case strings.HasSuffix(k, "_cost"):
				value = strings.TrimSpace(billing.Money(n).Decimal() + " " + currency)
			case k == "time":
				value = stamp(n)
			}
		}
		out = append(out, name+" "+value)
	}
	return out
}

// detailName is what a figure is called, as the console calls it.
func (a *app) detailName(k string) string {
	switch k {
	case "books_requests":
		return a.Say("cli.reconcile.detail_books_requests")
	case "books_tokens":
		return a.Say("cli.reconcile.detail_books_tokens")
	case "books_cost":
		return a.Say("cli.reconcile.detail_books_cost")
	case "records_requests":
		return a.Say("cli.reconcile.detail_records_requests")
	case "records_tokens":
		return a.Say("cli.reconcile.detail_records_tokens")
	case "records_cost":
		return a.Say("cli.reconcile.detail_records_cost")
	case "hour":
		return a.Say("cli.reconcile.detail_hour")
	case "request":
		return a.Say("cli.reconcile.detail_request")
	case "record":
		return a.Say("cli.reconcile.detail_record")
	case "action":
		return a.Say("cli.reconcile.detail_action")
	case "code":
		return a.Say("cli.reconcile.detail_code")
	case "writer":
		return a.Say("cli.reconcile.detail_writer")
	case "time":
		return a.Say("cli.reconcile.detail_time")
	default:
		return strings.ReplaceAll(k, "_", " ")
	}
}
