package main

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/web"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: both("cli.version.short"), Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			v := map[string]any{
				"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				"console": web.Included(), "kernels": kernel.Detect(slog.New(slog.DiscardHandler)).ISA(),
			}
			if asJSON {
				return printJSON(a.env.stdout, v)
			}
			fmt.Fprintf(a.env.stdout, "sluice %s, %s, %s, kernels %v, console %v\n", v["version"], v["go"], v["platform"], v["kernels"], v["console"])
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, both("cli.shared.json"))
	return cmd
}
