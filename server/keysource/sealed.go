package keysource

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/server/keysource/shamir"
)

// sealedFormat is the version of the sealed file.
const sealedFormat = 1

// maxFile bounds what is read: whoever names a disk image by mistake is told so.
const maxFile = 64 << 10

// Sealed is the content of a sealed file. None of it is secret, and without its source it gives nothing.
type Sealed struct {
	Format    int        `json:"format"`
	Kind      string     `json:"kind"`
	KeyID     string     `json:"key_id"`
	SealedAt  time.Time  `json:"sealed_at"`
	Check     string     `json:"check"`               // of the master key
	Suite     seal.Suite `json:"suite,omitempty"`     // of what this program wrapped itself
	Shares    int        `json:"shares,omitempty"`    // of KindShares
	Threshold int        `json:"threshold,omitempty"` // likewise
	Wrapped   string     `json:"wrapped"`
}

// printable are ids of keys: they are shown.
var printable = regexp.MustCompile(`^[!-~]{1,200}$`)

func parseSealed(b []byte) (Sealed, error) {
	s, err := strictjson.Decode[Sealed](b)
	if err != nil {
		return Sealed{}, err
	}
	if s.Format != sealedFormat {
		return Sealed{}, fmt.Errorf("format %d is unknown to this release", s.Format)
	}
	own := slices.Contains([]string{KindFile, KindEnv, KindShares}, s.Kind)
	raw, err := hex.DecodeString(s.Check)
	switch {
	case !own && s.Kind != KindTransit && s.Kind != KindHelper:
		return Sealed{}, fmt.Errorf("the kind %.20q is unknown to this release", s.Kind)
	case err != nil || len(raw) != 8 || s.Check != hex.EncodeToString(raw):
		return Sealed{}, errors.New("check is not 16 hex digits")
	case !printable.MatchString(s.KeyID):
		return Sealed{}, errors.New("key_id is not the id of a key")
	case s.Wrapped == "" || len(s.Wrapped) > maxFile/2 || strings.ContainsFunc(s.Wrapped, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Sealed{}, errors.New("wrapped is not a ciphertext")
	case own != s.Suite.Known() || !own && s.Suite != "":
		return Sealed{}, fmt.Errorf("the suite %.20q is unknown to this release", s.Suite)
	case s.Kind != KindShares && (s.Shares != 0 || s.Threshold != 0):
		return Sealed{}, errors.New("it names shares that its kind has not")
	case s.Kind == KindShares && (s.Threshold < 2 || s.Threshold > s.Shares || s.Shares > shamir.MaxShares):
		return Sealed{}, errors.New("shares and threshold do not fit")
	case s.SealedAt.IsZero() || s.SealedAt.Year() > 9999:
		return Sealed{}, errors.New("sealed_at is no time")
	}
	return s, nil
}

func (s Sealed) encode() []byte {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("keysource: " + err.Error()) // plain fields
	}
	return append(b, '\n')
}

// label binds the ciphertext to what is written beside it.
func (s Sealed) label(keyID string) []byte {
	return seal.Label("sluice/master-key/v1", s.Kind, keyID, s.Check, strconv.Itoa(s.Threshold), strconv.Itoa(s.Shares))
}

func readSealed(path string) (Sealed, error) {
	b, err := readBounded(path)
	if err != nil {
		return Sealed{}, fmt.Errorf("open sealed master key: %w", err)
	}
	s, err := parseSealed(b)
	if err != nil {
		return Sealed{}, failed("keysource.damaged", path, err)
	}
	return s, nil
}

// readSecretFile reads a file that must be its owner's alone.
func readSecretFile(path string) (string, error) {
	if path == "" {
		return "", failed("keysource.not_configured", "key_source.file")
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", failed("keysource.no_key_file", path, err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return "", failed("keysource.readable", path, fmt.Sprintf("%#o", perm))
	}
	b, err := readBounded(path)
	if err != nil {
		return "", failed("keysource.no_key_file", path, err)
	}
	return string(b), nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d KiB", maxFile>>10)}
	}
	return b, err
}

// writeNew writes a file that is not there yet, for its owner alone. A file that stays is whole.
func writeNew(disk durable.Files, path string, b []byte) error {
	f, err := disk.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(durable.WriteSync(f, b), f.Close()); err != nil {
		return errors.Join(err, disk.Remove(path))
	}
	return disk.SyncDir(filepath.Dir(path))
}
