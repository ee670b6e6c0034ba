package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	cookieName      = "sluice_oidc"
	transactionLife = 10 * time.Minute
	maxCookie       = 4 << 10
)

// transaction is a sign-in that a browser has begun, as the browser keeps it.
type transaction struct {
	Provider string `json:"p"`
	Secret   string `json:"s"`
	Return   string `json:"r"`           // where in the console to go on
	Began    int64  `json:"t"`           // unix seconds
	Fresh    bool   `json:"f,omitempty"` // the provider has to ask who it is, whatever it knows
}

// keys makes transactions, and what is sent to the provider of them. It is safe for concurrent use.
type keys struct{ key []byte }

func (k keys) mac(purpose, text string) []byte {
	m := hmac.New(sha256.New, k.key)
	m.Write([]byte(purpose + "\x00" + text))
	return m.Sum(nil)
}

func (k keys) text(purpose, secret string) string {
	return base64.RawURLEncoding.EncodeToString(k.mac(purpose, secret))
}

func (k keys) state(t transaction) string    { return k.text("state", t.Secret) }
func (k keys) nonce(t transaction) string    { return k.text("nonce", t.Secret) }
func (k keys) verifier(t transaction) string { return k.text("verifier", t.Secret) }

// begin returns a new transaction.
func begin(provider, back string, fresh bool, now time.Time) transaction {
	return transaction{Provider: provider, Secret: rand.Text(), Return: back, Began: now.Unix(), Fresh: fresh}
}

// pack returns the value of the cookie.
func (k keys) pack(t transaction) string {
	raw, _ := json.Marshal(t) //nolint:gosec // the browser keeps its own secret
	body := base64.RawURLEncoding.EncodeToString(raw)
	return body + "." + k.text("cookie", body)
}

// unpack reads a cookie; ok is false for one that is not ours, or too old.
func (k keys) unpack(value string, now time.Time) (t transaction, ok bool) {
	body, mac, found := strings.Cut(value, ".")
	if !found || len(value) > maxCookie || subtle.ConstantTimeCompare([]byte(mac), []byte(k.text("cookie", body))) != 1 {
		return transaction{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || json.Unmarshal(raw, &t) != nil || t.Secret == "" {
		return transaction{}, false
	}
	age := now.Sub(time.Unix(t.Began, 0))
	return t, age >= -time.Minute && age < transactionLife // the clocks of replicas differ a little
}

// cookie returns the cookie of a transaction; an empty value removes it. Browsers let no other host of the domain set one whose name begins with __Host-.
// It is Lax: it has to come along when the provider sends the browser back.
func (e *endpoint) cookie(value string) *http.Cookie {
	c := &http.Cookie{ //nolint:gosec // Secure follows the public address: a trial on plain http must be able to sign in
		Name: e.cookieName(), Value: value, Path: "/", MaxAge: int(transactionLife / time.Second), HttpOnly: true, Secure: e.cfg.Secure, SameSite: http.SameSiteLaxMode,
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

func (e *endpoint) cookieName() string {
	if e.cfg.Secure {
		return "__Host-" + cookieName
	}
	return cookieName
}

// ownPath returns path if it is a page of the console, and else the first page: nobody is sent anywhere else.
func ownPath(console, path string) string {
	u, err := url.Parse(path)
	if err != nil || len(path) > 1024 || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(path, console) ||
		strings.Contains(path, `\`) || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return console
	}
	return path
}
