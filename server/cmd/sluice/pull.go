package main

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/config"
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
			store := modelstore.Open(cfg.Downloads)
			names := args
			if len(names) == 0 {
				names = needed(cfg)
			}
			if from != "" && len(args) != 1 {
				return usageError{fmt.Errorf("--from fetches one artefact; name it")}
			}
			bar := modelstore.NewBar(a.env.stderr)
			for _, name := range names {
				if from != "" {
					err = store.PullFrom(cmd.Context(), name, from, bar.Update)
				} else {
					err = store.Pull(cmd.Context(), name, bar.Update)
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
		},
	}
	cmd.Flags().StringVar(&from, "from", "", both("cli.pull.from"))
	return cmd
}

func (a *app) modelsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "models", Short: both("cli.pull_models.short")}
	list := &cobra.Command{
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
				var size int64
				for _, f := range e.Files {
					size += f.Size
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f MB\t%s\n", e.Name, e.Kind, e.Version, e.Licence, float64(size)/1e6, here)
			}
			return w.Flush()
		},
	}
	verify := &cobra.Command{
		Use: "verify [NAME…]", Short: both("cli.pull_verify.short"),
		Long: message.Both("cli.pull_verify.long", " "),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.load(nil)
			if err != nil {
				return err
			}
			store := modelstore.Open(cfg.Downloads)
			if len(args) == 0 {
				for _, e := range modelstore.Catalogue() {
					if _, err := store.Path(e.Name); err == nil {
						args = append(args, e.Name)
					}
				}
			}
			var problems error
			for _, name := range args {
				err := store.Verify(cmd.Context(), name)
				var wrong *modelstore.DigestError
				switch {
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
		},
	}
	cmd.AddCommand(list, verify, a.modelsInspectCommand(), a.modelsCompileCommand(), a.modelsPruneCommand())
	return cmd
}

// needed lists the catalogue entries that the configuration uses: those whose path a native model has, and the Temporal CLI when
// it is to be supervised and is not on PATH.
func needed(cfg *config.Config) []string {
	var out []string
	for _, e := range modelstore.Catalogue() {
		used := slices.ContainsFunc(cfg.Engines.Native.Models, func(m native.ModelConfig) bool { return "models/"+m.Path == e.Path })
		if e.Name == "temporal" {
			_, err := exec.LookPath("temporal")
			used = cfg.Workflows.Enabled && cfg.Workflows.Address == "" && cfg.Workflows.Embedded.Binary == "" && err != nil
		}
		if used {
			out = append(out, e.Name)
		}
	}
	return out
}
