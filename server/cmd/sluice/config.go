package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/server/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: both("cli.config.short")}
	cmd.AddCommand(
		&cobra.Command{
			Use: "print", Short: both("cli.config_print.short"), Args: exactly(0),
			RunE: func(*cobra.Command, []string) error {
				cfg, err := a.load(nil)
				if err != nil {
					return err
				}
				enc := yaml.NewEncoder(a.env.stdout)
				enc.SetIndent(2)
				return enc.Encode(cfg.Print())
			},
		},
		&cobra.Command{
			Use: "check", Short: both("cli.config_check.short"), Args: exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := a.load(nil)
				return err
			},
		},
		&cobra.Command{
			Use: "example", Short: both("cli.config_example.short"), Args: exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := fmt.Fprint(a.env.stdout, config.Example)
				return err
			},
		},
	)
	return cmd
}
