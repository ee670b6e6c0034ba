package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/server/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show and check the configuration / 查看与检查配置"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "print", Short: "Print the effective configuration, secrets hidden / 打印生效的配置", Args: exactly(0),
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
			Use: "check", Short: "Check the configuration and say nothing if it is good / 检查配置", Args: exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := a.load(nil)
				return err
			},
		},
		&cobra.Command{
			Use: "example", Short: "Print the annotated example with every key / 打印带注释的示例", Args: exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := fmt.Fprint(a.env.stdout, config.Example)
				return err
			},
		},
	)
	return cmd
}
