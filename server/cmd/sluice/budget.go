package main

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
)

func (a *app) budgetCommand() *cobra.Command {
	var flags remoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "budget", Short: "List, set and remove budgets / 管理预算"}
	flags.register(cmd, a.env)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", "tenant (default: your own) / 租户")

	list := &cobra.Command{
		Use: "list", Short: "List budgets with what is spent and reserved / 列出预算及使用情况", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			var out adminapi.BudgetList
			if err := r.call(cmd.Context(), http.MethodGet, "/budgets"+query("tenant", tenant), nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "TENANT\tKEY\tPERIOD\tLIMIT\tSPENT\tRESERVED\tCURRENCY")
			for _, b := range out.Items {
				key := "-"
				if b.Key != nil {
					key = *b.Key
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", b.Tenant, key, b.Period, nanoText(b.LimitNano), nanoText(b.SpentNano), nanoText(b.ReservedNano), b.Currency)
			}
			return w.Flush()
		},
	}

	var what budgetFlags
	set := &cobra.Command{
		Use: "set AMOUNT", Short: "Set a budget, in units of the currency / 设置预算（货币单位）", Args: exactly(1),
		Example: `  sluice budget set 200.50 --period month --key 4fTq8ZbN2cXa`,
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := parseNano(args[0])
			if err != nil {
				return usageError{err}
			}
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			in := adminapi.NewBudget{Period: adminapi.BudgetPeriod(what.period), LimitNano: limit}
			if tenant != "" {
				in.Tenant = &tenant
			}
			if what.key != "" {
				in.Key = &what.key
			}
			var out adminapi.Budget
			if err := r.call(cmd.Context(), http.MethodPut, "/budgets", in, &out); err != nil {
				return err
			}
			fmt.Fprintf(a.env.stdout, "set: %s %s per %s, %s spent\n", nanoText(out.LimitNano), out.Currency, out.Period, nanoText(out.SpentNano))
			return nil
		},
	}
	remove := &cobra.Command{
		Use: "remove", Short: "Remove a budget: nothing limits what it covered / 移除预算，其范围不再受限", Args: exactly(0),
		Example: `  sluice budget remove --period month`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			if err := r.call(cmd.Context(), http.MethodDelete, "/budgets"+query("tenant", tenant, "key", what.key, "period", what.period), nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.env.stdout, "removed")
			return nil
		},
	}
	what.register(set)
	what.register(remove)
	cmd.AddCommand(list, set, remove)
	return cmd
}

// budgetFlags say which budget is meant.
type budgetFlags struct{ key, period string }

func (f *budgetFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.key, "key", "", "key `ID` (default: the whole tenant) / 密钥编号，默认为整个租户")
	cmd.Flags().StringVar(&f.period, "period", "month", "day, month or total / 周期：day、month 或 total")
}

// nanoText writes an amount of 10⁻⁹ units exactly.
func nanoText(nano int64) string {
	text := new(big.Rat).SetFrac64(nano, 1e9).FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// parseNano reads an amount as a whole number of 10⁻⁹ units.
func parseNano(text string) (int64, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "eE/xXpP_") {
		return 0, fmt.Errorf("%q is no amount; write one such as 200.50", text)
	}
	r.Mul(r, big.NewRat(1e9, 1))
	if !r.IsInt() || !r.Num().IsInt64() || r.Sign() < 0 {
		return 0, errors.New("an amount is not negative and has at most nine decimals")
	}
	return r.Num().Int64(), nil
}
