package auditcmd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) labelCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "label LABEL", Short: cli.Both("cli.audit_label.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.audit_label.long", "\n"),
		Example: `  sluice audit label --tenant demo "$LABEL"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tenant == "" {
				return cli.Misuse("cli.audit_label.no_tenant")
			}
			x, err := label.Parse(args[0])
			if err != nil {
				return cli.Misuse("cli.audit_label.no_label", err)
			}
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			key, err := server.VerifyLabel(cmd.Context(), cfg, x, tenant)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return cli.Failed("cli.audit_label.no_master_key", cfg.MasterKeyFile)
			case errors.Is(err, label.ErrForeign):
				fmt.Fprintln(a.Stdout, a.Say("cli.audit_label.foreign", tenant))
				return cli.ErrFindings
			case err != nil:
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.audit_label.ours", tenant, x.ProduceID, key))
			return nil
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", cli.Both("cli.audit_label.tenant"))
	return cmd
}
