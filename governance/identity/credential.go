package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"hash"
	"strings"
	"sync"
)

// An API key reads sk-sluice-<prefix>-<secret>. The prefix is public: it is the key's id, stored in clear and searchable. The
// digest covers the whole credential.
const (
	keyHead       = "sk-sluice-"
	keyPrefixSize = 12
	keySecretSize = 40
	maxCredential = 4096 // nothing longer is looked at
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// randomText returns n random base62 characters.
func randomText(n int) string {
	out := make([]byte, 0, n)
	var pool [64]byte
	for len(out) < n {
		_, _ = rand.Read(pool[:]) // never fails: the runtime ends the program when the system has no randomness
		for _, b := range pool {
			if b < 62*4 && len(out) < n { // drop the tail so that every character is equally likely
				out = append(out, base62[b%62])
			}
		}
	}
	return string(out)
}

func newCredential() (id, credential string) {
	id = randomText(keyPrefixSize)
	return id, newSecret(id)
}

// newSecret returns another credential of the key with an id.
func newSecret(id string) string { return keyHead + id + "-" + randomText(keySecretSize) }

// parseCredential returns the public prefix of a well-formed API key.
func parseCredential(s string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(s, keyHead)
	if !ok || len(rest) != keyPrefixSize+1+keySecretSize || rest[keyPrefixSize] != '-' {
		return "", false
	}
	if !isBase62(rest[:keyPrefixSize]) || !isBase62(rest[keyPrefixSize+1:]) {
		return "", false
	}
	return rest[:keyPrefixSize], true
}

func isBase62(s string) bool {
	for i := range len(s) {
		if strings.IndexByte(base62, s[i]) < 0 {
			return false
		}
	}
	return true
}

type digest [sha256.Size]byte

// digester computes keyed digests of credentials. Looking one up by its full digest leaks nothing through timing: an attacker
// cannot choose digests without the key.
type digester struct{ macs *sync.Pool } // of reset hash.Hash under the key

func newDigester(key []byte) digester {
	return digester{&sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

func (d digester) sum(credential string) digest {
	m := d.macs.Get().(hash.Hash)
	m.Write([]byte(credential))
	out := digest(m.Sum(make([]byte, 0, sha256.Size)))
	m.Reset()
	d.macs.Put(m)
	return out
}
