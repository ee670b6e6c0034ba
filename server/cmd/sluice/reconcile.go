package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
)

// shownFindings bounds what the command lists.
const shownFindings = 1000

func (a *app) reconcileCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "reconcile", Short: "Compare the audit log with itself and with the books / 将审计日志与自身及账目对账", Args: exactly(0),
		Long: `Looks for requests without an outcome, answers without an admitted record, usage that was not booked, and hours whose sums differ. What can
be mended is mended, each time with a record. The server does the same every hour. Works on a running and on a stopped installation. Exit
code 3: findings are open.
查找没有结果的请求、没有受理记录的回答、未入账的用量以及合计不一致的小时。可修复的会自动修复，每次修复均留有记录。服务器每小时执行一次同样的对账。
可在运行中或停止的安装上执行。退出码 3 表示仍有未解决的问题。`,
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON / 以 JSON 输出")
	return cmd
}

func (a *app) printReconciliation(r adminapi.Reconciliation, asJSON bool) error {
	open := int64(0)
	for _, n := range r.Open {
		open += n
	}
	if asJSON {
		enc := json.NewEncoder(a.env.stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.env.stdout, "compared %d hours, mended %d, open findings: %d\n", *r.Hours, *r.Repaired, open)
		for _, f := range r.Items {
			fmt.Fprintf(a.env.stdout, "  %s\n", describeFinding(f))
		}
		if int64(len(r.Items)) < open {
			fmt.Fprintln(a.env.stdout, "  and more of the same")
		}
	}
	if open > 0 {
		return errFindings
	}
	return nil
}

// describeFinding puts a finding into one line.
func describeFinding(f adminapi.ReconciliationFinding) string {
	what := map[string]string{
		"unfinished": "request %s was admitted and has no outcome; it is closed once its replica's write-ahead log is known to be shipped",
		"unadmitted": "request %s was answered and has no admitted record",
		"unbooked":   "the ledger refuses the usage of record %s",
		"missing":    "the books lack what the outcome record of request %s says was used",
		"surplus":    "the books have usage of request %s, which no outcome record says",
		"sums":       "the books and the records of %s do not sum up to the same",
	}[f.Kind]
	if what == "" {
		what = "%s"
	}
	text := fmt.Sprintf("%s, tenant %s, since %s: "+what, f.Kind, f.Tenant, f.FirstSeen.Format(time.RFC3339), strconv.Quote(f.Item))
	var details []string
	for _, k := range slices.Sorted(maps.Keys(f.Detail)) {
		details = append(details, k+" "+f.Detail[k])
	}
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return text
}
