package signature

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/strictjson"
)

// Header is the request header that asks for a signature, with [HeaderJWS] as its value.
const (
	Header    = "X-Sluice-Sign"
	HeaderJWS = "jws"
)

// Type is what headers say of the payload.
const Type = "sluice-result+jws"

// maxSize bounds a signature: a statement about 128 alternatives takes 40 KiB.
const maxSize = 256 << 10

// Sign returns the signature of a statement, whose digests must be of the signer's algorithm.
func (s *Signer) Sign(x Statement) (string, error) {
	payload, err := json.Marshal(x)
	if err != nil {
		return "", fmt.Errorf("sign a result: %w", err)
	}
	signed := s.header + "." + base64.RawURLEncoding.EncodeToString(payload)
	sig, err := s.sign([]byte(signed))
	if err != nil {
		return "", fmt.Errorf("sign a result: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// Why a signature proves nothing.
var (
	// ErrMalformed: it is not a signature of a result, as far as this release knows them.
	ErrMalformed = errors.New("this is not a signed result")
	// ErrUnknownKey: none of the keys is the one that it names.
	ErrUnknownKey = errors.New("the signature names a key that is not among the given ones")
	// ErrAltered: the statement or the signature was changed, or somebody else made it.
	ErrAltered = errors.New("the signature does not belong to its statement: one of them was changed, or another key made it")
	// ErrRevoked: the key made it, and the key has been revoked: only the audit log can tell whether the installation did.
	ErrRevoked = errors.New("the signature is by a key that has been revoked: search the audit log for its receipt")
	// ErrOtherAnswer: the statement is authentic, and about another answer.
	ErrOtherAnswer = errors.New("the signature is authentic, and this is not the answer that it was made for: something was changed, left out or added")
)

// Verify returns the statement of a signature that one of the keys made. Errors: ErrMalformed, ErrUnknownKey, ErrAltered; ErrRevoked with the statement.
func Verify(text string, keys []Key) (Statement, error) {
	h, x, signed, sig, err := parse(text)
	if err != nil {
		return Statement{}, err
	}
	i := slices.IndexFunc(keys, func(k Key) bool { return k.ID == h.KeyID })
	if i < 0 {
		return Statement{}, ErrUnknownKey
	}
	k := keys[i]
	// The key says how it signs; a header that says otherwise is refused, not obeyed.
	if k.Algorithm != h.Algorithm || !k.verify([]byte(signed), sig) {
		return Statement{}, ErrAltered
	}
	if x.Digest != k.Algorithm.Digest() {
		return Statement{}, ErrMalformed
	}
	if !k.Revoked.IsZero() {
		return x, ErrRevoked
	}
	return x, nil
}

// header is the protected header.
type header struct {
	Algorithm Algorithm `json:"alg"`
	KeyID     string    `json:"kid"`
	Type      string    `json:"typ"`
}

// KeyOf returns the id of the key that a signature names; nothing is checked.
func KeyOf(text string) (string, error) {
	h, _, _, _, err := parse(text) //nolint:dogsled // the rest is for Verify
	return h.KeyID, err
}

// parse takes a signature apart.
func parse(text string) (h header, x Statement, signed string, sig []byte, err error) {
	text = strings.TrimSpace(text)
	cut := strings.LastIndexByte(text, '.')
	first, second, ok := strings.Cut(text[:max(cut, 0)], ".")
	if len(text) > maxSize || cut < 0 || !ok || strings.ContainsAny(text, "\r\n") { // which decoders of base64 skip
		return h, x, "", nil, ErrMalformed
	}
	// What decoders say of it quotes the input, so it stays here.
	sig, err1 := base64.RawURLEncoding.Strict().DecodeString(text[cut+1:])
	h, err2 := decode[header](first)
	x, err3 := decode[Statement](second)
	if err := errors.Join(err1, err2, err3); err != nil || h.Type != Type || x.Schema != Schema {
		return header{}, Statement{}, "", nil, ErrMalformed
	}
	return h, x, text[:cut], sig, nil
}

func decode[T any](part string) (v T, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return v, err
	}
	return strictjson.Decode[T](raw)
}

// Matches reports whether the statement is about exactly these alternatives, in this order.
func (x Statement) Matches(answers []Answer) bool {
	if len(answers) != len(x.Answers) {
		return false
	}
	for i, a := range answers {
		have := digestsOf(x.algorithm(), a)
		if have.Finish = x.Answers[i].Finish; have != x.Answers[i] {
			return false
		}
	}
	return true
}

// MatchesText returns the place of the first alternative whose text, or refusal, this is, -1 if there is none. What else the alternative has is not looked at.
func (x Statement) MatchesText(text string) int {
	if text == "" {
		return -1
	}
	have := digestsOf(x.algorithm(), Answer{Text: text}).Text
	return slices.IndexFunc(x.Answers, func(d Digests) bool { return d.Text == have || d.Refusal == have })
}

func (x Statement) algorithm() Algorithm {
	if x.Digest == DigestSM3 {
		return SM2SM3
	}
	return EdDSA
}
