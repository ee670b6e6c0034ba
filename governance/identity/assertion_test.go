package identity

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// FuzzAssertion: whatever somebody sends, an assertion is accepted only if it is one of the client's, with the client's signature: what is not the
// signed text itself is refused, and nothing makes the parser fall.
func FuzzAssertion(f *testing.F) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	all := signers(f)
	var keys []clientKey
	good := map[string]bool{}
	for _, s := range all {
		parsed, err := parseClientKeys(s.pem(f))
		if err != nil {
			f.Fatal(err)
		}
		keys = append(keys, parsed...)
		raw := s.assertion(f, "svc-a", now, "one")
		good[signedPart(raw)] = true
		f.Add(raw)
		f.Add(raw[:len(raw)-1])
		f.Add("x" + raw)
	}
	for _, head := range []string{`{"alg":"none"}`, `{"alg":"HS256"}`, `{"alg":"ES256","crit":["b64"],"b64":false}`, `{"alg":["EdDSA"]}`, `{}`, `{"alg":"EdDSA","kid":{}}`, `[]`} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(head)) + ".eyJpc3MiOiJzdmMtYSJ9.")
	}
	f.Add("..")
	f.Add(strings.Repeat("a", maxAssertion) + "..")
	f.Fuzz(func(t *testing.T, raw string) {
		client := assertedClient(raw)
		if len(client) > maxTextID {
			t.Errorf("a client id of %d bytes", len(client))
		}
		got, err := checkAssertion(raw, "svc-a", keys, []string{endpoint}, func() time.Time { return now })
		if err == nil && (!good[signedPart(raw)] || got.id != "one" || client != "svc-a") {
			t.Errorf("accepted %q: %+v", raw, got)
		}
	})
}

// signedPart is the text that a signature covers; of ECDSA more than one signature is right.
func signedPart(raw string) string { return raw[:strings.LastIndex(raw, ".")+1] }

// FuzzClientKeys: what is accepted as a public key is one of the three kinds, large enough, and reads the same again.
func FuzzClientKeys(f *testing.F) {
	for _, s := range signers(f) {
		f.Add(s.pem(f))
		f.Add(s.jwk(f, nil))
		f.Add(`{"keys":[` + s.jwk(f, map[string]any{"kid": "k"}) + `]}`)
	}
	f.Add(`{"kty":"RSA","n":"AQ","e":"AQAB"}`)
	f.Add(`{"kty":"EC","crv":"P-256","x":"","y":""}`)
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseClientKeys(text)
		if err != nil {
			return
		}
		for _, k := range keys {
			again, err := clientKeyOf(k.id, k.der)
			if err != nil || again.algorithm != k.algorithm || k.id == "" || len(k.id) > 4*maxTextID {
				t.Errorf("%+v, %v", k, err)
			}
			if _, err := json.Marshal(k.id); err != nil {
				t.Error(err)
			}
		}
	})
}
