package managecmd

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// ownFactorCommand manages the second factor of the account that signs in.
func (a *app) ownFactorCommand(flags *cli.RemoteFlags) *cobra.Command {
	cmd := &cobra.Command{Use: "factor", Short: cli.Both("cli.user_factor.short")}
	cmd.AddCommand(a.enrolFactorCommand(flags), a.listFactorsCommand(flags), a.removeFactorCommand(flags))
	return cmd
}

func (a *app) enrolFactorCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "enrol", Short: cli.Both("cli.user_factor_enrol.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.user_factor_enrol.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			var made adminapi.TotpSecret
			if err := r.Call(cmd.Context(), http.MethodPost, "/me/second-factor/totp", nil, &made); err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.user_factor_enrol.secret"))
			fmt.Fprintf(a.Stdout, "%s\n%s\n", made.Secret, made.Uri)
			fmt.Fprint(a.Stderr, a.Say("cli.user_factor_enrol.first_code"))
			code, err := cli.UnlessDone(cmd.Context(), func() (string, error) { return bufio.NewReader(a.Stdin).ReadString('\n') }, func() {})
			if errors.Is(err, cli.ErrInterrupted) {
				return err
			}
			if code = strings.TrimSpace(code); code == "" {
				fmt.Fprintln(a.Stderr) // behind the prompt
				return cli.Misuse("cli.user_factor_enrol.no_code")
			}
			var out adminapi.ConfirmedFactor
			if err := r.Call(cmd.Context(), http.MethodPost, "/me/second-factor/totp/confirm", adminapi.FactorCode{Code: code}, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.user_factor_enrol.done"))
			fmt.Fprintln(a.Stdout, strings.Join(out.RecoveryCodes, "\n"))
			return nil
		},
	}
}

func (a *app) listFactorsCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.user_factor_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list adminapi.FactorList
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/me/second-factors", nil, &list); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tKIND\tNAME\tCREATED\tLAST USED\tSIGNATURES\tBACKED UP\tSTATE")
			for _, f := range list.Items {
				backedUp, state := "-", "active"
				if f.BackedUp {
					backedUp = "yes"
				}
				if f.SuspectSince != nil {
					state = "suspect since " + timeText(f.SuspectSince)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", f.Id, f.Kind, orDash(f.Name), timeText(&f.CreatedAt), timeText(f.LastUsedAt), f.SignCount, backedUp, state)
			}
			return w.Flush()
		},
	}
}

func (a *app) removeFactorCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "remove [ID]", Short: cli.Both("cli.user_factor_remove.short"), Args: cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, done := "/me/second-factor", a.Say("cli.user_factor_remove.done", flags.User)
			if len(args) == 1 {
				path, done = "/me/second-factors/"+url.PathEscape(args[0]), a.Say("cli.user_factor_remove.one", args[0], flags.User)
			}
			if err := a.Ask(cmd.Context(), *flags, http.MethodDelete, path, nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, done)
			return nil
		},
	}
}
