package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/auditcmd"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/cmd/sluice/enginecmd"
	"github.com/sluice-project/sluice/server/cmd/sluice/managecmd"
	"github.com/sluice-project/sluice/server/cmd/sluice/maskcmd"
	"github.com/sluice-project/sluice/server/cmd/sluice/modelcmd"
	"github.com/sluice-project/sluice/server/cmd/sluice/ragcmd"
	"github.com/sluice-project/sluice/server/config"
)

// app has the commands that are about the installation itself.
type app struct{ *cli.App }

func newRoot(shared *cli.App) *cobra.Command {
	a := &app{shared}
	root := &cobra.Command{
		Use:   "sluice",
		Short: cli.Both("cli.sluice.short"),
		Long: message.Both("cli.sluice.long", "\n") + "\n\nStart with: sluice pull && sluice up\n\n" +
			message.Both("cli.sluice.exit_codes", "\n"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       a.Version,
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.PersistentFlags().StringVar(&a.ConfigPath, "config", a.Getenv("SLUICE_CONFIG"), cli.Both("cli.sluice.config"))
	root.PersistentFlags().StringVar(&a.Data, "data", "", cli.Both("cli.sluice.data")+" (default "+config.DefaultData()+")")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.Misuse("cli.sluice.bad_flag", err, cmd.CommandPath())
	})
	// A command that only groups others takes no line of its own in the usage text.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	root.AddCommand(
		a.upCommand(), a.serveCommand(), a.chatCommand(), a.batchCommand(), a.migrateCommand(), a.configCommand(), a.notifyCommand(), a.planCommand(), a.dutiesCommand(), a.factorsCommand(), a.keysCommand(), a.versionCommand(), a.doctorCommand(), a.labelCommand(),
		auditcmd.Audit(shared), maskcmd.Mask(shared), modelcmd.Pull(shared), modelcmd.Models(shared), modelcmd.Bench(shared),
		modelcmd.Eval(shared, maskcmd.Eval(shared)), ragcmd.RAG(shared),
	)
	root.AddCommand(enginecmd.Commands(shared)...)
	for _, cmd := range managecmd.Commands(shared) {
		if cmd.Name() == "engine" {
			cmd.AddCommand(a.engineServeCommand())
		}
		root.AddCommand(cmd)
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	group(root)
	return root
}

// group makes every command that only holds others print its help when called alone, and refuse a word it does not know. Left to
// itself the library prints the help and reports success.
func group(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		switch sub.Name() {
		case "help":
			sub.Short = cli.Both("cli.sluice.help")
		case "completion":
			sub.Short = cli.Both("cli.sluice.completion")
		}
		group(sub)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return cli.Misuse("cli.sluice.near_command", args[0], near[0], cmd.CommandPath())
		}
		return cli.Misuse("cli.sluice.unknown_command", args[0], cmd.CommandPath())
	}
}
