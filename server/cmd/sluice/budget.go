package main

import (
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/server/adminapi"
)

func (a *app) budgetCommand() *cobra.Command {
	var flags remoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "budget", Short: both("cli.budget.short")}
	flags.register(cmd, a.env)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", both("cli.shared.tenant"))
	cmd.AddCommand(a.listBudgetsCommand(&flags, &tenant), a.setBudgetCommand(&flags, &tenant), a.removeBudgetCommand(&flags, &tenant))
	return cmd
}

func (a *app) listBudgetsCommand(flags *remoteFlags, tenant *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: both("cli.budget_list.short"), Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.BudgetList
			if err := a.ask(cmd.Context(), *flags, http.MethodGet, "/budgets"+query("tenant", *tenant), nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "TENANT\tKEY\tPERIOD\tLIMIT\tSPENT\tRESERVED\tCURRENCY")
			for _, b := range out.Items {
				key := "-"
				if b.Key != nil {
					key = *b.Key
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", b.Tenant, key, b.Period, amount(b.LimitNano), amount(b.SpentNano), amount(b.ReservedNano), b.Currency)
			}
			return w.Flush()
		},
	}
}

func (a *app) setBudgetCommand(flags *remoteFlags, tenant *string) *cobra.Command {
	var what budgetFlags
	cmd := &cobra.Command{
		Use: "set AMOUNT", Short: both("cli.budget_set.short"), Args: exactly(1),
		Example: `  sluice budget set 200.50 --period month --key 4fTq8ZbN2cXa`,
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := billing.ParseMoney(args[0])
			if err != nil {
				return usageError{err}
			}
			in := adminapi.NewBudget{Period: adminapi.BudgetPeriod(what.period), LimitNano: int64(limit), Tenant: ifGiven(*tenant), Key: ifGiven(what.key)}
			var out adminapi.Budget
			if err := a.ask(cmd.Context(), *flags, http.MethodPut, "/budgets", in, &out); err != nil {
				return err
			}
			fmt.Fprintf(a.env.stdout, "set: %s %s per %s, %s spent\n", amount(out.LimitNano), out.Currency, out.Period, amount(out.SpentNano))
			return nil
		},
	}
	what.register(cmd)
	return cmd
}

func (a *app) removeBudgetCommand(flags *remoteFlags, tenant *string) *cobra.Command {
	var what budgetFlags
	cmd := &cobra.Command{
		Use: "remove", Short: both("cli.budget_remove.short"), Args: exactly(0),
		Example: `  sluice budget remove --period month`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.ask(cmd.Context(), *flags, http.MethodDelete, "/budgets"+query("tenant", *tenant, "key", what.key, "period", what.period), nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.env.stdout, "removed")
			return nil
		},
	}
	what.register(cmd)
	return cmd
}

// budgetFlags say which budget is meant.
type budgetFlags struct{ key, period string }

func (f *budgetFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.key, "key", "", both("cli.budget_flags.key"))
	cmd.Flags().StringVar(&f.period, "period", "month", both("cli.budget_flags.period"))
}

// amount writes 10⁻⁹ currency units as a decimal.
func amount(nano int64) string { return billing.Money(nano).Decimal() }
