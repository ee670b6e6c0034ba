// Package webauthntest has a security key for tests, made by another library than the one that checks it.
package webauthntest

import (
	"testing"

	"github.com/descope/virtualwebauthn"
)

// Key is a security key with the browser that it is plugged in. Its fields may be changed to have both misbehave.
type Key struct {
	Site          virtualwebauthn.RelyingParty // what the browser says of the page
	Authenticator virtualwebauthn.Authenticator
	Credential    virtualwebauthn.Credential
}

// New returns a key on a page of a site whose domain is id.
func New(id, origin string) *Key {
	k := &Key{Site: virtualwebauthn.RelyingParty{ID: id, Origin: origin}, Authenticator: virtualwebauthn.NewAuthenticator()}
	for { // the library drops leading zeros of coordinates, of which RFC 9053, section 7.1.1, says that they stay
		k.Credential = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		if len(k.Credential.Key.AttestationData()) == 77 {
			return k
		}
	}
}

// Make answers creation options, as JSON, with a RegistrationResponseJSON.
func (k *Key) Make(t *testing.T, options []byte) []byte {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAttestationOptions(string(options))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(virtualwebauthn.CreateAttestationResponse(k.Site, k.Authenticator, k.Credential, *parsed))
}

// Sign answers request options, as JSON, with an AuthenticationResponseJSON, and counts.
func (k *Key) Sign(t *testing.T, options []byte) []byte {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAssertionOptions(string(options))
	if err != nil {
		t.Fatal(err)
	}
	k.Credential.Counter++
	return []byte(virtualwebauthn.CreateAssertionResponse(k.Site, k.Authenticator, k.Credential, *parsed))
}
