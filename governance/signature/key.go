package signature

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/emmansun/gmsm/sm2"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Algorithm is how results are signed, as a header spells it.
type Algorithm string

// The algorithms.
const (
	EdDSA  Algorithm = "EdDSA"
	SM2SM3 Algorithm = "SM2SM3"
)

// Known reports whether this release has the algorithm.
func (a Algorithm) Known() bool { return a == EdDSA || a == SM2SM3 }

// Digest is the name of the digests that go with the algorithm.
func (a Algorithm) Digest() string {
	if a == SM2SM3 {
		return DigestSM3
	}
	return DigestSHA256
}

// SeedSize is how many random bytes a private key is made from.
const SeedSize = 32

// A key is named by so many bytes of a digest, in hexadecimal behind a prefix.
const (
	keyPrefix = "sk_"
	keyDigest = 12
)

// sm2Number is how many bytes each number of an SM2 signature takes.
const sm2Number = 32

// Signer signs with one key.
type Signer struct {
	Key

	header string // of every signature, in base64url
	sign   func([]byte) ([]byte, error)
}

// Key is a public key, with what is known of it.
type Key struct {
	ID        string
	Algorithm Algorithm
	Public    []byte // 32 bytes of Ed25519; the uncompressed point of SM2
	Created   time.Time
	Retired   time.Time // zero while it signs; what it has signed stays valid
	Revoked   time.Time // zero unless somebody else may have the private key: then nothing is proved by it alone
}

// NewSigner returns the signer of a seed. Equal seeds give equal keys.
func NewSigner(a Algorithm, seed []byte) (*Signer, error) {
	if len(seed) != SeedSize {
		return nil, fmt.Errorf("a seed has %d bytes, not %d", len(seed), SeedSize)
	}
	s := &Signer{Key: Key{Algorithm: a}}
	switch a {
	case EdDSA:
		private := ed25519.NewKeyFromSeed(seed)
		s.Public = private.Public().(ed25519.PublicKey)
		s.sign = func(msg []byte) ([]byte, error) { return ed25519.Sign(private, msg), nil }
	case SM2SM3:
		private, err := sm2.NewPrivateKey(seed)
		if err != nil {
			return nil, errors.New("the seed is no SM2 key: draw another one") // one of 2³² is not
		}
		point, err := sm2.PublicKeyToECDH(&private.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("derive the public SM2 key: %w", err)
		}
		s.Public = point.Bytes()
		// Without a source of randomness the library signs deterministically: a weak source cannot betray the key.
		s.sign = func(msg []byte) ([]byte, error) {
			der, err := private.SignWithSM2(nil, nil, msg)
			if err != nil {
				return nil, err
			}
			return flat(der)
		}
	default:
		return nil, fmt.Errorf("the algorithm %.20q is unknown to this release", a)
	}
	s.ID = KeyID(a, s.Public)
	s.header = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":%q,"kid":%q,"typ":%q}`, a, s.ID, Type))
	return s, nil
}

// KeyID names a public key by its digest.
func KeyID(a Algorithm, public []byte) string {
	sum := sha256.Sum256(append([]byte(string(a)+"\x00"), public...))
	return keyPrefix + hex.EncodeToString(sum[:keyDigest])
}

// verify reports whether sig is a signature of msg by the key.
func (k Key) verify(msg, sig []byte) bool {
	switch k.Algorithm {
	case EdDSA:
		return len(k.Public) == ed25519.PublicKeySize && ed25519.Verify(k.Public, msg, sig)
	case SM2SM3:
		public, err := sm2.NewPublicKey(k.Public)
		if err != nil || len(sig) != 2*sm2Number {
			return false
		}
		der, err := nested(sig)
		return err == nil && sm2.VerifyASN1WithSM2(public, nil, msg, der)
	default:
		return false
	}
}

// flat is a signature of two numbers in DER as 64 bytes.
func flat(der []byte) ([]byte, error) {
	var inner cryptobyte.String
	r, s := new(big.Int), new(big.Int)
	in := cryptobyte.String(der)
	if !in.ReadASN1(&inner, asn1.SEQUENCE) || !in.Empty() || !inner.ReadASN1Integer(r) || !inner.ReadASN1Integer(s) || !inner.Empty() {
		return nil, errors.New("the SM2 signature is not two numbers")
	}
	if r.Sign() < 0 || s.Sign() < 0 || max(r.BitLen(), s.BitLen()) > 8*sm2Number {
		return nil, errors.New("the numbers of the SM2 signature are out of range")
	}
	out := make([]byte, 2*sm2Number)
	r.FillBytes(out[:sm2Number])
	s.FillBytes(out[sm2Number:])
	return out, nil
}

// nested is the reverse of flat.
func nested(sig []byte) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1BigInt(new(big.Int).SetBytes(sig[:sm2Number]))
		b.AddASN1BigInt(new(big.Int).SetBytes(sig[sm2Number:]))
	})
	return b.Bytes()
}
