package audit

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/store"
)

// Config says where the log lives and how often it works. Zero values mean the defaults in brackets.
type Config struct {
	// Dir is the directory of the write-ahead log and the checkpoint files. Each replica needs its own, on a disk that keeps what
	// was synced.
	Dir string `koanf:"dir"`
	// Files is what the log in Dir is written through [the operating system's]; a test gives it a disk that fails or hangs.
	Files durable.Files `koanf:"-"`
	// Beside keeps marks with records; it must be there if any are appended.
	Beside store.Beside `koanf:"-"`
	// Rollup sums up the records that are stored; nil: nothing is.
	Rollup store.Rollup `koanf:"-"`
	// SpoolDir is a second directory, best on another disk: records of tenants whose mode is spool go there when Dir takes none [none].
	SpoolDir string `koanf:"spool_dir"`
	// Mode says what happens to requests whose record cannot be made durable [strict]; Modes says it for single tenants.
	Mode  Mode            `koanf:"mode"`
	Modes map[string]Mode `koanf:"modes"`
	// Region names the place of this replica in its records.
	Region string `koanf:"region"`
	// Suite is intl, Ed25519 and AES-256-GCM, or gm, SM2 with SM3 and SM4-GCM [intl]. The tree is hashed with SHA-256 in both.
	Suite content.Suite `koanf:"suite"`
	// SM2Keys are those numbers of checkpoint keys that are SM2 keys [all with gm, none with intl]. A log that changes its suite keeps the
	// number of its last key of the other one: from checkpoint_keys [1] to [1, 2] with sm2_keys [2] and suite gm, and later to [2].
	SM2Keys []int `koanf:"sm2_keys"`
	// CheckpointKeys are the numbers of the keys that sign checkpoints [1]. To change the key, sign with both for a while, [1, 2], until
	// everyone who verifies has the new one, and then with the new one alone. Keys up to the largest number are accepted for ever.
	CheckpointKeys []int `koanf:"checkpoint_keys"`
	// Witnesses are the public keys of the witnesses whose cosignatures are taken, as sluice audit witness prints them.
	Witnesses []string `koanf:"witnesses"`
	// Retention says how long records are kept, and where what is pruned goes.
	Retention retention.Config `koanf:"retention"`
	// Origin names the log in its checkpoints, as a URL without scheme ["sluice.local/audit"]. It must never change.
	Origin string `koanf:"origin"`
	// SegmentBytes is the size at which a new segment file starts [16 MiB].
	SegmentBytes int64 `koanf:"segment_bytes"`
	// MaxBytes bounds the write-ahead log while the database is away [1 GiB]; beyond it requests are refused.
	MaxBytes int64 `koanf:"max_bytes"`
	// MaxContentBytes bounds each prompt and answer that a policy has kept [1 MiB]; the rest of a longer one is cut off.
	MaxContentBytes int `koanf:"max_content_bytes"`
	// ShipEvery is the pause between moves to the database [200ms].
	ShipEvery time.Duration `koanf:"ship_every"`
	// CheckpointEvery is the pause between signed checkpoints, which are made only when the log grew [1s].
	CheckpointEvery time.Duration `koanf:"checkpoint_every"`
	// WriteDeadline is how long an append waits for the disk [5s]; a disk that hangs counts as one that fails.
	WriteDeadline time.Duration `koanf:"write_deadline"`
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.ShipEvery, 200*time.Millisecond)
	set(&c.CheckpointEvery, time.Second)
	set(&c.WriteDeadline, 5*time.Second)
	if c.Mode == "" {
		c.Mode = ModeStrict
	}
	if c.Files == nil {
		c.Files = durable.OS{}
	}
	c.keyDefaults()
	c.Retention = c.Retention.WithDefaults()
	if c.Origin == "" {
		c.Origin = "sluice.local/audit"
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = 16 << 20
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 30
	}
	if c.MaxContentBytes == 0 {
		c.MaxContentBytes = 1 << 20
	}
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("dir: must be set"))
	}
	errs = append(errs, c.validateModes()...)
	errs = append(errs, c.Retention.Validate()...)
	errs = append(errs, c.validateKeys()...)
	if _, err := checkpoint.NewWitnesses(strings.Join(c.Witnesses, "\n")); err != nil {
		errs = append(errs, fmt.Errorf("witnesses: %w", err))
	}
	if strings.ContainsFunc(c.Origin, unicode.IsSpace) || strings.Contains(c.Origin, "+") {
		errs = append(errs, errors.New("origin: must not contain spaces or '+'"))
	}
	if c.SegmentBytes < 1<<16 || c.SegmentBytes > 1<<30 {
		errs = append(errs, errors.New("segment_bytes: must lie between 64 KiB and 1 GiB"))
	}
	if c.MaxBytes < 2*c.SegmentBytes {
		errs = append(errs, fmt.Errorf("max_bytes: must be at least twice segment_bytes (%d)", 2*c.SegmentBytes))
	}
	if c.MaxContentBytes < 1<<10 || c.MaxContentBytes > content.MaxText {
		errs = append(errs, errors.New("max_content_bytes: must lie between 1 KiB and 16 MiB"))
	}
	if c.ShipEvery < 0 || c.CheckpointEvery < 0 || c.WriteDeadline < 0 {
		errs = append(errs, errors.New("ship_every, checkpoint_every, write_deadline: must not be negative"))
	}
	return errors.Join(errs...)
}
