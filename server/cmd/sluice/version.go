package main

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/web"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: cli.Both("cli.version.short"), Args: cli.Exactly(0),
		RunE: func(*cobra.Command, []string) error {
			v := map[string]any{
				"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				"console": web.Included(), "kernels": kernel.Detect(slog.New(slog.DiscardHandler)).ISA(),
			}
			if asJSON {
				return cli.PrintJSON(a.Stdout, v)
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.version.line", v["version"], v["go"], v["platform"], v["kernels"], v["console"]))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.shared.json"))
	return cmd
}
