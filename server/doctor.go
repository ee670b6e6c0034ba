package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-project/sluice/billing/energy/meter"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/keysource"
)

// Check is the result of one check of [Diagnose]. State is "ok", "warning" or "failed".
type Check struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail"`
}

// Diagnose checks what an installation needs, and changes nothing. It also asks the running server at url whether it is ready, unless url is "". ok
// is false if a check failed; a warning is no failure.
func Diagnose(ctx context.Context, cfg *config.Config, url string) (checks []Check, ok bool) {
	list := []struct {
		name string
		run  func(ctx context.Context, cfg *config.Config) (detail string, err error)
		warn bool
	}{
		{"data directory", checkData, false},
		{"free space", checkSpace, false},
		{"master key", checkKey, false},
		{"plain key", checkPlainKey, true},
		{"database", checkDatabase, false},
		{"models", func(_ context.Context, c *config.Config) (string, error) { return "", CheckModels(c) }, false},
		{"temporal", checkTemporal, false},
		{"energy meters", checkMeters, true},
		{"listen address", checkListen, true},
		{"secrets", checkSecrets, true},
		{"server", func(ctx context.Context, c *config.Config) (string, error) {
			return askReady(ctx, url, c.Operations.Token.Reveal())
		}, false},
	}
	if url == "" {
		list = list[:len(list)-1]
	}
	ok = true
	for _, c := range list {
		detail, err := c.run(ctx, cfg)
		state := "ok"
		switch {
		case err != nil && c.warn:
			state, detail = "warning", err.Error()
		case err != nil:
			state, detail, ok = "failed", err.Error(), false
		}
		checks = append(checks, Check{c.name, state, detail})
	}
	return checks, ok
}

func checkData(_ context.Context, cfg *config.Config) (string, error) {
	info, err := os.Stat(cfg.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s does not exist; is --data right? `sluice up` sets a new installation up", cfg.Data)
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is a file; choose a directory with --data", cfg.Data)
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
	free := int64(st.Bavail) * st.Bsize
	text := fmt.Sprintf("%.1f GiB free at %s", float64(free)/(1<<30), dir)
	if free < lowSpace {
		return "", fmt.Errorf("only %s; without room for the audit log every request is refused", text)
	}
	return text, nil
}

// checkKey opens the master key through its source, but asks nobody for a share.
func checkKey(ctx context.Context, cfg *config.Config) (string, error) {
	source := cfg.KeySource
	source.Ask = nil
	custodian := keysource.New(source)
	st, err := custodian.Status()
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s does not exist; restore it from your backup, or, for a new installation, run `sluice up`", cfg.MasterKeyFile)
	}
	if err != nil {
		return "", err
	}
	detail := st.File
	if st.Kind != keysource.Plain {
		detail = fmt.Sprintf("%s, opened by %s, key %s", st.File, st.Kind, st.KeyID)
	}
	if st.Kind == keysource.KindShares && len(source.ShareFiles) == 0 {
		return detail + "; not opened, since its shares are typed at a start", nil
	}
	_, err = custodian.Open(ctx)
	return detail, err
}

// checkPlainKey finds what an interrupted sealing left.
func checkPlainKey(_ context.Context, cfg *config.Config) (string, error) {
	st, err := keysource.New(cfg.KeySource).Status()
	switch {
	case errors.Is(err, fs.ErrNotExist): // the check of the master key says so
		return "", nil
	case err != nil:
		return "", err
	case st.Leftover:
		return "", fmt.Errorf("%s still lies beside the sealed file; `sluice keys seal` ends it", cfg.MasterKeyFile)
	case st.Kind == keysource.Plain:
		return "it is plain, in a file of its own", nil
	}
	return "it is sealed only", nil
}

// checkMeters reads each meter of the configuration for a moment.
func checkMeters(ctx context.Context, cfg *config.Config) (string, error) {
	if len(cfg.Energy.Meters) == 0 {
		return "none; the energy of requests is declared, not measured", nil
	}
	var said []string
	var errs []error
	for _, c := range cfg.Energy.Meters {
		p := meter.Measure(ctx, c, meterTime)
		if p.Error != "" {
			errs = append(errs, fmt.Errorf("%s: %s; until it can be read, the energy of requests is not known", c.Kind, p.Error))
			continue
		}
		said = append(said, fmt.Sprintf("%s %.1f W (%s)", c.Kind, float64(*p.Milliwatts)/1000, p.Method))
	}
	return strings.Join(said, ", "), errors.Join(errs...)
}

// meterTime is how long a meter is watched to see its power.
const meterTime = 300 * time.Millisecond

func checkDatabase(ctx context.Context, cfg *config.Config) (string, error) {
	if err := DatabaseExists(cfg); err != nil {
		return "", err
	}
	db, err := database.Open(ctx, cfg.Database)
	if err != nil {
		return "", err
	}
	defer func() { _ = database.Close(db) }()
	st, err := migrations.Check(ctx, db)
	if err != nil {
		return "", err
	}
	if err := st.Usable(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, schema version %d", db.Name(), st.Current), nil
}

// checkTemporal looks for the program that `sluice up` supervises.
func checkTemporal(_ context.Context, cfg *config.Config) (string, error) {
	switch {
	case !cfg.Workflows.Enabled:
		return "workflows are switched off", nil
	case cfg.Workflows.Address != "":
		return "cluster at " + cfg.Workflows.Address, nil
	case cfg.Workflows.Embedded.Binary != "":
		return exec.LookPath(cfg.Workflows.Embedded.Binary)
	}
	if path, err := exec.LookPath(modelstore.Temporal); err == nil {
		return path, nil
	}
	return modelstore.Open(cfg.Downloads).Path(modelstore.Temporal)
}

func checkListen(ctx context.Context, cfg *config.Config) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return "", fmt.Errorf("%s is taken, perhaps by the running server", cfg.Listen)
	}
	return cfg.Listen + " is free", l.Close()
}

// checkSecrets names what is written out in the configuration.
func checkSecrets(_ context.Context, cfg *config.Config) (string, error) {
	if written := cfg.InlineCredentials(); len(written) > 0 {
		return "", fmt.Errorf("%s: written out where whoever reads or copies the configuration gets it; write file:/path or env:NAME instead", strings.Join(written, ", "))
	}
	return "none is written out in the configuration", nil
}

// askReady asks the readiness probe, which names its parts to whoever has the token.
func askReady(ctx context.Context, url string, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/readyz", nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("the server does not answer; is it running? (%w)", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	text := strings.TrimSpace(string(body))
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New("not ready: " + text)
	}
	return text, err
}
