package audit

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

// Mode says what happens to a request whose record cannot be made durable.
type Mode string

// The modes.
const (
	ModeStrict     Mode = "strict"      // no record, no answer
	ModeSpool      Mode = "spool"       // a second directory takes the record; when both fail, no answer
	ModeBestEffort Mode = "best-effort" // the answer goes out and the loss is counted
)

func (m Mode) known() bool { return m == ModeStrict || m == ModeSpool || m == ModeBestEffort }

func (c Config) modeOf(tenant string) Mode {
	if m, ok := c.Modes[tenant]; ok {
		return m
	}
	return c.Mode
}

func (c Config) validateModes() (errs []error) {
	modes := maps.Clone(c.Modes)
	if modes == nil {
		modes = map[string]Mode{}
	}
	for tenant, m := range modes {
		if !m.known() {
			errs = append(errs, fmt.Errorf("modes: %s: use strict, spool or best-effort, not %q", tenant, m))
		}
	}
	if !c.Mode.known() {
		errs = append(errs, fmt.Errorf("mode: use strict, spool or best-effort, not %q", c.Mode))
	}
	spools := c.Mode == ModeSpool || slices.Contains(slices.Collect(maps.Values(modes)), ModeSpool)
	if spools && c.SpoolDir == "" {
		errs = append(errs, errors.New("spool_dir: must be set, since a tenant's mode is spool"))
	}
	if c.SpoolDir != "" && filepath.Clean(c.SpoolDir) == filepath.Clean(c.Dir) {
		errs = append(errs, errors.New("spool_dir: must be another directory than dir, best on another disk"))
	}
	return errs
}

// losses counts the records that were lost by tenant, since this process began.
type losses struct {
	mu       sync.Mutex
	byTenant map[string]int64
}

func (l *losses) add(tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byTenant == nil {
		l.byTenant = map[string]int64{}
	}
	l.byTenant[tenant]++
}

// Losses returns how many records were lost by tenant since the process began: only tenants whose mode is best-effort can have any.
func (l *Log) Losses() map[string]int64 {
	l.lost.mu.Lock()
	defer l.lost.mu.Unlock()
	return maps.Clone(l.lost.byTenant)
}
