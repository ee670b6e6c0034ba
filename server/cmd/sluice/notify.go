package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/notify"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) notifyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "notify", Short: cli.Both("cli.notify.short")}
	cmd.AddCommand(&cobra.Command{
		Use: "test [CHANNEL]", Short: cli.Both("cli.notify_test.short"), Args: cli.AtMost(1),
		Long: message.Both("cli.notify_test.long", "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			n, err := notify.New(cfg.Notify, cfg.PublicURL, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				return err
			}
			results, err := n.Test(cmd.Context(), first(args))
			if err != nil {
				return err
			}
			return a.printDeliveries(results)
		},
	})
	return cmd
}

// first returns the first word, "" if there is none.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (a *app) printDeliveries(results []notify.Result) (err error) {
	if len(results) == 0 {
		fmt.Fprintln(a.Stdout, a.Say("cli.notify.no_channel"))
	}
	for _, r := range results {
		if r.Err == nil {
			fmt.Fprintln(a.Stdout, a.Say("cli.notify.delivered", r.Channel, r.Kind, r.Took.Round(time.Millisecond)))
			continue
		}
		fmt.Fprintln(a.Stdout, a.Say("cli.notify.not_delivered", r.Channel, r.Kind, r.Err))
		err = cli.ErrFindings
	}
	return err
}
