package managecmd

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) signingKeyCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "signing-key", Short: cli.Both("cli.signing_key.short"), Long: cli.Both("cli.signing_key.long")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: cli.Both("cli.signing_key_list.short"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				var out adminapi.SigningKeyList
				if err := a.Ask(cmd.Context(), flags, http.MethodGet, "/signing-keys", nil, &out); err != nil {
					return err
				}
				return a.printSigningKeys(out.Items)
			},
		},
		&cobra.Command{
			Use: "rotate", Short: cli.Both("cli.signing_key_rotate.short"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				var out adminapi.SigningKey
				if err := a.Ask(cmd.Context(), flags, http.MethodPost, "/signing-keys/rotate", nil, &out); err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.signing_key_rotate.done", out.Id))
				return nil
			},
		},
		&cobra.Command{
			Use: "revoke ID", Short: cli.Both("cli.signing_key_revoke.short"), Args: cli.Exactly(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				var out adminapi.SigningKey
				if err := a.Ask(cmd.Context(), flags, http.MethodPost, "/signing-keys/"+url.PathEscape(args[0])+"/revoke", nil, &out); err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.signing_key_revoke.done", out.Id))
				return nil
			},
		},
	)
	return cmd
}

func (a *app) printSigningKeys(keys []adminapi.SigningKey) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tALGORITHM\tCREATED\tRETIRED\tREVOKED")
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", k.Id, k.Algorithm, timeText(&k.CreatedAt), timeText(k.RetiredAt), timeText(k.RevokedAt))
	}
	return w.Flush()
}
