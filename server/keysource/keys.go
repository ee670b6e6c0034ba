package keysource

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// keys is a source whose keys this process has: of a file, of a variable, or put together from shares. The first one seals; the others still
// open what was sealed before.
type keys struct {
	list  [][]byte
	place string // where they are from, for messages
	suite seal.Suite
}

// keySize is that of a key in a file, in a variable or in shares.
const keySize = 32

// maxKeys bounds how many keys lie in one place.
const maxKeys = 8

// newKeys reads the keys of a text: 64 hex digits each, with spaces, commas or line ends between them.
func newKeys(text, place string, suite seal.Suite) (*keys, error) {
	k := &keys{place: place, suite: suite}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\n' }) {
		raw, err := hex.DecodeString(word)
		if err != nil || len(raw) != keySize || len(k.list) == maxKeys {
			return nil, failed("keysource.no_hex", place)
		}
		k.list = append(k.list, raw)
	}
	if len(k.list) == 0 {
		return nil, failed("keysource.no_hex", place)
	}
	return k, nil
}

// text is what newKeys reads.
func (k *keys) text() []byte {
	var b strings.Builder
	for _, key := range k.list {
		b.WriteString(hex.EncodeToString(key) + "\n")
	}
	return []byte(b.String())
}

// idOf names a key and says nothing about it.
func idOf(key []byte) string {
	return hex.EncodeToString(keyring.FromBytes(key).Derive("keysource/key-id/v1")[:6])
}

// cipherOf is the cipher of a key under a suite: keys of the national one are shorter.
func cipherOf(key []byte, suite seal.Suite) (seal.Key, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, "sluice/keysource/"+string(suite), max(suite.KeySize(), 1))
	if err != nil {
		return seal.Key{}, err
	}
	return seal.NewKey(suite, derived)
}

func (k *keys) wrap(_ context.Context, root []byte, label func(keyID string) []byte) (wrapped, keyID string, err error) {
	c, err := cipherOf(k.list[0], k.suite)
	if err != nil {
		return "", "", err
	}
	id := idOf(k.list[0])
	return base64.StdEncoding.EncodeToString(c.Seal(root, label(id))), id, nil
}

func (k *keys) unwrap(_ context.Context, s Sealed) ([]byte, error) {
	for _, key := range k.list {
		if idOf(key) != s.KeyID {
			continue
		}
		c, err := cipherOf(key, s.Suite)
		if err != nil {
			return nil, err
		}
		raw, err := base64.StdEncoding.DecodeString(s.Wrapped)
		if err != nil {
			return nil, failed("keysource.altered")
		}
		root, err := c.Open(raw, s.label(s.KeyID))
		if err != nil {
			return nil, failed("keysource.altered")
		}
		return root, nil
	}
	return nil, failed("keysource.key_not_there", s.KeyID, k.place)
}
