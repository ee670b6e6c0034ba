// Package keyring holds the installation's master key and everything derived from it, and the types that keep secrets out of
// logs.
//
// One 32-byte master key is made on first start. Every other key of the installation (API-key digests, session signing,
// pseudonyms, prompt digests, checkpoint signing) is derived from it with HKDF-SHA256 under a label, so a leaked derived key says
// nothing about another and no key is stored twice.
package keyring

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

const masterSize = 32

// Ring derives keys from one master key. It is immutable and safe for concurrent use.
type Ring struct{ master []byte }

// Open reads the master key file at path. The file holds 64 hex digits and must not be readable by group or others.
func Open(path string) (*Ring, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open master key: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("open master key %s: mode %#o lets others read it; run chmod 600 %s", path, perm, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open master key: %w", err)
	}
	master, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(master) != masterSize {
		return nil, fmt.Errorf("open master key %s: want %d hex digits; restore the file from your backup", path, 2*masterSize)
	}
	return &Ring{master: master}, nil
}

// Create makes a new master key at path and opens it. It fails if the file exists: a master key is never overwritten, since all
// stored digests and encrypted values depend on it.
func Create(path string) (*Ring, error) {
	master := make([]byte, masterSize)
	if _, err := rand.Read(master); err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	_, werr := f.WriteString(hex.EncodeToString(master) + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("create master key: %w", err)
	}
	return &Ring{master: master}, nil
}

// FromBytes returns a ring over a given master key, for tests and for key services. It panics unless master has 32 bytes.
func FromBytes(master []byte) *Ring {
	if len(master) != masterSize {
		panic("keyring: master key must have 32 bytes")
	}
	return &Ring{master: append([]byte(nil), master...)}
}

// Derive returns the 32-byte key for label. The same label always gives the same key. Labels are constants of the packages that
// use them, such as "identity/api-key/v1".
func (r *Ring) Derive(label string) []byte {
	k, err := hkdf.Key(sha256.New, r.master, nil, "sluice/"+label, 32)
	if err != nil { // only for lengths HKDF cannot give
		panic("keyring: derive: " + err.Error())
	}
	return k
}

// MAC returns HMAC-SHA256 of the parts under the key for label. Each part is prefixed with its length, so no two lists of parts
// share an encoding.
func (r *Ring) MAC(label string, parts ...string) []byte {
	return r.Begin(label, parts...).Sum(nil)
}

// Begin returns what has taken in the parts as MAC does, and takes in more. That has no length before it, so it must be the last part: the
// code is of the parts and of all that is written, however it was cut. Its label must not be one that MAC is used with.
func (r *Ring) Begin(label string, parts ...string) hash.Hash {
	m := hmac.New(sha256.New, r.Derive(label))
	var n [8]byte
	for _, p := range parts {
		for i := range n {
			n[i] = byte(uint64(len(p)) >> (8 * i))
		}
		m.Write(n[:])
		m.Write([]byte(p))
	}
	return m
}

// Secret is text that must not be shown: a password, a key, a connection string. Every formatting path prints its length only;
// Reveal is the one way to the text.
type Secret string

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("[secret, %d bytes]", len(s))
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler; configuration printed back to people is redacted by it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = Secret(b)
	return nil
}
