package checkpoint

import (
	"crypto/hkdf"
	"fmt"
	"math/big"

	"github.com/emmansun/gmsm/sm2"
	"github.com/emmansun/gmsm/sm3"
)

// The signatures of the gm suite are SM2 over SM3 (GB/T 32918.2) with the identity that GB/T 35276 sets for all ("1234567812345678"), in
// the DER form of a pair of integers; public keys are uncompressed points of the curve of GB/T 32918.5.

// sm2Wide is how many bytes are drawn for a number below the order of the curve. 16 more than it has leave no trace of the remainder.
const sm2Wide = 48

// newSM2 makes a key from a seed: the number is HKDF-SM3 of the seed, modulo the order, in the range that the standard allows.
func newSM2(name, kind string, seed []byte) (key, error) {
	wide, err := hkdf.Key(sm3.New, seed, nil, "sluice/sm2/v1", sm2Wide)
	if err != nil {
		return key{}, fmt.Errorf("derive SM2 key: %w", err)
	}
	largest := new(big.Int).Sub(sm2.P256().Params().N, big.NewInt(2)) // of [1, n-2]
	d := new(big.Int).SetBytes(wide)
	d.Add(d.Mod(d, largest), big.NewInt(1))
	private, err := sm2.NewPrivateKey(d.FillBytes(make([]byte, 32)))
	if err != nil {
		return key{}, fmt.Errorf("derive SM2 key: %w", err)
	}
	point, err := sm2.PublicKeyToECDH(&private.PublicKey)
	if err != nil {
		return key{}, fmt.Errorf("derive SM2 key: %w", err)
	}
	k, err := publicKey(name, kind, point.Bytes())
	// Without a source of randomness the library signs deterministically, as Ed25519 does: a weak source cannot betray the key.
	k.sign = func(msg []byte) ([]byte, error) { return private.SignWithSM2(nil, nil, msg) }
	return k, err
}

// verifySM2 returns what checks signatures of a public key.
func verifySM2(public []byte) (func(msg, sig []byte) bool, error) {
	k, err := sm2.NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("it is no point of the SM2 curve: %w", err)
	}
	return func(msg, sig []byte) bool { return sm2.VerifyASN1WithSM2(k, nil, msg, sig) }, nil
}
