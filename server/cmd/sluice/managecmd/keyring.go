package managecmd

import (
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) keyringCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "keyring", Short: cli.Both("cli.keyring.short")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "rotate", Short: cli.Both("cli.keyring_rotate.short"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				var out adminapi.Keyring
				if err := a.Ask(cmd.Context(), flags, http.MethodPost, "/keyring/rotate", nil, &out); err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.keyring_rotate.done", out.Epoch))
				return nil
			},
		},
		&cobra.Command{
			Use: "status", Short: cli.Both("cli.keyring_status.short"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				var out adminapi.Keyring
				if err := a.Ask(cmd.Context(), flags, http.MethodGet, "/keyring", nil, &out); err != nil {
					return err
				}
				return a.printKeyring(out)
			},
		},
	)
	return cmd
}

func (a *app) printKeyring(k adminapi.Keyring) error {
	switch {
	case k.DestroyAfter != nil:
		fmt.Fprintln(a.Stdout, a.Say("cli.keyring_status.waiting", k.Epoch, timeText(k.DestroyAfter)))
	case k.Rotating:
		fmt.Fprintln(a.Stdout, a.Say("cli.keyring_status.rotating", k.Epoch, timeText(k.BegunAt)))
	default:
		fmt.Fprintln(a.Stdout, a.Say("cli.keyring_status.idle", k.Epoch))
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "EPOCH\tSTATE\tCREATED\tDESTROYED")
	for _, e := range k.Epochs {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", e.Number, e.State, timeText(e.CreatedAt), timeText(e.DestroyedAt))
	}
	fmt.Fprintln(w, "\nKIND\tTOTAL\tDONE\tLEFT\tUNREADABLE")
	for _, p := range k.Progress {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", p.Kind, p.Total, p.Done, p.Left, p.Unreadable)
	}
	return w.Flush()
}
