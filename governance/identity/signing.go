package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sync"
	"time"
)

// signingKeys are the keys of session tokens: an Ed25519 key for each period of time, derived from the master key and the number of the
// period. So every replica has the same ones without telling the others, and a new one is in use everywhere at one moment, with no sign-out:
// the key before is accepted until the period after ends, far longer than a token lives, and the next one is published a period ahead.
type signingKeys struct {
	derive func(label string) []byte
	period time.Duration

	mu   sync.Mutex
	made map[int64]signingKey // the ones near the present
}

type signingKey struct {
	id      string // RFC 7638
	private ed25519.PrivateKey
}

// PublicKey is the public half of a key of session tokens, as RFC 8037 has it.
type PublicKey struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
}

func (k *signingKeys) number(now time.Time) int64 { return now.Unix() / int64(k.period/time.Second) }

// current returns the key that signs now.
func (k *signingKeys) current(now time.Time) signingKey { return k.of(k.number(now)) }

// accepted returns the keys before, of and after the present period. The one after is for replicas whose clocks go ahead.
func (k *signingKeys) accepted(now time.Time) []signingKey {
	n := k.number(now)
	return []signingKey{k.of(n - 1), k.of(n), k.of(n + 1)}
}

// public returns the public half of the accepted key with an id.
func (k *signingKeys) public(id string, now time.Time) (ed25519.PublicKey, bool) {
	for _, key := range k.accepted(now) {
		if key.id == id {
			return publicOf(key), true
		}
	}
	return nil, false
}

func publicOf(k signingKey) ed25519.PublicKey {
	p, _ := k.private.Public().(ed25519.PublicKey) // what it always is
	return p
}

func (k *signingKeys) of(n int64) signingKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key, ok := k.made[n]; ok {
		return key
	}
	private := ed25519.NewKeyFromSeed(k.derive(fmt.Sprintf("identity/session/ed25519/v1/%d/%d", k.period/time.Second, n)))
	key := signingKey{private: private}
	key.id = thumbprint(publicOf(key))
	if len(k.made) > 8 {
		clear(k.made)
	}
	k.made[n] = key
	return key
}

func thumbprint(p ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(p) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// PublicKeys returns the keys by which others can tell session tokens of this installation: that before, the present and the next one.
func (i *Identity) PublicKeys() []PublicKey {
	var out []PublicKey
	for _, k := range i.sessions.accepted(i.now()) {
		out = append(out, PublicKey{
			Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(publicOf(k)), ID: k.id, Use: "sig", Algorithm: "EdDSA",
		})
	}
	return out
}
