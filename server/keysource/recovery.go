package keysource

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
)

// Recovery is the note of a recovery, which the server's next start moves to the audit log: the log cannot be opened without the master key.
type Recovery struct {
	At time.Time `json:"at"`
	By string    `json:"by"` // name of the account of this machine
}

func (c Config) noted() string { return c.PlainFile + ".recovered" }

// note writes down, before anything is changed, that a recovery begins.
func (c *Custodian) note() error {
	r := Recovery{At: c.now().UTC(), By: "unknown"}
	if u, err := user.Current(); err == nil {
		r.By = u.Username
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("note the recovery: %w", err)
	}
	if err := durable.Replace(c.disk, c.cfg.noted(), append(b, '\n')); err != nil {
		return fmt.Errorf("note the recovery: %w", err)
	}
	return nil
}

// Recovery returns the note of a recovery that no start has recorded yet. One that cannot be read is a recovery all the same, of which nothing is known.
func (c *Custodian) Recovery() (r Recovery, found bool, err error) {
	b, err := os.ReadFile(c.cfg.noted())
	if errors.Is(err, fs.ErrNotExist) {
		return Recovery{}, false, nil
	}
	if err != nil {
		return Recovery{}, false, fmt.Errorf("read the note of a recovery: %w", err)
	}
	if json.Unmarshal(b, &r) != nil {
		r = Recovery{By: "unknown"}
	}
	return r, true, nil
}

// Recorded removes the note.
func (c *Custodian) Recorded() error {
	if err := c.disk.Remove(c.cfg.noted()); err != nil {
		return fmt.Errorf("remove the note of a recovery: %w", err)
	}
	return c.disk.SyncDir(filepath.Dir(c.cfg.noted()))
}
