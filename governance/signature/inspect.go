package signature

import (
	"errors"
	"fmt"
	"strings"
)

// What an inspection finds of a signature itself, whatever it was made for.
const (
	Unsigned   = "none"
	Authentic  = "authentic"
	Altered    = "altered"
	UnknownKey = "unknown_key"
	Revoked    = "revoked"
	Malformed  = "malformed"
)

// Inspection is what a signature is to a subject.
type Inspection struct {
	State   string `json:"state"`
	Key     string `json:"key,omitempty"`     // the one that the signature names
	Tenant  string `json:"tenant,omitempty"`  // whose answer it says it is; only of an authentic one
	Request string `json:"request,omitempty"` // likewise
	Covers  bool   `json:"covers"`            // it is authentic and was made for exactly this subject: a text, or the body of an answer
}

// Inspect checks the signature that stands beside a subject, or in it if that is the body of an answer, with a JSON Web Key Set. Error: of the keys; a signature
// that is wrong is a finding.
func Inspect(subject []byte, beside string, keySet []byte) (Inspection, error) {
	body, whole := ParseBody(subject)
	text := strings.TrimSpace(beside)
	if text == "" && whole {
		text = body.Signature
	}
	if text == "" {
		return Inspection{State: Unsigned}, nil
	}
	keys, err := ParseKeys(keySet)
	if err != nil {
		return Inspection{}, fmt.Errorf("read the keys: %w", err)
	}
	x, err := Verify(text, keys)
	out := Inspection{State: stateOf(err)}
	out.Key, _ = KeyOf(text)
	if err == nil {
		out.Tenant, out.Request = x.Tenant, x.Request
		out.Covers = whole && x.MatchesBody(body) || !whole && x.MatchesPasted(string(subject))
	}
	return out, nil
}

func stateOf(err error) string {
	switch {
	case err == nil:
		return Authentic
	case errors.Is(err, ErrAltered):
		return Altered
	case errors.Is(err, ErrUnknownKey):
		return UnknownKey
	case errors.Is(err, ErrRevoked):
		return Revoked
	}
	return Malformed
}

// MatchesPasted is whether the statement is about a text as it may have been pasted or saved, which changes how lines break, and whether the last one does.
func (x Statement) MatchesPasted(text string) bool {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return x.MatchesText(text) >= 0 || x.MatchesText(strings.TrimSuffix(text, "\n")) >= 0 || x.MatchesText(text+"\n") >= 0
}
