package auditcmd

import (
	"context"
	"encoding/json"
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
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/config"
)

func (a *app) pruneCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "prune", Short: cli.Both("cli.prune.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.prune.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			if dry {
				return a.due(cmd.Context(), cfg, log)
			}
			return a.prune(cmd.Context(), cfg, log)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, cli.Both("cli.prune.dry_run"))
	return cmd
}

func (a *app) due(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	due, err := server.Prunable(ctx, cfg, log)
	if err != nil {
		return err
	}
	a.pruned(a.Say("cli.prune.due"), due)
	return nil
}

// prune tells what was pruned also where a later pruning failed.
func (a *app) prune(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	done, err := server.Prune(ctx, cfg, log)
	for _, p := range done {
		a.pruned(a.Say("cli.prune.pruned"), p)
	}
	if err != nil || len(done) > 0 {
		return err
	}
	due, err := server.Prunable(ctx, cfg, log)
	a.pruned(a.Say("cli.prune.pruned"), audit.Pruning{Unseen: due.Unseen})
	return err
}

func (a *app) pruned(what string, p audit.Pruning) {
	if p.Unseen > 0 {
		fmt.Fprintln(a.Stderr, a.Say("cli.prune.unseen", p.Unseen))
	}
	if p.First == p.Until {
		fmt.Fprintln(a.Stdout, a.Say("cli.prune.nothing", what))
		return
	}
	fmt.Fprint(a.Stdout, a.Say("cli.prune.records", what, p.Until-p.First-p.Kept, p.First, p.Until-1, stamp(p.Oldest), stamp(p.Newest), p.Kept))
	if p.Archive != "" {
		fmt.Fprint(a.Stdout, a.Say("cli.prune.archive", p.Archive, p.Digest))
	}
	fmt.Fprintln(a.Stdout)
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
		Use: "hold", Short: cli.Both("cli.prune_hold.short"), Args: cli.Exactly(0),
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
	cmd.Flags().StringVar(&f.hold.Tenant, "tenant", "", cli.Both("cli.prune_hold.tenant"))
	cmd.Flags().StringVar(&f.hold.Request, "request", "", cli.Both("cli.prune_hold.request"))
	cmd.Flags().StringVar(&f.hold.Actor, "actor", "", cli.Both("cli.prune_hold.actor"))
	cmd.Flags().StringVar(&f.subject, "subject", "", cli.Both("cli.prune_hold.subject"))
	cmd.Flags().StringVar(&f.from, "from", "", cli.Both("cli.shared.from"))
	cmd.Flags().StringVar(&f.to, "to", "", cli.Both("cli.shared.to"))
	cmd.Flags().StringVar(&f.hold.Reason, "reason", "", cli.Both("cli.prune_hold.reason"))
	cmd.Flags().BoolVar(&f.list, "list", false, cli.Both("cli.prune_hold.list"))
	cmd.Flags().StringVar(&f.release, "release", "", cli.Both("cli.prune_hold.release"))
	return cmd
}

// check refuses flags that do not go together, and reads the times.
func (f *holdFlags) check() error {
	h := &f.hold
	if f.list && (f.release != "" || h.Reason != "") || f.release != "" && (h.Request != "" || h.Actor != "" || f.subject != "" || f.from != "" || f.to != "") {
		return cli.Misuse("cli.prune_hold.want_one")
	}
	if f.release != "" && strings.TrimSpace(h.Reason) == "" {
		return cli.Misuse("cli.prune_hold.release_reason")
	}
	if f.subject != "" && h.Tenant == "" {
		return cli.Misuse("cli.prune_hold.subject_tenant")
	}
	var err error
	if h.From, err = moment("from", f.from); err != nil {
		return err
	}
	h.To, err = moment("to", f.to)
	return err
}

func (a *app) hold(ctx context.Context, f holdFlags) error {
	cfg, log, err := a.Site()
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
	enc := json.NewEncoder(a.Stdout)
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
	of := a.Say("cli.prune_hold.all_tenants")
	if h.Tenant != "" {
		of = a.Say("cli.prune_hold.of_tenant", h.Tenant)
	}
	if h.Request != "" {
		of += a.Say("cli.prune_hold.of_request", h.Request)
	}
	if h.Actor != "" {
		of += a.Say("cli.prune_hold.of_actor", h.Actor)
	}
	if h.Subject != "" {
		of += a.Say("cli.prune_hold.of_person", h.Subject)
	}
	if h.From != 0 {
		of += a.Say("cli.prune_hold.from_time", stamp(h.From))
	}
	if h.To != 0 {
		of += a.Say("cli.prune_hold.before_time", stamp(h.To))
	}
	if h.Released != 0 {
		fmt.Fprintln(a.Stderr, a.Say("cli.prune_hold.released", of))
		return
	}
	fmt.Fprintln(a.Stderr, a.Say("cli.prune_hold.held", of))
}
