package managecmd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) accessCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "access", Short: cli.Both("cli.access.short")}
	flags.Register(cmd, a.App)
	cmd.AddCommand(a.explainAccessCommand(&flags))
	return cmd
}

func (a *app) explainAccessCommand(flags *cli.RemoteFlags) *cobra.Command {
	q := url.Values{}
	cmd := &cobra.Command{
		Use: "explain PRINCIPAL ACT", Short: cli.Both("cli.access_explain.short"), Long: cli.Both("cli.access_explain.long"), Args: cli.Exactly(2),
		Example: "  sluice access explain alice publishPolicy\n  sluice access explain key_1a2b3c inference.generate --model chat",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Set("principal", args[0])
			q.Set("act", args[1])
			for _, name := range []string{"tenant", "in", "model"} {
				if v, _ := cmd.Flags().GetString(name); v != "" {
					q.Set(name, v)
				}
			}
			var out adminapi.AccessExplanation
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/access/explain?"+q.Encode(), nil, &out); err != nil {
				return err
			}
			return a.printAccess(&out)
		},
	}
	cmd.Flags().String("tenant", "", cli.Both("cli.access_explain.tenant"))
	cmd.Flags().String("in", "", cli.Both("cli.access_explain.in"))
	cmd.Flags().String("model", "", cli.Both("cli.access_explain.model"))
	return cmd
}

// printAccess prints the checks. A refusal is an answer, and no failure of the command.
func (a *app) printAccess(out *adminapi.AccessExplanation) error {
	said := a.Say("cli.access_explain.refused", out.Kind, out.Name, out.Id, out.Act, out.In)
	if out.Allowed {
		said = a.Say("cli.access_explain.allowed", out.Kind, out.Name, out.Id, out.Act, out.In)
	}
	fmt.Fprintln(a.Stdout, said)
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tVERDICT\tCODE\tROLES\tWHY")
	for _, x := range out.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", x.Check, x.Verdict, orDash(valueOr(x.Code)), orDash(strings.Join(x.Roles, ", ")), orDash(valueOr(x.Why)))
	}
	return w.Flush()
}
