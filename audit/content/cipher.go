package content

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
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
	suite Suite
	wrap  *wrapkey.Keys
}

// NewCipher returns a cipher whose new keys are of the given suite; it unwraps keys of every suite.
func NewCipher(keys *keyring.Ring, suite Suite) (*Cipher, error) {
	if !suite.Known() {
		return nil, fmt.Errorf("encrypt audit contents: suite %q is unknown to this release", suite)
	}
	return &Cipher{suite, WrappingKeys(keys)}, nil
}

// WrappingKeys are what data keys are wrapped under.
func WrappingKeys(keys *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(keys, "audit/content-key/v1", "audit/content-key/sm4/v1")
}

// NewKey makes a random data key for texts of subject, which is a keyed digest, and returns it as it goes into the write-ahead log and as it is
// used. It is wrapped under epoch 0, which no rotation destroys: a log is read whenever it comes, and written without the database.
func (c *Cipher) NewKey(tenant, subject string, created int64) (Key, DataKey, error) {
	nonce := hex.EncodeToString(seal.Random(16))
	k := Key{ID: KeyID(nonce, tenant, subject, created), Nonce: nonce, Tenant: tenant, Subject: subject, Suite: c.suite, Created: created}
	data := seal.Random(c.suite.KeySize())
	key, err := seal.NewKey(c.suite, data)
	if err != nil {
		return Key{}, DataKey{}, fmt.Errorf("make content key: %w", err)
	}
	e, err := c.wrap.SealDerived(c.suite, data, k.Label())
	if err != nil {
		return Key{}, DataKey{}, fmt.Errorf("make content key: %w", err)
	}
	k.Wrapped = e.Sealed
	return k, DataKey{key}, nil
}

// Renew wraps keys as the transaction tx is to store them: under the active epoch. One that does not open stays as it is: who reads it is told.
func (c *Cipher) Renew(tx *gorm.DB, keys []Key) error {
	active, err := c.wrap.Active(tx)
	if err != nil {
		return fmt.Errorf("wrap content keys: %w", err)
	}
	for i := range keys {
		k := &keys[i]
		e, err := active.Renew(k.Envelope(), k.Label())
		if errors.Is(err, wrapkey.ErrDamaged) || errors.Is(err, wrapkey.ErrSuite) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wrap content key %s: %w", k.ID, err)
		}
		k.Epoch, k.Wrapped = e.Epoch, e.Sealed
	}
	return nil
}

// Unwrap returns the data key that k holds; db is where its epoch is looked up.
func (c *Cipher) Unwrap(db *gorm.DB, k Key) (DataKey, error) {
	data, err := c.wrap.Open(db, k.Envelope(), k.Label())
	if err == nil && !k.Sound() {
		err = wrapkey.ErrDamaged
	}
	if err != nil {
		return DataKey{}, fmt.Errorf("unwrap content key %s: %w", k.ID, err)
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
