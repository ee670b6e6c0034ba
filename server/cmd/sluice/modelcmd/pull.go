package modelcmd

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// app has the commands of this package.
type app struct{ *cli.App }

// Pull returns the command that fetches artefacts.
func Pull(shared *cli.App) *cobra.Command {
	a := &app{shared}
	var from string
	cmd := &cobra.Command{
		Use: "pull [NAME…]", Short: cli.Both("cli.pull.short"),
		Long: message.Both("cli.pull.long", "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			if from != "" && len(args) != 1 {
				return cli.Misuse("cli.pull.from_wants_name")
			}
			if len(args) == 0 {
				args = server.Artefacts(cfg)
			}
			return a.pull(cmd.Context(), modelstore.Open(cfg.Downloads), args, from)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", cli.Both("cli.pull.from"))
	return cmd
}

// pull fetches artefacts, from their own sources if from is "".
func (a *app) pull(ctx context.Context, store *modelstore.Store, names []string, from string) error {
	bar := modelstore.NewBar(a.Stderr)
	for _, name := range names {
		var err error
		if from != "" {
			err = store.PullFrom(ctx, name, from, bar.Update)
		} else {
			err = store.Pull(ctx, name, bar.Update)
		}
		if err != nil {
			return err
		}
		path, err := store.Path(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "%s: %s\n", name, path)
	}
	return nil
}

// Models returns the commands about the models on this machine.
func Models(shared *cli.App) *cobra.Command {
	a := &app{shared}
	cmd := &cobra.Command{Use: "models", Short: cli.Both("cli.pull_models.short")}
	cmd.AddCommand(a.modelsListCommand(), a.modelsVerifyCommand(), a.modelsInspectCommand(), a.modelsCompileCommand(), a.modelsPruneCommand())
	return cmd
}

func (a *app) modelsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.pull_list.short"), Args: cli.Exactly(0),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			store := modelstore.Open(cfg.Downloads)
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tKIND\tVERSION\tLICENCE\tSIZE\tHERE")
			for _, e := range modelstore.Catalogue() {
				here := "no"
				if path, err := store.Path(e.Name); err == nil {
					here = path
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f MB\t%s\n", e.Name, e.Kind, e.Version, e.Licence, float64(e.Size())/1e6, here)
			}
			return w.Flush()
		},
	}
}

func (a *app) modelsVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify [NAME…]", Short: cli.Both("cli.pull_verify.short"),
		Long: message.Both("cli.pull_verify.long", " "),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			store := modelstore.Open(cfg.Downloads)
			if len(args) == 0 {
				args = present(store)
			}
			return a.verifyArtefacts(cmd.Context(), store, args)
		},
	}
}

// present lists the artefacts of the catalogue that are on this machine.
func present(store *modelstore.Store) (names []string) {
	for _, e := range modelstore.Catalogue() {
		if _, err := store.Path(e.Name); err == nil {
			names = append(names, e.Name)
		}
	}
	return names
}

func (a *app) verifyArtefacts(ctx context.Context, store *modelstore.Store, names []string) (problems error) {
	for _, name := range names {
		err := store.Verify(ctx, name)
		switch wrong := (*modelstore.DigestError)(nil); {
		case errors.As(err, &wrong):
			fmt.Fprintln(a.Stdout, a.Say("cli.pull_verify.failed", name, err))
			problems = cli.ErrFindings
		case err != nil:
			return err
		default:
			fmt.Fprintln(a.Stdout, a.Say("cli.pull_verify.ok", name))
		}
	}
	return problems
}
