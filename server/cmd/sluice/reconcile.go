package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
)

// shownFindings bounds what the command lists.
const shownFindings = 1000

func (a *app) reconcileCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "reconcile", Short: both("cli.reconcile.short"), Args: exactly(0),
		Long: message.Both("cli.reconcile.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.site()
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
	cmd.Flags().BoolVar(&asJSON, "json", false, both("cli.reconcile.json"))
	return cmd
}

func (a *app) printReconciliation(r adminapi.Reconciliation, asJSON bool) error {
	open := int64(0)
	for _, n := range r.Open {
		open += n
	}
	if asJSON {
		if err := printJSON(a.env.stdout, r); err != nil {
			return err
		}
	} else {
		currency := ""
		if r.Currency != nil {
			currency = *r.Currency
		}
		fmt.Fprintln(a.env.stdout, a.say("cli.reconcile.summary", *r.Hours, *r.Repaired, open))
		for _, f := range r.Items {
			fmt.Fprintf(a.env.stdout, "  %s\n", a.describeFinding(f, currency))
		}
		if int64(len(r.Items)) < open {
			fmt.Fprintln(a.env.stdout, "  "+a.say("cli.shared.and_more"))
		}
	}
	if open > 0 {
		return errFindings
	}
	return nil
}

// describeFinding puts a finding into one line.
func (a *app) describeFinding(f adminapi.ReconciliationFinding, currency string) string {
	item := strconv.Quote(f.Item)
	what, ok := map[string]string{
		"unfinished": a.say("cli.reconcile.unfinished", item),
		"unadmitted": a.say("cli.reconcile.unadmitted", item),
		"unbooked":   a.say("cli.reconcile.unbooked", item),
		"missing":    a.say("cli.reconcile.missing", item),
		"surplus":    a.say("cli.reconcile.surplus", item),
		"sums":       a.say("cli.reconcile.sums", item),
	}[f.Kind]
	if !ok {
		what = item
	}
	text := a.say("cli.reconcile.finding", f.Kind, f.Tenant, f.FirstSeen.Format(time.RFC3339), what)
	details := a.details(f.Detail, currency)
	if len(details) == 0 {
		return text
	}
	all := details[0]
	for _, d := range details[1:] {
		all = a.say("cli.shared.list", all, d)
	}
	return a.say("cli.shared.aside", text, all)
}

// details are the figures of a finding, costs with their unit and times as such.
func (a *app) details(detail map[string]string, currency string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(detail)) {
		name, value := strings.ReplaceAll(k, "_", " "), detail[k]
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			switch {
			case strings.HasSuffix(k, "_cost"):
				value = strings.TrimSpace(amount(n) + " " + currency)
			case k == "time":
				value = stamp(n)
			}
		}
		chinese := map[string]string{ //nolint:gosec // tokens of models, no credentials
			"books_requests": "账目请求数", "books_tokens": "账目 token 数", "books_cost": "账目费用", "records_requests": "记录请求数", "records_tokens": "记录 token 数",
			"records_cost": "记录费用", "hour": "小时", "request": "请求", "record": "记录", "action": "操作", "code": "账本答复", "writer": "写入者", "time": "时间",
		}[k]
		if chinese != "" && a.env.lang() == message.Chinese {
			name = chinese
		}
		out = append(out, name+" "+value)
	}
	return out
}
