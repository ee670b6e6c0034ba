package auditcmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/compliance"
)

func (a *app) exportCommand() *cobra.Command {
	var from, to, tenant, out, tiles, about string
	cmd := &cobra.Command{
		Use: "export", Short: cli.Both("cli.export.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.export.long", "\n"),
		Example: `  sluice audit export --out evidence.zip
  sluice audit export --from 2026-11-01 --to 2026-12-01 --tenant demo --out november.zip --report november.pdf
  sluice audit export --tiles /srv/tiles`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tiles != "" {
				return a.exportTiles(cmd.Context(), tiles)
			}
			x := export.Selection{Tenant: tenant}
			var err error
			if x.From, err = moment("from", from); err != nil {
				return err
			}
			if x.To, err = moment("to", to); err != nil {
				return err
			}
			if x.To != 0 && x.To <= x.From {
				return cli.Misuse("cli.export.to_before_from")
			}
			return a.export(cmd.Context(), x, out, about)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", cli.Both("cli.shared.from"))
	cmd.Flags().StringVar(&to, "to", "", cli.Both("cli.shared.to"))
	cmd.Flags().StringVar(&tenant, "tenant", "", cli.Both("cli.export.tenant"))
	cmd.Flags().StringVar(&out, "out", "evidence.zip", cli.Both("cli.shared.out"))
	cmd.Flags().StringVar(&about, "report", "", cli.Both("cli.export.report"))
	cmd.Flags().StringVar(&tiles, "tiles", "", cli.Both("cli.export.tiles"))
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
	return 0, cli.Misuse("cli.shared.no_time", flag, text)
}

func (a *app) exportTiles(ctx context.Context, dir string) error {
	cfg, log, err := a.Site()
	if err != nil {
		return err
	}
	t, err := server.ExportTiles(ctx, cfg, dir, log)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.export.tiles_written", dir, t.Size, t.Root[:]))
	return nil
}

// export writes the bundle and checks it before it leaves: a file that stays is one that verifies. about is the file that says what is in it,
// "" for none.
func (a *app) export(ctx context.Context, x export.Selection, out, about string) error {
	if err := cli.Reportable(about); err != nil {
		return err
	}
	cfg, log, err := a.Site()
	if err != nil {
		return err
	}
	return cli.WriteNew(out, func(f *os.File) error {
		m, err := server.Export(ctx, cfg, f, x, log)
		if err != nil {
			return err
		}
		if err := a.describeBundle(f, about, m); err != nil {
			return err
		}
		fmt.Fprintln(a.Stdout, a.Say("cli.export.written", out, m.Records, m.Size, m.Root))
		return nil
	})
}

// describeBundle writes the file that says what is in a bundle; "" is none.
func (a *app) describeBundle(f *os.File, about string, m evidence.Manifest) error {
	if about == "" {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	b, err := compliance.ReadBundle(filepath.Base(f.Name()), f, size, m)
	if err != nil {
		return err
	}
	return cli.WriteReport(about, b.Document(a.Lang()))
}
