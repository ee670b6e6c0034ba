// Package seal encrypts small texts at rest with authentication, under one of two suites, and binds each ciphertext to its place: what was
// sealed with one label opens with no other.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/emmansun/gmsm/sm4"
)

// Suite names the algorithm of a key. Every stored key says its own, so that a change of suite concerns new keys only.
type Suite string

// The suites: AES-256-GCM, and SM4-GCM (GB/T 32907 in the mode of RFC 8998), whose keys have 128 bits as the standard has no others.
const (
	Intl Suite = "intl"
	GM   Suite = "gm"
)

// Overhead is how much longer a ciphertext is than its text: the nonce and the tag.
const Overhead = 12 + 16

// KeySize is how long keys of the suite are; 0 for one that is unknown.
func (s Suite) KeySize() int {
	switch s {
	case Intl:
		return 32
	case GM:
		return sm4.BlockSize // its keys are as long as its blocks
	default:
		return 0
	}
}

// Known reports whether this release has the suite.
func (s Suite) Known() bool { return s.KeySize() > 0 }

// Key encrypts texts. It is safe for concurrent use; its zero value is none.
type Key struct{ aead cipher.AEAD }

// NewKey returns the key of the suite with these bytes, KeySize of them.
func NewKey(s Suite, key []byte) (Key, error) {
	if !s.Known() {
		return Key{}, fmt.Errorf("suite %q is unknown to this release", s)
	}
	if len(key) != s.KeySize() {
		return Key{}, fmt.Errorf("a key of suite %s has %d bytes, not %d", s, s.KeySize(), len(key))
	}
	var block cipher.Block
	var err error
	if s == GM {
		block, err = sm4.NewCipher(key)
	} else {
		block, err = aes.NewCipher(key)
	}
	if err != nil {
		return Key{}, err
	}
	aead, err := cipher.NewGCM(block)
	return Key{aead}, err
}

// Seal returns the ciphertext of text under a fresh nonce. It opens only with the same label.
func (k Key) Seal(text, label []byte) []byte {
	nonce := make([]byte, k.aead.NonceSize(), Overhead+len(text))
	copy(nonce, Random(len(nonce)))
	return k.aead.Seal(nonce, nonce, text, label)
}

// Open returns the text of a ciphertext. Its error says nothing of either.
func (k Key) Open(ciphertext, label []byte) ([]byte, error) {
	n := k.aead.NonceSize()
	if len(ciphertext) < n {
		return nil, errors.New("the ciphertext is too short")
	}
	return k.aead.Open(nil, ciphertext[:n], ciphertext[n:], label)
}

// Label joins parts so that no two lists of parts are the same label.
func Label(parts ...string) []byte {
	var out []byte
	for _, p := range parts {
		out = binary.BigEndian.AppendUint64(out, uint64(len(p)))
		out = append(out, p...)
	}
	return out
}

// Random returns n random bytes.
func Random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}
