package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/server/adminapi"
)

func (a *app) engineCommand() *cobra.Command {
	var flags remoteFlags
	cmd := &cobra.Command{Use: "engine", Short: both("cli.engine.short")}
	flags.register(cmd, a.env)
	adapters := &cobra.Command{Use: "adapters", Short: both("cli.engine_adapters.short")}
	adapters.AddCommand(a.loadAdapterCommand(&flags), a.listAdaptersCommand(&flags), a.unloadAdapterCommand(&flags))
	cmd.AddCommand(a.schedulerCommand(&flags), a.stepsCommand(&flags), adapters)
	return cmd
}

func (a *app) schedulerCommand(flags *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "scheduler", Short: both("cli.engine_scheduler.short"), Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct{ Items []native.SchedulerState }
			if err := a.ask(cmd.Context(), *flags, http.MethodGet, "/engine/scheduler", nil, &out); err != nil {
				return err
			}
			return a.printScheduler(out.Items)
		},
	}
}

func (a *app) stepsCommand(flags *remoteFlags) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "steps", Short: both("cli.engine_steps.short"), Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct{ Items []sched.StepRecord }
			if err := a.ask(cmd.Context(), *flags, http.MethodGet, "/engine/steps"+query("limit", strconv.Itoa(limit)), nil, &out); err != nil {
				return err
			}
			return a.printSteps(out.Items)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, both("cli.engine_steps.limit"))
	return cmd
}

func (a *app) loadAdapterCommand(flags *remoteFlags) *cobra.Command {
	var tenants []string
	cmd := &cobra.Command{
		Use: "load ID MODEL PATH", Short: both("cli.engine_load.short"), Args: exactly(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.NewAdapter{Id: args[0], Model: args[1], Path: args[2]}
			if len(tenants) > 0 {
				in.Tenants = &tenants
			}
			var out adminapi.Adapter
			if err := a.ask(cmd.Context(), *flags, http.MethodPost, "/engine/adapters", in, &out); err != nil {
				return err
			}
			fmt.Fprintf(a.env.stdout, "loaded %s (%s)\nIt is gone after a stop of the server; name it in engines.native.adapters to keep it.\n", out.Id, out.Digest)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&tenants, "tenant", nil, both("cli.engine_load.tenant"))
	return cmd
}

func (a *app) listAdaptersCommand(flags *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: both("cli.engine_list.short"), Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.AdapterList
			if err := a.ask(cmd.Context(), *flags, http.MethodGet, "/engine/adapters", nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tMODEL\tKIB\tTENANTS\tDIGEST")
			for _, x := range out.Items {
				who := "all"
				if len(x.Tenants) > 0 {
					who = strings.Join(x.Tenants, ",")
				}
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", x.Id, x.Model, x.Bytes>>10, who, x.Digest)
			}
			return w.Flush()
		},
	}
}

func (a *app) unloadAdapterCommand(flags *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "unload ID", Short: both("cli.engine_unload.short"), Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.ask(cmd.Context(), *flags, http.MethodDelete, "/engine/adapters/"+url.PathEscape(args[0]), nil, nil); err != nil {
				return err
			}
			fmt.Fprintf(a.env.stdout, "unloaded %s\n", args[0])
			return nil
		},
	}
}

func (a *app) printScheduler(models []native.SchedulerState) error {
	w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
	for _, m := range models {
		k := m.Controller.Coefficients
		fmt.Fprintf(w, "%s: %d running, %d waiting, %d of %d pages in use\n", m.Model, m.Running, m.Waiting, m.PagesInUse, m.Pages)
		fmt.Fprintf(w, "a step takes %.0f µs, and %.0f per decoding sequence, %.0f per prompt token, %.3f per position\n",
			k.Step, k.Decode, k.Prefill, k.Context)
		fmt.Fprintln(w, "CLASS\tTARGET MS\tOBSERVED P99 MS\tMARGIN\tMOST SEQUENCES")
		for _, c := range m.Controller.Classes {
			fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%.2f\t%d\n", c.Class, c.TargetMs, c.ObservedP99Ms, c.Margin, c.MaxSequences)
		}
	}
	return w.Flush()
}

func (a *app) printSteps(steps []sched.StepRecord) error {
	w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tAT\tMS\tSEQUENCES\tDECODE\tPROMPT\tGUESSED\tRIGHT\tCACHED")
	for _, s := range steps {
		fmt.Fprintf(w, "%d\t%s\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Step, s.Time.Format("15:04:05.000"), float64(s.Took)/float64(time.Millisecond),
			s.Load.Sequences, s.Load.Decode, s.Load.Prefill, s.Load.Drafts, s.Accepted, s.Cached)
	}
	return w.Flush()
}
