// Package shamir is a leaf: it splits a secret so that any k of n shares give it back and fewer say nothing about it.
//
// Each byte is the constant of its own random polynomial over GF(2^8), the field of AES, and a share is the value of all polynomials at one
// place. No branch and no index depends on a secret byte.
package shamir

import (
	"crypto/rand"
	"errors"
)

// MaxShares bounds the shares of a secret: custodians are people.
const MaxShares = 8

// Share is one part of a secret.
type Share struct {
	Index byte // the place, from 1
	Data  []byte
}

// Split returns n shares of secret, any threshold of which give it back.
func Split(secret []byte, n, threshold int) ([]Share, error) {
	if len(secret) == 0 || threshold < 2 || threshold > n || n > MaxShares {
		return nil, errors.New("want 2 <= threshold <= shares <= 8, and a secret")
	}
	shares := make([]Share, n)
	for i := range shares {
		shares[i] = Share{byte(i + 1), make([]byte, len(secret))}
	}
	polynomial := make([]byte, threshold)
	defer clear(polynomial)
	for at, b := range secret {
		polynomial[0] = b
		_, _ = rand.Read(polynomial[1:]) // never fails
		for _, s := range shares {
			s.Data[at] = evaluate(polynomial, s.Index)
		}
	}
	return shares, nil
}

// Combine returns the secret that shares of one split give. As many as its threshold must be given; with fewer, or with shares of different
// splits, the result is another text, so that callers split what proves itself.
func Combine(shares []Share) ([]byte, error) {
	if len(shares) < 2 || len(shares) > MaxShares {
		return nil, errors.New("want 2 to 8 shares")
	}
	var seen [256]bool
	for _, s := range shares {
		if s.Index == 0 || seen[s.Index] {
			return nil, errors.New("a share comes twice, or has no index")
		}
		if len(s.Data) == 0 || len(s.Data) != len(shares[0].Data) {
			return nil, errors.New("the shares differ in length")
		}
		seen[s.Index] = true
	}
	secret := make([]byte, len(shares[0].Data))
	for _, s := range shares {
		weight := byte(1) // of Lagrange, at 0; places are public
		for _, other := range shares {
			if other.Index != s.Index {
				weight = multiply(weight, multiply(other.Index, invert(other.Index^s.Index)))
			}
		}
		for i, b := range s.Data {
			secret[i] ^= multiply(b, weight)
		}
	}
	return secret, nil
}

// evaluate is Horner's rule.
func evaluate(polynomial []byte, x byte) byte {
	var y byte
	for i := len(polynomial) - 1; i >= 0; i-- {
		y = multiply(y, x) ^ polynomial[i]
	}
	return y
}

// multiply is the product in GF(2^8) modulo x^8+x^4+x^3+x+1, in the same time for all factors.
func multiply(a, b byte) byte {
	var product byte
	for range 8 {
		product ^= a & -(b & 1)
		a = a<<1 ^ 0x1b&-(a>>7)
		b >>= 1
	}
	return product
}

// invert is a^254, which is 1/a for every a but 0.
func invert(a byte) byte {
	out := byte(1)
	for range 7 { // 254 = 11111110 in binary
		a = multiply(a, a)
		out = multiply(out, a)
	}
	return out
}
