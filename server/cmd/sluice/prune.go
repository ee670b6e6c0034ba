package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

// site loads the configuration of an installation whose database is there, and a log for what goes wrong.
func (a *app) site() (*config.Config, *slog.Logger, error) {
	cfg, err := a.load(nil)
	if err == nil {
		err = databaseThere(cfg)
	}
	return cfg, slog.New(slog.NewTextHandler(a.env.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), err
}

func (a *app) pruneCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Archive and remove audit records whose time is over / 归档并清理到期的审计记录", Args: exactly(0),
		Long: `What goes is written into audit.retention.archive_dir as an evidence bundle and verified from there before anything is removed; what a longer
time or a hold keeps stays, with its proof. Each pruning is itself recorded. The server prunes once a day by itself; cut off at any point, a
pruning loses nothing and goes on the next time.
待清理的记录先以证据包写入 audit.retention.archive_dir 并从磁盘校验，之后才会移除；保留期更长或被保留的记录连同证明留下。清理行为本身也会记录。
服务器每天自动清理一次；清理随时中断都不会丢失数据，下次继续。`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.site()
			if err != nil {
				return err
			}
			if dry {
				due, err := server.Prunable(cmd.Context(), cfg, log)
				if err != nil {
					return err
				}
				a.pruned("due / 到期", due)
				return nil
			}
			done, err := server.Prune(cmd.Context(), cfg, log)
			for _, p := range done {
				a.pruned("pruned / 已清理", p)
			}
			if err == nil && len(done) == 0 {
				due, err := server.Prunable(cmd.Context(), cfg, log)
				a.pruned("pruned / 已清理", audit.Pruning{Unseen: due.Unseen})
				return err
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what is due / 仅显示到期记录")
	return cmd
}

func (a *app) pruned(what string, p audit.Pruning) {
	if p.Unseen > 0 {
		fmt.Fprintf(a.env.stderr, "%d records wait for the witnesses (audit.witnesses), which have not cosigned them / 条记录等待见证者联署\n", p.Unseen)
	}
	if p.First == p.Until {
		fmt.Fprintf(a.env.stdout, "%s: nothing / 无\n", what)
		return
	}
	stamp := func(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339) }
	fmt.Fprintf(a.env.stdout, "%s: %d records, index %d to %d, of %s to %s; %d stay / 条留下", what, p.Until-p.First-p.Kept, p.First, p.Until-1, stamp(p.Oldest), stamp(p.Newest), p.Kept)
	if p.Archive != "" {
		fmt.Fprintf(a.env.stdout, "; archive / 归档 %s, sha256 %s", p.Archive, p.Digest)
	}
	fmt.Fprintln(a.env.stdout)
}

func (a *app) holdCommand() *cobra.Command {
	var h audit.Hold
	var from, to, release, tenant string
	var list bool
	cmd := &cobra.Command{
		Use: "hold", Short: "Keep audit records from being pruned, for a court or an authority / 依法保留审计记录，使其不被清理", Args: exactly(0),
		Long: `A hold keeps the records it selects, with their proofs, when others of their time are pruned, until it is released. It blocks nothing else. Holding
and releasing are recorded.
被选定的记录及其证明在同期记录清理时留下，直至解除保留；不影响其他记录。保留与解除均会记录。`,
		Example: `  sluice audit hold --tenant demo --from 2026-11-01 --to 2026-12-01 --reason 'case 17/26'
  sluice audit hold --list
  sluice audit hold --release 01930000-0000-7000-8000-000000000000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list && (release != "" || h.Reason != "") || release != "" && h.Reason != "" {
				return usageError{errors.New("want --reason with a selection, or --list, or --release")}
			}
			var err error
			if h.From, err = moment("from", from); err != nil {
				return err
			}
			if h.To, err = moment("to", to); err != nil {
				return err
			}
			cfg, log, err := a.site()
			if err != nil {
				return err
			}
			h.Tenant = tenant
			holds := make([]audit.Hold, 1)
			switch {
			case list:
				holds, err = server.Holds(cmd.Context(), cfg, tenant, log)
			case release != "":
				holds[0], err = server.ReleaseHold(cmd.Context(), cfg, release, log)
			default:
				holds[0], err = server.Hold(cmd.Context(), cfg, h, log)
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
			return nil
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "records of this `TENANT` / 租户")
	cmd.Flags().StringVar(&h.Request, "request", "", "records of the request with this `ID` / 请求 ID")
	cmd.Flags().StringVar(&h.Actor, "actor", "", "records of the key or user with this `ID` / 主体 ID")
	cmd.Flags().StringVar(&from, "from", "", "first `TIME`, as 2026-11-22 or 2026-11-22T08:00:00+08:00 / 起始时间")
	cmd.Flags().StringVar(&to, "to", "", "`TIME` behind the last / 结束时间（不含）")
	cmd.Flags().StringVar(&h.Reason, "reason", "", "`WHY` they are held / 保留原因")
	cmd.Flags().BoolVar(&list, "list", false, "print the holds as JSON Lines / 以 JSON Lines 输出")
	cmd.Flags().StringVar(&release, "release", "", "`ID` of the hold to release / 要解除的保留 ID")
	return cmd
}
