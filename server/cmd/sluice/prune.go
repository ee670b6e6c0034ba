package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

// site loads the configuration of an installation whose database is there, and a log for what goes wrong.
func (a *app) site() (*config.Config, *slog.Logger, error) {
	cfg, err := a.load(nil)
	if err == nil {
		err = server.DatabaseExists(cfg)
	}
	return cfg, slog.New(slog.NewTextHandler(a.env.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), err
}

func (a *app) pruneCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "prune", Short: both("cli.prune.short"), Args: exactly(0),
		Long: message.Both("cli.prune.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.site()
			if err != nil {
				return err
			}
			if dry {
				return a.due(cmd.Context(), cfg, log)
			}
			return a.prune(cmd.Context(), cfg, log)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, both("cli.prune.dry_run"))
	return cmd
}

func (a *app) due(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	due, err := server.Prunable(ctx, cfg, log)
	if err != nil {
		return err
	}
	a.pruned(a.say("cli.prune.due"), due)
	return nil
}

// prune tells what was pruned also where a later pruning failed.
func (a *app) prune(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	done, err := server.Prune(ctx, cfg, log)
	for _, p := range done {
		a.pruned(a.say("cli.prune.pruned"), p)
	}
	if err != nil || len(done) > 0 {
		return err
	}
	due, err := server.Prunable(ctx, cfg, log)
	a.pruned(a.say("cli.prune.pruned"), audit.Pruning{Unseen: due.Unseen})
	return err
}

func (a *app) pruned(what string, p audit.Pruning) {
	if p.Unseen > 0 {
		fmt.Fprintln(a.env.stderr, a.say("cli.prune.unseen", p.Unseen))
	}
	if p.First == p.Until {
		fmt.Fprintln(a.env.stdout, a.say("cli.prune.nothing", what))
		return
	}
	fmt.Fprint(a.env.stdout, a.say("cli.prune.records", what, p.Until-p.First-p.Kept, p.First, p.Until-1, stamp(p.Oldest), stamp(p.Newest), p.Kept))
	if p.Archive != "" {
		fmt.Fprint(a.env.stdout, a.say("cli.prune.archive", p.Archive, p.Digest))
	}
	fmt.Fprintln(a.env.stdout)
}

// stamp is a time of the log in UTC.
func stamp(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339) }

// holdFlags say what to hold, or which hold to release.
type holdFlags struct {
	hold              retention.Hold
	subject, from, to string
	release           string
	list              bool
}

func (a *app) holdCommand() *cobra.Command {
	var f holdFlags
	cmd := &cobra.Command{
		Use: "hold", Short: both("cli.prune_hold.short"), Args: exactly(0),
		Long: message.Both("cli.prune_hold.long", "\n"),
		Example: `  sluice audit hold --tenant demo --from 2026-11-01 --to 2026-12-01 --reason 'case 17/26'
  sluice audit hold --tenant demo --subject alice@example.com --reason 'case 17/26'
  sluice audit hold --list
  sluice audit hold --release 01930000-0000-7000-8000-000000000000 --reason 'case 17/26 closed'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.hold(cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&f.hold.Tenant, "tenant", "", both("cli.prune_hold.tenant"))
	cmd.Flags().StringVar(&f.hold.Request, "request", "", both("cli.prune_hold.request"))
	cmd.Flags().StringVar(&f.hold.Actor, "actor", "", both("cli.prune_hold.actor"))
	cmd.Flags().StringVar(&f.subject, "subject", "", both("cli.prune_hold.subject"))
	cmd.Flags().StringVar(&f.from, "from", "", both("cli.shared.from"))
	cmd.Flags().StringVar(&f.to, "to", "", both("cli.shared.to"))
	cmd.Flags().StringVar(&f.hold.Reason, "reason", "", both("cli.prune_hold.reason"))
	cmd.Flags().BoolVar(&f.list, "list", false, both("cli.prune_hold.list"))
	cmd.Flags().StringVar(&f.release, "release", "", both("cli.prune_hold.release"))
	return cmd
}

// check refuses flags that do not go together, and reads the times.
func (f *holdFlags) check() error {
	h := &f.hold
	if f.list && (f.release != "" || h.Reason != "") || f.release != "" && (h.Request != "" || h.Actor != "" || f.subject != "" || f.from != "" || f.to != "") {
		return usageError{errors.New("want --reason with a selection, or --list, or --release, which takes a --reason too")}
	}
	if f.release != "" && strings.TrimSpace(h.Reason) == "" {
		return usageError{errors.New("say why it is released: --release goes with --reason")}
	}
	if f.subject != "" && h.Tenant == "" {
		return usageError{errors.New("a person is one of a tenant: --subject goes with --tenant")}
	}
	var err error
	if h.From, err = moment("from", f.from); err != nil {
		return err
	}
	h.To, err = moment("to", f.to)
	return err
}

func (a *app) hold(ctx context.Context, f holdFlags) error {
	cfg, log, err := a.site()
	if err != nil {
		return err
	}
	holds := make([]retention.Hold, 1)
	switch {
	case f.list:
		holds, err = server.Holds(ctx, cfg, f.hold.Tenant, log)
	case f.release != "":
		holds[0], err = server.ReleaseHold(ctx, cfg, f.release, f.hold.Reason, log)
	default:
		holds[0], err = server.Hold(ctx, cfg, f.hold, f.subject, log)
	}
	if err != nil {
		return err
	}
	enc := json.NewEncoder(a.env.stdout)
	for _, h := range holds {
		if err := enc.Encode(adminapi.HoldView(h)); err != nil {
			return err
		}
	}
	if !f.list {
		a.sayHold(holds[0])
	}
	return nil
}

// sayHold tells people what a hold that was placed or released now means; programs read stdout.
func (a *app) sayHold(h retention.Hold) {
	of := a.say("cli.prune_hold.all_tenants")
	if h.Tenant != "" {
		of = a.say("cli.prune_hold.of_tenant", h.Tenant)
	}
	if h.Request != "" {
		of += a.say("cli.prune_hold.of_request", h.Request)
	}
	if h.Actor != "" {
		of += a.say("cli.prune_hold.of_actor", h.Actor)
	}
	if h.Subject != "" {
		of += a.say("cli.prune_hold.of_person", h.Subject)
	}
	if h.From != 0 {
		of += a.say("cli.prune_hold.from_time", stamp(h.From))
	}
	if h.To != 0 {
		of += a.say("cli.prune_hold.before_time", stamp(h.To))
	}
	if h.Released != 0 {
		fmt.Fprintln(a.env.stderr, a.say("cli.prune_hold.released", of))
		return
	}
	fmt.Fprintln(a.env.stderr, a.say("cli.prune_hold.held", of))
}
