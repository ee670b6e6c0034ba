package main

import (
	"cmp"
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
		fmt.Fprintf(a.env.stdout, a.say("compared %d hours, mended %d, open findings: %d\n", "已比对 %d 个小时，修复 %d 处，未解决的问题：%d\n"), *r.Hours, *r.Repaired, open)
		for _, f := range r.Items {
			fmt.Fprintf(a.env.stdout, "  %s\n", a.describeFinding(f, currency))
		}
		if int64(len(r.Items)) < open {
			fmt.Fprintln(a.env.stdout, a.say("  and more of the same", "  以及更多同类问题"))
		}
	}
	if open > 0 {
		return errFindings
	}
	return nil
}

// describeFinding puts a finding into one line.
func (a *app) describeFinding(f adminapi.ReconciliationFinding, currency string) string {
	what := map[string]string{
		"unfinished": a.say("request %s was admitted and has no outcome; it is closed once its replica's write-ahead log is known to be shipped",
			"请求 %s 已受理但没有结果；确定其副本的预写日志已全部送达后补记结果"),
		"unadmitted": a.say("request %s was answered and has no admitted record", "请求 %s 已回答，却没有受理记录"),
		"unbooked":   a.say("the ledger refuses the usage of record %s", "账本拒绝记录 %s 的用量"),
		"missing":    a.say("the books lack what the outcome record of request %s says was used", "账目中缺少请求 %s 的结果记录所写明的用量"),
		"surplus":    a.say("the books have usage of request %s, which no outcome record says", "账目中有请求 %s 的用量，却没有结果记录写明"),
		"sums":       a.say("the books and the records of %s do not sum up to the same", "%s 的账目与记录合计不一致"),
	}[f.Kind]
	if what == "" {
		what = "%s"
	}
	text := fmt.Sprintf(a.say("%s, tenant %s, since %s: ", "%s，租户 %s，始于 %s：")+what, f.Kind, f.Tenant, f.FirstSeen.Format(time.RFC3339), strconv.Quote(f.Item))
	details := a.details(f.Detail, currency)
	if len(details) > 0 {
		text += a.say(" (", "（") + strings.Join(details, a.say(", ", "，")) + a.say(")", "）")
	}
	return text
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
		out = append(out, a.say(name, cmp.Or(chinese, name))+" "+value)
	}
	return out
}
