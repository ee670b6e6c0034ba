package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/keysource"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: cli.Both("cli.keys.short")}
	cmd.AddCommand(a.keyStatusCommand(), a.sealKeyCommand(), a.resealKeyCommand(), a.exportKeyCommand(), a.recoverKeyCommand())
	return cmd
}

func (a *app) keyStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: cli.Both("cli.keys_status.short"), Args: cli.Exactly(0),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			st, err := keysource.New(cfg.KeySource).Status()
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return cli.Failed("cli.keys_status.none")
			case err != nil:
				return err
			case asJSON:
				return cli.PrintJSON(a.Stdout, st)
			}
			rows := [][]string{{a.Say("cli.keys_status.file"), st.File}, {a.Say("cli.keys_status.kind"), st.Kind}}
			if st.Kind != keysource.Plain {
				at := a.Say("cli.keys_status.days", st.SealedAt.Format(time.RFC3339), int(time.Since(*st.SealedAt).Hours()/24))
				rows = append(rows, []string{a.Say("cli.keys_status.key"), st.KeyID}, []string{a.Say("cli.keys_status.age"), at}, []string{a.Say("cli.keys_status.check"), st.Check})
			}
			if st.Shares != "" {
				rows = append(rows, []string{a.Say("cli.keys_status.shares"), st.Shares})
			}
			cli.PrintColumns(a.Stdout, rows)
			if st.Leftover {
				fmt.Fprintln(a.Stderr, a.Say("cli.keys_status.left", cfg.MasterKeyFile))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.shared.json"))
	return cmd
}

// shareFlags say how many shares there are, and where they go.
type shareFlags struct {
	keysource.Split

	out string
}

func (f *shareFlags) register(cmd *cobra.Command, out string) {
	cmd.Flags().IntVar(&f.Shares, "shares", 0, cli.Both("cli.keys.shares"))
	cmd.Flags().IntVar(&f.Threshold, "threshold", 0, cli.Both("cli.keys.threshold"))
	cmd.Flags().StringVar(&f.out, "out", "", out)
}

// keyShares is what flags of a command mean that seals under cfg's source. Shares are shown on a terminal only: what is none ends up in a log.
func (a *app) keyShares(f shareFlags, cfg *config.Config) (server.KeyShares, error) {
	given := f.Split != (keysource.Split{}) || f.out != ""
	switch {
	case cfg.KeySource.Kind != keysource.KindShares && given:
		return server.KeyShares{}, cli.Misuse("cli.keys.split_with_shares")
	case cfg.KeySource.Kind == keysource.KindShares && f.out == "" && !cli.IsTerminal(a.Stdout):
		return server.KeyShares{}, cli.Misuse("cli.keys.no_ask")
	}
	return server.KeyShares{Split: f.Split, Hand: func(shares []string) error { return a.hand(shares, f.out) }}, nil
}

// hand writes shares into new files, or shows them.
func (a *app) hand(shares []string, dir string) error {
	if dir == "" {
		fmt.Fprintln(a.Stderr, a.Say("cli.keys.show_shares"))
		for _, s := range shares {
			fmt.Fprintln(a.Stdout, s)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i, s := range shares {
		path := filepath.Join(dir, "share-"+strconv.Itoa(i+1)+".txt")
		if err := writeText(path, s); err != nil {
			return err
		}
		fmt.Fprintln(a.Stderr, a.Say("cli.keys.share_file", i+1, len(shares), path))
	}
	return nil
}

func writeText(path, text string) error {
	return cli.WriteNew(path, func(f *os.File) error {
		_, err := f.WriteString(text + "\n")
		return err
	})
}

func (a *app) sealKeyCommand() *cobra.Command {
	var f shareFlags
	var yes bool
	cmd := &cobra.Command{
		Use: "seal", Short: cli.Both("cli.keys_seal.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.keys_seal.long", "\n"),
		Example: `  sluice keys seal
  sluice keys seal --shares 3 --threshold 2 --out /media/custodians`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			shares, err := a.keyShares(f, cfg)
			if err != nil {
				return err
			}
			st, err := server.SealKey(cmd.Context(), cfg, shares, func() (bool, error) { return a.Confirm(yes, a.Say("cli.keys_seal.confirm")) }, log)
			switch {
			case err != nil:
				return err
			case st.Leftover:
				return cli.Failed("cli.keys.not_confirmed", cfg.MasterKeyFile)
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.keys_seal.done", st.Kind, st.KeyID))
			return nil
		},
	}
	f.register(cmd, cli.Both("cli.keys.out"))
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, cli.Both("cli.keys_seal.yes"))
	return cmd
}

func (a *app) resealKeyCommand() *cobra.Command {
	var f shareFlags
	var from string
	cmd := &cobra.Command{
		Use: "reseal", Short: cli.Both("cli.keys_reseal.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.keys_reseal.long", "\n"),
		Example: `  sluice keys reseal
  sluice keys reseal --from /etc/sluice/sluice.before.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			before := cfg
			if from != "" {
				other := *a.App
				other.ConfigPath = from
				if before, err = other.Load(nil); err != nil {
					return err
				}
			}
			shares, err := a.keyShares(f, cfg)
			if err != nil {
				return err
			}
			st, err := server.ResealKey(cmd.Context(), before, cfg, shares, log)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.keys_reseal.done", st.Kind, st.KeyID))
			return nil
		},
	}
	f.register(cmd, cli.Both("cli.keys.out"))
	cmd.Flags().StringVar(&from, "from", "", cli.Both("cli.keys_reseal.from"))
	return cmd
}

func (a *app) exportKeyCommand() *cobra.Command {
	var f shareFlags
	cmd := &cobra.Command{
		Use: "export", Short: cli.Both("cli.keys_export.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.keys_export.long", "\n"),
		Example: `  sluice keys export --out /media/safe/master.key
  sluice keys export --shares 3 --threshold 2 --out /media/custodians`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.out == "" {
				return cli.Misuse("cli.keys_export.need_out")
			}
			cfg, log, err := a.Site()
			if err != nil {
				return err
			}
			err = server.ExportKey(cmd.Context(), cfg, server.KeyShares{Split: f.Split, Hand: func(texts []string) error {
				if f.Split != (keysource.Split{}) {
					return a.hand(texts, f.out)
				}
				return writeText(f.out, texts[0])
			}}, log)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.keys_export.done", f.out))
			return nil
		},
	}
	f.register(cmd, cli.Both("cli.keys_export.out"))
	return cmd
}

func (a *app) recoverKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "recover FILE...", Short: cli.Both("cli.keys_recover.short"), Args: cli.AtLeast(1),
		Long: message.Both("cli.keys_recover.long", "\n"),
		Example: `  sluice keys recover /media/safe/master.key
  sluice keys recover share-1.txt share-3.txt`,
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			var texts []string
			for _, path := range args {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				texts = append(texts, strings.TrimSpace(string(b)))
			}
			replaced, err := keysource.New(cfg.KeySource).Recover(texts)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.keys_recover.done", cfg.MasterKeyFile))
			if replaced != "" {
				fmt.Fprintln(a.Stderr, a.Say("cli.keys_recover.replaced", replaced))
			}
			return nil
		},
	}
}
