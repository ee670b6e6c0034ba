package managecmd

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) scaleCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "scale", Short: cli.Both("cli.scale.short")}
	flags.Register(cmd, a.App)

	status := &cobra.Command{Use: "status", Short: cli.Both("cli.scale_status.short"), Args: cli.Exactly(0)}
	status.RunE = func(cmd *cobra.Command, _ []string) error {
		var out adminapi.ScalingList
		if err := a.Ask(cmd.Context(), flags, http.MethodGet, "/scaling", nil, &out); err != nil {
			return err
		}
		var latest []scaleRow
		for _, p := range out.Items {
			if p.Latest != nil {
				latest = append(latest, scaleRow{p, *p.Latest})
			}
		}
		return a.printScaling(latest)
	}
	var pool string
	decisions := &cobra.Command{Use: "decisions", Short: cli.Both("cli.scale_decisions.short"), Args: cli.Exactly(0)}
	decisions.Flags().StringVar(&pool, "pool", "", cli.Both("cli.scale.pool"))
	decisions.RunE = func(cmd *cobra.Command, _ []string) error {
		var out adminapi.ScalingList
		if err := a.Ask(cmd.Context(), flags, http.MethodGet, "/scaling", nil, &out); err != nil {
			return err
		}
		var all []scaleRow
		for _, p := range out.Items {
			for _, d := range p.Decisions {
				if pool == "" || pool == p.Pool {
					all = append(all, scaleRow{p, d})
				}
			}
		}
		return a.printScaling(all)
	}
	cmd.AddCommand(status, decisions, a.scaleOverrideCommand(&flags))
	return cmd
}

func (a *app) scaleOverrideCommand(flags *cli.RemoteFlags) *cobra.Command {
	var lasts time.Duration
	var reason string
	var end bool
	cmd := &cobra.Command{
		Use: "override POOL [INSTANCES]", Short: cli.Both("cli.scale_override.short"), Long: message.Both("cli.scale_override.long", "\n\n"), Args: cli.AtLeast(1),
		Example: "  sluice scale override chat 6 --for 2h --reason \"a demonstration\"\n  sluice scale override chat --end",
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/scaling/" + url.PathEscape(args[0]) + "/override"
			if end {
				return a.Ask(cmd.Context(), *flags, http.MethodDelete, path, nil, nil)
			}
			if len(args) != 2 || reason == "" || lasts <= 0 {
				return cli.Misuse("cli.scale_override.need")
			}
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return cli.Misuse("cli.scale_override.need")
			}
			return a.Ask(cmd.Context(), *flags, http.MethodPut, path, adminapi.NewScalingOverride{Target: n, Until: time.Now().Add(lasts).UTC(), Reason: reason}, nil)
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", time.Hour, cli.Both("cli.scale_override.for"))
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.scale_override.reason"))
	cmd.Flags().BoolVar(&end, "end", false, cli.Both("cli.scale_override.end"))
	return cmd
}

// scaleRow is a decision and its pool.
type scaleRow struct {
	pool adminapi.ScaledPool
	d    adminapi.ScalingDecision
}

func (a *app) printScaling(all []scaleRow) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.Stdout, a.Say("cli.scale.none"))
		return err
	}
	rows := [][]string{{
		a.Say("cli.scale.at"), a.Say("cli.scale.of_pool"), a.Say("cli.scale.ready"), a.Say("cli.scale.target"), a.Say("cli.scale.floor"), a.Say("cli.scale.most"),
		a.Say("cli.scale.line"), a.Say("cli.scale.winner"), a.Say("cli.scale.limits"), a.Say("cli.scale.alarms"),
	}}
	for _, r := range all {
		line := "-"
		if r.d.Line > 0 {
			line = strconv.Itoa(r.d.Line)
		}
		rows = append(rows, []string{
			r.d.At.Format(time.RFC3339), r.pool.Pool, strconv.Itoa(r.d.Ready), fmt.Sprintf("%d→%d", r.d.Before, r.d.Target), strconv.Itoa(r.d.Floor),
			strconv.Itoa(r.pool.Max), line, r.d.Winner, strings.Join(r.d.Limits, ","), strings.Join(r.d.Alarms, ","),
		})
	}
	cli.PrintColumns(a.Stdout, rows)
	return nil
}
