package content

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// Suite names the algorithm that encrypts texts and wraps keys. Every key says its own, so that a change concerns new keys only.
type Suite = seal.Suite

// The suites.
const (
	Intl = seal.Intl
	GM   = seal.GM
)

// MaxText bounds a text, in bytes.
const MaxText = 16 << 20

// Overhead is how much longer a ciphertext is than its text.
const Overhead = seal.Overhead

// Cipher makes and unwraps data keys. It is safe for concurrent use.
type Cipher struct {
	suite   Suite
	masters map[Suite][]byte // wrap the data keys
}

// NewCipher returns a cipher whose new keys are of the given suite; it unwraps keys of every suite.
func NewCipher(keys *keyring.Ring, suite Suite) (*Cipher, error) {
	c := &Cipher{suite: suite, masters: map[Suite][]byte{
		Intl: keys.Derive("audit/content-key/v1"), GM: keys.Derive("audit/content-key/sm4/v1")[:GM.KeySize()],
	}}
	if _, err := seal.NewKey(suite, c.masters[suite]); err != nil {
		return nil, fmt.Errorf("encrypt audit contents: %w", err)
	}
	return c, nil
}

// NewKey makes a random data key for texts of subject, which is a keyed digest, and returns it as it is stored and as it is used.
func (c *Cipher) NewKey(tenant, subject string, created int64) (Key, DataKey, error) {
	nonce := hex.EncodeToString(seal.Random(16))
	k := Key{ID: KeyID(nonce, tenant, subject, created), Nonce: nonce, Tenant: tenant, Subject: subject, Suite: c.suite, Created: created}
	wrap, err := seal.NewKey(c.suite, c.masters[c.suite])
	if err != nil {
		return Key{}, DataKey{}, fmt.Errorf("make content key: %w", err)
	}
	data := seal.Random(c.suite.KeySize())
	key, err := seal.NewKey(c.suite, data)
	if err != nil {
		return Key{}, DataKey{}, fmt.Errorf("make content key: %w", err)
	}
	k.Wrapped = wrap.Seal(data, []byte(k.ID))
	return k, DataKey{key}, nil
}

// Unwrap returns the data key that k holds.
func (c *Cipher) Unwrap(k Key) (DataKey, error) {
	wrap, err := seal.NewKey(k.Suite, c.masters[k.Suite])
	if err != nil {
		return DataKey{}, fmt.Errorf("unwrap content key %s: %w", k.ID, err)
	}
	data, err := wrap.Open(k.Wrapped, []byte(k.ID))
	if err != nil || !k.Sound() {
		return DataKey{}, fmt.Errorf("unwrap content key %s: it was changed, or the master key is another one", k.ID)
	}
	key, err := seal.NewKey(k.Suite, data)
	if err != nil {
		return DataKey{}, fmt.Errorf("unwrap content key %s: %w", k.ID, err)
	}
	return DataKey{key}, nil
}

// DataKey encrypts texts. It is safe for concurrent use.
type DataKey struct{ key seal.Key }

// Seal returns the ciphertext of a text. It can be read only as this direction of this record.
func (d DataKey) Seal(record, direction string, text []byte) []byte {
	return d.key.Seal(text, place(record, direction))
}

// Open returns the text of a ciphertext.
func (d DataKey) Open(record, direction string, ciphertext []byte) ([]byte, error) {
	text, err := d.key.Open(ciphertext, place(record, direction))
	if err != nil {
		return nil, fmt.Errorf("decrypt the %s kept with record %s: it was changed", direction, record)
	}
	return text, nil
}

// place is unambiguous because an id holds no bar.
func place(record, direction string) []byte { return []byte(record + "|" + direction) }

// Digest is the digest of a ciphertext that its record has.
func Digest(ciphertext []byte) string {
	sum := sha256.Sum256(ciphertext)
	return hex.EncodeToString(sum[:])
}
