package audit

import (
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// openDevices opens a log with a spool, both on disks that may fail.
func openDevices(t *testing.T, db *gorm.DB, change func(*Config)) (l *Log, first, second *durabletest.Files) {
	t.Helper()
	cfg := testConfig(t.TempDir())
	cfg.SpoolDir, cfg.Modes = t.TempDir(), map[string]Mode{"strict": ModeStrict, "spool": ModeSpool, "best": ModeBestEffort}
	change(&cfg)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	first, second = &durabletest.Files{}, &durabletest.Files{}
	l, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), first, second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, first, second
}

func of(tenant string, n int) Event {
	e := recordtest.Sample(n)
	e.Tenant = tenant
	return e
}

func always(m durabletest.Mode) func(string) durabletest.Mode {
	return func(op string) durabletest.Mode {
		if op == "write" || op == "sync" {
			return m
		}
		return durabletest.Healthy
	}
}

func TestModes(t *testing.T) {
	for name, m := range map[string]durabletest.Mode{"nothing persisted": durabletest.FailsBefore, "persisted": durabletest.FailsAfter} {
		t.Run(name, func(t *testing.T) {
			db := dbtest.SQLite(t)
			l, first, second := openDevices(t, db, func(*Config) {})
			n, acked := 0, map[string]bool{}
			try := func(tenant string, want bool) {
				t.Helper()
				n++
				r, err := l.Append(t.Context(), of(tenant, n))
				if want != (err == nil) || err != nil && (!fault.Is(err, fault.CodeAuditUnavailable) || fault.Public(err).RetryAfter() == 0) {
					t.Errorf("%s: %v", tenant, err)
				}
				if err == nil && tenant != "best" {
					acked[r.ID] = true
				}
			}
			for _, tenant := range []string{"strict", "spool", "best", "other"} {
				try(tenant, true)
			}
			first.Set(always(m))
			try("strict", false)
			try("other", false)
			try("spool", true)
			try("best", true)
			second.Set(always(m))
			try("spool", false)
			try("strict", false)
			try("best", true)
			if got := l.Losses(); len(got) != 1 || got["best"] != 2 {
				t.Errorf("lost: %v", got)
			}
			if l.Ready() == nil {
				t.Error("a strict log without a disk is ready")
			}
			first.Set(nil)
			second.Set(nil)
			try("strict", true)
			try("spool", true)
			flush(t, l)
			r, err := verify.Run(t.Context(), verify.Source{Dir: l.cfg.Dir, SpoolDir: l.cfg.SpoolDir, DB: db, VerifierKey: l.VerifierKey()}, nil)
			if err != nil || !r.OK {
				t.Errorf("%v %+v", err, r)
			}
			found := map[string]bool{}
			for _, id := range searchIDs(t, l, search.Query{Limit: 500}) {
				found[id] = true
			}
			for id := range acked {
				if !found[id] {
					t.Errorf("%s was acknowledged and is gone", id)
				}
			}
		})
	}
}

// A replica dies while its first disk is away: what it spooled is shipped by the next one.
func TestSpoolSurvivesTheProcess(t *testing.T) {
	db := dbtest.SQLite(t)
	l, first, _ := openDevices(t, db, func(c *Config) { c.Mode = ModeSpool })
	first.Set(always(durabletest.FailsBefore))
	r, err := l.Append(t.Context(), of("x", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Ready(); err != nil {
		t.Errorf("with a spool that works: %v", err)
	}
	for _, lock := range l.locks { // the process dies
		_ = lock.Close()
	}
	again := openTest(t, l.cfg, db, nil, durable.OS{})
	flush(t, again)
	if _, err := again.Get(t.Context(), r.ID); err != nil {
		t.Error(err)
	}
	mustVerify(t, again, db)
}

func TestModesAreValidated(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"modes: x: use strict":  func(c *Config) { c.Modes = map[string]Mode{"x": "lax"} },
		"mode: use strict":      func(c *Config) { c.Mode = "none" },
		"spool_dir: must be":    func(c *Config) { c.Mode = ModeSpool },
		"another directory":     func(c *Config) { c.SpoolDir = c.Dir + "/" },
		"checkpoint_keys: each": func(c *Config) { c.CheckpointKeys = []int{1, 0} },
		"witnesses: read":       func(c *Config) { c.Witnesses = []string{"nobody"} },
	} {
		cfg := testConfig("/x")
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A checkpoint key is changed: old checkpoints stay valid, and for a while new ones carry both signatures.
func TestCheckpointKeysChange(t *testing.T) {
	db := dbtest.SQLite(t)
	cfg := testConfig(t.TempDir())
	var keys []string
	for i, numbers := range [][]int{{1}, {1, 2}, {2}} {
		cfg.CheckpointKeys = numbers
		l := openTest(t, cfg, db, nil, durable.OS{})
		appendN(t, l, 10*i, 3)
		flush(t, l)
		mustVerify(t, l, db)
		keys = append(keys, l.VerifierKey())
		text, err := l.Checkpoint(t.Context())
		if err != nil || strings.Count(text, "\n— ") != len(numbers) {
			t.Errorf("keys %v: %v\n%s", numbers, err, text)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if old := strings.Fields(keys[0]); !strings.Contains(keys[2], old[0]) {
		t.Error("the old key is forgotten")
	}
	for i, ok := range []bool{false, true, true} { // who knows the first key alone cannot read what the second alone signed
		r, err := verify.Run(t.Context(), verify.Source{Dir: cfg.Dir, DB: db, VerifierKey: keys[i]}, nil)
		if (err == nil && r.OK) != ok {
			t.Errorf("keys %d: %v %+v", i, err, r)
		}
	}
}
