package content

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/emmansun/gmsm/sm4"

	"github.com/sluice-project/sluice/internal/keyring"
)

// Suite names the algorithm that encrypts texts and wraps keys. Every key says its own, so that a change concerns new keys only.
type Suite string

// The suites: AES-256-GCM, and SM4-GCM (GB/T 32907 in the mode of RFC 8998), whose keys have 128 bits as the standard has no others.
const (
	Intl Suite = "intl"
	GM   Suite = "gm"
)

// Overhead is how much longer a ciphertext is than its text: the nonce and the tag.
const Overhead = 12 + 16

func (s Suite) aead(key []byte) (cipher.AEAD, error) {
	switch s {
	case Intl:
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		return cipher.NewGCM(block)
	case GM:
		block, err := sm4.NewCipher(key)
		if err != nil {
			return nil, err
		}
		return cipher.NewGCM(block)
	default:
		return nil, fmt.Errorf("suite %q is unknown to this release", s)
	}
}

// keySize is how long keys of the suite are; 0 for one that is unknown.
func (s Suite) keySize() int {
	switch s {
	case Intl:
		return 32
	case GM:
		return sm4.BlockSize // its keys are as long as its blocks
	default:
		return 0
	}
}

// Cipher makes and unwraps data keys. It is safe for concurrent use.
type Cipher struct {
	suite   Suite
	masters map[Suite][]byte // wrap the data keys
}

// NewCipher returns a cipher whose new keys are of the given suite; it unwraps keys of every suite.
func NewCipher(keys *keyring.Ring, suite Suite) (*Cipher, error) {
	c := &Cipher{suite: suite, masters: map[Suite][]byte{
		Intl: keys.Derive("audit/content-key/v1"), GM: keys.Derive("audit/content-key/sm4/v1")[:GM.keySize()],
	}}
	if _, err := suite.aead(c.masters[suite]); err != nil {
		return nil, fmt.Errorf("encrypt audit contents: %w", err)
	}
	return c, nil
}

// NewKey makes a random data key for texts of subject, which is a keyed digest, and returns it as it is stored and as it is used.
func (c *Cipher) NewKey(tenant, subject string, created int64) (Key, DataKey, error) {
	nonce := hex.EncodeToString(random(16))
	k := Key{ID: KeyID(nonce, tenant, subject, created), Nonce: nonce, Tenant: tenant, Subject: subject, Suite: c.suite, Created: created}
	wrap, err := c.suite.aead(c.masters[c.suite])
	if err != nil {
		return Key{}, DataKey{}, fmt.Errorf("make content key: %w", err)
	}
	data := random(c.suite.keySize())
	aead, err := c.suite.aead(data)
	if err != nil {
		return Key{}, DataKey{}, fmt.Errorf("make content key: %w", err)
	}
	n := random(wrap.NonceSize())
	k.Wrapped = wrap.Seal(n, n, data, []byte(k.ID))
	return k, DataKey{aead}, nil
}

// Unwrap returns the data key that k holds.
func (c *Cipher) Unwrap(k Key) (DataKey, error) {
	wrap, err := k.Suite.aead(c.masters[k.Suite])
	if err != nil {
		return DataKey{}, fmt.Errorf("unwrap content key %s: %w", k.ID, err)
	}
	data, err := open(wrap, k.Wrapped, []byte(k.ID))
	if err != nil || !k.Sound() {
		return DataKey{}, fmt.Errorf("unwrap content key %s: it was changed, or the master key is another one", k.ID)
	}
	aead, err := k.Suite.aead(data)
	if err != nil {
		return DataKey{}, fmt.Errorf("unwrap content key %s: %w", k.ID, err)
	}
	return DataKey{aead}, nil
}

// DataKey encrypts texts. It is safe for concurrent use.
type DataKey struct{ aead cipher.AEAD }

// Seal returns the ciphertext of a text. It can be read only as this direction of this record.
func (d DataKey) Seal(record, direction string, text []byte) []byte {
	nonce := make([]byte, d.aead.NonceSize(), d.aead.NonceSize()+len(text)+d.aead.Overhead())
	copy(nonce, random(len(nonce)))
	return d.aead.Seal(nonce, nonce, text, place(record, direction))
}

// Open returns the text of a ciphertext.
func (d DataKey) Open(record, direction string, ciphertext []byte) ([]byte, error) {
	text, err := open(d.aead, ciphertext, place(record, direction))
	if err != nil {
		return nil, fmt.Errorf("decrypt the %s kept with record %s: it was changed", direction, record)
	}
	return text, nil
}

// place is unambiguous because an id holds no bar.
func place(record, direction string) []byte { return []byte(record + "|" + direction) }

func open(a cipher.AEAD, b, data []byte) ([]byte, error) {
	if len(b) < a.NonceSize() {
		return nil, errors.New("too short")
	}
	return a.Open(nil, b[:a.NonceSize()], b[a.NonceSize():], data)
}
