package auditcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/compliance"
)

// app has the commands of this package.
type app struct{ *cli.App }

// Audit returns the command.
func Audit(shared *cli.App) *cobra.Command {
	a := &app{shared}
	cmd := &cobra.Command{Use: "audit", Short: cli.Both("cli.audit.short")}
	cmd.AddCommand(
		a.verifyCommand(), a.verifierKeyCommand(), a.exportCommand(), a.proofCommand(), a.traceCommand(), a.reconcileCommand(), a.eraseCommand(), a.pruneCommand(), a.holdCommand(), a.adoptCommand(), a.witnessCommand(), a.siemCommand(),
	)
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var v server.Verification
	var asJSON bool
	var out string
	cmd := &cobra.Command{
		Use: "verify", Short: cli.Both("cli.audit_verify.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.audit_verify.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := indexRange(cmd, &v); err != nil {
				return err
			}
			return a.verify(cmd.Context(), v, asJSON, out)
		},
	}
	cmd.Flags().StringVar(&v.VerifierKey, "key", "", cli.Both("cli.audit_verify.key"))
	cmd.Flags().Int64Var(&v.FirstIndex, "from-index", 0, cli.Both("cli.audit_verify.from_index"))
	cmd.Flags().Int64Var(&v.UntilIndex, "to-index", 0, cli.Both("cli.audit_verify.to_index"))
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.audit_verify.json"))
	cmd.Flags().StringVar(&out, "report", "", cli.Both("cli.audit_verify.report"))
	return cmd
}

// verify verifies with the key of the installation unless v names another. The report is written whatever was found.
func (a *app) verify(ctx context.Context, v server.Verification, asJSON bool, out string) error {
	if err := cli.Reportable(out); err != nil {
		return err
	}
	cfg, err := a.Load(nil)
	if err != nil {
		return err
	}
	if v.VerifierKey == "" {
		v.VerifierKey, err = server.VerifierKey(ctx, cfg)
		if errors.Is(err, fs.ErrNotExist) {
			return cli.Failed("cli.audit_verify.no_master_key", cfg.MasterKeyFile)
		}
		if err != nil {
			return err
		}
	}
	if show := a.Progress(a.Say("cli.progress.records")); show != nil {
		v.Progress = func(done, total int64) { show(int(done), int(total)) }
	}
	result, err := server.Verify(ctx, cfg, v)
	if err != nil {
		return err
	}
	if out != "" {
		d, err := compliance.Verification{VerifierKey: v.VerifierKey, Finished: time.Now(), Program: a.Version, Result: result}.Document(a.Lang())
		if err != nil {
			return err
		}
		if err := cli.WriteReport(out, d); err != nil {
			return err
		}
	}
	return a.printReport(result, asJSON)
}

func (a *app) verifierKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: cli.Both("cli.audit_key.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			k, err := server.VerifierKey(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, k)
			return nil
		},
	}
}

func (a *app) adoptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "adopt DIR", Short: cli.Both("cli.audit_adopt.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.audit_adopt.long", "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			n, err := server.RecoverAudit(cmd.Context(), cfg, args[0], log)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.audit_adopt.adopted", n))
			return nil
		},
	}
}

// indexRange completes the range to check, 0 to 0 for all.
func indexRange(cmd *cobra.Command, v *server.Verification) error {
	if !cmd.Flags().Changed("from-index") && !cmd.Flags().Changed("to-index") {
		return nil
	}
	if !cmd.Flags().Changed("to-index") {
		v.UntilIndex = math.MaxInt64
	}
	if v.FirstIndex < 0 || v.UntilIndex <= v.FirstIndex {
		return cli.Misuse("cli.audit_verify.bad_range")
	}
	return nil
}
