package managecmd

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// ownFactorCommand manages the second factor of the account that signs in.
func (a *app) ownFactorCommand(flags *cli.RemoteFlags) *cobra.Command {
	cmd := &cobra.Command{Use: "factor", Short: cli.Both("cli.user_factor.short")}
	cmd.AddCommand(a.enrolFactorCommand(flags), a.removeFactorCommand(flags))
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

func (a *app) removeFactorCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "remove", Short: cli.Both("cli.user_factor_remove.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.Ask(cmd.Context(), *flags, http.MethodDelete, "/me/second-factor", nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.user_factor_remove.done", flags.User))
			return nil
		},
	}
}
