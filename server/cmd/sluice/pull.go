package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
)

func (a *app) pullCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use: "pull [NAME…]", Short: both("cli.pull.short"),
		Long: message.Both("cli.pull.long", "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.load(nil)
			if err != nil {
				return err
			}
			if from != "" && len(args) != 1 {
				return usageError{fmt.Errorf("--from fetches one artefact; name it")}
			}
			if len(args) == 0 {
				args = server.Artefacts(cfg)
			}
			return a.pull(cmd.Context(), modelstore.Open(cfg.Downloads), args, from)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", both("cli.pull.from"))
	return cmd
}

// pull fetches artefacts, from their own sources if from is "".
func (a *app) pull(ctx context.Context, store *modelstore.Store, names []string, from string) error {
	bar := modelstore.NewBar(a.env.stderr)
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
		fmt.Fprintf(a.env.stdout, "%s: %s\n", name, path)
	}
	return nil
}

func (a *app) modelsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "models", Short: both("cli.pull_models.short")}
	cmd.AddCommand(a.modelsListCommand(), a.modelsVerifyCommand(), a.modelsInspectCommand(), a.modelsCompileCommand(), a.modelsPruneCommand())
	return cmd
}

func (a *app) modelsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: both("cli.pull_list.short"), Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load(nil)
			if err != nil {
				return err
			}
			store := modelstore.Open(cfg.Downloads)
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
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
		Use: "verify [NAME…]", Short: both("cli.pull_verify.short"),
		Long: message.Both("cli.pull_verify.long", " "),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.load(nil)
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
			fmt.Fprintf(a.env.stdout, "%s: FAILED: %v\n", name, err)
			problems = errFindings
		case err != nil:
			return err
		default:
			fmt.Fprintf(a.env.stdout, "%s: ok\n", name)
		}
	}
	return problems
}
