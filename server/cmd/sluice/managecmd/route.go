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

func (a *app) routeCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "route", Short: cli.Both("cli.route.short")}
	flags.Register(cmd, a.App)
	cmd.AddCommand(a.explainRouteCommand(&flags))
	return cmd
}

func (a *app) explainRouteCommand(flags *cli.RemoteFlags) *cobra.Command {
	q := map[string]*string{}
	cmd := &cobra.Command{
		Use: "explain", Short: cli.Both("cli.route_explain.short"), Long: cli.Both("cli.route_explain.long"), Args: cli.Exactly(0),
		Example: "  sluice route explain --model chat --grade L3",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := url.Values{}
			for name, value := range q {
				if *value != "" {
					ask.Set(name, *value)
				}
			}
			if ask.Get("model") == "" {
				return cli.Misuse("cli.route_explain.no_model")
			}
			var out adminapi.RouteExplanation
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/route/explain?"+ask.Encode(), nil, &out); err != nil {
				return err
			}
			return a.printExplanation(&out)
		},
	}
	for _, f := range []struct {
		name string
		text string
	}{
		{"model", cli.Both("cli.route_explain.model")},
		{"grade", cli.Both("cli.route_explain.grade")},
		{"tenant", cli.Both("cli.route_explain.tenant")},
		{"session", cli.Both("cli.route_explain.session")},
		{"use", cli.Both("cli.route_explain.use")},
	} {
		q[f.name] = cmd.Flags().String(f.name, "", f.text)
	}
	return cmd
}

func (a *app) printExplanation(out *adminapi.RouteExplanation) error {
	places := strings.Join(out.Places, ", ")
	if places == "" {
		places = "-"
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.route_explain.head", out.Model+"@"+out.Version, out.Pool, orDash(valueOr(out.Grade)), places, orDash(valueOr(out.Chosen))))
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
