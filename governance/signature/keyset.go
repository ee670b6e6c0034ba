package signature

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// jwk is a public key as RFC 7517 and RFC 8037 have it, with what is known of it. No registry has the curve SM2; its members are those of other curves.
type jwk struct {
	Type      string    `json:"kty"`
	Curve     string    `json:"crv"`
	X         string    `json:"x"`
	Y         string    `json:"y,omitempty"`
	ID        string    `json:"kid"`
	Use       string    `json:"use"`
	Algorithm Algorithm `json:"alg"`
	Created   time.Time `json:"created"`
	Retired   time.Time `json:"retired,omitzero"`
	Revoked   time.Time `json:"revoked,omitzero"`
}

// jwks is a set of them.
type jwks struct {
	Keys []jwk `json:"keys"`
}

// pointHead is what an uncompressed point begins with, and coordinate how long each of its two numbers is.
const (
	pointHead  = 4
	coordinate = 32
)

// MarshalKeys returns keys as a JSON Web Key Set, which [ParseKeys] reads.
func MarshalKeys(keys []Key) ([]byte, error) {
	set := jwks{Keys: make([]jwk, 0, len(keys))}
	text := base64.RawURLEncoding.EncodeToString
	for _, k := range keys {
		out := jwk{ID: k.ID, Use: "sig", Algorithm: k.Algorithm, Created: k.Created.UTC(), Retired: k.Retired, Revoked: k.Revoked}
		switch {
		case k.Algorithm == EdDSA:
			out.Type, out.Curve, out.X = "OKP", "Ed25519", text(k.Public)
		case k.Algorithm == SM2SM3 && len(k.Public) == 1+2*coordinate:
			out.Type, out.Curve, out.X, out.Y = "EC", "SM2", text(k.Public[1:1+coordinate]), text(k.Public[1+coordinate:])
		default:
			return nil, fmt.Errorf("write the key %s: the algorithm %.20q is unknown to this release", k.ID, k.Algorithm)
		}
		set.Keys = append(set.Keys, out)
	}
	return json.Marshal(set)
}

// ParseKeys reads a JSON Web Key Set. Keys of other algorithms are left out. A key whose name is not its digest is an error, and so is one that is there twice.
func ParseKeys(text []byte) ([]Key, error) {
	var set jwks
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("this is not a set of public keys in JSON")
	}
	var out []Key
	for _, in := range set.Keys {
		if !in.Algorithm.Known() {
			continue
		}
		x, err1 := base64.RawURLEncoding.DecodeString(in.X)
		y, err2 := base64.RawURLEncoding.DecodeString(in.Y)
		k := Key{ID: in.ID, Algorithm: in.Algorithm, Public: x, Created: in.Created, Retired: in.Retired, Revoked: in.Revoked}
		if in.Algorithm == SM2SM3 {
			k.Public = append(append([]byte{pointHead}, x...), y...)
		}
		if errors.Join(err1, err2) != nil || KeyID(k.Algorithm, k.Public) != k.ID {
			return nil, fmt.Errorf("the key %.40q is another one than its name says", in.ID)
		}
		if slices.ContainsFunc(out, func(o Key) bool { return o.ID == k.ID }) {
			return nil, fmt.Errorf("the key %.40q is there twice", in.ID)
		}
		out = append(out, k)
	}
	return out, nil
}
