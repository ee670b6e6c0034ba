package server_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestSignedResults: whoever holds an answer can prove it with public keys alone, in every dialect, after rotations too, and nobody can change it.
func TestSignedResults(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		signedResults(t, setup{}, signature.EdDSA)
	})
	t.Run("postgres, national suite", func(t *testing.T) {
		t.Parallel()
		signedResults(t, setup{database: dbtest.PostgresURL(t), overrides: map[string]any{"audit.suite": "gm"}}, signature.SM2SM3)
	})
}

const signedText = "订单已发出。\nThe parcel <is> on its way. "

func signedResults(t *testing.T, s setup, algorithm signature.Algorithm) {
	s.plan = func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{signedText}} }
	in := start(t, s)
	key := in.started.Welcome.APIKey.Reveal()
	signed := func(path, body string) reply {
		t.Helper()
		r := in.send(http.MethodPost, path, key, json.RawMessage(body), signature.Header, string(signature.JWS))
		if r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		return r
	}
	keys := func() []signature.Key {
		t.Helper()
		all, err := signature.ParseKeys(in.send(http.MethodGet, "/.well-known/sluice-signing-keys.json", "", nil).body)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	hello := `"model":"scripted","messages":[{"role":"user","content":"hello"}],"max_tokens":64`
	bodies := map[string]string{
		"/v1/chat/completions": `{` + hello + `}`, "/v1/messages": `{` + hello + `}`, "/v1/responses": `{"model":"scripted","input":"hello"}`,
		"/v1/completions": `{"model":"scripted","prompt":"hello"}`,
	}
	first := ""
	for path, body := range bodies {
		kept := signed(path, body).body
		body, ok := signature.ParseBody(kept)
		text := body.Signature
		x, err := signature.Verify(text, keys())
		if !ok || err != nil || !x.MatchesBody(body) || x.MatchesText(signedText) != 0 || len(in.records(x.Request, 2)) != 2 || x.Label == nil {
			t.Errorf("%s: %v, %+v of %s", path, err, x, kept)
		}
		if path == "/v1/chat/completions" {
			first = text
		}
	}
	if all := keys(); len(all) != 1 || all[0].Algorithm != algorithm {
		t.Errorf("%+v", all)
	}
	var streamed struct {
		Sluice struct{ Signature string }
	}
	for line := range strings.Lines(string(signed("/v1/chat/completions", `{"stream":true,`+hello+`}`).body)) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok && strings.Contains(data, `"sluice"`) {
			if err := json.Unmarshal([]byte("{"+data), &streamed); err != nil {
				t.Fatal(err)
			}
		}
	}
	if x, err := signature.Verify(streamed.Sluice.Signature, keys()); err != nil || x.MatchesText(signedText) != 0 {
		t.Errorf("a stream: %v, %+v", err, x)
	}
	if r := in.send(http.MethodPost, "/v1/chat/completions", key, json.RawMessage(bodies["/v1/chat/completions"]), signature.Header, "pdf"); r.status != http.StatusBadRequest {
		t.Errorf("a form that there is not: %d %s", r.status, r.body)
	}
	message := in.send(http.MethodPost, "/v1/chat/completions", key, json.RawMessage(bodies["/v1/chat/completions"]), signature.Header, string(signature.CMS))
	if body, ok := signature.ParseBody(message.body); !ok || strings.Contains(body.Signature, ".") {
		t.Errorf("as a message: %s", message.body)
	} else if x, err := signature.Verify(body.Signature, keys()); err != nil || !x.MatchesBody(body) {
		t.Errorf("as a message: %+v, %v", x, err)
	}
	in.verdicts(first)
	in.signingKeys(first, keys)
}

// verdicts asks the public page.
func (in *installation) verdicts(signed string) {
	t := in.t
	t.Helper()
	forged := signed[:len(signed)-2] + map[bool]string{true: "AA", false: "AQ"}[!strings.HasSuffix(signed, "AA")]
	for want, q := range map[string][2]string{
		"authentic": {signedText, signed}, "other_answer": {strings.TrimSpace(signedText), signed}, "altered": {signedText, forged}, "malformed": {signedText, "x"},
	} {
		if r := in.send(http.MethodPost, "/verify", "", map[string]string{"text": q[0], "signature": q[1]}); r.status != http.StatusOK || string(r.body) != `{"verdict":"`+want+`"}` {
			t.Errorf("%s: %d %s", want, r.status, r.body)
		}
		form := url.Values{"text": {strings.ReplaceAll(q[0], "\n", "\r\n")}, "signature": {q[1] + "\r\n"}}
		r := in.send(http.MethodPost, "/verify", "", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if r.status != http.StatusOK || !strings.Contains(string(r.body), `data-verdict="`+want+`"`) || strings.Contains(string(r.body), "订单") {
			t.Errorf("%s: %d %s", want, r.status, r.body)
		}
	}
	if r := in.send(http.MethodGet, "/verify", "", nil); r.status != http.StatusOK || strings.Contains(string(r.body), "data-verdict") || !strings.Contains(r.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the empty page: %d %s", r.status, r.header)
	}
	if r := in.send(http.MethodPost, "/verify", "", map[string]any{"text": 1}); r.status != http.StatusBadRequest {
		t.Errorf("no question: %d %s", r.status, r.body)
	}
	limited := false
	for range 40 {
		r := in.send(http.MethodPost, "/verify", "", map[string]string{"text": "a", "signature": "b"})
		if limited = r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != ""; limited {
			break
		}
	}
	if !limited {
		t.Error("somebody may ask for verdicts without end")
	}
}

// signingKeys replaces and revokes keys of the tenant.
func (in *installation) signingKeys(signed string, published func() []signature.Key) {
	t := in.t
	t.Helper()
	var list adminapi.SigningKeyList
	var made, gone adminapi.SigningKey
	in.admin(http.MethodPost, "/signing-keys/rotate", nil, &made)
	in.admin(http.MethodGet, "/signing-keys", nil, &list)
	if len(list.Items) != 2 || list.Items[0].Id != made.Id || list.Items[0].RetiredAt != nil || list.Items[1].RetiredAt == nil {
		t.Fatalf("%+v", list)
	}
	if _, err := signature.Verify(signed, published()); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	r := in.admin(http.MethodPost, "/signing-keys/"+list.Items[1].Id+"/revoke", nil, &gone)
	if gone.RevokedAt == nil {
		t.Errorf("%+v", gone)
	}
	if e := in.eventsOf(r.header.Get("X-Request-Id"), 2)[1]; e.Action != "admin.revokeSigningKey" || e.Resource != list.Items[1].Id {
		t.Errorf("%+v", e)
	}
	if _, err := signature.Verify(signed, published()); err != signature.ErrRevoked { //nolint:errorlint // exactly this
		t.Errorf("after the revocation: %v", err)
	}
}
