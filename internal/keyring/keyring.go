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
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// MasterSize is how many bytes a master key has.
const MasterSize = 32

// Ring derives keys from one master key. It is safe for concurrent use.
type Ring struct {
	master []byte
	macs   sync.Map // label -> *sync.Pool of *mac; as many as there are labels, which are constants
}

// mac is a reset HMAC under the key of one label. Its hash knows the state behind the padded key, so a digest costs neither a derivation
// nor the two blocks of the key.
type mac struct {
	hash.Hash
	buf [256]byte // what Write gets of a string; empty between uses
}

// Open opens the plain master key file at path; see [ReadMaster].
func Open(path string) (*Ring, error) {
	master, err := ReadMaster(path)
	if err != nil {
		return nil, err
	}
	return &Ring{master: master}, nil
}

// ReadMaster reads the master key of a plain file, for what seals it. The file holds 64 hex digits and must not be readable by group or others.
func ReadMaster(path string) ([]byte, error) {
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
	if err != nil || len(master) != MasterSize {
		return nil, fmt.Errorf("open master key %s: want %d hex digits; restore the file from your backup", path, 2*MasterSize)
	}
	return master, nil
}

// Create makes a new master key at path and opens it. It fails if the file exists: a master key is never overwritten, since all
// stored digests and encrypted values depend on it.
func Create(path string) (*Ring, error) {
	master := make([]byte, MasterSize)
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

// FromBytes returns a ring over a given master key, for tests and for key sources. It panics unless master has 32 bytes.
func FromBytes(master []byte) *Ring {
	if len(master) != MasterSize {
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
// share an encoding. What is made of a label stays in memory, so labels are constants here, too.
func (r *Ring) MAC(label string, parts ...string) []byte {
	pool := r.pool(label)
	return ended(pool, begun(pool, parts))
}

// MACStream is MAC of the parts and a last one that spell says in pieces, twice: once for its length. It is not held.
func (r *Ring) MACStream(label string, spell func(piece func(string)), parts ...string) []byte {
	pool := r.pool(label)
	m := begun(pool, parts)
	n := 0
	spell(func(s string) { n += len(s) })
	m.length(n)
	spell(m.text)
	return ended(pool, m)
}

// Begin returns what has taken in the parts as MAC does, and takes in more. That has no length before it, so it must be the last part: the
// code is of the parts and of all that is written, however it was cut. Its label must not be one that MAC is used with.
func (r *Ring) Begin(label string, parts ...string) hash.Hash { return begun(r.pool(label), parts) }

// pool holds the states of a label's digests that nobody uses.
func (r *Ring) pool(label string) *sync.Pool {
	pool, ok := r.macs.Load(label)
	if !ok {
		key := r.Derive(label)
		pool, _ = r.macs.LoadOrStore(label, &sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, key)} }})
	}
	return pool.(*sync.Pool)
}

func begun(pool *sync.Pool, parts []string) *mac {
	m := pool.Get().(*mac)
	for _, p := range parts {
		m.part(p)
	}
	return m
}

// ended returns the digest and gives its state back.
func ended(pool *sync.Pool, m *mac) []byte {
	sum := m.Sum(nil)
	m.Reset() // nothing of the parts stays behind
	clear(m.buf[:])
	pool.Put(m)
	return sum
}

// part writes the length of a part, and the part.
func (m *mac) part(p string) {
	m.length(len(p))
	m.text(p)
}

func (m *mac) length(n int) {
	binary.LittleEndian.PutUint64(m.buf[:], uint64(n))
	m.Write(m.buf[:8])
}

func (m *mac) text(p string) {
	for len(p) > 0 {
		n := copy(m.buf[:], p)
		m.Write(m.buf[:n])
		p = p[n:]
	}
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
