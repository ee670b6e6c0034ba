package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: cli.Both("cli.config.short")}
	cmd.AddCommand(
		&cobra.Command{
			Use: "print", Short: cli.Both("cli.config_print.short"), Args: cli.Exactly(0),
			RunE: func(*cobra.Command, []string) error {
				cfg, err := a.Load(nil)
				if err != nil {
					return err
				}
				enc := yaml.NewEncoder(a.Stdout)
				enc.SetIndent(2)
				return enc.Encode(cfg.Print())
			},
		},
		&cobra.Command{
			Use: "check", Short: cli.Both("cli.config_check.short"), Args: cli.Exactly(0),
			RunE: func(*cobra.Command, []string) error {
				cfg, err := a.Load(nil)
				if err != nil {
					return err
				}
				for _, key := range cfg.InlineCredentials() {
					fmt.Fprintln(a.Stderr, a.Say("cli.config_check.inline", key))
				}
				return nil
			},
		},
		&cobra.Command{
			Use: "example", Short: cli.Both("cli.config_example.short"), Args: cli.Exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := fmt.Fprint(a.Stdout, config.Example)
				return err
			},
		},
	)
	return cmd
}
