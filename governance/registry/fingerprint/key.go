package fingerprint

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math/bits"

	"github.com/emmansun/gmsm/sm3"
	"github.com/emmansun/gmsm/sm4"

	"github.com/sluice-project/sluice/internal/seal"
)

const (
	// SecretSize is how many bytes the secret of a key has.
	SecretSize = 32
	// DigestSize is how many bytes the digest of a text has.
	DigestSize = 16
	// Bits is how many bits a fingerprint has.
	Bits = 56

	prime = 1<<61 - 1
)

// Key makes the fingerprints of a tenant.
type Key struct {
	base  uint64 // of the rolling hash
	top   uint64 // base to the power of Gram: what a character weighs that leaves
	block cipher.Block
	whole []byte
	hash  func() hash.Hash
}

// NewKey returns the key of a secret: AES and SHA-256, or SM4 and SM3 under the national suite. Error: a secret of another size, an unknown suite.
func NewKey(suite seal.Suite, secret []byte) (*Key, error) {
	if len(secret) != SecretSize || !suite.Known() {
		return nil, fmt.Errorf("fingerprint key: %d bytes of suite %q", len(secret), suite)
	}
	k := &Key{hash: sha256.New}
	if suite == seal.GM {
		k.hash = sm3.New
	}
	derive := func(label string) []byte {
		m := hmac.New(k.hash, secret)
		m.Write([]byte(label))
		return m.Sum(nil)
	}
	k.whole = derive("registry/whole/v1")
	k.base = binary.LittleEndian.Uint64(derive("registry/gram/v1"))%(prime-1<<32) + 1<<32 // so large that a gram of common characters goes round the prime
	k.top = 1
	for range Gram {
		k.top = mul(k.top, k.base)
	}
	var err error
	if secret := derive("registry/print/v1"); suite == seal.GM {
		k.block, err = sm4.NewCipher(secret[:sm4.BlockSize])
	} else {
		k.block, err = aes.NewCipher(secret[:16])
	}
	return k, err
}

// mul multiplies modulo the prime.
func mul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return reduce(lo&prime + (hi<<3 | lo>>61))
}

// reduce brings a sum of at most two residues and a bit back below the prime.
func reduce(x uint64) uint64 {
	x = x&prime + x>>61
	if x >= prime {
		x -= prime
	}
	return x
}

// print returns the fingerprint of a gram by its hash.
func (k *Key) print(gram uint64, scratch *[16]byte) uint64 {
	*scratch = [16]byte{}
	binary.LittleEndian.PutUint64(scratch[:], gram)
	k.block.Encrypt(scratch[:], scratch[:])
	return binary.LittleEndian.Uint64(scratch[:]) >> (64 - Bits)
}
