package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/compliance"
)

func (a *app) exportCommand() *cobra.Command {
	var from, to, tenant, out, tiles, about string
	cmd := &cobra.Command{
		Use: "export", Short: "Write an evidence bundle that proves records offline / 导出可离线校验的证据包", Args: exactly(0),
		Long: `Writes a zip with the sealed records, their proofs, the signed checkpoint and tables for people. Whoever has the public key of the log
(sluice audit key) checks it with sluice-verify, without this installation. The export is itself recorded.
With --report a document beside the zip says what is in it, in the language of the command.
将已封存的记录、证明、已签名的检查点及供人阅读的表格写入 zip。持有日志公钥（sluice audit key）者可用 sluice-verify 离线校验。导出行为本身也会记录。
使用 --report 时，另写一份说明证据包内容的文件，语言与命令一致。

With --tiles the whole log goes into a directory as C2SP tlog-tiles, which other programs read; a later run adds what is new.
使用 --tiles 时，整个日志以 C2SP tlog-tiles 格式写入目录，供其他程序读取；再次运行会补充新增部分。`,
		Example: `  sluice audit export --out evidence.zip
  sluice audit export --from 2026-11-01 --to 2026-12-01 --tenant demo --out november.zip --report november.pdf
  sluice audit export --tiles /srv/tiles`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tiles != "" {
				return a.exportTiles(cmd.Context(), tiles)
			}
			x := audit.Export{Tenant: tenant}
			var err error
			if x.From, err = moment("from", from); err != nil {
				return err
			}
			if x.To, err = moment("to", to); err != nil {
				return err
			}
			if x.To != 0 && x.To <= x.From {
				return usageError{errors.New("--to must lie behind --from")}
			}
			return a.export(cmd.Context(), x, out, about)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first `TIME`, as 2026-11-22 or 2026-11-22T08:00:00+08:00 / 起始时间")
	cmd.Flags().StringVar(&to, "to", "", "`TIME` behind the last / 结束时间（不含）")
	cmd.Flags().StringVar(&tenant, "tenant", "", "only records of this tenant / 仅此租户")
	cmd.Flags().StringVar(&out, "out", "evidence.zip", "`FILE` to write; it must not exist / 输出文件")
	cmd.Flags().StringVar(&about, "report", "", "also write what is in the bundle to `FILE`, .pdf, .docx or .md; it must not exist / 另写证据包内容说明")
	cmd.Flags().StringVar(&tiles, "tiles", "", "write the whole log into `DIR` as tiles, in place of a bundle / 将整个日志以分片格式写入目录")
	for _, other := range []string{"out", "from", "to", "tenant", "report"} {
		cmd.MarkFlagsMutuallyExclusive("tiles", other)
	}
	return cmd
}

// moment reads a time; a date is midnight UTC.
func moment(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMicro(), nil
		}
	}
	return 0, usageError{fmt.Errorf("--%s %q: want 2026-11-22 or 2026-11-22T08:00:00+08:00", flag, text)}
}

func (a *app) exportTiles(ctx context.Context, dir string) error {
	cfg, log, err := a.site()
	if err != nil {
		return err
	}
	t, err := server.ExportTiles(ctx, cfg, dir, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.env.stdout, a.say("%s: %d records as tiles, root %x\n", "%s：%d 条记录已写成分片，树根 %x\n"), dir, t.Size, t.Root[:])
	return nil
}

// export writes the bundle and checks it before it leaves: a file that stays is one that verifies. about is the file that says what is in it,
// "" for none.
func (a *app) export(ctx context.Context, x audit.Export, out, about string) (err error) {
	if err := reportable(about); err != nil {
		return err
	}
	cfg, log, err := a.site()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(out, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(out)
		}
	}()
	m, err := server.Export(ctx, cfg, f, x, log)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if about != "" {
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		b, err := compliance.ReadBundle(filepath.Base(out), f, size, m)
		if err != nil {
			return err
		}
		if err := writeReport(about, b.Document(a.lang())); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.env.stdout, a.say("%s: %d records, checked; tree size %d, root %s\n", "%s：%d 条记录，已校验；树中 %d 条，树根 %s\n"), out, m.Records, m.Size, m.Root)
	return nil
}
