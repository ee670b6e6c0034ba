package managecmd

import (
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) routeCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "route", Short: cli.Both("cli.route.short")}
	flags.Register(cmd, a.App)
	cmd.AddCommand(a.explainRouteCommand(&flags))
	return cmd
}

func (a *app) explainRouteCommand(flags *cli.RemoteFlags) *cobra.Command {
	var model, grade, tenant, session, use string
	cmd := &cobra.Command{
		Use: "explain", Short: cli.Both("cli.route_explain.short"), Long: cli.Both("cli.route_explain.long"), Args: cli.Exactly(0),
		Example: "  sluice route explain --model chat --grade L3",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if model == "" {
				return cli.Misuse("cli.route_explain.no_model")
			}
			var out adminapi.RouteExplanation
			path := "/route/explain" + cli.Query("model", model, "grade", grade, "tenant", tenant, "session", session, "use", use)
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, path, nil, &out); err != nil {
				return err
			}
			return a.printExplanation(&out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", cli.Both("cli.route_explain.model"))
	f.StringVar(&grade, "grade", "", cli.Both("cli.route_explain.grade"))
	f.StringVar(&tenant, "tenant", "", cli.Both("cli.route_explain.tenant"))
	f.StringVar(&session, "session", "", cli.Both("cli.route_explain.session"))
	f.StringVar(&use, "use", "", cli.Both("cli.route_explain.use"))
	return cmd
}

func (a *app) printExplanation(out *adminapi.RouteExplanation) error {
	fmt.Fprintln(a.Stdout, a.Say("cli.route_explain.head", out.Model+"@"+out.Version, out.Pool, orDash(valueOr(out.Grade)), orDash(strings.Join(out.Places, ", ")), orDash(valueOr(out.Chosen))))
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "INSTANCE\tPLACE\tVERDICT\tWHY\tRUNNING\tSUM\tLOAD\tPREFIX\tCOST\tENERGY\tSESSION")
	for _, x := range out.Instances {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d", x.Instance, x.Place, x.Verdict, orDash(valueOr(x.Why)), x.Running)
		if s := x.Score; s != nil {
			fmt.Fprintf(w, "\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f", s.Sum, s.Load, s.Prefix, s.Cost, s.Energy, s.Session)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
