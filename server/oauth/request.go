package oauth

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/identity"
)

const (
	grantType     = "client_credentials"
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// The errors of RFC 6749, section 5.2, that a request can have.
const (
	invalidRequest   = "invalid_request"
	invalidClient    = "invalid_client"
	invalidScope     = "invalid_scope"
	unsupportedGrant = "unsupported_grant_type"
	unavailable      = "temporarily_unavailable" // section 4.1.2.1; the endpoint of tokens has none of its own for this
)

// refusal is what is wrong with a request; the zero value: nothing.
type refusal struct{ code, why string }

// parse reads a request for a token. Everything it says it says once, in the body or in the Authorization header, and it proves who it is in one way.
func parse(r *http.Request, body []byte) (identity.TokenRequest, refusal) {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case !strings.EqualFold(strings.TrimSpace(media), "application/x-www-form-urlencoded"):
		return identity.TokenRequest{}, refusal{invalidRequest, "the body must be application/x-www-form-urlencoded"}
	case r.URL.RawQuery != "": // a secret in an address ends in logs
		return identity.TokenRequest{}, refusal{invalidRequest, "parameters belong into the body"}
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return identity.TokenRequest{}, refusal{invalidRequest, "the body cannot be read"}
	}
	for _, values := range form {
		if len(values) > 1 || !utf8.ValidString(values[0]) {
			return identity.TokenRequest{}, refusal{invalidRequest, "each parameter may be given once, as UTF-8"}
		}
	}
	switch form.Get("grant_type") {
	case grantType:
	case "":
		return identity.TokenRequest{}, refusal{invalidRequest, "grant_type is missing"}
	default:
		return identity.TokenRequest{}, refusal{unsupportedGrant, "grant_type must be client_credentials"}
	}
	return credentials(r, form)
}

// credentials reads how a request proves who it is: by one of the methods client_secret_basic, client_secret_post and private_key_jwt.
func credentials(r *http.Request, form url.Values) (identity.TokenRequest, refusal) {
	out := identity.TokenRequest{
		Client: form.Get("client_id"), Secret: form.Get("client_secret"), Assertion: form.Get("client_assertion"), Scope: form.Get("scope"),
	}
	methods := 0
	for _, used := range []bool{out.Secret != "", out.Assertion != "", r.Header.Get("Authorization") != ""} {
		if used {
			methods++
		}
	}
	if methods > 1 {
		return identity.TokenRequest{}, refusal{invalidRequest, "use one way to authenticate the client"}
	}
	if header := r.Header.Get("Authorization"); header != "" {
		id, secret, ok := basic(header)
		if !ok || out.Client != "" && out.Client != id {
			return identity.TokenRequest{}, refusal{invalidClient, ""}
		}
		out.Client, out.Secret = id, secret
	}
	switch {
	case (out.Assertion != "") != (form.Get("client_assertion_type") != ""):
		return identity.TokenRequest{}, refusal{invalidRequest, "client_assertion and client_assertion_type belong together"}
	case out.Assertion != "" && form.Get("client_assertion_type") != assertionType:
		return identity.TokenRequest{}, refusal{invalidRequest, "client_assertion_type must be " + assertionType}
	case out.Assertion == "" && (out.Client == "" || out.Secret == ""):
		return identity.TokenRequest{}, refusal{invalidClient, ""}
	}
	return out, refusal{}
}

// basic reads client_secret_basic, in which both parts are form-encoded once more (RFC 6749, section 2.3.1).
func basic(header string) (id, secret string, ok bool) {
	scheme, text, found := strings.Cut(header, " ")
	raw, err := base64.StdEncoding.DecodeString(text)
	if !found || !strings.EqualFold(scheme, "Basic") || err != nil {
		return "", "", false
	}
	user, password, found := strings.Cut(string(raw), ":")
	id, err1 := url.QueryUnescape(user)
	secret, err2 := url.QueryUnescape(password)
	return id, secret, found && err1 == nil && err2 == nil && id != "" && secret != "" && utf8.ValidString(id)
}
