package managecmd

import (
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) budgetCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "budget", Short: cli.Both("cli.budget.short")}
	flags.Register(cmd, a.App)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.AddCommand(a.listBudgetsCommand(&flags, &tenant), a.setBudgetCommand(&flags, &tenant), a.removeBudgetCommand(&flags, &tenant))
	return cmd
}

func (a *app) listBudgetsCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var organisation string
	cmd := &cobra.Command{
		Use: "list", Short: cli.Both("cli.budget_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.BudgetList
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/budgets"+cli.Query("tenant", *tenant, "organisation", organisation), nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ORGANISATION\tTENANT\tPROJECT\tKEY\tPERIOD\tLIMIT\tSPENT\tRESERVED\tCURRENCY")
			for _, b := range out.Items {
				for _, of := range []*string{b.Organisation, b.Tenant, b.Project, b.Key} {
					fmt.Fprint(w, orDash(valueOr(of))+"\t")
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", b.Period, amount(b.LimitNano), amount(b.SpentNano), amount(b.ReservedNano), b.Currency)
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringVar(&organisation, "organisation", "", cli.Both("cli.budget_flags.organisation"))
	return cmd
}

func (a *app) setBudgetCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var what budgetFlags
	cmd := &cobra.Command{
		Use: "set AMOUNT", Short: cli.Both("cli.budget_set.short"), Args: cli.Exactly(1),
		Example: `  sluice budget set 200.50 --period month --key 4fTq8ZbN2cXa
  sluice budget set 5000 --organisation group`,
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := billing.ParseMoney(args[0])
			if err != nil {
				return cli.Misuse("cli.budget_set.no_amount", args[0])
			}
			in := adminapi.NewBudget{Period: adminapi.BudgetPeriod(what.period), LimitNano: int64(limit), Tenant: cli.IfGiven(*tenant), Key: cli.IfGiven(what.key), Project: cli.IfGiven(what.project), Organisation: cli.IfGiven(what.organisation)}
			var out adminapi.Budget
			if err := a.Ask(cmd.Context(), *flags, http.MethodPut, "/budgets", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.budget_set.done", amount(out.LimitNano), out.Currency, out.Period, amount(out.SpentNano)))
			return nil
		},
	}
	what.register(cmd)
	return cmd
}

func (a *app) removeBudgetCommand(flags *cli.RemoteFlags, tenant *string) *cobra.Command {
	var what budgetFlags
	cmd := &cobra.Command{
		Use: "remove", Short: cli.Both("cli.budget_remove.short"), Args: cli.Exactly(0),
		Example: `  sluice budget remove --period month`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.Ask(cmd.Context(), *flags, http.MethodDelete, "/budgets"+cli.Query("tenant", *tenant, "organisation", what.organisation, "project", what.project, "key", what.key, "period", what.period), nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.budget_remove.done"))
			return nil
		},
	}
	what.register(cmd)
	return cmd
}

// budgetFlags say which budget is meant.
type budgetFlags struct{ organisation, project, key, period string }

func (f *budgetFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.organisation, "organisation", "", cli.Both("cli.budget_flags.organisation"))
	cmd.Flags().StringVar(&f.project, "project", "", cli.Both("cli.budget_flags.project"))
	cmd.Flags().StringVar(&f.key, "key", "", cli.Both("cli.budget_flags.key"))
	cmd.Flags().StringVar(&f.period, "period", "month", cli.Both("cli.budget_flags.period"))
}

// amount writes 10⁻⁹ currency units as a decimal.
func amount(nano int64) string { return billing.Money(nano).Decimal() }
