package main

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
)

func (a *app) rolloutCommand() *cobra.Command {
	var flags remoteFlags
	cmd := &cobra.Command{Use: "rollout", Short: "Move a model version to full traffic on evidence / 灰度发布"}
	flags.register(cmd, a.env)

	var minRequests, dwell, deadline int
	start := &cobra.Command{
		Use: "start MODEL CANDIDATE", Short: "Start a rollout / 开始", Args: exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			in := adminapi.NewRollout{Model: args[0], Candidate: args[1]}
			for _, o := range []struct {
				value int
				field **int
			}{{minRequests, &in.MinRequests}, {dwell, &in.DwellSeconds}, {deadline, &in.DeadlineSeconds}} {
				if o.value > 0 {
					*o.field = &o.value
				}
			}
			var out adminapi.Rollout
			if err := r.call(cmd.Context(), http.MethodPost, "/rollouts", in, &out); err != nil {
				return err
			}
			return a.printRollout(out)
		},
	}
	start.Flags().IntVar(&minRequests, "min-requests", 0, "requests each arm needs before a step is judged / 每组判定所需请求数")
	start.Flags().IntVar(&dwell, "dwell", 0, "least seconds on a step / 每步最短秒数")
	start.Flags().IntVar(&deadline, "deadline", 0, "seconds after which an undecided step is rolled back / 每步超时秒数，超时回滚")

	list := &cobra.Command{
		Use: "list", Short: "List rollouts / 列出", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			var out adminapi.RolloutPage
			if err := r.call(cmd.Context(), http.MethodGet, "/rollouts", nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tMODEL\tSTABLE\tCANDIDATE\tPHASE\tSHARE\tSTARTED")
			for _, x := range out.Items {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d%%\t%s\n", x.Id, x.Model, x.Stable, x.Candidate, x.Phase, x.ShareBasis/100, x.StartedAt.Format(time.RFC3339))
			}
			return w.Flush()
		},
	}
	get := &cobra.Command{
		Use: "get ID", Short: "Show one rollout with its evidence / 查看", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			var out adminapi.Rollout
			if err := r.call(cmd.Context(), http.MethodGet, "/rollouts/"+url.PathEscape(args[0]), nil, &out); err != nil {
				return err
			}
			return a.printRollout(out)
		},
	}
	cmd.AddCommand(start, list, get)
	for verb, short := range map[string]string{"approve": "Let it go on / 批准", "abort": "Take it back / 中止"} {
		act := &cobra.Command{
			Use: verb + " ID REASON", Short: short, Args: exactly(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				r, err := a.login(cmd.Context(), flags)
				if err != nil {
					return err
				}
				if err := r.call(cmd.Context(), http.MethodPost, "/rollouts/"+url.PathEscape(args[0])+"/"+verb, adminapi.Reason{Reason: args[1]}, nil); err != nil {
					return err
				}
				fmt.Fprintf(a.env.stdout, "told the rollout to %s; see how it goes with: sluice rollout get %s\n", verb, args[0])
				return nil
			},
		}
		cmd.AddCommand(act)
	}
	return cmd
}

func (a *app) printRollout(x adminapi.Rollout) error {
	fmt.Fprintf(a.env.stdout, "%s: %s %s → %s, %s at %d%%\n", x.Id, x.Model, x.Stable, x.Candidate, x.Phase, x.ShareBasis/100)
	if x.Reason != nil {
		fmt.Fprintf(a.env.stdout, "%s\n", *x.Reason)
	}
	w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
	if x.Metrics != nil && len(*x.Metrics) > 0 {
		fmt.Fprintln(w, "\nMETRIC\tUNIT\tBASELINE\tCANDIDATE\tVERDICT")
		for _, m := range *x.Metrics {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Name, m.Unit, sample(m.Baseline), sample(m.Candidate), m.Verdict)
		}
	}
	if x.History != nil {
		fmt.Fprintln(w, "\nAT\tFROM\tTO\tACTOR\tREASON")
		for _, h := range *x.History {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.At.Format(time.RFC3339), h.From, h.To, h.Actor, h.Reason)
		}
	}
	return w.Flush()
}

func sample(s adminapi.RolloutSample) string {
	if s.Value == nil {
		return fmt.Sprintf("no value (n=%d)", s.Samples)
	}
	return fmt.Sprintf("%g (n=%d)", *s.Value, s.Samples)
}
