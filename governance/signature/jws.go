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

// Header is the request header that asks for a signature, with a [Form] as its value.
const Header = "X-Sluice-Sign"

// Form is how a signature is written.
type Form string

// The forms.
const (
	JWS Form = "jws" // JSON Web Signature, compact
	CMS Form = "cms" // Cryptographic Message Syntax, DER in base64
)

// Known reports whether this release has the form.
func (f Form) Known() bool { return f == JWS || f == CMS }

// Type is what headers say of the payload.
const Type = "sluice-result+jws"

// maxSize bounds a signature: a statement about 128 alternatives takes 40 KiB.
const maxSize = 256 << 10

// Sign returns the signature of a statement, whose digests must be of the signer's algorithm, in one of the forms.
func (s *Signer) Sign(x Statement, form Form) (text string, err error) {
	switch form {
	case JWS:
		text, err = s.signJWS(x)
	case CMS:
		text, err = s.signCMS(x)
	default:
		err = fmt.Errorf("the form %.20q is unknown to this release", form)
	}
	if err != nil {
		return "", fmt.Errorf("sign a result: %w", err)
	}
	return text, nil
}

func (s *Signer) signJWS(x Statement) (string, error) {
	payload, err := json.Marshal(x)
	if err != nil {
		return "", err
	}
	text := s.header + "." + base64.RawURLEncoding.EncodeToString(payload)
	sig, err := s.sign([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(sig), err
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
	s, err := parse(text)
	if err != nil {
		return Statement{}, err
	}
	i := slices.IndexFunc(keys, func(k Key) bool { return k.ID == s.key })
	if i < 0 {
		return Statement{}, ErrUnknownKey
	}
	k := keys[i]
	// The key says how it signs; a signature that says otherwise is refused, not obeyed.
	if k.Algorithm != s.algorithm || !s.by(k) {
		return Statement{}, ErrAltered
	}
	if s.statement.Digest != k.Algorithm.Digest() {
		return Statement{}, ErrMalformed
	}
	if !k.Revoked.IsZero() {
		return s.statement, ErrRevoked
	}
	return s.statement, nil
}

// header is the protected header.
type header struct {
	Algorithm Algorithm `json:"alg"`
	KeyID     string    `json:"kid"`
	Type      string    `json:"typ"`
}

// KeyOf returns the id of the key that a signature names; nothing is checked.
func KeyOf(text string) (string, error) {
	s, err := parse(text)
	return s.key, err
}

// signed is a signature that was taken apart.
type signed struct {
	key       string // that it names
	algorithm Algorithm
	statement Statement
	by        func(Key) bool // whether this key made it
}

// parse takes a signature of either form apart. A message in CMS may be the bytes that its base64 stands for.
func parse(text string) (signed, error) {
	if len(text) > maxSize {
		return signed{}, ErrMalformed
	}
	s, err := parseForm(text)
	if err != nil || s.statement.Schema != Schema {
		return signed{}, ErrMalformed
	}
	return s, nil
}

func parseForm(text string) (signed, error) {
	if strings.HasPrefix(text, "0\x82") { // a sequence of more than 255 bytes, and no text
		return parseCMS([]byte(text))
	}
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, "\r\n") { // which decoders of base64 skip
		return signed{}, ErrMalformed
	}
	if strings.Contains(text, ".") {
		return parseJWS(text)
	}
	der, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return signed{}, ErrMalformed
	}
	return parseCMS(der)
}

func parseJWS(text string) (signed, error) {
	cut := strings.LastIndexByte(text, '.')
	first, second, ok := strings.Cut(text[:cut], ".")
	if !ok {
		return signed{}, ErrMalformed
	}
	// What decoders say of it quotes the input, so it stays here.
	sig, err1 := base64.RawURLEncoding.Strict().DecodeString(text[cut+1:])
	h, err2 := decode[header](first)
	x, err3 := decode[Statement](second)
	if err := errors.Join(err1, err2, err3); err != nil || h.Type != Type {
		return signed{}, ErrMalformed
	}
	return signed{key: h.KeyID, algorithm: h.Algorithm, statement: x, by: func(k Key) bool { return k.verify([]byte(text[:cut]), sig) }}, nil
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
