package witness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/internal/sleep"
)

const (
	defaultEvery = 10 * time.Second
	maxPause     = 5 * time.Minute
)

// Config says which log to watch and how. Zero values mean the defaults in brackets.
type Config struct {
	// URL is where the log's endpoints are: URL/checkpoint, URL/tile/<L>/<N>[.p/<W>] and URL/cosignatures.
	URL string
	// Verifier holds the public keys of the log, as its owner published them.
	Verifier checkpoint.Verifier
	// Name is the name of this witness in its cosignatures, such as a host name. It must not change.
	Name string
	// Dir is the directory of the witness: its key and its memory.
	Dir string
	// SM2 makes it cosign with an SM2 key, which comes from the same seed and is another key to the log.
	SM2 bool
	// Every is the pause between two looks at the log [10s].
	Every time.Duration
	// First is a checkpoint that somebody vouches for: the log must have it or extend it. Without one the first checkpoint a witness
	// ever sees is trusted, and the witness says so.
	First checkpoint.Tree
	// Token returns the bearer token to show, and is asked before each request; refused is the token that the log has just refused, or
	// "". It may be nil. It is called by one goroutine at a time.
	Token func(ctx context.Context, refused string) (string, error)
	// Client speaks HTTP [one that follows no redirects].
	Client *http.Client
	// Now is the clock of cosignatures [time.Now].
	Now func() time.Time
}

// Witness watches one log. Pass and Run are for one goroutine; ServeHTTP and State may be called at any time.
type Witness struct {
	cfg    Config
	log    *slog.Logger
	client *client
	signer checkpoint.Witness
	own    checkpoint.Witnesses
	lock   *os.File
	wait   func(ctx context.Context, d time.Duration) bool

	tree checkpoint.Tree // the newest checkpoint that was proven, or the one vouched for; empty before the first contact
	note string          // its note with our cosignature; "" before the first contact

	mu    sync.Mutex // guards state
	state State
}

// Open takes the directory for this process, makes the key at the first start, and reads what the witness remembers. It does not speak
// to the log. It fails if others can read the key, or if the remembered checkpoint is not one of this log.
func Open(cfg Config, log *slog.Logger) (_ *Witness, err error) {
	if cfg.Every == 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	w := &Witness{cfg: cfg, log: log.With(slog.String("component", "witness")), wait: sleep.For}
	if w.client, err = newClient(cfg); err != nil {
		return nil, fmt.Errorf("open witness: %w", err)
	}
	if cfg.Verifier.Origin() == "" || cfg.Every < 0 || cfg.First.Size < 0 {
		return nil, errors.New("open witness: the key of the log must be given, and no pause or size may be negative")
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, alarmDir), 0o700); err != nil {
		return nil, fmt.Errorf("open witness: %w", err)
	}
	if w.lock, err = lockDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open witness: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.lock.Close())
		}
	}()
	if w.signer, err = signer(cfg); err != nil {
		return nil, fmt.Errorf("open witness: %w", err)
	}
	if w.own, err = checkpoint.NewWitnesses(w.signer.Key()); err != nil {
		return nil, fmt.Errorf("open witness: %w", err)
	}
	if err := w.recall(); err != nil {
		return nil, fmt.Errorf("open witness: %w", err)
	}
	w.remembered()
	return w, nil
}

// recall reads the checkpoint file.
func (w *Witness) recall() error {
	path := filepath.Join(w.cfg.Dir, checkpointFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		w.tree = w.cfg.First
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what the witness remembers: %w", err)
	}
	if w.tree, err = w.cfg.Verifier.Open(string(text)); err != nil {
		return fmt.Errorf("read what the witness remembers: %s: %w; the key given is of another log, or the file was changed", path, err)
	}
	w.note = string(text)
	return nil
}

func signer(cfg Config) (checkpoint.Witness, error) {
	raw, err := seed(cfg.Dir)
	if err != nil {
		return checkpoint.Witness{}, err
	}
	if cfg.SM2 {
		return checkpoint.NewSM2Witness(cfg.Name, raw, cfg.Now)
	}
	return checkpoint.NewWitness(cfg.Name, raw, cfg.Now)
}

// Key returns the public key that a witness of this name, directory and suite cosigns with, making the key if there is none.
func Key(cfg Config) (string, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return "", fmt.Errorf("read witness key: %w", err)
	}
	s, err := signer(cfg)
	if err != nil {
		return "", err
	}
	return s.Key(), nil
}

// Key is the public key of the witness as text; the owner of the log lists it under audit.witnesses.
func (w *Witness) Key() string { return w.signer.Key() }

// Close gives the directory up.
func (w *Witness) Close() error { return w.lock.Close() }

// Run passes again and again until ctx ends. What it cannot do it says and tries again, with growing pauses.
func (w *Witness) Run(ctx context.Context) error {
	pause := w.cfg.Every
	for ctx.Err() == nil {
		err := w.Pass(ctx)
		failed := err != nil && !errors.Is(err, ErrAlarm) // Pass has said an alarm
		if !failed {
			pause = w.cfg.Every
		} else if ctx.Err() == nil {
			w.log.Error("the log could not be witnessed", slog.String("error", err.Error()), slog.Duration("retry_in", pause))
		}
		w.wait(ctx, pause)
		if failed {
			pause = min(2*pause, max(maxPause, w.cfg.Every))
		}
	}
	return nil
}
