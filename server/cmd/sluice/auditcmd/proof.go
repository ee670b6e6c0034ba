package auditcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/config"
)

func (a *app) proofCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "proof RECORD", Short: cli.Both("cli.proof.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.proof.long", "\n"),
		Example: `  sluice audit proof 01930000-0000-7000-8000-000000000000 --out proof.json
  sluice-verify --key "$KEY" proof.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			return a.prove(cmd.Context(), cfg, args[0], out, log)
		},
	}
	cmd.Flags().StringVar(&out, "out", "proof.json", cli.Both("cli.shared.out"))
	return cmd
}

// prove writes the proof of a record into a file, which must not be there.
func (a *app) prove(ctx context.Context, cfg *config.Config, id, out string, log *slog.Logger) error {
	p, err := server.Proof(ctx, cfg, id, log)
	if err != nil {
		return err
	}
	err = cli.WriteNew(out, func(f *os.File) error {
		enc := json.NewEncoder(f)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	})
	if err == nil {
		fmt.Fprintln(a.Stdout, a.Say("cli.proof.written", out, p.Index))
	}
	return err
}
