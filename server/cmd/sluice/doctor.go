package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/server/config"
)

// check is one thing doctor looks at. A warning does not fail the command.
type check struct {
	name string
	run  func(ctx context.Context, cfg *config.Config) (detail string, err error)
	warn bool
}

func (a *app) doctorCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what an installation needs; exit code 3 if something is wrong / 自检", Args: exactly(0),
		Long: "Changes nothing. With --url it also asks a running server whether it is ready. 不做任何更改。",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load(nil)
			if err != nil {
				return err
			}
			checks := []check{
				{"data directory", checkData, false}, {"free space", checkSpace, false}, {"master key", checkKey, false},
				{"database", checkDatabase, false}, {"models", func(_ context.Context, c *config.Config) (string, error) { return "", checkModels(c) }, false},
				{"listen address", checkListen, true},
			}
			if url != "" {
				checks = append(checks, check{"server", func(ctx context.Context, _ *config.Config) (string, error) { return askReady(ctx, url) }, false})
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			failed := false
			for _, c := range checks {
				detail, err := c.run(cmd.Context(), cfg)
				state := "ok"
				if err != nil {
					state, detail = "FAILED", err.Error()
					if c.warn {
						state = "warning"
					}
					failed = failed || !c.warn
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", state, c.name, detail)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if failed {
				return errFindings
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "also ask this running server, such as http://127.0.0.1:8080")
	return cmd
}

func checkData(_ context.Context, cfg *config.Config) (string, error) {
	info, err := os.Stat(cfg.Data)
	if err != nil {
		return "", fmt.Errorf("%w; `sluice up` creates it", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is readable by others (mode %#o); run chmod 700 %s", cfg.Data, info.Mode().Perm(), cfg.Data)
	}
	return cfg.Data, nil
}

// lowSpace is where the audit log's disk gets dangerous: when it is full, requests are refused.
const lowSpace = 1 << 30

func checkSpace(_ context.Context, cfg *config.Config) (string, error) {
	dir := cfg.Audit.Dir
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", err
	}
	free := int64(st.Bavail) * st.Bsize //nolint:unconvert // the width differs between architectures
	text := fmt.Sprintf("%.1f GiB free at %s", float64(free)/(1<<30), dir)
	if free < lowSpace {
		return "", fmt.Errorf("only %s; without room for the audit log every request is refused", text)
	}
	return text, nil
}

func checkKey(_ context.Context, cfg *config.Config) (string, error) {
	_, err := keyring.Open(cfg.MasterKeyFile)
	return cfg.MasterKeyFile, err
}

func checkDatabase(ctx context.Context, cfg *config.Config) (string, error) {
	db, err := database.Open(ctx, cfg.Database)
	if err != nil {
		return "", err
	}
	defer func() { _ = database.Close(db) }()
	st, err := migrations.Check(ctx, db)
	if err != nil {
		return "", err
	}
	if st.Current != st.Latest {
		return "", fmt.Errorf("schema version %d, this binary brings %d; run `sluice migrate`", st.Current, st.Latest)
	}
	return fmt.Sprintf("%s, schema version %d", db.Name(), st.Current), nil
}

func checkListen(ctx context.Context, cfg *config.Config) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return "", fmt.Errorf("%s is taken, perhaps by the running server", cfg.Listen)
	}
	return cfg.Listen + " is free", l.Close()
}

func askReady(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New("not ready: " + string(body))
	}
	return string(body), err
}
