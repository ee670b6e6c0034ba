package managecmd

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
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) engineCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "engine", Short: cli.Both("cli.engine.short")}
	flags.Register(cmd, a.App)
	adapters := &cobra.Command{Use: "adapters", Short: cli.Both("cli.engine_adapters.short")}
	adapters.AddCommand(a.loadAdapterCommand(&flags), a.listAdaptersCommand(&flags), a.unloadAdapterCommand(&flags))
	cmd.AddCommand(a.schedulerCommand(&flags), a.stepsCommand(&flags), adapters, a.instancesCommand(&flags), a.matrixCommand(&flags))
	return cmd
}

func (a *app) schedulerCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "scheduler", Short: cli.Both("cli.engine_scheduler.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct {
				Items     []native.SchedulerState
				Instances []adminapi.EngineInstance
			}
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/engine/scheduler", nil, &out); err != nil {
				return err
			}
			a.printEngines(out.Instances)
			return a.printScheduler(out.Items)
		},
	}
}

func (a *app) stepsCommand(flags *cli.RemoteFlags) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "steps", Short: cli.Both("cli.engine_steps.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct{ Items []sched.StepRecord }
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/engine/steps"+cli.Query("limit", strconv.Itoa(limit)), nil, &out); err != nil {
				return err
			}
			return a.printSteps(out.Items)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, cli.Both("cli.engine_steps.limit"))
	return cmd
}

func (a *app) loadAdapterCommand(flags *cli.RemoteFlags) *cobra.Command {
	var tenants []string
	cmd := &cobra.Command{
		Use: "load ID MODEL PATH", Short: cli.Both("cli.engine_load.short"), Args: cli.Exactly(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.NewAdapter{Id: args[0], Model: args[1], Path: args[2]}
			if len(tenants) > 0 {
				in.Tenants = &tenants
			}
			var out adminapi.Adapter
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/engine/adapters", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.engine_load.done", out.Id, out.Digest))
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&tenants, "tenant", nil, cli.Both("cli.engine_load.tenant"))
	return cmd
}

func (a *app) listAdaptersCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.engine_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.AdapterList
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/engine/adapters", nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
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

func (a *app) unloadAdapterCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "unload ID", Short: cli.Both("cli.engine_unload.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Ask(cmd.Context(), *flags, http.MethodDelete, "/engine/adapters/"+url.PathEscape(args[0]), nil, nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.engine_unload.done", args[0]))
			return nil
		},
	}
}

// printEngines prints the slots and the memory of each engine of our own.
func (a *app) printEngines(all []adminapi.EngineInstance) {
	for _, e := range all {
		slots := "–"
		if e.ConcurrencyLimit != nil {
			slots = strconv.Itoa(*e.ConcurrencyLimit)
		}
		fmt.Fprintln(a.Stdout, a.Say("cli.engine_scheduler.instance", e.Name, string(e.Kind), string(e.State), slots))
		for _, m := range e.Models {
			mib := "–"
			if m.KvPageBytes != nil {
				mib = strconv.Itoa(m.KvPages * *m.KvPageBytes >> 20)
			}
			fmt.Fprintln(a.Stdout, "  "+a.Say("cli.engine_scheduler.memory", m.Model, m.RunningSequences, m.WaitingSequences, m.KvPagesInUse, m.KvPages, mib))
		}
	}
}

func (a *app) printScheduler(models []native.SchedulerState) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	for _, m := range models {
		k := m.Controller.Coefficients
		fmt.Fprintln(w, a.Say("cli.engine_scheduler.load", m.Model, m.Running, m.Waiting, m.PagesInUse, m.Pages))
		fmt.Fprintln(w, a.Say("cli.engine_scheduler.step", k.Step, k.Decode, k.Prefill, k.Context))
		fmt.Fprintln(w, "CLASS\tTARGET MS\tOBSERVED P99 MS\tMARGIN\tMOST SEQUENCES")
		for _, c := range m.Controller.Classes {
			fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%.2f\t%d\n", c.Class, c.TargetMs, c.ObservedP99Ms, c.Margin, c.MaxSequences)
		}
	}
	return w.Flush()
}

func (a *app) printSteps(steps []sched.StepRecord) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tAT\tMS\tSEQUENCES\tDECODE\tPROMPT\tGUESSED\tRIGHT\tCACHED")
	for _, s := range steps {
		fmt.Fprintf(w, "%d\t%s\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Step, s.Time.Format("15:04:05.000"), float64(s.Took)/float64(time.Millisecond),
			s.Load.Sequences, s.Load.Decode, s.Load.Prefill, s.Load.Drafts, s.Accepted, s.Cached)
	}
	return w.Flush()
}
