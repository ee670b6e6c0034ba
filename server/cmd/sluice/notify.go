package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/notify"
)

func (a *app) notifyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "notify", Short: both("cli.notify.short")}
	cmd.AddCommand(&cobra.Command{
		Use: "test [CHANNEL]", Short: both("cli.notify_test.short"), Args: atMostOne,
		Long: message.Both("cli.notify_test.long", "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.load(nil)
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

// atMostOne is an argument check whose error is a usage error.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%d words given; usage: %s", len(args), cmd.UseLine())}
	}
	return nil
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
		fmt.Fprintln(a.env.stdout, a.say("cli.notify.no_channel"))
	}
	for _, r := range results {
		if r.Err == nil {
			fmt.Fprintln(a.env.stdout, a.say("cli.notify.delivered", r.Channel, r.Kind, r.Took.Round(time.Millisecond)))
			continue
		}
		fmt.Fprintln(a.env.stdout, a.say("cli.notify.not_delivered", r.Channel, r.Kind, r.Err))
		err = errFindings
	}
	return err
}
