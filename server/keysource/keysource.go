// Package keysource opens the master key, plain or sealed, and moves it from one source to another.
//
// Every key of an installation derives from its master key, and every digest depends on it, so it never changes. It lies in a plain file, or
// in a sealed one that is worth nothing by itself: a key source opens it. What rotates is the key of the source, by sealing the same master
// key anew. The sealed file says which kind of source opens it; the configuration says how that is reached.
package keysource

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// Plain is the kind of a master key that no source opens.
const Plain = "plain"

// The kinds of sources.
const (
	KindFile    = "file"    // a key in another file
	KindEnv     = "env"     // a key in an environment variable
	KindTransit = "transit" // a key that a Transit service keeps
	KindHelper  = "helper"  // a key that a program keeps
	KindShares  = "shares"  // a key that people have the shares of
)

// Config says where the master key is, and how what opens it is reached.
type Config struct {
	Kind       string // how the master key must be stored; "": as it is
	SealedFile string
	File       string // of KindFile: hex keys, the first one seals
	Env        string // of KindEnv: the name of the variable
	ShareFiles []string
	Transit    Transit
	Helper     Helper

	PlainFile string     `koanf:"-"`
	Suite     seal.Suite `koanf:"-"` // of what is sealed with a key in a file, in a variable or in shares

	// Ask gets a share from somebody at a terminal; nil: nobody is there.
	Ask func(ctx context.Context, number, threshold int) (string, error)
}

// Validate reports what is wrong, each with its key.
func (c Config) Validate() error {
	var errs []error
	key := func(name string, ok bool, message string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", name, message))
		}
	}
	key("kind", slices.Contains([]string{"", KindFile, KindEnv, KindTransit, KindHelper, KindShares}, c.Kind), "must be file, env, transit, helper or shares, or empty")
	key("sealed_file", filepath.IsAbs(c.SealedFile), "must be an absolute path")
	key("file", c.File == "" || filepath.IsAbs(c.File), "must be an absolute path")
	key("file", c.File == "" || c.File != c.PlainFile && c.File != c.SealedFile, "must be another file than that of the master key")
	key("file", c.Kind != KindFile || c.File != "", "must be set: it holds the key that opens the master key")
	key("env", !strings.ContainsAny(c.Env, "=\x00") && !strings.HasPrefix(c.Env, "SLUICE_"), "must be the name of a variable that does not begin with SLUICE_")
	key("env", c.Kind != KindEnv || c.Env != "", "must be set: it names the variable that holds the key")
	for _, path := range c.ShareFiles {
		key("share_files", filepath.IsAbs(path), "must be absolute paths")
	}
	errs = append(errs, c.Transit.validate(c.Kind == KindTransit), c.Helper.validate(c.Kind == KindHelper))
	return errors.Join(errs...)
}

// Custodian has the master key of one installation opened, once. It is for one goroutine.
type Custodian struct {
	cfg  Config
	disk durable.Files
	now  func() time.Time

	root   []byte // once it was opened
	from   source // what opened it; nil if it is plain
	sealed Sealed
}

// New returns the custodian of an installation.
func New(cfg Config) *Custodian { return &Custodian{cfg: cfg, disk: durable.OS{}, now: time.Now} }

// source wraps and unwraps the master key.
type source interface {
	// wrap returns the master key wrapped, and the id of the key that unwraps it. label binds it where the source can.
	wrap(ctx context.Context, root []byte, label func(keyID string) []byte) (wrapped, keyID string, err error)
	unwrap(ctx context.Context, s Sealed) ([]byte, error)
}

// source returns what opens s, or with an empty s what seals.
func (c *Custodian) source(ctx context.Context, kind string, s Sealed) (source, error) {
	switch kind {
	case KindFile:
		text, err := readSecretFile(c.cfg.File)
		if err != nil {
			return nil, err
		}
		return newKeys(text, c.cfg.File, c.cfg.Suite)
	case KindEnv:
		text, ok := os.LookupEnv(c.cfg.Env)
		if c.cfg.Env == "" || !ok || text == "" {
			return nil, failed("keysource.no_variable", cmp.Or(c.cfg.Env, "key_source.env"))
		}
		_ = os.Unsetenv(c.cfg.Env) // so that no program started from here inherits it
		return newKeys(text, c.cfg.Env, c.cfg.Suite)
	case KindShares:
		key, err := c.gather(ctx, s)
		if err != nil {
			return nil, err
		}
		return &keys{list: [][]byte{key}, place: KindShares, suite: c.cfg.Suite}, nil
	case KindTransit:
		return newTransit(c.cfg.Transit)
	case KindHelper:
		if len(c.cfg.Helper.Command) == 0 {
			return nil, failed("keysource.not_configured", "key_source.helper.command")
		}
		return &helper{c.cfg.Helper}, nil
	default:
		return nil, failed("keysource.unknown_kind", kind)
	}
}

// Open returns the keys of the installation. The error is [fs.ErrNotExist] if it has no master key, and an [Error] that says the remedy if
// the source does not open it, or it is stored in another way than the configuration demands.
func (c *Custodian) Open(ctx context.Context) (*keyring.Ring, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	switch stored := c.sealed.Kind; {
	case c.cfg.Kind == "" || c.cfg.Kind == stored:
	case stored == "":
		return nil, failed("keysource.plain", c.cfg.PlainFile, c.cfg.Kind)
	default:
		return nil, failed("keysource.other_kind", stored, c.cfg.Kind)
	}
	return keyring.FromBytes(c.root), nil
}

// open reads the master key: from the sealed file if there is one, since a plain one beside it is what an interrupted sealing left.
func (c *Custodian) open(ctx context.Context) error {
	if c.root != nil {
		return nil
	}
	s, err := readSealed(c.cfg.SealedFile)
	if errors.Is(err, fs.ErrNotExist) {
		c.root, err = keyring.ReadMaster(c.cfg.PlainFile)
		return err
	}
	if err != nil {
		return err
	}
	src, err := c.source(ctx, s.Kind, s)
	if err != nil {
		return err
	}
	root, err := unwrapped(ctx, src, s)
	if err != nil {
		return err
	}
	c.root, c.from, c.sealed = root, src, s
	return nil
}

// unwrapped opens s and holds what it gives against the check value.
func unwrapped(ctx context.Context, src source, s Sealed) ([]byte, error) {
	root, err := src.unwrap(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(root) != keyring.MasterSize || subtle.ConstantTimeCompare([]byte(check(root)), []byte(s.Check)) != 1 {
		return nil, failed("keysource.other_key", s.Kind)
	}
	return root, nil
}

// check is a value by which two people see that they speak of the same master key. It says nothing about it.
func check(root []byte) string {
	return hex.EncodeToString(keyring.FromBytes(root).Derive("keysource/check/v1")[:8])
}

// Create makes the master key of a new installation, stored as the configuration says. It fails if there is one.
func (c *Custodian) Create(ctx context.Context) (*keyring.Ring, error) {
	if c.cfg.Kind == "" {
		return keyring.Create(c.cfg.PlainFile)
	}
	if c.cfg.Kind == KindShares {
		return nil, failed("keysource.shares_later")
	}
	root := make([]byte, keyring.MasterSize)
	if _, err := rand.Read(root); err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	src, _, err := c.target(ctx, "")
	if err != nil {
		return nil, err
	}
	s, err := c.seal(ctx, src, root, Split{})
	if err != nil {
		return nil, err
	}
	if _, err := unwrapped(ctx, src, s); err != nil { // who may only wrap would be locked out at the next start
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(c.cfg.SealedFile), 0o700); err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	if err := writeNew(c.disk, c.cfg.SealedFile, s.encode()); err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	c.root, c.from, c.sealed = root, src, s
	return keyring.FromBytes(root), nil
}

// Status says how the master key is stored, without opening it.
type Status struct {
	File     string     `json:"file"`             // that is read at a start; "" if there is none
	Kind     string     `json:"kind"`             // [Plain], or a kind of source
	KeyID    string     `json:"key_id,omitempty"` // of the key that opens it
	Check    string     `json:"check,omitempty"`
	SealedAt *time.Time `json:"sealed_at,omitempty"`
	Shares   string     `json:"shares,omitempty"` // such as "2 of 3"
	Leftover bool       `json:"plain_file_left"`  // the plain file, or what is left of it, still lies beside the sealed one
}

// Status reads the files of the master key.
func (c *Custodian) Status() (Status, error) {
	_, plain := os.Stat(c.cfg.PlainFile)
	s, err := readSealed(c.cfg.SealedFile)
	if errors.Is(err, fs.ErrNotExist) {
		if plain != nil {
			return Status{}, plain
		}
		return Status{File: c.cfg.PlainFile, Kind: Plain}, nil
	}
	if err != nil {
		return Status{}, err
	}
	_, doomed := os.Stat(c.cfg.doomed())
	out := Status{File: c.cfg.SealedFile, Kind: s.Kind, KeyID: s.KeyID, Check: s.Check, SealedAt: &s.SealedAt, Leftover: plain == nil || doomed == nil}
	if s.Kind == KindShares {
		out.Shares = fmt.Sprintf("%d of %d", s.Threshold, s.Shares)
	}
	return out, nil
}
