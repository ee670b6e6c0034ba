package server

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// credentialsEvery is how soon a secret that was replaced in its file is used.
const credentialsEvery = 5 * time.Second

// credentials follows the files that secrets of the configuration are kept in.
type credentials struct {
	refresh func() (changed []string, err error)
	log     *slog.Logger

	failed atomic.Pointer[error] // why the newest look failed; nil: it did not
}

// Run looks until ctx ends. A file that cannot be read is told once, and again when it is another trouble.
func (c *credentials) Run(ctx context.Context) error {
	t := time.NewTicker(credentialsEvery)
	defer t.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		changed, err := c.refresh()
		if len(changed) > 0 {
			c.log.LogAttrs(ctx, slog.LevelInfo, "secrets were replaced and are in use", slog.String("keys", strings.Join(changed, ", ")))
		}
		if err == nil {
			told = ""
			c.failed.Store(nil)
			continue
		}
		c.failed.Store(&err)
		if err.Error() != told {
			told = err.Error()
			c.log.LogAttrs(ctx, slog.LevelWarn, "secrets cannot be read again; those before stay in use", slog.String("error", told))
		}
	}
}

// Ready returns why secrets are not what their files have, if that is so.
func (c *credentials) Ready() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}
