// Package content encrypts the prompts and answers that are kept beside audit records. Each text is encrypted under a data key of the
// tenant and the person it is of; the data key is stored encrypted, under a wrapping key. Whoever
// destroys the wrapped keys of a person has erased the person's texts, wherever copies of the ciphertexts lie.
package content

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// MaxKey bounds the encoded form of a key.
const MaxKey = 1 << 14

// Key is a data key as it is stored: wrapped. Its ID is a digest of whose it is and of when it was made, so that a record, which names
// its keys by their ids, says under the tree whose texts it kept; see [KeyID].
type Key struct {
	ID      string `json:"id"`
	Nonce   string `json:"nonce"` // hex of 16 random bytes
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"` // keyed digest of the person
	Suite   Suite  `json:"suite"`
	Created int64  `json:"created"` // UTC unix microseconds
	Epoch   int64  `json:"-"`       // of Wrapped; 0 in the write-ahead log, see [Cipher.NewKey]
	Wrapped []byte `json:"wrapped"`
}

// Envelope is what k holds of the data key.
func (k Key) Envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: k.Epoch, Suite: k.Suite, Sealed: k.Wrapped}
}

// Label binds what is wrapped to k.
func (k Key) Label() []byte { return []byte(k.ID) }

// KeyID returns the id of a key. It hides the subject from whoever does not have the nonce.
func KeyID(nonce, tenant, subject string, created int64) string {
	h := sha256.New()
	h.Write([]byte("sluice/audit/content-key-id/v1"))
	for _, part := range []string{nonce, tenant, subject} {
		_ = binary.Write(h, binary.BigEndian, int64(len(part))) // a hash takes everything
		h.Write([]byte(part))
	}
	_ = binary.Write(h, binary.BigEndian, created)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Encode returns the bytes that stand for k in the write-ahead log.
func (k Key) Encode() ([]byte, error) {
	b, err := json.Marshal(k)
	if err == nil && len(b) > MaxKey {
		err = fmt.Errorf("%d bytes, at most %d", len(b), MaxKey)
	}
	if err != nil {
		return nil, fmt.Errorf("encode content key: %w", err)
	}
	return b, nil
}

// ParseKey reads what Encode returned. The id must be that of the other fields.
func ParseKey(b []byte) (Key, error) {
	k, err := strictjson.Decode[Key](b)
	if err != nil {
		return Key{}, fmt.Errorf("decode content key: %w", err)
	}
	if !k.Sound() {
		return Key{}, errors.New("decode content key: its id does not fit its owner")
	}
	return k, nil
}

// Sound reports whether the id of k is that of its owner and time.
func (k Key) Sound() bool { return k.ID == KeyID(k.Nonce, k.Tenant, k.Subject, k.Created) }
