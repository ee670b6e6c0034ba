package identity

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	maxAssertion     = 8 << 10 // bytes
	maxAssertionLife = 5 * time.Minute
	maxAssertionID   = 256 // bytes
	assertionLeeway  = 2 * time.Second
)

// assertion is what a program signs to prove who it is instead of showing a secret (RFC 7523, section 3). It is good for one token.
type assertion struct {
	id      string
	expires time.Time
}

// assertedClient returns whose assertion something claims to be; nothing of it is proved. It is "" for what is none.
func assertedClient(raw string) string {
	parts := strings.Split(raw, ".")
	if len(raw) > maxAssertion || len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(text, &claims) != nil || len(claims.Issuer) > maxTextID {
		return ""
	}
	return claims.Issuer
}

// checkAssertion reports what client has signed with one of its keys for one of the audiences. It demands what RFC 7523 lets a server demand: iss
// and sub are the client, aud is one audience of ours and no other beside it, exp is at most 5 minutes away, jti is there. Whether it was shown
// before is another question.
func checkAssertion(raw, client string, keys []clientKey, audiences []string, now func() time.Time) (assertion, error) {
	if len(raw) > maxAssertion {
		return assertion{}, errors.New("assertion too long")
	}
	var c jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(raw, &c, func(t *jwt.Token) (any, error) { return verifiers(t, keys) },
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg(), jwt.SigningMethodES256.Alg(), jwt.SigningMethodRS256.Alg()}),
		jwt.WithIssuer(client), jwt.WithSubject(client), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(assertionLeeway),
		jwt.WithTimeFunc(now), jwt.WithStrictDecoding())
	if err != nil {
		return assertion{}, sessionCause(err) // the library's text may quote parts of it: only its class is kept
	}
	switch {
	case client == "":
		return assertion{}, errors.New("assertion of nobody")
	case len(c.Audience) != 1 || !slices.Contains(audiences, c.Audience[0]):
		return assertion{}, jwt.ErrTokenInvalidAudience
	case c.ExpiresAt.Sub(now()) > maxAssertionLife+assertionLeeway:
		return assertion{}, errors.New("assertion lives too long")
	case c.IssuedAt != nil && now().Sub(c.IssuedAt.Time) > maxAssertionLife+assertionLeeway:
		return assertion{}, errors.New("assertion is too old")
	case c.ID == "" || len(c.ID) > maxAssertionID:
		return assertion{}, errors.New("assertion has no id, or too long a one")
	}
	return assertion{id: c.ID, expires: c.ExpiresAt.Time}, nil
}

// verifiers returns the keys that may have signed an assertion: of its algorithm, and of its key id if it names one.
func verifiers(t *jwt.Token, keys []clientKey) (any, error) {
	if _, critical := t.Header["crit"]; critical { // RFC 7515, section 4.1.11: what is critical and not understood is refused
		return nil, jwt.ErrTokenUnverifiable
	}
	if typ, named := t.Header["typ"]; named && typ != "JWT" && typ != "client-authentication+jwt" {
		return nil, jwt.ErrTokenUnverifiable // a token for another purpose
	}
	var set jwt.VerificationKeySet
	id, named := t.Header["kid"]
	for _, k := range keys {
		if k.algorithm == t.Method.Alg() && (!named || id == k.id) {
			set.Keys = append(set.Keys, k.public)
		}
	}
	if len(set.Keys) == 0 {
		return nil, jwt.ErrTokenSignatureInvalid
	}
	return set, nil
}

// assertionRow returns what is kept of an assertion so that it is not accepted again.
func (i *Identity) assertionRow(client string, a assertion) assertionRow {
	sum := i.asserted.sum(client + "\x00" + a.id)
	return assertionRow{Digest: hex.EncodeToString(sum[:]), ExpiresAt: a.expires.Add(2 * assertionLeeway).UnixMicro()}
}
