package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-project/sluice/internal/fault"
)

// clientKey is a public key of a service account. Its kind is its algorithm: no signature by another one is looked at.
type clientKey struct {
	id, algorithm string
	public        crypto.PublicKey
	der           []byte // SubjectPublicKeyInfo
}

const (
	minRSA = 2048 // bits
	maxRSA = 8192 // more would make a signature expensive to check
)

// parseClientKeys reads public keys: a JWK, a JWK set (RFC 7517) or PEM. It refuses private keys, so that whoever sends one notices.
func parseClientKeys(text string) ([]clientKey, error) {
	var out []clientKey
	var err error
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "{") {
		out, err = parseJWKs([]byte(text))
	} else {
		out, err = parsePEM([]byte(text))
	}
	if err != nil {
		return nil, err
	}
	if len(out) == 0 || len(out) > maxServiceKeys {
		return nil, invalid("keys", fault.Say("value.item_count", maxServiceKeys))
	}
	for n, k := range out {
		if slices.ContainsFunc(out[:n], func(other clientKey) bool { return other.id == k.id }) {
			return nil, fault.New(fault.CodeExists, fault.Say("thing.public_key"), k.id)
		}
	}
	return out, nil
}

func parsePEM(text []byte) (out []clientKey, err error) {
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		switch {
		case block == nil:
			return nil, invalid("keys", fault.Say("identity.public_key"))
		case strings.Contains(block.Type, "PRIVATE"):
			return nil, invalid("keys", fault.Say("identity.private_key"))
		case block.Type != "PUBLIC KEY":
			return nil, invalid("keys", fault.Say("identity.public_key"))
		}
		key, err := clientKeyOf("", block.Bytes)
		if err != nil {
			return nil, invalid("keys", fault.Say("identity.public_key"))
		}
		out, text = append(out, key), rest
	}
	return out, nil
}

// jwk has the members of a JSON Web Key that are looked at (RFC 7518, section 6; RFC 8037).
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Y         string `json:"y"`
	N         string `json:"n"`
	E         string `json:"e"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	Private   string `json:"d"`
	Secret    string `json:"k"`
}

func parseJWKs(text []byte) ([]clientKey, error) {
	var set struct {
		jwk

		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, invalid("keys", fault.Say("identity.public_key"))
	}
	keys := set.Keys
	if set.Type != "" {
		keys = append(keys, set.jwk)
	}
	var out []clientKey
	for _, k := range keys {
		if k.Private != "" || k.Secret != "" {
			return nil, invalid("keys", fault.Say("identity.private_key"))
		}
		key, err := k.parse()
		if err != nil {
			return nil, invalid("keys", fault.Say("identity.public_key"))
		}
		out = append(out, key)
	}
	return out, nil
}

func (k jwk) parse() (clientKey, error) {
	public, err := k.public()
	if err != nil {
		return clientKey{}, err
	}
	if k.Use != "" && k.Use != "sig" {
		return clientKey{}, errors.New("not for signatures")
	}
	if k.ID != "" {
		if err := CheckText("keys", k.ID); err != nil {
			return clientKey{}, err
		}
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return clientKey{}, err
	}
	key, err := clientKeyOf(k.ID, der)
	if err == nil && k.Algorithm != "" && k.Algorithm != key.algorithm {
		err = errors.New("for another algorithm")
	}
	return key, err
}

func (k jwk) public() (crypto.PublicKey, error) {
	b64 := base64.RawURLEncoding.Strict()
	x, err1 := b64.DecodeString(k.X)
	y, err2 := b64.DecodeString(k.Y)
	n, err3 := b64.DecodeString(k.N)
	e, err4 := b64.DecodeString(k.E)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	switch {
	case k.Type == "OKP" && k.Curve == "Ed25519" && len(x) == ed25519.PublicKeySize:
		return ed25519.PublicKey(x), nil
	case k.Type == "EC" && k.Curve == "P-256" && len(x) == 32 && len(y) == 32:
		return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	case k.Type == "RSA" && len(n) <= maxRSA/8+1 && len(e) > 0 && len(e) <= 4:
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}, nil
	}
	return nil, errors.New("no key of these kinds")
}

// clientKeyOf reads a SubjectPublicKeyInfo. Without an id the key gets its RFC 7638 thumbprint as one.
func clientKeyOf(id string, der []byte) (clientKey, error) {
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return clientKey{}, fmt.Errorf("read public key: %w", err)
	}
	key := clientKey{id: id, public: public, der: der}
	b64 := base64.RawURLEncoding.EncodeToString
	var canonical string
	switch p := public.(type) {
	case ed25519.PublicKey:
		key.algorithm = jwt.SigningMethodEdDSA.Alg()
		canonical = `{"crv":"Ed25519","kty":"OKP","x":"` + b64(p) + `"}`
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil || p.Curve != elliptic.P256() {
			return clientKey{}, errors.Join(errors.New("not on the curve P-256"), err)
		}
		key.algorithm = jwt.SigningMethodES256.Alg()
		canonical = `{"crv":"P-256","kty":"EC","x":"` + b64(point[1:33]) + `","y":"` + b64(point[33:]) + `"}`
	case *rsa.PublicKey:
		if bits := p.N.BitLen(); bits < minRSA || bits > maxRSA || p.E < 3 || p.E%2 == 0 {
			return clientKey{}, fmt.Errorf("an RSA key of %d bits", bits)
		}
		key.algorithm = jwt.SigningMethodRS256.Alg()
		canonical = `{"e":"` + b64(big.NewInt(int64(p.E)).Bytes()) + `","kty":"RSA","n":"` + b64(p.N.Bytes()) + `"}`
	default:
		return clientKey{}, errors.New("no key of these kinds")
	}
	if key.id == "" {
		sum := sha256.Sum256([]byte(canonical))
		key.id = b64(sum[:])
	}
	return key, nil
}
