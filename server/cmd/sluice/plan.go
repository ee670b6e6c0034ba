package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/scaling/fleet"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

type planFlags struct {
	trace, shape       string
	day                fleet.Day
	days, learn        int
	cfg                fleet.Config
	policy             scaling.Policy
	peak, idle         []string
	use                float64
	step               time.Duration
	asJSON             bool
	instances, minimum int
}

// planStart is a Monday: what is played repeats, so it may not depend on today.
func planStart() time.Time { return time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC) }

// planCommand plays a load with several ways of scaling.
func (a *app) planCommand() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use: "plan", Short: cli.Both("cli.plan.short"), Args: cli.Exactly(0), Long: message.Both("cli.plan.long", "\n\n"),
		Example: `  sluice plan --instances 20 --peak 07:00-22:00 --idle 22:00-07:00 --days 30
  sluice plan --shape mooncake --peak-rate 6 --prefill 20000 --start-min 5m --start-max 7m
  sluice plan --trace requests.csv --instances 8 --json`,
		RunE: func(*cobra.Command, []string) error { return a.plan(f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.trace, "trace", "", cli.Both("cli.plan.trace"))
	fl.StringVar(&f.shape, "shape", "azure-conversation", cli.Both("cli.plan.shape"))
	fl.Float64Var(&f.day.Peak, "peak-rate", 30, cli.Both("cli.plan.peak_rate"))
	fl.Float64Var(&f.day.Night, "night", 0.1, cli.Both("cli.plan.night"))
	fl.Float64Var(&f.day.Weekend, "weekend", 0.6, cli.Both("cli.plan.weekend"))
	fl.Float64Var(&f.day.Noise, "noise", 0.1, cli.Both("cli.plan.noise"))
	fl.Float64Var(&f.day.Bursts, "bursts", 1, cli.Both("cli.plan.bursts"))
	fl.IntVar(&f.days, "days", 7, cli.Both("cli.plan.days"))
	fl.IntVar(&f.learn, "learn", 15, cli.Both("cli.plan.learn"))
	fl.DurationVar(&f.step, "step", 10*time.Second, cli.Both("cli.plan.step"))
	fl.Uint64Var(&f.day.Seed, "seed", 1, cli.Both("cli.plan.seed"))

	fl.IntVar(&f.instances, "instances", 20, cli.Both("cli.plan.instances"))
	fl.IntVar(&f.minimum, "min", 1, cli.Both("cli.plan.min"))
	fl.IntVar(&f.policy.Max, "max", 0, cli.Both("cli.plan.max"))
	fl.StringSliceVar(&f.peak, "peak", nil, cli.Both("cli.plan.peak"))
	fl.StringSliceVar(&f.idle, "idle", nil, cli.Both("cli.plan.idle"))
	fl.StringVar(&f.policy.Calendar.Timezone, "timezone", "UTC", cli.Both("cli.plan.timezone"))
	fl.Float64Var(&f.policy.Calendar.IdleShare, "idle-share", 0.35, cli.Both("cli.plan.idle_share"))
	fl.Float64Var(&f.policy.Calendar.ValleyShare, "valley-share", 0.6, cli.Both("cli.plan.valley_share"))
	fl.Float64Var(&f.use, "use", 0.8, cli.Both("cli.plan.use"))

	m := &f.cfg.Machine
	fl.Float64Var(&m.Prefill, "prefill", 8000, cli.Both("cli.plan.prefill"))
	fl.Float64Var(&m.Decode, "decode", 1000, cli.Both("cli.plan.decode"))
	fl.Float64Var(&m.IdleWatt, "idle-watts", 100, cli.Both("cli.plan.idle_watts"))
	fl.Float64Var(&m.BusyWatt, "busy-watts", 400, cli.Both("cli.plan.busy_watts"))
	fl.Float64Var(&m.Hour, "hour-price", 2, cli.Both("cli.plan.hour_price"))
	fl.Float64Var(&m.KWh, "kwh-price", 0.15, cli.Both("cli.plan.kwh_price"))
	fl.DurationVar(&f.cfg.Wait, "wait", 10*time.Second, cli.Both("cli.plan.wait"))
	fl.DurationVar(&f.cfg.StartMin, "start-min", 30*time.Second, cli.Both("cli.plan.start_min"))
	fl.DurationVar(&f.cfg.StartMax, "start-max", 90*time.Second, cli.Both("cli.plan.start_max"))
	fl.Float64Var(&f.cfg.FailStarts, "fail", 0, cli.Both("cli.plan.fail"))
	fl.BoolVar(&f.asJSON, "json", false, cli.Both("cli.shared.json"))
	for _, made := range []string{"shape", "peak-rate", "night", "weekend", "noise", "bursts", "days"} {
		cmd.MarkFlagsMutuallyExclusive("trace", made)
	}
	return cmd
}

// planned is what a plan says, for programs.
type planned struct {
	Load     string          `json:"load"`
	Source   string          `json:"source,omitempty"`
	PeakRate float64         `json:"peak_rate"` // the highest mean of five minutes, in requests a second
	Line     int             `json:"line"`      // instances that carry 1.4 times that
	Rate     float64         `json:"rate"`      // requests a second that one instance is to carry
	Outcomes []fleet.Outcome `json:"outcomes"`
}

func (a *app) plan(f *planFlags) error {
	out, err := f.load()
	if err != nil {
		return err
	}
	if err := f.complete(); err != nil {
		return err
	}
	out.PeakRate, out.Rate = f.cfg.Trace.Peak(), f.policy.Targets.Rate
	out.Line = f.policy.Line(out.PeakRate)
	if out.Outcomes, err = fleet.Compare(f.cfg, f.policy, f.instances); err != nil {
		return cli.Misuse("cli.plan.bad", err)
	}
	if f.asJSON {
		return cli.PrintJSON(a.Stdout, out)
	}
	return a.printPlan(out, f.policy.Max)
}

// load reads the trace or makes one.
func (f *planFlags) load() (planned, error) {
	if f.step < time.Second || f.learn < 0 || f.learn > 35 || f.days < 1 || f.days > 366 {
		return planned{}, cli.Misuse("cli.plan.bounds")
	}
	f.cfg.Seed = f.day.Seed
	f.cfg.Uncounted = time.Duration(f.learn) * 24 * time.Hour
	if f.trace != "" {
		file, err := os.Open(f.trace)
		if err != nil {
			return planned{}, err
		}
		defer func() { _ = file.Close() }()
		if f.cfg.Trace, err = fleet.Read(bufio.NewReader(file), planStart(), f.step); err != nil {
			return planned{}, cli.Failed("cli.plan.unread", f.trace, err)
		}
		if f.cfg.Uncounted >= f.cfg.Trace.End().Sub(f.cfg.Trace.Start) {
			f.cfg.Uncounted = 0 // too short to learn from first
		}
		return planned{Load: f.trace}, nil
	}
	var known []string
	for _, s := range fleet.Shapes() {
		if s.Name == f.shape {
			zone, err := time.LoadLocation(f.policy.Calendar.Timezone)
			if err != nil {
				return planned{}, cli.Misuse("cli.plan.bad", err)
			}
			f.day.Zone = zone
			f.cfg.Trace = s.Make(f.day, planStart(), f.learn+f.days, f.step)
			return planned{Load: s.Name, Source: s.Source}, nil
		}
		known = append(known, s.Name)
	}
	return planned{}, cli.Misuse("cli.plan.no_shape", f.shape, strings.Join(known, ", "))
}

// complete makes the policy of the flags.
func (f *planFlags) complete() error {
	p := &f.policy
	p.Min = f.minimum
	if p.Max == 0 {
		p.Max = 2 * f.instances
	}
	if f.use <= 0 || f.use > 1 {
		return cli.Misuse("cli.plan.bounds")
	}
	p.Targets = scaling.Targets{Rate: f.use / f.cfg.Trace.SecondsEach(f.cfg.Machine), Waiting: 4}
	p.Cost = scaling.Cost{Instance: f.cfg.Machine.Hour, Watts: f.cfg.Machine.BusyWatt}
	if len(f.peak)+len(f.idle) == 0 {
		p.Calendar = scaling.Calendar{}
		return nil
	}
	p.Calendar.Total = f.instances
	for _, list := range []struct {
		flags   []string
		windows *[]scaling.Window
	}{{f.peak, &p.Calendar.Peak}, {f.idle, &p.Calendar.Idle}} {
		for _, w := range list.flags {
			from, to, ok := strings.Cut(w, "-")
			if !ok {
				return cli.Misuse("cli.plan.window", w)
			}
			*list.windows = append(*list.windows, scaling.Window{From: from, To: to})
		}
	}
	return nil
}

func (a *app) printPlan(p planned, most int) error {
	load := p.Load
	if p.Source != "" {
		load += " (" + p.Source + ")"
	}
	lines := []string{a.Say("cli.plan.load", load), a.Say("cli.plan.line", number(p.PeakRate, 1), p.Line)}
	if p.Line > most {
		lines = append(lines, a.Say("cli.plan.below", most))
	}
	if _, err := fmt.Fprintln(a.Stdout, strings.Join(lines, "\n")); err != nil {
		return err
	}
	names := map[string]string{
		fleet.Fixed: a.Say("cli.plan.fixed"), fleet.Reactive: a.Say("cli.plan.reactive"), fleet.Scheduled: a.Say("cli.plan.scheduled"),
		fleet.Predictive: a.Say("cli.plan.predictive"), fleet.EqualHours: a.Say("cli.plan.equal"),
	}
	rows := [][]string{{
		a.Say("cli.plan.way"), a.Say("cli.plan.range"), a.Say("cli.plan.hours"), a.Say("cli.plan.saved"), a.Say("cli.plan.missed"), a.Say("cli.plan.longest"), a.Say("cli.plan.in_use"),
		a.Say("cli.plan.cost"), a.Say("cli.plan.energy"), a.Say("cli.plan.changes"),
	}}
	twin := p.Outcomes[0]
	for _, o := range p.Outcomes {
		rows = append(rows, []string{
			names[o.Name], fmt.Sprintf("%d–%d", o.Least, o.Most), number(o.InstanceHours, 1), number(100*(1-o.Cost/twin.Cost), 1) + " %",
			number(100*o.MissShare(), 3) + " %", o.LongestWait.Round(time.Second).String(), number(100*o.Use, 0) + " %", number(o.Cost, 0),
			number(o.Joules/1e6, 0), strconv.Itoa(o.Changes),
		})
	}
	cli.PrintColumns(a.Stdout, rows)
	_, err := fmt.Fprintln(a.Stdout, a.Say("cli.plan.basis"))
	return err
}

func number(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
